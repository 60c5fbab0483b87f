"""Threads of one client that another one asks for: each has a Codex of its own in one home."""

from __future__ import annotations

import os
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from codex_acp.codex import CodexClient, TurnInterrupted
from codex_acp.codex.types import ReadOnlySandboxPolicy
from codex_acp.errors import ThreadOpenElsewhere
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import Gate, Text, exec_command
from codex_acp.transport.local_peers import ask_all, private_folder
from tests.codex.codex_bench import WAIT_SECONDS, CodexBench


@asynccontextmanager
async def two_clients(
    monkeypatch: pytest.MonkeyPatch, *script: Any, **home: Any
) -> AsyncIterator[tuple[CodexBench, CodexClient]]:
    """A bench with its client, and another one in the same home."""
    with anyio.fail_after(WAIT_SECONDS), TemporaryDirectory(dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        async with CodexBench(script, home) as bench:
            yield bench, await bench.another_client()


async def test_8_1_a_thread_at_rest_is_handed_over_and_comes_back_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = [[Text(f"{n}.")] for n in range(4)]
    async with two_clients(monkeypatch, *script) as (bench, other):
        mine = await bench.thread(sandbox="workspace-write", approval_policy="never")
        await mine.run("Word One.", effort="low", sandbox_policy=ReadOnlySandboxPolicy())
        theirs = await other.threads.resume(
            mine.id, sandbox="danger-full-access", approval_policy="on-request"
        )
        await theirs.run("Word Two.", effort="high")
        assert (await mine.run("Word Three.")).text == "2."
        body: Any = bench.model.requests[-1].body
        assert body["reasoning"]["effort"] == "low"
        said = str(body["input"])
        assert said.index("Word One.") < said.index("Word Two.") < said.index("Word Three.")
        now = (await mine.resume()).settings  # of the thread that is loaded: nothing is given
        assert (now.sandbox.type, now.approval_policy) == ("readOnly", "never")


async def test_8_1_what_runs_stays_and_is_named_or_is_interrupted_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = [[Text("I work."), Gate("go")], [Text("More.")]]
    async with two_clients(monkeypatch, *script) as (bench, other):
        mine = await bench.thread()
        async with mine.turn("Go.") as turn:
            await to_thread(bench.model.wait_for_gate, "go", WAIT_SECONDS)
            with pytest.raises(ThreadOpenElsewhere, match="something runs in the thread") as raised:
                await other.threads.resume(mine.id)
            assert raised.value.busy
            assert raised.value.pid == os.getpid()
            folder = private_folder(bench.codex.server.codex_home)
            question: dict[str, JsonValue] = {"thread": mine.id, "client": "test", "cancel": True}
            asked = await ask_all(folder, question, None)
            assert "free" in [each["state"] for each in asked.answers]
            with pytest.raises(TurnInterrupted):
                await turn.result()
        assert (await (await other.threads.resume(mine.id)).run("On.")).text == "More."


async def test_8_1_what_a_turn_left_running_or_never_began_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = [[exec_command("sleep 60", yield_time_ms=250)], [Text("It runs on.")]]
    full = {"sandbox_mode": "danger-full-access"}
    async with two_clients(monkeypatch, *script, **full) as (bench, other):
        mine = await bench.thread()
        folder = private_folder(bench.codex.server.codex_home)

        async def state() -> Any:
            asked = await ask_all(folder, {"thread": mine.id}, None)
            return {each["state"] for each in asked.answers} - {"unknown"}

        assert await state() == set()  # nothing of it is on disk yet: it would be gone
        await mine.run("Start it.")
        assert await state() == {"busy"}
        with pytest.raises(ThreadOpenElsewhere):
            await other.threads.resume(mine.id)


async def test_another_programs_writer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_clients(monkeypatch, [Text("One.")]) as (bench, other):
        mine = await bench.thread()
        await mine.run("Begin.")
        bench.codex.threads._services.hand_over.leave()  # it answers nobody
        with pytest.raises(ThreadOpenElsewhere, match="close it there") as raised:
            await other.threads.resume(mine.id)
        assert not raised.value.busy
        assert raised.value.pid is not None
