"""``session/load`` on a scripted app-server: whole, in order, bounded, whatever Codex answers."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from codex_acp.adapter.sessions import methods, replay
from codex_acp.adapter.tasks import acquire_within
from codex_acp.codex.connection.answer_bound import AnswerTimes
from codex_acp.testing import Entry, Expect, Notify, RawLine
from codex_acp.testing.app_server_script import default_result, turn_object
from tests.adapter.memory_bench import WAIT, MemoryBench

SOON = AnswerTimes(reply=0.5, presence=0.5, silent=0.1)
"""Bounds of a Codex that leaves something unanswered."""

BUSY = 12
"""Times the usual bound that ten thousand items may take on a machine that does much else."""

STORED = "thread-2"
"""The session that is loaded; the bench's own is another one."""

NOT_SUPPORTED = {"code": -32601, "message": "thread/items/list is not supported yet"}
GONE = {"code": -32600, "message": "no rollout found"}


def message(number: int, turn: str = "t1") -> dict[str, Any]:
    """What an agent said, as an entry of the history."""
    return entry({"type": "agentMessage", "id": f"m{number}", "text": f"{number} "}, turn)


def command(item_id: str, status: str, turn: str = "t1") -> dict[str, Any]:
    """A command, as an entry of the history."""
    item = {
        "type": "commandExecution", "id": item_id, "command": "make", "cwd": "/w",
        "commandActions": [], "status": status, "source": "agent",
    }  # fmt: skip
    return entry(item, turn)


def entry(item: object, turn: str = "t1") -> dict[str, Any]:
    return {"turnId": turn, "item": item, "startedAtMs": None, "completedAtMs": None}


def page(*entries: object, cursor: str | None = None) -> Expect:
    """A page of ``thread/items/list``."""
    result = {"data": list(entries), "nextCursor": cursor, "backwardsCursor": None}
    return Expect("thread/items/list", result)


def resumed(**changes: Any) -> Expect:
    """``thread/resume`` of the stored thread; ``changes`` are of the thread."""
    result: dict[str, Any] = default_result("thread/resume", {"threadId": STORED}, "") or {}
    result["itemsBackwardsCursor"] = changes.pop("newest", None)
    result["thread"] |= {"name": "Stored", **changes}
    return Expect("thread/resume", result)


def start_load(bench: MemoryBench, request_id: str = "load") -> None:
    params = {"sessionId": STORED, "cwd": "/w", "mcpServers": []}
    bench.client.send({"id": request_id, "method": "session/load", "params": params})


async def load(bench: MemoryBench) -> Any:
    """Load the session; the answer."""
    start_load(bench)
    return await bench.client.reply("load")


def updates(bench: MemoryBench) -> list[Any]:
    """The updates of the stored session, in order, up to the answer of its load."""
    found = []
    for sent in bench.client.messages:
        if sent.get("id") == "load":
            break
        if sent.get("method") == "session/update" and sent["params"]["sessionId"] == STORED:
            found.append(sent["params"]["update"])
    return found


def texts(bench: MemoryBench) -> str:
    return "".join(u["content"]["text"] for u in updates(bench) if "chunk" in u["sessionUpdate"])


# The usual way.


async def test_pages_are_shown_in_order_and_all_before_the_answer() -> None:
    pages = [page(message(1), message(2), cursor="a"), page(message(3), cursor="b"), page()]
    async with MemoryBench(resumed(), *pages) as bench:
        assert "result" in await load(bench)
        assert texts(bench) == "1 2 3 "
        *_, title, commands = updates(bench)
        assert title == {"sessionUpdate": "session_info_update", "title": "Stored"}
        assert commands["sessionUpdate"] == "available_commands_update"
        asked = await bench.asked_codex("thread/items/list", 3)
    assert [each.get("cursor") for each in asked] == [None, "a", "b"]
    assert all(each["sortDirection"] == "asc" for each in asked)


async def test_what_happens_after_the_thread_was_resumed_is_live_and_no_history() -> None:
    newest = page(message(2))
    history = page(message(1), message(2), message(3), cursor="more")
    async with MemoryBench(resumed(newest="n"), history, newest) as bench:
        assert "result" in await load(bench)
        assert texts(bench) == "1 2 "
        of_newest = (await bench.asked_codex("thread/items/list", 2))[1]
    assert (of_newest["cursor"], of_newest["sortDirection"]) == ("n", "desc")


async def test_what_codex_reports_meanwhile_comes_behind_the_history() -> None:
    live = Notify("thread/name/updated", {"threadId": STORED, "threadName": "Live"})
    async with MemoryBench(
        resumed(), live, page(message(1), cursor="a"), live, page(message(2))
    ) as bench:
        assert "result" in await load(bench)
        titles = [update["title"] for update in updates(bench) if "title" in update]
    assert titles == ["Stored", "Live", "Live"]


async def test_a_call_that_was_cut_off_has_failed_and_one_of_a_running_turn_goes_on() -> None:
    turn = turn_object("t2")
    running = Expect("thread/turns/list", {"data": [turn], "nextCursor": None})
    done = command("c2", "completed", "t2")["item"]
    completed = {"threadId": STORED, "turnId": "t2", "item": done, "completedAtMs": 1}
    async with MemoryBench(
        resumed(status={"type": "active", "activeFlags": []}),
        running,
        page(command("c1", "inProgress"), command("c2", "inProgress", "t2")),
        Notify("item/completed", completed),
    ) as bench:
        assert "result" in await load(bench)
        with anyio.fail_after(WAIT):
            while status_of(bench, "c2") != "completed":
                await bench.client.sent("session/update")
                await anyio.lowlevel.checkpoint()
        assert status_of(bench, "c1") == "failed"


def status_of(bench: MemoryBench, call_id: str) -> str | None:
    """The status of a tool call, as the client has it now."""
    status = None
    for sent in bench.client.messages:
        update = sent.get("params", {}).get("update", {})
        if update.get("toolCallId") == call_id and "status" in update:
            status = update["status"]
    return status


# Odd histories.


async def test_an_item_of_a_type_that_nobody_knows_is_shown_and_one_that_cannot_be_read_said() -> (
    None
):
    future = entry({"type": "telepathy", "id": "x1", "thought": "hm"})
    broken = entry({"type": "agentMessage", "id": 7})
    async with MemoryBench(resumed(), page(message(1), future, broken, message(2))) as bench:
        assert "result" in await load(bench)
        shown = updates(bench)
    (call,) = [update for update in shown if update["sessionUpdate"] == "tool_call"]
    assert call["toolCallId"] == "x1"
    assert "telepathy" in call["title"]
    assert "1 entries of this session's history could not be read" in str(shown)
    assert [u["content"]["text"] for u in shown if "messageId" in u] == ["1 ", "2 "]


async def test_a_cursor_that_repeats_ends_the_history_and_is_said() -> None:
    pages = [page(message(1), cursor="a"), page(message(2), cursor="a")]
    async with MemoryBench(resumed(), *pages) as bench:
        assert "result" in await load(bench)
        assert "1 2 " in texts(bench)
        assert "Codex repeats a page" in texts(bench)
        assert len(await bench.asked_codex("thread/items/list", 2)) == 2


async def test_an_error_in_the_middle_is_said_and_the_session_is_open() -> None:
    failed = Expect("thread/items/list", error={"code": -32603, "message": "the disk is broken"})
    async with MemoryBench(resumed(), page(message(1), cursor="a"), failed) as bench:
        assert "result" in await load(bench)
        assert "1 " in texts(bench)
        assert "the disk is broken" in texts(bench)


async def test_a_page_that_never_comes_does_not_hold_the_load() -> None:
    silent = Expect("thread/items/list", silent=True)
    script = resumed(), page(message(1), cursor="a"), silent
    async with MemoryBench(*script, answer_times=SOON) as bench:
        assert "result" in await load(bench)
        assert "has not answered thread/items/list" in texts(bench)


# Older threads.


def turns_page(*turns: dict[str, Any], cursor: str | None = None) -> Expect:
    return Expect("thread/turns/list", {"data": list(turns), "nextCursor": cursor})


def turn(turn_id: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {**turn_object(turn_id, "completed"), "items": [each["item"] for each in entries]}


async def test_a_thread_without_stored_items_is_read_by_its_turns() -> None:
    async with MemoryBench(
        resumed(historyMode="legacy"),
        Expect("thread/items/list", error=NOT_SUPPORTED),
        turns_page(turn("t1", message(1), command("c1", "inProgress")), cursor="a"),
        turns_page(turn("t2", message(2))),
    ) as bench:
        assert "result" in await load(bench)
        assert texts(bench) == "1 2 "
        assert status_of(bench, "c1") == "failed"


async def test_a_codex_without_pages_gives_the_whole_thread() -> None:
    whole = default_result("thread/read", {"threadId": STORED}, "") or {}
    whole["thread"]["turns"] = [turn("t1", message(1)), turn("t2", message(2))]  # type: ignore[index]
    async with MemoryBench(
        resumed(),
        Expect("thread/items/list", error=NOT_SUPPORTED),
        Expect("thread/turns/list", error=NOT_SUPPORTED),
        Expect("thread/read", whole),
    ) as bench:
        assert "result" in await load(bench)
        assert texts(bench) == "1 2 "


async def test_a_history_that_nothing_gives_is_said_and_the_session_is_open() -> None:
    broken = {"code": -32603, "message": "the rollout is damaged"}
    async with MemoryBench(
        resumed(),
        *(Expect(f"thread/{way}", error=broken) for way in ("items/list", "turns/list", "read")),
    ) as bench:
        assert "result" in await load(bench)
        assert "could not be read and is not shown: the rollout is damaged" in texts(bench)


# What ends a load.


@pytest.mark.parametrize("told", [True, False], ids=["Codex tells it", "its pages end"])
async def test_a_session_that_is_deleted_while_it_is_loaded_is_not_there(told: bool) -> None:
    deleted: list[Entry] = [Notify("thread/deleted", {"threadId": STORED}), page(message(2))]
    missing: list[Entry] = [
        Expect("thread/items/list", error=GONE), Expect("thread/read", error=GONE),
    ]  # fmt: skip
    rest = deleted if told else missing
    async with MemoryBench(resumed(), page(message(1), cursor="a"), *rest) as bench:
        error = (await load(bench))["error"]
        assert error["code"] == -32002
        assert error["data"]["sessionId"] == STORED
        prompt = {"sessionId": STORED, "prompt": [{"type": "text", "text": "hi"}]}
        assert (await bench.client.ask("p", "session/prompt", prompt))["error"]["code"] == -32002


async def test_a_session_that_is_deleted_while_it_is_resumed_is_not_there() -> None:
    answer, held = resumed(), Notify("thread/deleted", {"threadId": STORED})
    async with MemoryBench(Expect("thread/resume", silent=True)) as bench:
        params = {"sessionId": STORED, "cwd": "/w", "mcpServers": []}
        bench.client.send({"id": "load", "method": "session/resume", "params": params})
        request = await bench.server.wait_for_message("thread/resume")
        told = {"id": request["id"], "result": answer.result}
        bench.server.play(RawLine(json.dumps(told)), held)
        assert (await bench.client.reply("load"))["error"]["code"] == -32002
        prompt = {"sessionId": STORED, "prompt": [{"type": "text", "text": "hi"}]}
        assert (await bench.client.ask("p", "session/prompt", prompt))["error"]["code"] == -32002


async def test_a_load_that_never_ends_holds_up_no_other_request_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods, "acquire_within", partial(acquire_within, seconds=0.01))
    async with MemoryBench(resumed(), Expect("thread/items/list", silent=True)) as bench:
        start_load(bench)
        await bench.asked_codex("thread/items/list")
        bench.server.play(Expect("thread/unarchive"))
        answer = await bench.client.ask("a", "session/unarchive", {"sessionId": STORED})
        assert "result" in answer
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "load"}})
        assert (await bench.client.reply("load"))["error"]["code"] == -32800


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("method", ["close", "delete", "archive"])
@pytest.mark.parametrize("held", ["thread/resume", "thread/items/list"])
async def test_what_ends_a_session_ends_its_first_load(
    held: str, method: str, version: int
) -> None:
    before = [] if held == "thread/resume" else [resumed()]
    how = "session/resume" if version == 2 else "session/load"
    params = {"sessionId": STORED, "cwd": "/w", "mcpServers": [], "replayFrom": {"type": "start"}}
    ends = [] if method == "close" else [Expect(f"thread/{method}")]
    script = *before, Expect(held, silent=True)
    async with MemoryBench(*script, version=version) as bench:
        bench.client.send({"id": "load", "method": how, "params": params})
        await bench.asked_codex(held)
        bench.client.send({"id": "again", "method": how, "params": params})
        bench.server.play(*ends)
        named = {"sessionId": STORED}
        assert "result" in await bench.client.ask("end", f"session/{method}", named)
        for each in ("load", "again"):
            error = (await bench.client.reply(each))["error"]
            assert "was closed while it was opened" in error["message"]
        assert await bench.asked_codex("thread/unsubscribe") == [{"threadId": STORED}]
        prompt = {"sessionId": STORED, "prompt": [{"type": "text", "text": "hi"}]}
        assert (await bench.client.ask("p", "session/prompt", prompt))["error"]["code"] == -32002


async def test_a_load_that_the_client_gives_up_leaves_nothing_open() -> None:
    async with MemoryBench(resumed(), Expect("thread/items/list", silent=True)) as bench:
        start_load(bench)
        await bench.asked_codex("thread/items/list")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "load"}})
        assert (await bench.client.reply("load"))["error"]["code"] == -32800
        assert await bench.asked_codex("thread/unsubscribe") == [{"threadId": STORED}]
        prompt = {"sessionId": STORED, "prompt": [{"type": "text", "text": "hi"}]}
        assert (await bench.client.ask("p", "session/prompt", prompt))["error"]["code"] == -32002


# Size.


async def test_ten_thousand_items_are_sent_as_fast_as_the_client_takes_them() -> None:
    size, count = replay.ITEMS_PER_PAGE, 10_000
    pages = [
        page(*map(message, range(at, at + size)), cursor=f"c{at}" if at + size < count else None)
        for at in range(0, count, size)
    ]
    async with MemoryBench(resumed(), *pages) as bench:
        bench.client.link.pause_reading()
        start_load(bench)
        await bench.asked_codex("thread/items/list")
        for _ in range(200):  # all that can happen while the client takes nothing
            await anyio.lowlevel.checkpoint()
        asked = len(await bench.asked_codex("thread/items/list"))
        assert asked * size < count / 10

        bench.client.link.resume_reading()
        for _ in range(BUSY):
            with suppress(TimeoutError):
                assert "result" in await bench.client.reply("load")
                break
        assert texts(bench).split() == [str(number) for number in range(count)]
        assert len(await bench.asked_codex("thread/items/list")) == len(pages)
