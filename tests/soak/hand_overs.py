"""One session in several windows, which are killed and stopped at random moments.

Editors and a program are processes on one Codex home, with the real Codex. Whatever is done to the
one that has the session: each prompt comes to the model once or was refused, in its order, each
refusal comes in time, and in the end every window can have the session and nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from abc import ABC, abstractmethod
from asyncio import to_thread
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from queue import Empty
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeAlias, cast

from codex_acp.codex import CodexClient, LaunchOptions
from codex_acp.errors import CodexAcpError, ThreadOpenElsewhere
from codex_acp.testing import Delay, Step, Text
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.local_peers import private_folder
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.session_bench import SessionBench

Outcome: TypeAlias = Literal["done", "refused", "lost", "silent"]
"""Of a prompt, or an opening; lost: whether Codex has taken it is not known."""

COUNT: Final = 200
ANSWER_SECONDS: Final = 3.0
"""For a refusal; how long a turn takes is Codex's own affair."""

FAULT_SECONDS: Final = 0.25
"""Within which something happens to the one who has the session."""

MOST_DEATHS: Final = 2
"""Of the Codex of one adapter, which starts it three times in a minute."""

SHOWN: Final = 30
"""Rounds that are printed, where something was not held."""

REFUSALS: Final = ("session_busy", "thread_active_writer")

FAULTS: Final = ("none", "none", "none", "kill", "end", "stop", "kill codex", "stop codex")


def environment(bench: SessionBench) -> dict[str, str]:
    """Of every process: all of them know the same folder for their sockets."""
    return {**bench.home.env, "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}


class Window(ABC):
    """A process that has the session open, or wants it."""

    name: str
    is_open: bool = False
    codex_deaths: int = 0
    why: object = None
    """Why the last request was not done."""

    @abstractmethod
    async def open(self, session: str) -> Outcome:
        """Have the session open."""

    @abstractmethod
    async def prompt(self, session: str, text: str) -> Outcome:
        """Prompt it, to the end of the turn."""

    @abstractmethod
    def pids(self) -> dict[str, int]:
        """The process, where it can be killed, and its Codex."""

    @abstractmethod
    async def mend(self) -> None:
        """Start it anew, if it has ended."""

    @abstractmethod
    async def end(self) -> None:
        """End it, and whatever it started."""


class Editor(Window):
    """An adapter and its client."""

    def __init__(self, bench: SessionBench, name: str) -> None:
        self._bench, self.name = bench, name
        self._begin()

    def _begin(self) -> None:
        self.codex_deaths, self._ended = 0, False
        self.adapter = RawAdapter(environment(self._bench))
        self.adapter.initialize()
        self.adapter.result("session/list", {})  # its Codex is there
        self.is_open = False

    def new(self) -> str:
        """Open a new session."""
        self.is_open = True
        return self._bench.new(self.adapter)

    async def open(self, session: str) -> Outcome:
        where = {"cwd": str(self._bench.home.workspace), "mcpServers": []}
        outcome = await self._ask("session/load", {"sessionId": session, **where})
        self.is_open = self.is_open or outcome == "done"
        return outcome

    async def prompt(self, session: str, text: str) -> Outcome:
        prompt = [{"type": "text", "text": text}]
        return await self._ask("session/prompt", {"sessionId": session, "prompt": prompt})

    async def _ask(self, method: str, params: dict[str, Any]) -> Outcome:
        try:
            answer = await to_thread(self.adapter.ask, method, params)
        except Empty:
            self.why = f"{method} was never answered, {self.adapter.pid}: {self.adapter.stderr}"
            return "silent"
        except (AssertionError, OSError) as error:  # it has ended
            self.why, self._ended = str(error).partition(";")[0], True
            return "lost"
        if "result" in answer:
            self.why = answer["result"].get("stopReason")
            return (
                "done" if answer["result"].get("stopReason", "end_turn") == "end_turn" else "lost"
            )
        self.why = answer["error"]["message"]
        reason = (answer["error"].get("data") or {}).get("reason")
        return "refused" if reason in REFUSALS else "lost"

    def pids(self) -> dict[str, int]:
        with suppress(ValueError):  # its Codex has just ended
            return {"": self.adapter.pid, "codex": self.adapter.codex()}
        return {"": self.adapter.pid}

    async def mend(self) -> None:
        if self.codex_deaths == MOST_DEATHS:
            self.adapter.end_input()
            self._ended = True
        if self._ended or self.adapter._process.poll() is not None:
            await to_thread(self.adapter.wait)
            await to_thread(self.adapter.wait_until_nothing_is_left)
            await to_thread(self.adapter.kill)
            await to_thread(self._begin)

    async def end(self) -> None:
        def close() -> None:
            self.adapter.end_input()
            self.adapter.wait()
            self.adapter.wait_until_nothing_is_left()
            self.adapter.kill()

        await to_thread(close)


class Program(Window):
    """A client of the library, in this process."""

    name = "program"

    def __init__(self, bench: SessionBench) -> None:
        cwd = str(bench.home.workspace)
        self._options = LaunchOptions(env=environment(bench), cwd=cwd)
        self._client: CodexClient | None = None

    async def open(self, session: str) -> Outcome:
        outcome = await self._do(self._open(session))
        self.is_open = self.is_open or outcome == "done"
        return outcome

    async def _open(self, session: str) -> None:
        assert self._client is not None
        self._thread = await self._client.threads.resume(session)

    async def prompt(self, session: str, text: str) -> Outcome:
        del session
        return await self._do(self._thread.run(text))

    async def _do(self, work: Awaitable[object]) -> Outcome:
        try:
            await work
        except CodexAcpError as error:
            self.why = error
            return "refused" if isinstance(error, ThreadOpenElsewhere) else "lost"
        return "done"

    def pids(self) -> dict[str, int]:
        assert self._client is not None
        return {"codex": cast("ChildProcess", self._client.link).pid}

    async def mend(self) -> None:
        if self._client is None or self._client.closed:
            await self.end()
            self._client = await CodexClient.start(self._options).__aenter__()
            self.is_open = False

    async def end(self) -> None:
        if self._client is not None:
            await self._client.__aexit__(None, None, None)


class HandOvers:
    """``run`` of one seed, and what was found by it."""

    def __init__(self, seed: int, count: int = COUNT) -> None:
        self.seed, self.count = seed, count
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        self.wrong: list[str] = []
        self.trace: list[str] = []
        self.lost: Counter[str] = Counter()
        self._done: list[tuple[int, str]] = []
        self._refused: list[str] = []
        self._prompts = 0

    def _script(self) -> list[list[Step]]:
        pauses = (0.0, 0.0, 0.05, 0.3)
        return [
            [Text("I "), Delay(self.random.choice(pauses)), Text("answer.")]
            for _ in range(6 * self.count + 60)
        ]

    async def run(self) -> None:
        """All of it."""
        with TemporaryDirectory(dir="/tmp") as runtime:  # a socket's path may not be long
            os.environ["XDG_RUNTIME_DIR"] = runtime
            with SessionBench(self._script()) as bench:
                await self._run(bench)
                left = [*private_folder(bench.home.env["CODEX_HOME"]).iterdir()]
                if left:
                    self.wrong.append(f"sockets are left: {left}")

    async def _run(self, bench: SessionBench) -> None:
        editors = [Editor(bench, name) for name in ("one", "two")]
        windows: list[Window] = [*editors, Program(bench)]
        session = editors[0].new()
        holder = windows[0]
        await self._prompt(windows[0], session, 0)
        for number in range(1, self.count + 1):
            for each in windows:
                await each.mend()
            asker = self.random.choice([each for each in windows if each is not holder])
            if await self._round(number, session, holder, asker):
                self.counts["hand-overs"] += 1
                holder = asker
        for each in windows:
            await each.mend()
        for number, each in enumerate((*windows, *windows), self.count + 1):
            if not (
                each.is_open or await self._timed(each, "opening", each.open(session)) == "done"
            ):
                self.wrong.append(f"in the end {each.name} cannot open the session: {each.why}")
            elif await self._prompt(each, session, number) != "done":
                self.wrong.append(f"in the end {each.name} cannot prompt the session: {each.why}")
        await asyncio.sleep(1.1)  # then a socket that nobody listens on is old
        await windows[0].open(session)
        for each in windows:
            await each.end()
        self._check([str(request.body["input"]) for request in bench.model.requests])

    async def _round(self, number: int, session: str, holder: Window, asker: Window) -> bool:
        """Have a session go from one to the other; whether it has."""
        fault, both = self.random.choice(FAULTS), self.random.random() < 0.3
        moment = self.random.random() ** 2 * FAULT_SECONDS  # most hand-overs are over soon
        pids = holder.pids() if fault != "none" else {}
        pid = pids.get("codex" if "codex" in fault or isinstance(holder, Program) else "")
        number_of = {"kill": signal.SIGKILL, "end": signal.SIGTERM, "stop": signal.SIGSTOP}
        sends = number_of.get(fault.split()[0])
        if isinstance(holder, Program) and fault == "end":
            sends = None
        here = asyncio.ensure_future(self._prompt(holder, session, number)) if both else None
        there = asyncio.ensure_future(self._follow(number, session, asker))
        if sends is not None and pid is not None:
            await asyncio.sleep(moment)
            with suppress(ProcessLookupError):
                os.kill(pid, sends)
                self.counts[f"faults: {fault}"] += 1
                holder.codex_deaths += fault == "kill codex"
        outcome = await there
        about = f"{number}: {holder.name} > {asker.name}, {fault} {pid} {moment:.3f}, {both}"
        self.trace.append(f"{about}: {outcome} {asker.why}".partition("\n")[0])
        if sends is signal.SIGSTOP and pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        if here is not None:
            await here
        return outcome == "done"

    async def _follow(self, number: int, session: str, asker: Window) -> Outcome:
        if not asker.is_open or self.random.random() < 0.3:
            outcome = await self._timed(asker, "opening", asker.open(session))
            if outcome != "done":
                return outcome
        return await self._prompt(asker, session, number)

    async def _prompt(self, window: Window, session: str, number: int) -> Outcome:
        if not window.is_open:
            return "refused"
        self._prompts += 1
        word = f"<word {self._prompts}>"
        outcome = await self._timed(window, "prompt", window.prompt(session, word))
        if outcome == "done":
            self._done.append((number, word))
        elif outcome == "refused":
            self._refused.append(word)
        return outcome

    async def _timed(self, window: Window, what: str, work: Awaitable[Outcome]) -> Outcome:
        window.why, began = None, time.monotonic()
        outcome = await work
        took, kind = time.monotonic() - began, f"{what} {outcome}"
        self.counts[kind] += 1
        if outcome == "lost":
            self.lost[str(window.why).partition("\n")[0].partition(";")[0]] += 1
        self.slowest[kind] = max(took, self.slowest.get(kind, 0.0))
        if outcome == "silent":
            self.wrong.append(f"{what}: {window.why}")
        if outcome == "refused" and took > ANSWER_SECONDS:
            self.wrong.append(f"a refused {what} has taken {took:.2f} s")
        return outcome

    def _check(self, heard: list[str]) -> None:
        """Compare what was said with what the model has heard."""
        last = heard[-1]
        places: dict[int, list[int]] = {}
        for number, word in self._done:
            places.setdefault(number, []).append(last.find(word))
            if word not in last:
                self.wrong.append(f"lost: {word} of round {number}")
        order = [min(each) for _, each in sorted(places.items())]
        if order != sorted(order):
            self.wrong.append("what was said is in another order")
        for number in range(1, self._prompts + 1):
            word = f"<word {number}>"
            if any(each.count(word) > 1 for each in heard):
                self.wrong.append(f"twice: {word}")
        for word in self._refused:
            if any(word in each for each in heard):
                self.wrong.append(f"refused, and said all the same: {word}")


def hand_overs(seed: int, count: int) -> tuple[str, bool]:
    """Run it; what was done and found, in lines, and whether it was as it should be."""
    tried = HandOvers(seed, count)
    asyncio.run(tried.run())
    lines = [f"seed {seed}", *(f"{n:>9} {what}" for what, n in sorted(tried.counts.items()))]
    lines += [f"{took:>8.2f}s the slowest: {what}" for what, took in sorted(tried.slowest.items())]
    lines += [f"{n:>9} lost: {why}" for why, n in tried.lost.most_common()]
    lines += tried.trace[-SHOWN:] if tried.wrong else []
    lines += [f"NOT HELD: {what}" for what in tried.wrong]
    return "\n".join(lines) + "\n", not tried.wrong
