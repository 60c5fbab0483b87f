"""Slash commands with the real Codex: what each does, and what goes to the model instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from codex_acp.acp.types import (
    AvailableCommandsUpdateSessionUpdate,
    ContentBlock,
    PromptRequest,
    ResourceLinkContentBlock,
    TextContentBlock,
    ToolCallSessionUpdate,
)
from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc import INVALID_PARAMS
from codex_acp.mapping.commands import BUILT_IN, INIT_PROMPT
from codex_acp.testing import Gate, ModelResponse, Step, Text, ToolCall
from tests.e2e.adapter_bench import WAIT, AdapterBench
from tests.e2e.session_bench import SessionBench

SKILL = "---\nname: lint\ndescription: Lints the code.\n---\nRun the linter.\n"


async def commands_of(bench: AdapterBench, session: str) -> list[str]:
    """The names of the last list that was sent, which comes behind the session's answer."""
    with anyio.fail_after(WAIT):
        while True:
            for notification in reversed(bench.updates):
                update = notification.update
                if notification.session_id == session and isinstance(
                    update, AvailableCommandsUpdateSessionUpdate
                ):
                    return [command.name for command in update.available_commands]
            await bench.news()


def git(workspace: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=workspace, check=True, capture_output=True)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_the_commands_are_offered_with_the_users_prompts_and_skills() -> None:
    async with AdapterBench() as bench:
        write(bench.home.codex_home / "prompts" / "fix.md", "Fix $1.")
        write(bench.home.codex_home / "skills" / "lint" / "SKILL.md", SKILL)
        offered = await commands_of(bench, await bench.new_session())

    assert offered[: len(BUILT_IN)] == [command.name for command in BUILT_IN]
    assert {"prompts:fix", "lint"} <= set(offered)


async def test_a_users_prompt_is_filled_and_sent_with_what_was_attached() -> None:
    async with AdapterBench([[Text("Fixed.")]]) as bench:
        write(bench.home.codex_home / "prompts" / "fix.md", "Fix $1, please.")
        session = await bench.new_session()
        link = ResourceLinkContentBlock(name="x.py", uri="https://example.org/x.py")
        prompt: list[ContentBlock] = [TextContentBlock(text="/prompts:fix 'the bug'"), link]
        with anyio.fail_after(WAIT):
            await bench.client.session_prompt(PromptRequest(session_id=session, prompt=prompt))

        said = bench.model.requests[0].user_texts
        assert any("Fix the bug, please." in text for text in said)
        assert any("example.org/x.py" in text for text in said)


@pytest.mark.parametrize("text", ["/lint all of it", "please $lint all of it"])
async def test_a_skill_reaches_the_model_with_its_instructions(text: str) -> None:
    async with AdapterBench([[Text("Done.")]]) as bench:
        write(bench.home.codex_home / "skills" / "lint" / "SKILL.md", SKILL)
        session = await bench.new_session()
        await bench.prompt(session, text)

        said = "\n".join(bench.model.requests[0].user_texts)
        assert "$lint all of it" in said
        assert "Run the linter." in said


def with_a_mention(text: str) -> list[ContentBlock]:
    """A command as editors send one in which a file is mentioned."""
    link = ResourceLinkContentBlock(name="x.py", uri="https://example.org/x.py")
    return [TextContentBlock(text=text), link, TextContentBlock(text=" and ask me first")]


@pytest.mark.attack("client")
@pytest.mark.parametrize("lead", ["/plan drop all but ", "/plan ", "/init but leave out "])
async def test_a_command_for_the_model_brings_all_of_its_prompt(lead: str) -> None:
    async with AdapterBench([[Text("Done.")]]) as bench:
        session = await bench.new_session()
        with anyio.fail_after(WAIT):
            await bench.client.session_prompt(
                PromptRequest(session_id=session, prompt=with_a_mention(lead))
            )

        said = "\n".join(bench.model.requests[0].user_texts)
        for part in (lead.partition(" ")[2].strip(), "example.org/x.py", "and ask me first"):
            assert part in said


@pytest.mark.attack("client")
async def test_a_command_refuses_what_it_does_not_take() -> None:
    async with AdapterBench() as bench:
        session = await bench.new_session()
        mention = "takes no attachments or mentions: write all of it as one text"
        refused = [
            (with_a_mention(f"/{each.name} delete all files but "), mention)
            for each in BUILT_IN
            if each.name not in ("plan", "init")
        ]
        for name in ("compact", "diff", "status", "skills", "ps", "logout"):
            blank = TextContentBlock(text=" \n")
            refused.append(([TextContentBlock(text=f"/{name} --all"), blank], "takes nothing"))
        for prompt, why in refused:
            with anyio.fail_after(WAIT), pytest.raises(ErrorReply, match=why) as caught:
                await bench.client.session_prompt(PromptRequest(session_id=session, prompt=prompt))
            assert caught.value.code == INVALID_PARAMS
        assert not bench.model.requests


async def test_a_command_that_takes_nothing_is_carried_out_beside_the_file_that_is_open() -> None:
    async with AdapterBench() as bench:
        session = await bench.new_session()
        command, link, _ = with_a_mention("/status")
        with anyio.fail_after(WAIT):
            await bench.client.session_prompt(
                PromptRequest(session_id=session, prompt=[command, link])
            )

        assert "**Account**: none needed" in bench.text(session)


async def test_a_command_that_nobody_knows_goes_to_the_model() -> None:
    async with AdapterBench([[Text("What is that?")]]) as bench:
        session = await bench.new_session()
        await bench.prompt(session, "/frobnicate now")

        assert bench.model.requests[0].last_user_text == "/frobnicate now"


async def test_status_mcp_and_skills_are_told_without_asking_the_model() -> None:
    async with AdapterBench() as bench:
        session = await bench.new_session()
        for command, said in (
            ("/status", "**Account**: none needed"),
            ("/mcp", "No MCP servers"),
            ("/skills", "- `$"),
            ("/goal", "no goal"),
        ):
            assert (await bench.prompt(session, command)).stop_reason == "end_turn"
            assert said in bench.text(session)

        assert str(bench.home.workspace) in bench.text(session)
        assert "**Model**: " in bench.text(session)
        assert not bench.model.requests


async def test_diff_shows_what_is_not_committed() -> None:
    async with AdapterBench() as bench:
        session = await bench.new_session()
        await bench.prompt(session, "/diff")
        assert "not in a git repository" in bench.text(session)

        workspace = bench.home.workspace
        git(workspace, "init", "-q")
        write(workspace / "a.txt", "one\n")
        git(workspace, "add", "a.txt")
        await bench.prompt(session, "/diff")
        assert "+one" in bench.text(session), "before the first commit, too"

        git(workspace, "commit", "-qm", "first")
        write(workspace / "a.txt", "two\n")
        write(workspace / "new.txt", "n\n")
        await bench.prompt(session, "/diff")
        assert "-one\n+two" in bench.text(session)
        assert "`new.txt`" in bench.text(session)


async def test_a_diff_starts_no_program_that_the_repository_names() -> None:
    async with AdapterBench() as bench:
        workspace = bench.home.workspace
        git(workspace, "init", "-q")
        write(workspace / "a.txt", "one\n")
        git(workspace, "add", "a.txt")
        git(workspace, "commit", "-qm", "first")
        write(workspace / "a.txt", "two\n")
        proof = workspace / "ran"
        for key in ("core.fsmonitor", "diff.external", "core.pager", "diff.x.textconv"):
            git(workspace, "config", key, f"touch {proof} #")
        write(workspace / ".gitattributes", "*.txt diff=x\n")
        session = await bench.new_session()
        await bench.prompt(session, "/diff")

        assert "+two" in bench.text(session)
        assert not proof.exists()


async def test_review_runs_as_a_turn_of_its_own_kind_and_ends_the_prompt() -> None:
    async with AdapterBench([[Text("Looks good.")]]) as bench:
        session = await bench.new_session()
        assert (await bench.prompt(session, "/review the tests")).stop_reason == "end_turn"

        assert "Looks good." in bench.text(session)
        assert "the tests" in bench.model.requests[0].last_user_text


async def test_a_review_against_a_branch_or_a_commit_names_it_and_needs_it() -> None:
    async with AdapterBench([[Text("Fine.")], [Text("Fine, too.")]]) as bench:
        workspace = bench.home.workspace
        git(workspace, "init", "-q", "-b", "main")
        git(workspace, "commit", "-q", "--allow-empty", "-m", "first")
        session = await bench.new_session()
        await bench.prompt(session, "/review-branch main")
        await bench.prompt(session, "/review-commit HEAD")
        assert "main" in bench.model.requests[0].last_user_text
        assert "HEAD" in bench.model.requests[1].last_user_text

        for command in ("/review-branch", "/review-commit"):
            with pytest.raises(ErrorReply) as caught:
                await bench.prompt(session, command)
            assert caught.value.code == INVALID_PARAMS


async def test_4_4_a_review_outside_of_git_fails_at_once_and_the_next_prompt_does_not() -> None:
    async with AdapterBench([[Text("Hello.")]]) as bench:
        session = await bench.new_session()
        with pytest.raises(ErrorReply, match="is not a git repository"):
            await bench.prompt(session, "/review-branch main")

        assert (await bench.prompt(session)).stop_reason == "end_turn"
        assert "Hello." in bench.text(session)


async def test_a_review_can_be_cancelled() -> None:
    async with AdapterBench([[Text("Loo"), Gate("hold"), Text("ks")]]) as bench:
        session = await bench.new_session()
        async with anyio.create_task_group() as tasks:
            ended: list[str] = []

            async def review() -> None:
                ended.append((await bench.prompt(session, "/review")).stop_reason)

            tasks.start_soon(review)
            await bench.wait_for_gate("hold")
            bench.cancel(session)
        assert ended == ["cancelled"]


async def test_compact_is_a_turn_that_shows_what_it_does() -> None:
    async with AdapterBench([[Text("One.")], [Text("A summary.")], [Text("Two.")]]) as bench:
        session = await bench.new_session()
        await bench.prompt(session)
        assert (await bench.prompt(session, "/compact")).stop_reason == "end_turn"

        calls = [n.update for n in bench.updates if isinstance(n.update, ToolCallSessionUpdate)]
        assert [call.kind for call in calls] == ["think"]
        assert (await bench.prompt(session)).stop_reason == "end_turn"
        assert "Two." in bench.text(session)


async def test_init_asks_the_model_for_a_guide() -> None:
    async with AdapterBench([[Text("Written.")]]) as bench:
        session = await bench.new_session()
        await bench.prompt(session, "/init")

        assert bench.model.requests[0].last_user_text == INIT_PROMPT


async def test_a_goal_is_worked_on_until_it_is_reached_and_the_prompt_lasts_as_long() -> None:
    reached = ToolCall("update_goal", {"status": "complete"})
    script: list[list[Step]] = [[Text("On it.")], [Text("Still.")], [reached], [Text("There.")]]
    async with AdapterBench(script) as bench:
        session = await bench.new_session()
        assert (await bench.prompt(session, "/goal Ship it")).stop_reason == "end_turn"

        text = bench.text(session)
        assert all(part in text for part in ("On it.", "Still.", "There.", "Reached."))


async def test_a_goal_in_plan_mode_ends_and_says_that_codex_does_not_work_on_it() -> None:
    reached = ToolCall("update_goal", {"status": "complete"})
    async with AdapterBench([[reached], [Text("There.")]]) as bench:
        session = await bench.new_session()
        await bench.prompt(session, "/plan on")
        assert (await bench.prompt(session, "/goal Ship it")).stop_reason == "end_turn"
        assert "Turn plan mode off" in bench.text(session)
        assert not bench.model.requests

        await bench.prompt(session, "/plan off")
        assert (await bench.prompt(session, "/goal resume")).stop_reason == "end_turn"
        assert "There." in bench.text(session)


def test_a_goal_that_is_given_up_leaves_the_turn_to_a_message_that_joined_it() -> None:
    script = [
        ModelResponse(Text("Working."), Gate("joined")),
        ModelResponse(Text("I read it."), Gate("given up"), Text(" Yes.")),
    ]
    with SessionBench(script) as bench, bench.adapter() as adapter:
        model, session = bench.model, bench.new(adapter)
        goal = adapter.start_prompt(session, "/goal Ship it")
        model.wait_for_gate("joined")
        message = adapter.start_prompt(session, "Is it large?")
        adapter.result("session/list", {})  # Codex has got the message
        model.open("joined")
        model.wait_for_gate("given up")
        adapter.send({"method": "$/cancel_request", "params": {"requestId": goal}})
        assert adapter.answer(goal)["error"]["code"] == -32800
        model.open("given up")

        assert adapter.answer(message)["result"]["stopReason"] == "end_turn"
        assert len(model.requests) == 2, "the goal is paused"


async def test_cancelling_a_goal_pauses_it_and_stops_its_turn() -> None:
    async with AdapterBench([[Text("On it."), Gate("hold")], [Text("More?")]]) as bench:
        session = await bench.new_session()
        async with anyio.create_task_group() as tasks:
            ended: list[str] = []

            async def pursue() -> None:
                ended.append((await bench.prompt(session, "/goal Ship it")).stop_reason)

            tasks.start_soon(pursue)
            await bench.wait_for_gate("hold")
            bench.cancel(session)
        assert ended == ["cancelled"]
        await bench.prompt(session, "/goal")
        assert "Paused." in bench.text(session)
        assert len(bench.model.requests) == 1, "no turn follows"

        await bench.prompt(session, "/goal clear")
        assert "cleared" in bench.text(session)
