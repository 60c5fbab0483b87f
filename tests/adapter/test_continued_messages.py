"""Pieces of a message that nobody decodes before they are written: each byte is as it was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch

import anyio
import pytest
from pydantic_core import to_json

from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.adapter.session import driver
from codex_acp.codex.connection.continuations import Continuations
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.jsonrpc.message import JsonValue
from codex_acp.testing.app_server_defaults import default_result, turn_object
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.continuation import Continuation
from codex_acp.transport.memory import memory_pair
from tests.acp.raw_peer import RawPeer
from tests.sent_to_clients.codex import PlayedCodex

ROUNDS: Final = 30
"""Of the event loop, after which the adapter has done what a read makes it do."""

SESSIONS: Final = ("thread-1", "thread-2")

DELTA: Final = "item/agentMessage/delta"

Action = bytes | Callable[["Bench"], object]
"""What Codex writes at once, or what somebody else does."""


def line(method: str, **params: object) -> bytes:
    said = {"method": method, "params": params, "emittedAtMs": 1795402247784}
    return bytes(to_json(said)) + b"\n"


def of(session: str) -> dict[str, str]:
    return {"threadId": session, "turnId": f"turn-{SESSIONS.index(session) + 1}"}


def delta(text: str, item: str = "i", session: str = SESSIONS[0]) -> bytes:
    return line(DELTA, **of(session), itemId=item, delta=text)


def completed(text: str, item: str = "i", session: str = SESSIONS[0]) -> bytes:
    said = {"type": "agentMessage", "id": item, "text": text, "phase": None}
    return line("item/completed", item=said, completedAtMs=0, **of(session))


class _Codex(PlayedCodex):
    def write(self, data: bytes) -> None:
        self._end.write(data)


class _Client(RawPeer):
    """Keeps the bytes, too."""

    written = b""

    def data_received(self, data: bytes) -> None:
        self.written += data
        super().data_received(data)


class Bench:
    """An adapter with two sessions whose prompts run."""

    def __init__(self, tap: Callable[[str, bytes], None] | None = None) -> None:
        self.codex = _Codex()
        self.app_server = AppServer(LaunchOptions(), cast("ChildProcess", self.codex.link))
        self.app_server.when_connected(lambda: tap)
        self.link, far = memory_pair()
        self.client = _Client(far)

    async def begin(self, cwd: Path, version: int) -> None:
        named = {"name": "test", "version": "1"}
        hello: dict[str, object] = {"protocolVersion": version}
        hello |= {"info": named} if version == 2 else {"clientInfo": named}
        await self.client.ask(0, "initialize", hello)
        for number, session in enumerate(SESSIONS):
            opened = default_result("thread/start", {}, "")
            assert opened is not None
            cast("dict[str, object]", opened["thread"])["id"] = session
            self.codex.will_answer("thread/start", opened)
            new = {"cwd": str(cwd), "mcpServers": []}
            await self.client.ask(f"new {number}", "session/new", new)
            prompt = [{"type": "text", "text": "go"}]
            asked = {"sessionId": session, "prompt": prompt}
            self.client.send({"id": session, "method": "session/prompt", "params": asked})
            await self.client.until(self._all_is_told(number + 1))
            turn = turn_object(of(session)["turnId"])
            self.codex.say({"method": "turn/started", "params": {**of(session), "turn": turn}})
            await settle()

    def _all_is_told(self, sessions: int) -> Callable[[], bool]:
        """What comes behind the answer of a new session."""
        return lambda: self.client.written.count(b'"availableCommands"') == sessions

    async def play(self, actions: Sequence[Action]) -> list[bytes]:
        """What the adapter writes for each."""
        found = []
        for action in actions:
            self.client.written = b""
            if isinstance(action, bytes):
                self.codex.write(action)
            else:
                action(self)
            await settle()
            found.append(self.client.written)
        return found


async def settle() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


@asynccontextmanager
async def bench(
    cwd: Path, version: int = 1, tap: Callable[[str, bytes], None] | None = None
) -> AsyncIterator[Bench]:
    async with anyio.create_task_group() as tasks:
        made = Bench(tap)
        tasks.start_soon(serve_link, made.link, made.app_server)
        await made.begin(cwd, version)
        yield made
        await made.client.link.aclose()


@contextmanager
def nothing_goes_on() -> Iterator[None]:
    with patch.object(Continuations, "begin", lambda *_: None):
        yield


@contextmanager
def counted() -> Iterator[list[bytes]]:
    """What went past the decoder."""
    taken: list[bytes] = []
    take = Continuation.take

    def seen(self: Continuation, data: bytes, framer: Any) -> bytes | None:
        left = take(self, data, framer)
        if left is None:
            taken.append(data)
        return left

    with patch.object(Continuation, "take", seen):
        yield taken


async def same_either_way(
    cwd: Path, actions: Sequence[Action], version: int = 1, taken: int = 0
) -> list[bytes]:
    """What is written for each action, the same with what goes on and without."""
    with nothing_goes_on():
        async with bench(cwd, version) as ordinary:
            expected = await ordinary.play(actions)
    with counted() as past:
        async with bench(cwd, version) as continued:
            found = await continued.play(actions)
    assert found == expected
    assert len(past) >= taken, past
    return found


TEXTS: Final = (
    "word ", "word ", "word ", "", "é", "\U0001f600", "\x00\x07\x1b\x7f", '"', "\\", "\n\r\t\b\f",
    '"},"emittedAtMs":1795402247784}\n', delta("inner").decode(), "\u2028\ufffd", "x" * 70_000,
)  # fmt: skip

ODD: Final = (
    delta("a").replace(b'"delta":"a"', b'"delta":"\\ud83d"'),
    delta("a").replace(b'"delta":"a"', b'"delta":"\\ude00\\u00E9\\/"'),
    delta("a").replace(b'"delta":"a"', b'"delta":"\xc3"'),
    delta("a").replace(b'"delta":"a"', b'"delta":"\xa9"'),
    delta("a").replace(b'"delta":"a"', b'"delta":"\0"'),
    delta("a").replace(b'"delta":"a"', b'"delta":"a","delta":"b"'),
    delta("a").replace(b'"delta":"a"', b'"later":1,"delta":"a"'),
    delta("a").replace(b'"delta":"a"', b'"delta":1'),
    delta("a").replace(b"1795402247784", b"0795402247784"),
    delta("a").replace(b"1795402247784", b"17954022477840"),
    delta("a").replace(b"\n", b"\r\n"),
    delta("a").replace(b"{", b" { ", 1),
    delta("a")[:-1], delta("a")[:60], delta("a")[60:], b"\n", b"\0", b"{}\n",
    line(DELTA, itemId="i", delta="a", **of(SESSIONS[0])),
    line(DELTA, threadId="another", turnId="turn-1", itemId="i", delta="a"),
    line(DELTA, threadId=SESSIONS[0], turnId="another", itemId="i", delta="a"),
    line("item/commandExecution/outputDelta", **of(SESSIONS[0]), itemId="i", delta="a"),
    line("item/reasoning/textDelta", **of(SESSIONS[0]), itemId="i", delta="a", contentIndex=0),
    line("thread/name/updated", threadId=SESSIONS[0], threadName="named"),
)  # fmt: skip


def some_reads(seed: int) -> list[Action]:
    """Mostly what goes on, in reads that end within a line, with what does not go on between."""
    chosen = random.Random(seed)
    reads: list[Action] = []
    item, session = "i", SESSIONS[0]
    for _ in range(60):
        if chosen.random() < 0.1:
            item, session = chosen.choice("ij"), chosen.choice(SESSIONS)
        texts = chosen.choices(TEXTS[:-1], k=chosen.choice((1, 1, 1, 2, 5)))
        data = b"".join(delta(text, item, session) for text in texts)
        if chosen.random() < 0.15:
            data = chosen.choice((data, b"")) + chosen.choice(ODD) + chosen.choice((data, b""))
        if chosen.random() < 0.05:
            data += completed("word word ", item, session)
        cut = chosen.randrange(len(data) + 1) if chosen.random() < 0.2 else 0
        reads += [part for part in (data[:cut], data[cut:]) if part]
    return reads


@pytest.mark.parametrize("version", [1, 2])
async def test_whatever_is_read_the_client_gets_the_same_bytes(
    tmp_path: Path, version: int
) -> None:
    reads = [read for seed in range(4) for read in some_reads(10 * version + seed)]
    written = await same_either_way(tmp_path, reads, version, taken=50)
    assert sum(map(bool, written)) > 100


async def test_every_text_is_carried_over(tmp_path: Path) -> None:
    first, actions = delta("first "), [delta(text) for text in TEXTS]
    await same_either_way(tmp_path, [first, first, *actions, first], taken=len(actions) - 1)


async def test_what_is_odd_is_read_as_ever(tmp_path: Path) -> None:
    text, item = delta("a"), completed("aa and what was not streamed")
    reads = [read for odd in ODD for read in (text, text, odd, text, text + odd, odd + text, item)]
    await same_either_way(tmp_path, reads, taken=len(ODD))


async def test_what_was_noted_is_not_said_again(tmp_path: Path) -> None:
    words = [delta(f"w{number} ") for number in range(5)]
    whole = "".join(f"w{number} " for number in range(5))
    *_, last = await same_either_way(tmp_path, [*words, completed(whole + "end")], taken=3)
    assert b'"text":"end"' in last


async def test_a_client_that_lags_gets_all_of_it_in_order(tmp_path: Path) -> None:
    many = [delta(f"{number} " * 500) for number in range(200)]
    slow: list[Action] = [delta("first "), lambda it: it.client.link.pause_reading(), *many]
    actions = [*slow, lambda it: it.client.link.resume_reading(), delta("a"), delta("b")]
    await same_either_way(tmp_path, actions, taken=20)


async def test_nothing_of_a_turn_is_shown_that_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "TIMINGS", driver.TIMINGS._replace(cancel=0.0))
    async with bench(tmp_path) as made:
        *_, before = await made.play([delta("a"), delta("a"), delta("b")])
        cancel: JsonValue = {"sessionId": SESSIONS[0]}
        made.client.send({"method": "session/cancel", "params": cancel})
        await made.client.reply(SESSIONS[0])
        after = await made.play([delta("c"), delta("d"), delta("e", session=SESSIONS[1])])
    assert b'"text":"b"' in before
    assert after[:2] == [b"", b""]
    assert b'"text":"e"' in after[2]


class _Sink:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_notification(self, method: str, params: JsonValue) -> None:
        del params
        self.heard.append(method)

    def on_batch_end(self) -> None: ...

    def on_closed(self, error: object) -> None: ...


async def test_who_comes_later_hears_the_next_piece(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.play([delta("a"), delta("b"), delta("b")])
        codex, sink = await made.app_server.client(), _Sink()
        codex.subscribe_all(sink)
        await made.play([delta("c"), delta("d")])
        codex.unsubscribe_all(sink)
        with counted() as taken:
            await made.play([delta("e"), delta("f")])
    assert sink.heard == [DELTA, DELTA]
    assert len(taken) == 1


async def test_who_sees_each_line_sees_those_of_a_message(tmp_path: Path) -> None:
    seen: list[bytes] = []
    pieces = [delta(text) for text in "abcd"]
    async with bench(tmp_path, tap=lambda _, said: seen.append(said)) as made:
        await made.play(pieces)
    assert [said + b"\n" for said in seen if DELTA.encode() in said] == pieces
