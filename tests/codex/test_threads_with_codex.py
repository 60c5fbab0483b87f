"""Threads as objects, with the real Codex: from the start to the deletion."""

from __future__ import annotations

import anyio
import pytest

from codex_acp.codex import CodexClient, Thread, TurnFailed
from codex_acp.codex.types import GranularAskForApproval, ThreadStartResponse
from codex_acp.errors import ErrorReply, MisuseError
from codex_acp.testing import Fail, Text
from tests.codex.codex_bench import NO_THREAD, WAIT_SECONDS, CodexBench


async def ids(codex: CodexClient, **options: object) -> list[str]:
    return [thread.id async for thread in codex.threads.list(**options)]  # type: ignore[arg-type] # each test names its own


async def test_a_thread_starts_with_its_settings_and_tells_them() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench() as bench:
            thread = await bench.thread(sandbox="workspace-write", approval_policy="never")
            assert isinstance(thread.settings, ThreadStartResponse)
            assert thread.settings.approval_policy == "never"
            assert thread.settings.model == "gpt-5.5"
            assert thread.info.id == thread.id
            assert thread.info.cwd == str(bench.home.workspace)
            assert repr(thread) == f"Thread({thread.id!r})"


@pytest.mark.parametrize("name", ["missing", "config.toml"])
async def test_a_cwd_that_is_no_directory_is_a_mistake(name: str) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench() as bench:
            cwd, codex = bench.home.root / name, bench.codex
            with pytest.raises(MisuseError, match=f"/{name}' is not a directory; create it"):
                await codex.threads.start(cwd=cwd)
            thread = await bench.thread()
            with pytest.raises(MisuseError, match=f"/{name}' is not a directory"):
                await thread.run("Hello.", cwd=cwd)
            with pytest.raises(MisuseError, match=f"/{name}' is not a directory"):
                await thread.fork(cwd=cwd)


async def test_a_setting_may_be_a_model() -> None:
    granular = {"mcp_elicitations": True, "rules": True, "sandbox_approval": True}
    policy = GranularAskForApproval.model_validate({"granular": granular})
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench() as bench:
            thread = await bench.thread(approval_policy=policy)
            assert isinstance(thread.settings.approval_policy, GranularAskForApproval)


async def test_a_thread_is_resumed_by_another_process_and_remembers() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Noted.")], [Text("It was blue.")]]) as bench:
            thread = await bench.thread()
            await thread.run("My colour is blue.")
            await bench.codex.aclose()

            later = await bench.another_client()
            again = await later.threads.resume(thread.id)
            assert again.id == thread.id
            assert [turn.status for turn in again.info.turns] == ["completed"]
            assert (await again.run("Which colour?")).text == "It was blue."
            assert "My colour is blue." in bench.model.requests[-1].user_texts


async def test_a_fork_goes_its_own_way() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("One.")], [Text("Two.")]]) as bench:
            thread = await bench.thread()
            await thread.run("First.")
            fork = await thread.fork()
            assert fork.id != thread.id
            assert fork.info.forked_from_id == thread.id
            await fork.run("Second.")
            assert len((await fork.read()).turns) == 2
            assert len((await thread.read()).turns) == 1
            fleeting = await thread.fork(ephemeral=True)
            assert fleeting.info.ephemeral


async def test_threads_are_listed_page_by_page_with_their_data() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hello.")]] * 3) as bench:
            made = []
            for number in range(3):
                thread = await bench.thread()
                await thread.run(f"Number {number}.")
                made.append(thread.id)
            listed = [thread async for thread in bench.codex.threads.list(limit=1)]
            assert sorted(thread.id for thread in listed) == sorted(made)
            assert {thread.info.preview for thread in listed} == {f"Number {n}." for n in range(3)}


async def test_a_thread_is_renamed_archived_brought_back_and_deleted() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hello.")]]) as bench:
            thread = await bench.thread()
            await thread.run("Hi.")
            await thread.rename("Greetings")
            assert (await thread.read(include_turns=False)).name == "Greetings"
            assert thread.info.name == "Greetings"
            await thread.archive()
            assert await ids(bench.codex) == []
            assert await ids(bench.codex, archived=True) == [thread.id]
            await thread.unarchive()
            assert await ids(bench.codex) == [thread.id]
            await bench.codex.threads.get(thread.id).delete()
            assert await ids(bench.codex) == []
            with pytest.raises(ErrorReply):
                await thread.read()


async def test_compacting_waits_until_it_is_done() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hello.")], [Text("They said hello.")]]) as bench:
            thread = await bench.thread()
            await thread.run("Hi.")
            await thread.compact()
            assert len(bench.model.requests) == 2
            assert [t.status for t in (await thread.read()).turns] == ["completed", "completed"]


async def test_compacting_that_fails_says_so() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hello.")], [Fail(400, "not now")]]) as bench:
            thread = await bench.thread()
            await thread.run("Hi.")
            with pytest.raises(TurnFailed, match="not now"):
                await thread.compact()


async def test_what_codex_does_not_know_is_an_error_that_names_it() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench() as bench:
            threads = bench.codex.threads
            with pytest.raises(ErrorReply, match=f"thread/resume .*{NO_THREAD}; .* no such thread"):
                await threads.resume(NO_THREAD)
            with pytest.raises(ErrorReply, match=r"thread/fork .*invalid.*; .* no such thread"):
                await threads.fork("not-an-id")
            with pytest.raises(ErrorReply, match=f"turn/start .*{NO_THREAD}; .* no such thread"):
                await threads.get(NO_THREAD).run("Hi.")
            assert (await bench.thread()).id  # and nothing is broken


async def test_a_turn_of_a_thread_that_was_not_resumed_says_how_to_begin() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hello.")]]) as bench:
            thread = await bench.thread()
            await thread.run("Hi.")
            await bench.codex.aclose()
            later = await bench.another_client()
            with pytest.raises(ErrorReply, match=r"turn/start .*resume\(\) first"):
                await later.threads.get(thread.id).run("Hi.")


async def test_what_was_never_told_is_not_made_up() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench() as bench:
            unread = bench.codex.threads.get(NO_THREAD)
            assert isinstance(unread, Thread)
            with pytest.raises(MisuseError, match="read"):
                _ = unread.info
            with pytest.raises(MisuseError, match="resume"):
                _ = unread.settings
