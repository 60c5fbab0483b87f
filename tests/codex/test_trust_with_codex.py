"""A thread runs nothing of its directory and writes nothing: contract 7.1 and 7.2, the library."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from codex_acp.codex import CodexClient, LaunchOptions, Thread
from codex_acp.codex.sync import Codex
from codex_acp.codex.threads.trust import trust_arguments
from codex_acp.codex.types import ReadOnlySandboxPolicy
from codex_acp.errors import ErrorReply, MisuseError, UnknownOption
from codex_acp.testing import ModelResponse, Step, Text, exec_command
from tests.codex.codex_bench import WAIT_SECONDS, CodexBench
from tests.support.untrusted_repository import (
    CONFIGURATIONS,
    EVERYTHING,
    Repository,
    probe,
    probed,
    wait_for,
)

SAYS_NO_MORE = [ModelResponse(Text("Done."), repeat=True)]


async def probed_in(thread: Thread, bench: CodexBench) -> set[str]:
    """What a command can do in the next turn, which has no other."""
    await thread.run("Go.")
    (output,) = bench.model.requests[-1].tool_outputs.values()
    return probed(output)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.attack("repository")
async def test_7_1_and_7_2_a_new_thread(name: str) -> None:
    config, may = CONFIGURATIONS[name]
    with probe() as command, anyio.fail_after(WAIT_SECONDS):
        script = [ModelResponse(exec_command(command)), *SAYS_NO_MORE]
        async with CodexBench(script, {"config": config}) as bench:
            repository = Repository(bench.home)
            thread = await bench.codex.threads.start(cwd=repository.path)
            told = thread.settings.sandbox
            assert not isinstance(told, ReadOnlySandboxPolicy), "it tells what it has now"
            assert await probed_in(thread, bench) == may
            assert not repository.written()
            assert repository.ran == set()


GIVEN: list[tuple[dict[str, Any], set[str]]] = [
    ({"sandbox": "workspace-write"}, {"inside", "temporary"}),
    ({"permissions": ":workspace"}, {"inside", "temporary"}),
    ({"sandbox": "danger-full-access"}, {"inside", "guarded", "temporary", "network"}),
    ({"config": {"sandbox_mode": "workspace-write"}}, {"inside", "temporary"}),
    (
        {
            "sandbox": "workspace-write",
            "config": {
                "sandbox_workspace_write.network_access": True,
                "sandbox_workspace_write": {
                    "exclude_slash_tmp": True,
                    "exclude_tmpdir_env_var": True,
                },
            },
        },
        {"inside", "network"},
    ),
]


@pytest.fixture(scope="module")
async def probing() -> AsyncIterator[CodexBench]:
    """One Codex for all that a program may give."""
    with probe() as command:
        script: list[list[Step]] = [[exec_command(command)], [Text("Done.")]] * len(GIVEN)
        async with CodexBench(script) as bench:
            yield bench


@pytest.mark.parametrize(
    ("given", "may"), GIVEN, ids=["workspace-write", "profile", "full", "config", "config-table"]
)
async def test_7_1_and_7_2_a_sandbox_that_the_program_gives(
    probing: CodexBench, given: dict[str, Any], may: set[str], request: pytest.FixtureRequest
) -> None:
    repository = Repository(probing.home, request.node.callspec.id)
    with anyio.fail_after(WAIT_SECONDS):
        thread = await probing.codex.threads.start(cwd=repository.path, **given)
        assert await probed_in(thread, probing) == may
        assert not repository.written()
        assert repository.ran == set()


@pytest.mark.parametrize("begin", ["resume", "fork"])
async def test_7_1_a_stored_thread(begin: str) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(SAYS_NO_MORE, {"config": EVERYTHING}) as bench:
            repository, other = Repository(bench.home), Repository(bench.home, "other")
            thread = await bench.codex.threads.start(cwd=repository.path)
            await thread.run("Go.")
            await bench.codex.aclose()
            client = await bench.another_client()
            again = await getattr(client.threads, begin)(
                thread.id, cwd=other.path, sandbox="danger-full-access"
            )
            await again.run("Go.")
            assert (repository.ran, other.ran) == (set(), set())
            assert not other.written()


@pytest.mark.parametrize(
    "given",
    [{}, {"permissions": ":workspace"}, {"sandbox_policy": {"type": "dangerFullAccess"}}],
    ids=str,
)
async def test_7_1_a_turn_in_another_directory(given: dict[str, Any]) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(SAYS_NO_MORE, {"config": EVERYTHING}) as bench:
            repository, other = Repository(bench.home), Repository(bench.home, "other")
            thread = await bench.codex.threads.start(cwd=repository.path)
            await thread.run("Go.", cwd=other.path, **given)
            await thread.run("Again.")
            assert (repository.ran, other.ran) == (set(), set())
            assert not other.written()


async def reviewed(bench: CodexBench, repository: Repository) -> None:
    """The user has reviewed the repository's hooks: without that, Codex runs none anywhere."""
    trusted = trust_arguments([str(repository.path)])  # else it lists none
    async with CodexClient.start(LaunchOptions(args=trusted, env=bench.home.env)) as codex:
        answer: Any = await codex.call_raw("hooks/list", {"cwds": [str(repository.path)]})
    listed = answer["data"][0]["hooks"]  # with one that every Codex is given here
    hooks = [hook for hook in listed if hook["key"].startswith(str(repository.path))]
    assert len(hooks) == 2
    with bench.home.config_file.open("a") as config:
        for hook in hooks:
            key = json.dumps(hook["key"])
            config.write(f'\n[hooks.state.{key}]\ntrusted_hash = "{hook["currentHash"]}"\n')
    repository.configuration_is_as_it_should()


async def test_trust_is_for_one_thread_and_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    everything = {"server", "SessionStart", "UserPromptSubmit"}
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(SAYS_NO_MORE, {"config": EVERYTHING}) as bench:
            repository = Repository(bench.home)
            inside = repository.path / "inside"
            inside.mkdir()
            trusting = partial(bench.codex.threads.start, sandbox="read-only", trust=True)
            await trusting(cwd=repository.path)
            await anyio.to_thread.run_sync(wait_for, repository.server_mark)
            repository.server_mark.unlink()

            await reviewed(bench, repository)
            client = await bench.another_client()
            with caplog.at_level(logging.WARNING):
                thread = await client.threads.start(cwd=inside)
                await thread.run("Go.")
            assert repository.ran == set()
            (said,) = [m for m in caplog.messages if "trust=True" in m]
            assert f"'{repository.path}/.codex' is not used (1 MCP server, hooks)" in said

            for begin in (client.threads.start, partial(client.threads.fork, thread.id)):
                thread = await begin(cwd=inside, trust=True)
                await thread.run("Go.")
                await anyio.to_thread.run_sync(wait_for, repository.server_mark)
                assert repository.ran == everything
                assert not repository.written()
                for mark in everything:
                    repository.server_mark.with_name(mark).unlink()


async def test_trust_needs_to_be_told_in_what() -> None:
    async with CodexBench() as bench:
        with pytest.raises(MisuseError, match="cwd"):
            await bench.codex.threads.start(trust=True)


async def test_a_sandbox_that_codex_does_not_give_is_an_error_and_no_thread() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench() as bench:
            repository = Repository(bench.home)
            with pytest.raises(UnknownOption, match="read-only, workspace-write"):
                await bench.codex.threads.start(cwd=repository.path, sandbox="read_only")  # type: ignore[arg-type] # that is the test
            with pytest.raises(ErrorReply, match="nope"):
                await bench.codex.threads.start(cwd=repository.path, permissions=":nope")
            assert not repository.written()
            assert repository.ran == set()


def test_7_1_from_synchronous_code() -> None:
    from codex_acp.testing import CodexHome, ScriptedModel

    with ScriptedModel(SAYS_NO_MORE) as model, CodexHome(model.base_url, config=EVERYTHING) as home:
        repository = Repository(home)
        with Codex(LaunchOptions(env=home.env)) as codex:
            thread = codex.threads.start(cwd=repository.path)
            assert thread.run("Go.").text == "Done."
            assert not repository.written()
            assert repository.ran == set()
            codex.threads.start(cwd=repository.path, trust=True)
            wait_for(repository.server_mark)
            assert not repository.written()


@pytest.mark.parametrize("how", ["start", "read-only", "resume", "there", "fork"])
async def test_7_1_what_only_says_to_be_a_worktree_of_what_is_trusted(how: str) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(SAYS_NO_MORE, {"config": EVERYTHING}) as bench:
            repository = Repository(bench.home)
            threads, trusted = bench.codex.threads, bench.home.root / "trusted"
            stored = await threads.start(cwd=repository.path)
            await stored.run("Go.")
            await stored.unsubscribe()
            with bench.home.config_file.open("a") as config:
                config.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
            repository.configuration_is_as_it_should()
            shutil.rmtree(repository.path / ".git")
            (repository.path / ".git").write_text(f"gitdir: {trusted}/.git/worktrees/x\n")
            match how:
                case "resume":
                    thread = await stored.resume()
                case "there":
                    thread = await stored.resume(cwd=repository.path)
                case "fork":
                    thread = await stored.fork()
                case "read-only":
                    thread = await threads.start(cwd=repository.path, sandbox="read-only")
                case _:
                    thread = await threads.start(cwd=repository.path)
            await thread.run("Go.")
            assert not repository.written()
            assert repository.ran == set()


@pytest.mark.attack("repository")
async def test_instructions_that_are_a_link_out_of_the_directory_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with CodexBench(SAYS_NO_MORE) as bench:
        target = bench.home.root / "private.md"
        target.write_text("What lies elsewhere.\n")
        (bench.home.workspace / "AGENTS.md").symlink_to(target)
        await (await bench.thread()).run("Go.")
        assert "What lies elsewhere" in str(bench.model.requests[0].body)
    (said,) = [r.getMessage() for r in caplog.records if "instructions" in r.getMessage()]
    assert repr(str(target)) in said
