"""What opens or closes a session and is given up: Codex keeps no thread that nobody knows."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from codex_acp.adapter.config_options import Config
from codex_acp.testing import Expect, RawLine, turn_completed, turn_started
from codex_acp.testing.app_server_script import default_result
from tests.adapter.memory_bench import THREAD, MemoryBench

if TYPE_CHECKING:
    from codex_acp.testing import Entry

pytestmark = pytest.mark.attack("client")

WHERE: dict[str, Any] = {"cwd": "/scripted/workspace", "mcpServers": []}
STORED = "thread-9"
NEW = "thread-7"


async def ask_and_give_up(bench: MemoryBench, method: str, of: str, held_up_at: Entry) -> None:
    """Ask; give it up while Codex does not answer the call it ``held_up_at``."""
    assert isinstance(held_up_at, Expect)
    before = sum(m.get("method") == held_up_at.expect for m in bench.server.player.received)
    bench.server.play(held_up_at)
    bench.client.send({"id": "r", "method": method, "params": {**WHERE, "sessionId": of}})
    await bench.asked_codex(held_up_at.expect, before + 1)
    bench.client.send({"method": "$/cancel_request", "params": {"requestId": "r"}})


async def is_left(bench: MemoryBench, thread: str) -> None:
    """Codex is told that nobody follows the thread."""
    await bench.server.wait_for(
        lambda: any(
            m.get("method") == "thread/unsubscribe" and m.get("params") == {"threadId": thread}
            for m in bench.server.player.received
        )
    )


async def answer(bench: MemoryBench, method: str, result: object) -> None:
    request = bench.server.player.newest(method)
    assert request is not None
    bench.server.play(RawLine(json.dumps({"id": request["id"], "result": result})))
    await bench.client.settle()


@pytest.mark.parametrize(
    ("method", "call", "thread"),
    [
        ("session/new", "thread/start", NEW),
        ("session/fork", "thread/fork", NEW),
        ("session/load", "thread/resume", STORED),
        ("session/resume", "thread/resume", STORED),
    ],
)
async def test_a_thread_that_is_opened_for_nobody_is_left(
    method: str, call: str, thread: str
) -> None:
    async with MemoryBench() as bench:
        of = THREAD if method == "session/fork" else STORED
        await ask_and_give_up(bench, method, of, Expect(call, silent=True))
        assert (await bench.client.reply("r"))["error"]["code"] == -32800
        await answer(bench, call, default_result("thread/resume", {"threadId": thread}, ""))
        await is_left(bench, thread)


@pytest.mark.parametrize("between", range(8))
async def test_a_thread_whose_answer_crosses_the_cancel_is_left(between: int) -> None:
    async with MemoryBench() as bench:
        bench.server.play(Expect("thread/start", silent=True))
        bench.client.send({"id": "r", "method": "session/new", "params": WHERE})
        await bench.asked_codex("thread/start", 2)
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "r"}})
        for _ in range(between):
            await asyncio.sleep(0)
        request = bench.server.player.newest("thread/start")
        assert request is not None
        result = default_result("thread/resume", {"threadId": NEW}, "")
        bench.server.play(RawLine(json.dumps({"id": request["id"], "result": result})))
        if "error" in await bench.client.reply("r"):
            await is_left(bench, NEW)


async def test_a_session_whose_loading_is_given_up_at_its_end_is_not_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object, **__: object) -> dict[str, Any]:
        await bench.client.sent("never")
        return {}

    async with MemoryBench() as bench:
        monkeypatch.setattr(Config, "open", never)
        await ask_and_give_up(bench, "session/resume", STORED, Expect("thread/resume"))
        assert (await bench.client.reply("r"))["error"]["code"] == -32800
        await is_left(bench, STORED)
        closing = await bench.client.ask("c", "session/close", {"sessionId": STORED})
        assert closing["error"]["code"] == -32002


async def test_a_prompt_right_behind_a_loading_that_is_given_up_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object, **__: object) -> dict[str, Any]:
        await bench.client.sent("never")
        return {}

    async with MemoryBench() as bench:
        monkeypatch.setattr(Config, "open", never)
        bench.server.play(Expect("turn/start"), *turn_started())
        prompt = {"sessionId": STORED, "prompt": [{"type": "text", "text": "hi"}]}
        bench.client.send({"id": "r", "method": "session/resume",
                           "params": {**WHERE, "sessionId": STORED}})  # fmt: skip
        await bench.asked_codex("thread/resume")
        await bench.client.settle()
        bench.client.send({"id": "p", "method": "session/prompt", "params": prompt})
        await bench.asked_codex("turn/start")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "r"}})
        assert (await bench.client.reply("r"))["error"]["code"] == -32800
        bench.server.play(*turn_completed())
        assert await bench.end_of("p") == "end_turn"


@pytest.mark.parametrize("method", ["session/close", "session/delete", "session/archive"])
async def test_a_session_that_is_closed_already_is_left_although_that_is_given_up(
    method: str,
) -> None:
    cleaning = "thread/backgroundTerminals/clean"
    async with MemoryBench() as bench:
        await ask_and_give_up(bench, method, THREAD, Expect(cleaning, silent=True))
        assert (await bench.client.reply("r"))["error"]["code"] == -32800
        bench.client.send({"id": "o", "method": "session/resume",
                           "params": {**WHERE, "sessionId": THREAD}})  # fmt: skip
        await answer(bench, cleaning, {})
        opened = "result" in await bench.client.reply("o")
        asked = [m.get("method") for m in bench.server.player.received]
        left = "thread/archive" if method == "session/archive" else "thread/unsubscribe"
        assert opened
        assert asked.index(left) < asked.index("thread/resume")
        bench.server.play(Expect("turn/start"), *turn_started(), *turn_completed())
        assert await bench.prompt() == "end_turn"
