"""Random interleavings of prompts, steering, cancels and turn ends: each prompt ends exactly once.

Codex is a stand-in that takes its time: what it answers, and when, is the test's to say.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codex_acp.adapter.prompts.host import TurnWork
from codex_acp.adapter.prompts.prompts import Prompts
from codex_acp.adapter.prompts.run import PromptRun
from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.errors import ErrorReply
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptFailure, PromptStop

STEPS: Final = 12
"""Iterations of the loop in which everything that can happen has happened."""

ACTIONS: Final = (
    "prompt", "prompt", "prompt", "cancel", "give_up_request", "answer_start", "refuse_start",
    "answer_steer", "refuse_steer", "read", "end", "fail", "interrupt",
)  # fmt: skip

reached: Counter[str] = Counter()


class FakeCodex:
    """A thread that runs one turn at a time; its answers wait until the test gives them."""

    asks_person = False
    written = None

    def __init__(self) -> None:
        self.prompts: Prompts | None = None
        self.starts: list[tuple[asyncio.Future[str], str, str]] = []
        self.steers: list[tuple[asyncio.Future[bool], str, str]] = []
        self.started: list[str] = []
        """Texts of the turns that began, in order."""
        self.read: list[str] = []
        """Texts that reached a turn, in order."""
        self.running: str | None = None
        self._turns = 0

    # TurnCalls

    def untaken(self, since: int | None) -> bool:
        assert since is None
        return False

    async def start(self, text: str, message_id: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.starts.append((answer, text, message_id))
        return await answer

    async def steer(self, turn_id: str, message: Any, message_id: str) -> bool:
        assert turn_id
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.steers.append((answer, message[0], message_id))
        return await answer

    async def interrupt(self, turn_id: str) -> bool:
        if turn_id != self.running:
            return False
        asyncio.get_running_loop().call_soon(self.end, PromptStop("cancelled"))
        return True

    # What the test makes it do.

    def answer_start(self, refuse: bool) -> None:
        if not self.starts or self.running is not None:
            return
        answer, text, message_id = self.starts.pop(0)
        if answer.done():
            return
        if refuse:
            answer.set_exception(ErrorReply("turn/start", -32600, "no"))
            return
        self._turns += 1
        self.running = turn_id = f"t{self._turns}"
        self.started.append(text)
        assert self.prompts is not None
        self.prompts.turn_began(turn_id, turn_id)
        self.prompts.message_read(message_id, turn_id)
        answer.set_result(turn_id)

    def answer_steer(self, refuse: bool, read: bool) -> None:
        if not self.steers:
            return
        answer, text, message_id = self.steers.pop(0)
        if answer.done():
            return
        assert self.prompts is not None
        if self.running is None or refuse:
            answer.set_result(False)
            return
        if read:
            self.read.append(text)
            self.prompts.message_read(message_id, self.running)
        answer.set_result(True)

    def end(self, end: PromptEnd) -> None:
        if self.running is not None:
            turn_id, self.running = self.running, None
            assert self.prompts is not None
            self.prompts.turn_ended(turn_id, end)


class Host:
    """Notes that each turn's end is shown once."""

    client_gone = False

    def __init__(self) -> None:
        self.over: list[PromptRun] = []

    def message_named(self, message_id: str) -> None:
        assert message_id

    def prompt_cancelled(self) -> None: ...

    def turn_begins(self) -> None: ...

    def works(self) -> None: ...

    def rests(self, end: PromptEnd) -> None:
        assert end

    def turn_over(self, run: PromptRun, end: PromptEnd, *, goes_on: bool) -> None:
        assert goes_on in (True, False)
        assert run not in self.over
        assert end
        self.over.append(run)

    def say(self, text: str) -> None:
        raise AssertionError(text)


class World:
    """One session's prompts between a person and Codex."""

    def __init__(self) -> None:
        self.codex = FakeCodex()
        self.host = Host()
        self.tasks: set[asyncio.Task[None]] = set()
        self.open: dict[str, asyncio.Task[PromptEnd | None]] = {}
        """Text of each prompt → its end, None if its request was given up."""
        self.requests: dict[str, anyio.CancelScope] = {}
        self.sent: list[str] = []
        self.prompts = Prompts(cast("TurnCalls", self.codex), self.host, self.spawn)
        self.codex.prompts = self.prompts

    def spawn(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        task = asyncio.ensure_future(work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def prompt(self) -> None:
        text = f"p{len(self.sent)}"
        self.sent.append(text)
        codex = self.codex

        async def prepare() -> TurnWork:
            return TurnWork(lambda message_id: codex.start(text, message_id), [cast("Any", text)])

        request = self.requests[text] = anyio.CancelScope()

        async def run() -> PromptEnd | None:
            with request:
                return (await self.prompts.run(prepare)).end
            return None

        self.open[text] = asyncio.ensure_future(run())

    def act(self, rng: random.Random) -> None:
        action = rng.choice(ACTIONS)
        codex = self.codex
        match action:
            case "prompt":
                self.prompt()
            case "cancel":
                self.prompts.cancel()
            case "give_up_request":
                running = [text for text, task in self.open.items() if not task.done()]
                if running:
                    self.requests[rng.choice(running)].cancel()
            case "answer_start" | "refuse_start":
                codex.answer_start(refuse=action == "refuse_start")
            case "answer_steer" | "refuse_steer" | "read":
                codex.answer_steer(refuse=action == "refuse_steer", read=action == "read")
            case "end":
                codex.end(PromptStop("end_turn"))
            case "fail":
                codex.end(PromptFailure(-32603, "failed", {}))
            case "interrupt":
                codex.end(PromptStop("cancelled"))

    async def finish(self) -> None:
        """Codex does all that is asked of it; every prompt has to end then."""
        for _ in range(200):
            if all(task.done() for task in self.open.values()):
                return
            self.codex.answer_start(refuse=False)
            self.codex.answer_steer(refuse=False, read=True)
            await settle()
            self.codex.end(PromptStop("end_turn"))
            await settle()
        left = [text for text, task in self.open.items() if not task.done()]
        assert not left, "never answered"


async def settle() -> None:
    for _ in range(STEPS):
        await asyncio.sleep(0)


async def one_world(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    for _ in range(rng.randint(3, 25)):
        world.act(rng)
        if rng.random() < 0.7:
            await settle()
    await world.finish()
    for text, task in world.open.items():
        end = task.result()
        if end is None:
            reached["given up"] += 1
            continue
        kind = "failed" if isinstance(end, PromptFailure) else end.reason
        reached[kind] += 1
        if kind == "end_turn":
            heard = Counter(world.codex.started) + Counter(world.codex.read)
            assert heard[text] == 1 or text in world.codex.started, f"{text} was never heard"
    assert len(world.codex.started) == len(set(world.codex.started)), "a turn was begun twice"
    assert not world.prompts.busy
    assert not world.prompts.running
    for task in world.tasks:
        task.cancel()
    await asyncio.gather(*world.tasks, return_exceptions=True)


@settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**63))
def _explore(seed: int) -> None:
    rng = random.Random(seed)

    async def run() -> None:
        for _ in range(10):
            await one_world(rng.randrange(2**63))

    asyncio.run(run())


def test_4_3_every_prompt_ends_once_in_every_interleaving() -> None:
    reached.clear()
    _explore()
    print("\nreached:", dict(reached))  # noqa: T201 - shown with -s
    for kind in ("end_turn", "cancelled", "failed", "given up"):
        assert reached[kind] > 50, kind


async def test_when_the_adapter_ends_a_cancelled_turn_is_given_up_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    monkeypatch.setattr(world.codex, "interrupt", lambda _turn_id: anyio.sleep_forever())
    world.prompt()
    await settle()
    world.codex.answer_start(refuse=False)
    await settle()
    world.prompts.cancel()
    await settle()
    for task in world.tasks:
        task.cancel()
    await settle()
    assert world.open["p0"].result() == PromptStop("cancelled")
    assert world.prompts.stale == {"t1"}  # nothing of it is shown behind that
