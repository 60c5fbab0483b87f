"""Sessions that are opened while something of them goes on, opened again, and closed."""

from __future__ import annotations

import json
from typing import Any

from codex_acp.testing import AskClient, Expect, Notify, RawLine
from codex_acp.testing.app_server_script import default_result, turn_object
from tests.adapter.memory_bench import THREAD, MemoryBench, turn_note

STORED = "thread-2"
HISTORY = Expect("thread/items/list", {"data": [], "nextCursor": None})


def resumed(thread_id: str = STORED, status: str = "idle") -> Expect:
    result: dict[str, Any] = default_result("thread/resume", {"threadId": thread_id}, "") or {}
    result["thread"]["status"] = {"type": status, "activeFlags": []}
    return Expect("thread/resume", result)


def command(status: str) -> dict[str, Any]:
    return {
        "type": "commandExecution", "id": "c1", "command": "make", "cwd": "/w",
        "commandActions": [], "status": status, "source": "agent",
    }  # fmt: skip


APPROVAL = AskClient(
    "item/commandExecution/requestApproval",
    {"threadId": STORED, "turnId": "t1", "itemId": "c1", "startedAtMs": 1, "command": "make"},
)


async def ask(bench: MemoryBench, method: str, session_id: str, request_id: str = "r") -> Any:
    params = {"sessionId": session_id, "cwd": "/w", "mcpServers": []}
    return await bench.client.ask(request_id, method, params)


async def prompt_error(bench: MemoryBench, session_id: str, request_id: str = "p") -> Any:
    prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
    return (await bench.client.ask(request_id, "session/prompt", prompt)).get("error")


async def test_an_approval_that_codex_asks_again_is_put_to_the_person_who_loads() -> None:
    turn = {**turn_object("t1"), "items": [command("inProgress")]}
    in_progress = {"turnId": "t1", "item": command("inProgress")}
    async with MemoryBench(
        resumed(status="active"),
        APPROVAL,
        Expect("thread/turns/list", {"data": [turn], "nextCursor": None}),
        Expect("thread/items/list", {"data": [in_progress], "nextCursor": None}),
    ) as bench:
        assert "result" in await ask(bench, "session/load", STORED)
        permission = await bench.client.sent("session/request_permission")
        assert permission["params"]["sessionId"] == STORED
        assert permission["params"]["toolCall"]["toolCallId"] == "c1"
        methods = [m.get("method") for m in bench.client.messages]
        announced = next(n for n, m in enumerate(bench.client.messages) if "tool_call" in str(m))
        assert announced < methods.index("session/request_permission")
        options = permission["params"]["options"]
        allow = next(each["optionId"] for each in options if each["kind"] == "allow_once")
        outcome = {"outcome": {"outcome": "selected", "optionId": allow}}
        bench.client.send({"id": permission["id"], "result": outcome})
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        (answer,) = bench.server.player.answers
    assert answer.message["result"] == {"decision": "accept"}


async def test_what_is_asked_for_a_session_that_could_not_be_opened_is_declined() -> None:
    gone = Expect("thread/resume", error={"code": -32600, "message": "no"})
    async with MemoryBench(
        APPROVAL, gone, Expect("thread/read", error={"code": -32600, "message": "no"})
    ) as bench:
        assert (await ask(bench, "session/load", STORED))["error"]["code"] == -32002
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        (answer,) = bench.server.player.answers
    assert answer.message["result"] == {"decision": "decline"}


async def test_a_session_whose_reload_failed_is_what_it_was_at_its_next_prompt() -> None:
    failed = Expect("thread/resume", error={"code": -32603, "message": "busy"})
    async with MemoryBench(failed, resumed(THREAD), Expect("turn/start", silent=True)) as bench:
        error = (await ask(bench, "session/load", THREAD))["error"]
        assert error["code"] == -32603
        assert "busy" in error["message"]
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        again = (await bench.asked_codex("thread/resume", 2))[1]
        assert again["cwd"] == "/scripted/workspace"


async def test_opening_an_open_session_lets_codex_forget_its_old_settings_first() -> None:
    async with MemoryBench(resumed(THREAD), HISTORY) as bench:
        assert "result" in await ask(bench, "session/load", THREAD)
        received = [message.get("method") for message in bench.server.player.received]
        assert received.index("thread/unsubscribe") < received.index("thread/resume")


async def test_a_prompt_that_comes_while_its_session_is_opened_again_runs_to_its_end() -> None:
    async with MemoryBench(Expect("thread/inject_items", silent=True)) as bench:
        params = {"sessionId": THREAD, "cwd": "/w", "mcpServers": []}
        bench.client.send({"id": "l", "method": "session/load", "params": params})
        storing = await bench.server.wait_for_message("thread/inject_items")
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.server.play(RawLine(json.dumps({"id": storing["id"], "result": {}})))
        error = (await bench.client.reply("l"))["error"]
        assert (error["code"], "a prompt runs" in error["message"]) == (-32600, True)
        bench.server.play(turn_note("turn/completed", "turn-1", "completed"))
        assert await bench.end_of() == "end_turn"


async def test_two_loads_of_one_session_come_one_after_the_other() -> None:
    async with MemoryBench(resumed(), HISTORY, resumed(), HISTORY) as bench:
        params = {"sessionId": STORED, "cwd": "/w", "mcpServers": []}
        for request_id in ("a", "b"):
            bench.client.send({"id": request_id, "method": "session/load", "params": params})
        for request_id in ("a", "b"):
            assert "result" in await bench.client.reply(request_id)
        asked = [m.get("method") for m in bench.server.player.received]
        lists = [n for n, method in enumerate(asked) if method == "thread/items/list"]
        resumes = [n for n, method in enumerate(asked) if method == "thread/resume"]
        assert resumes[0] < lists[0] < resumes[1] < lists[1]


async def test_a_closed_session_withdraws_what_was_asked_and_is_not_heard_of_again() -> None:
    asks = AskClient(
        "item/commandExecution/requestApproval", {**(APPROVAL.params or {}), "threadId": THREAD}
    )
    started = {"threadId": THREAD, "turn": turn_object("t1")}
    item = {"threadId": THREAD, "turnId": "t1", "item": command("inProgress"), "startedAtMs": 1}
    turn = {"turn": turn_object("t1")}
    over = {"threadId": THREAD, "turn": turn_object("t1", "interrupted")}
    async with MemoryBench(
        Expect("turn/start", turn),
        Notify("turn/started", started),
        Notify("item/started", item),
        asks,
        Expect("turn/interrupt"),
        Notify("turn/completed", over),
    ) as bench:
        bench.start_prompt()
        permission = await bench.client.sent("session/request_permission")
        closed = await ask(bench, "session/close", THREAD, "close")
        assert closed["result"] == {}
        assert await bench.end_of() == "cancelled"
        withdrawn = await bench.client.sent("$/cancel_request")
        assert withdrawn["params"]["requestId"] == permission["id"]
        assert (await bench.asked_codex("thread/unsubscribe")) == [{"threadId": THREAD}]
        before = len(bench.client.messages)
        bench.server.play(Notify("thread/name/updated", {"threadId": THREAD, "threadName": "x"}))
        assert (await prompt_error(bench, THREAD))["code"] == -32002
        assert [m.get("id") for m in bench.client.messages[before:]] == ["p"]


async def test_a_warning_about_everything_is_told_to_the_open_sessions() -> None:
    async with MemoryBench() as bench:
        bench.server.play(Notify("configWarning", {"summary": "odd", "details": "in a file"}))
        sent = await bench.client.sent("session/update")
        assert "odd" in str(sent)
        assert sent["params"]["sessionId"] == THREAD
