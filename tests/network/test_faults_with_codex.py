"""A server of the network whose disk is full, or that is ended, with the real Codex."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, Gate, ScriptedModel, Step, Text, exec_command
from tests.network.http_client import HttpClient
from tests.network.listening_adapter import TOKEN, JsonClient, ListeningAdapter
from tests.network.served import ALICE, BOB, several_tokens


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_whose_owner_does_not_fit_on_the_disk_is_refused_and_deleted(
    tmp_path: Path, version: int
) -> None:
    owners = tmp_path / "owners"
    options = ("--owners", str(owners))
    whole = {"PYTHONDONTWRITEBYTECODE": "1"}  # Python 3.11 keeps what it could write of a module
    with (
        ScriptedModel([[Text("Hello.")]] * 2) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env | whole, tmp_path, *options, tokens=several_tokens()) as adapter,
    ):
        new = {"cwd": str(home.workspace), "mcpServers": []}
        async with (
            adapter.connect(ALICE, version=version) as alice,
            adapter.connect(BOB, version=version) as bob,
        ):
            hers = await alice.new_session(home.workspace)
            await alice.outcome(await alice.prompt(hers))
            await alice.until(lambda: alice.text(hers) == "Hello.")
            files = {path.name for path in home.codex_home.rglob("rollout-*")}
            pid, limit = adapter.process.pid, resource.RLIMIT_FSIZE
            before = resource.prlimit(pid, limit, (owners.stat().st_size + 20, -1))
            for method, params in (
                ("session/new", new),
                ("session/fork", {**new, "sessionId": hers}),
            ):
                refused = await alice.refused(method, params)
                assert (refused["code"], "(File too large)" in refused["message"]) == (-32603, True)
                assert not owners.read_bytes().endswith(b"\n"), "a part of the line was written"
            assert {path.name for path in home.codex_home.rglob("rollout-*")} == files
            resource.prlimit(pid, limit, before)
            his = await bob.new_session(home.workspace)
            await bob.outcome(await bob.prompt(his))
            await bob.until(lambda: bob.text(his) == "Hello.")
        with ListeningAdapter(home.env, tmp_path, *options, tokens=several_tokens()) as again:
            async with again.connect(BOB, version=version) as bob:
                listed = await bob.ask("session/list", {})
                assert [each["sessionId"] for each in listed["sessions"]] == [his]


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize("version", [1, 2])
async def test_4_3_the_prompts_that_run_at_a_sigterm_are_answered_before_their_connections_close(
    tmp_path: Path, scheme: str, version: int
) -> None:
    turns: list[list[Step]] = [
        [exec_command("touch made", justification="May I?")],
        [Text("I work. "), Gate("never")],
    ]

    def connect() -> JsonClient:
        if scheme == "ws":
            return adapter.connect(version=version)
        return HttpClient(adapter.url, TOKEN, version=version)

    def has_ended(client: JsonClient, prompt: int) -> bool:
        if version == 1:
            answer = client.answers.get(prompt, {})
            return bool(answer.get("result", {}).get("stopReason") == "cancelled")
        return any(
            (each["update"].get("state"), each["update"].get("stopReason")) == ("idle", "cancelled")
            for each in client.updates
        )

    with (
        ScriptedModel(turns) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path, "--keep", "1h", scheme=scheme) as adapter,
    ):
        async with connect() as asked, connect() as works:
            first = await asked.prompt(await asked.new_session(home.workspace))
            question = await asked.question()
            session = await works.new_session(home.workspace)
            second = await works.prompt(session)
            await works.until(lambda: works.text(session) == "I work. ")
            adapter.process.terminate()
            await asked.ended()
            await works.ended()
            assert has_ended(asked, first)
            assert has_ended(works, second)
            assert asked.withdrawn == [question["id"]]
            assert not (home.workspace / "made").exists()
