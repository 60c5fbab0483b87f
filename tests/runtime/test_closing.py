"""Closing comes to an end whatever an agent does: bounds that hold also on a busy machine."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.runtime import (
    AgentRuntime,
    AgentSpec,
    FileAccess,
    Form,
    Permission,
    TerminalAccess,
    agent_session,
    permissions,
    prompt,
)
from codex_acp.runtime.filesystem import FileThreads
from codex_acp.transport.child import ChildProcess
from tests.runtime.test_confined_files import FileAgent
from tests.support.processes import lives

logger = logging.getLogger(__name__)

AGENT = Path(__file__).with_name("hostile_agent.py")

CLOSE_SECONDS = 40.0
"""Promised are the two bounds below and two seconds: what remains is for a busy machine."""

BOUNDS = {agent_session: "CLOSE_SECONDS", prompt: "CANCEL_SECONDS"}
"""For ``session/close``, and for a shared agent's prompt; five and ten seconds, here a third."""

WAIT = 60.0

BEHAVIOURS = [
    (),
    ("offers session/close",),
    ("floods",),
    ("floods", "offers session/close"),
    ("asks",),
    ("asks", "floods", "offers session/close", "starts others"),
]


async def never(_question: Permission | Form) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("behaviours", BEHAVIOURS, ids=lambda names: ", ".join(names) or "silent")
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.attack("agent")
async def test_an_agent_that_does_what_it_can_against_it_is_closed(
    tmp_path: Path, behaviours: tuple[str, ...], shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, bound in BOUNDS.items():
        monkeypatch.setattr(module, bound, 0.3)
    with (tmp_path / "hole").open("wb") as hole:
        hole.truncate(8 << 40)
    command = [sys.executable, "-I", str(AGENT), *behaviours]
    spec = AgentSpec(command, "hostile agent", shared=shared, cwd=tmp_path)
    runtime = AgentRuntime(
        permissions=never,
        on_form=never,  # type: ignore[arg-type]  # it never gives anything
        files=FileAccess(write=True),
        terminals=TerminalAccess(),
    )
    with anyio.fail_after(WAIT):
        opened = await runtime.open(spec, cwd=tmp_path)
        running = opened.prompt("Go.")
        if behaviours:
            await asyncio.sleep(0.3)  # it is at its worst soon, and no event tells when
        link = opened._process._link
        assert isinstance(link, ChildProcess)
        pid = link.pid
        began = time.monotonic()
    with anyio.fail_after(CLOSE_SECONDS):
        await runtime.aclose()
    logger.info("%s: %.1f s", behaviours, time.monotonic() - began)
    assert not lives(pid)
    with pytest.raises(CodexAcpError):
        await running.result()


@pytest.mark.attack("agent")
async def test_a_read_that_hangs_keeps_nobody_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network disk that is gone: the thread never ends, and is given up."""
    (tmp_path / "a.txt").write_text("text")
    began, never_set = threading.Event(), threading.Event()

    def hang(*_arguments: object) -> str:
        began.set()
        never_set.wait()
        raise AssertionError

    monkeypatch.setattr(permissions, "read_text", hang)
    agent = FileAgent()
    runtime = AgentRuntime(files=FileAccess())
    try:
        with anyio.fail_after(WAIT):
            session = await runtime.open(agent.spec(), cwd=tmp_path)
            prompt = asyncio.ensure_future(session.run(str(tmp_path / "a.txt")))
            await asyncio.to_thread(began.wait, WAIT)
            await runtime.aclose()
        prompt.cancel()
        await asyncio.gather(prompt, return_exceptions=True)
    finally:
        never_set.set()


async def test_a_read_that_hangs_is_given_up_and_takes_no_more_than_its_place() -> None:
    never_set = threading.Event()
    few = FileThreads(seconds=0.1, count=2)

    def hang(_go_on: object) -> None:
        never_set.wait()

    try:
        with anyio.fail_after(WAIT):
            for _ in range(4):  # two hang, two wait for their turn
                with pytest.raises(RpcError, match="given up"):
                    await few.run(hang)
            never_set.set()
            slow = FileThreads(seconds=WAIT, count=2)
            assert [await slow.run(lambda _go_on: 7) for _ in range(5)] == [7] * 5
    finally:
        never_set.set()


async def test_work_is_told_that_nobody_waits_for_it() -> None:
    told = threading.Event()

    def work(go_on: Callable[[], None]) -> None:
        try:
            while True:
                go_on()
                time.sleep(0.001)
        except RpcError:
            told.set()
            raise

    with anyio.fail_after(WAIT):
        with anyio.move_on_after(0.05):
            await FileThreads().run(work)
        assert await asyncio.to_thread(told.wait, WAIT)
