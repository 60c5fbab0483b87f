"""One round each of what runs inside a program: the headless client, and the runtime.

Whatever the other side says, a call gives its result or raises an exception of ours, nothing is
logged with a traceback, no task dies unheard, and closing ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codex_acp.codex import CodexClient, LaunchOptions
from codex_acp.errors import CodexAcpError
from codex_acp.runtime import AgentRuntime, AgentSpec, FileAccess, TerminalAccess
from tests.e2e.spawned_adapter import MARKER, marked_processes
from tests.fuzz.adapter_process import FuzzFailure
from tests.fuzz.fuzzed_codex import ROOT, FuzzedCodex
from tests.fuzz.rounds import Round

TURNS = 20

SESSIONS = 4

KINDS = (*("say", "ask", "patch", "form") * 3, "wait")
"""What the turns of the headless client are about; the last kind ends when it is withdrawn."""

BOUND = 2.0
"""Seconds for a call; then it is withdrawn, which must work, too."""

END = 60.0
"""Seconds within which all is closed."""


def headless_round(seed: int, made: Round) -> None:
    """`CodexClient` before an app-server whose lines are damaged."""
    with _watched(made) as (folder, marker):
        codex = FuzzedCodex(folder, seed, 0.3)
        env = {**os.environ, MARKER: marker}
        asyncio.run(_headless(LaunchOptions(codex.path, env=env, cwd=folder), made, folder))
        made.counts["damaged lines of Codex"] += _lines(codex.lines)


def runtime_round(seed: int, made: Round) -> None:
    """`AgentRuntime` before an agent whose lines are damaged."""
    with _watched(made) as (folder, marker):
        (folder / "a.txt").write_text("one\ntwo\nthree\n")
        record = folder / "damaged-lines"
        command = [sys.executable, "-P", "-m", "tests.fuzz.fuzzed_agent"]
        path = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", MARKER: marker}
        specs = [
            AgentSpec([*command, str(seed + 1000 * n), "0.4", str(record)], "fuzzed", env=path)
            for n in range(SESSIONS)
        ]
        asyncio.run(_runtime(specs, made, folder))
        made.counts["damaged lines of the agent"] += _lines(record)
        left = {entry.name for entry in folder.iterdir()} - {"a.txt", "b.txt", "damaged-lines"}
        made.counts["other files written in its directory"] += len(left)


async def _headless(options: LaunchOptions, made: Round, folder: Path) -> None:
    _watch_tasks()
    async with CodexClient.start(options) as codex:
        for number in range(TURNS):
            prompt = KINDS[number % len(KINDS)]

            async def turn(prompt: str = prompt) -> None:
                thread = await codex.threads.start(cwd=folder)
                await thread.run(prompt)

            await _tried(turn, made)
        closing = asyncio.create_task(codex.aclose())
        await _ended(closing)


async def _runtime(specs: list[AgentSpec], made: Round, folder: Path) -> None:
    _watch_tasks()
    runtime = AgentRuntime(
        files=FileAccess(write=True), terminals=TerminalAccess(), answer_seconds=5.0,
        on_form=lambda _: {"name": "x"},
    )  # fmt: skip
    for spec in specs:

        async def conversation(spec: AgentSpec = spec) -> None:
            async with runtime.open(spec, cwd=folder) as session:
                for _ in range(TURNS // SESSIONS):
                    await _tried(lambda: session.run("Go."), made)

        await _tried(conversation, made, END)
    await _ended(asyncio.create_task(runtime.aclose()))


async def _tried(call: Callable[[], Awaitable[object]], made: Round, bound: float = BOUND) -> None:
    try:
        async with asyncio.timeout(bound):
            await call()
        made.counts["came to an end"] += 1
    except TimeoutError:
        made.counts["withdrawn"] += 1
    except CodexAcpError as error:
        made.counts[type(error).__name__] += 1


async def _ended(task: asyncio.Task[None]) -> None:
    done, _ = await asyncio.wait([task], timeout=END)
    if not done:
        raise FuzzFailure("closing does not end")
    task.result()


def _watch_tasks() -> None:
    def unheard(_loop: object, context: dict[str, Any]) -> None:
        logging.getLogger("asyncio").error(
            "%s", context["message"], exc_info=context.get("exception")
        )

    asyncio.get_running_loop().set_exception_handler(unheard)


@contextmanager
def _watched(made: Round) -> Iterator[tuple[Path, str]]:
    """A directory and a mark; at the end no traceback is logged, and no marked process lives."""
    seen = _Tracebacks()
    root = logging.getLogger()
    root.addHandler(seen)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            yield folder, folder.name
            left = marked_processes(folder.name)
        if left:
            message = f"processes are left: {left}"
            raise FuzzFailure(message)
        if seen.found:
            raise FuzzFailure("a traceback in the log\n" + seen.found[0])
    finally:
        root.removeHandler(seen)
        made.counts["warnings"] += seen.others


class _Tracebacks(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self.others = 0
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))
        else:
            self.others += 1


def _lines(record: Path) -> int:
    return record.read_bytes().count(b"\n") if record.exists() else 0
