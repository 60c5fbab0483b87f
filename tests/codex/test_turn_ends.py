"""Turns at an app-server that misbehaves: refused, ignored, silent, lost at the wrong moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from codex_acp._json import object_at
from codex_acp.codex import (
    CodexClient,
    NotificationStream,
    Thread,
    ThreadClosed,
    TurnFailed,
    TurnInterrupted,
    TurnSilent,
    image,
)
from codex_acp.codex.connection.thread_peers import Asker
from codex_acp.codex.threads import turn as turn_module
from codex_acp.codex.threads.options import user_input
from codex_acp.codex.types import (
    ItemAgentMessageDeltaEvent,
    TextUserInput,
    ThreadStatusChangedEvent,
    TurnCompletedEvent,
)
from codex_acp.errors import ConnectionClosed, ErrorReply, InvalidPayload, MisuseError
from codex_acp.testing import (
    Entry,
    Exit,
    Expect,
    Notify,
    Pause,
    ScriptedAppServer,
    agent_message,
    turn_completed,
    turn_started,
)
from tests.codex.codex_bench import HELLO, WAIT_SECONDS
from tests.codex.policy_bench import SPAWNS_CHILD

NO_TURN = {"code": -32600, "message": "no active turn to interrupt"}


@asynccontextmanager
async def thread_at(*entries: Entry) -> AsyncIterator[tuple[Thread, ScriptedAppServer]]:
    """A thread of a server that plays these after the greeting and ``thread/start``."""
    script = [*HELLO, Expect("thread/start"), *entries]
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        with anyio.fail_after(WAIT_SECONDS):
            yield await codex.threads.start(), server


def delta(turn_id: str, text: str) -> Notify:
    said = {"threadId": "thread-1", "turnId": turn_id, "itemId": "m", "delta": text}
    return Notify("item/agentMessage/delta", said)


async def test_an_interrupt_that_comes_too_early_is_repeated_when_the_turn_has_begun() -> None:
    script = [
        Expect("turn/start"),
        Expect("turn/interrupt", error=NO_TURN),
        *turn_started(),
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
    ]
    async with thread_at(*script) as (thread, server), thread.turn("Go.") as turn:
        await turn.interrupt()
        with pytest.raises(TurnInterrupted):
            await turn.result()
        await server.wait_finished()


@pytest.mark.attack("app-server")
@pytest.mark.parametrize(
    "odd",
    [
        {"items": [], "error": None}, {"items": None, "status": "completed"},
        {"items": [], "status": "failed", "error": "text"},
        {"items": [], "status": "completed", "durationMs": "1"},
    ],
    ids=["no status", "items null", "error is a text", "duration is a text"],
)  # fmt: skip
async def test_a_turn_whose_end_cannot_be_read_fails_and_says_so(odd: dict[str, Any]) -> None:
    turn = {"id": "${turn:id}", **odd}
    end = Notify("turn/completed", {"threadId": "${turn:threadId}", "turn": turn})
    async with thread_at(Expect("turn/start"), *turn_started(), end) as (thread, _):
        with pytest.raises(TurnFailed, match=r"could not be read: .*turn") as caught:
            await thread.run("Go.")
    assert caught.value.result.status == "failed"


async def test_an_interrupt_that_is_refused_because_the_turn_has_ended_is_a_success() -> None:
    script = [
        Expect("turn/start"),
        *turn_started(),
        Expect("turn/interrupt", error=NO_TURN),
        *turn_completed(),
    ]
    async with thread_at(*script) as (thread, _server), thread.turn("Go.") as turn:
        await anext(turn)
        await turn.interrupt()
        assert (await turn.result()).status == "completed"


async def test_a_turn_that_is_given_up_before_it_has_an_id_is_interrupted_when_it_has_one() -> None:
    script = [
        Pause(0.05),
        Expect("turn/start"),
        *turn_started(),
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
    ]
    async with thread_at(*script) as (thread, server):
        with anyio.move_on_after(0) as scope:
            await thread.run("Go.")
        assert scope.cancelled_caught
        await server.wait_finished()
        interrupts = [m for m in server.player.received if m.get("method") == "turn/interrupt"]
        assert [object_at(each, "params")["turnId"] for each in interrupts] == ["turn-1"]


async def test_a_turn_that_begins_behind_the_bound_of_its_giving_up_is_interrupted_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_module, "CLOSE_SECONDS", 0)
    script = [
        Expect("thread/list"),
        Expect("turn/start"),
        *turn_started(),
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
    ]
    async with thread_at(*script) as (thread, server):
        with anyio.move_on_after(0) as scope:
            await thread.run("Go.")
        assert scope.cancelled_caught
        await server.wait_for_message("turn/start")
        await thread._client.thread_list()  # the turn was given up, and begins behind this
        await server.wait_finished()


async def test_a_turn_that_was_given_up_unanswered_holds_up_no_other_of_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_module, "CLOSE_SECONDS", 0)
    script = [
        Expect("turn/start", silent=True),
        Expect("turn/start"),
        *turn_started(),
        *turn_completed(),
    ]
    async with thread_at(*script) as (thread, server):
        with anyio.move_on_after(0) as scope:
            await thread.run("Go.")
        assert scope.cancelled_caught
        await server.wait_for_message("turn/start")
        await thread.run("Go on.")


async def test_8_1_a_turn_that_is_wanted_while_its_thread_goes_takes_it_back() -> None:
    script = [
        Expect("turn/start"),
        *turn_started(),
        *turn_completed(),
        Expect("thread/loaded/list", {"data": []}),
        Expect("thread/read"),
        Expect("thread/backgroundTerminals/list", {"data": []}),
        Expect("thread/list"),
        Expect("thread/unsubscribe"),
        Notify("thread/closed", {"threadId": "thread-1"}),
        Expect("thread/read"),
        Expect("thread/resume"),
        Expect("turn/start"),
        *turn_started(),
        *turn_completed(),
    ]
    async with thread_at(*script) as (thread, server):
        await thread.run("One.")
        asked = {"thread": "thread-1", "client": "another"}
        answer = asyncio.ensure_future(
            thread._services.hand_over._thread_peers()._answer({**asked})
        )
        await server.wait_for_message("thread/unsubscribe")
        async with anyio.create_task_group() as group:
            group.start_soon(thread.run, "Two.")
            await thread._client.thread_list()  # the turn waits now
        await answer


async def test_a_thread_whose_sub_agent_has_a_terminal_is_not_let_go() -> None:
    script = [
        Expect("turn/start"),
        *turn_started(),
        *turn_completed(),
        Expect("thread/loaded/list", {"data": ["thread-1", "child"]}),
        Expect("thread/read"),
        Expect("thread/read", {"thread": {"id": "child", "parentThreadId": "thread-1"}}),
        Expect("thread/backgroundTerminals/list", {"data": []}),
        Expect("thread/backgroundTerminals/list", {"data": [{"processId": "1"}]}),
    ]
    async with thread_at(*script) as (thread, server):
        await thread.run("One.")
        hand_over = thread._services.hand_over
        assert await hand_over._let_go("thread-1", Asker("another", None, cancels=False)) == "busy"
        asked = await server.wait_for_message("thread/backgroundTerminals/list")
        assert asked["params"] == {"threadId": "child"}


async def test_leaving_is_bounded_when_codex_ignores_the_interrupt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turn_module, "CLOSE_SECONDS", 0.05)
    script = [Expect("turn/start"), *turn_started(), Expect("turn/interrupt", silent=True)]
    async with thread_at(*script) as (thread, _server), thread.turn("Go.") as turn:
        await anext(turn)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "was not interrupted" in warning


async def test_leaving_a_turn_whose_end_was_read_but_not_taken_interrupts_nothing() -> None:
    script = [Expect("turn/start"), *turn_started(), *agent_message("Hi"), *turn_completed()]
    async with thread_at(*script) as (thread, server):
        async with thread.turn("Go."):
            await server.wait_finished()
            server.play(Expect("thread/list"))
            await thread._client.thread_list()  # by its answer all before it was read
        assert "turn/interrupt" not in [m.get("method") for m in server.player.received]


async def test_who_waits_for_a_result_is_told_that_codex_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def error(words: str, *, again: bool) -> Notify:
        ids = {"threadId": "thread-1", "turnId": "${turn:id}"}
        return Notify("error", {**ids, "error": {"message": words}, "willRetry": again})

    waits, over = error("waiting for network", again=True), error("that was all", again=False)
    script = [Expect("turn/start"), *turn_started(), waits, over, *turn_completed()]
    async with thread_at(*script) as (thread, _server):
        await thread.run("Go.")
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warning.startswith("Codex tries again in turn ")
    assert warning.endswith(": 'waiting for network'")


async def test_only_what_is_about_the_turn_or_its_thread_comes() -> None:
    status = {"threadId": "thread-1", "status": {"type": "idle"}}
    script = [
        Expect("turn/start"),
        *turn_started(),
        delta("another", "not mine"),
        delta("${turn:id}", "mine"),
        Notify("thread/status/changed", status),
        Notify("item/brandNew", {"threadId": "thread-1", "turnId": "another"}),
        Notify("item/brandNew", {"threadId": "thread-1", "turnId": "${turn:id}"}),
        *turn_completed(),
    ]
    async with thread_at(*script) as (thread, _server), thread.turn("Go.") as turn:
        events = [event async for event in turn]
    said = [e.params.delta for e in events if isinstance(e, ItemAgentMessageDeltaEvent)]
    assert said == ["mine"]
    assert sum(isinstance(e, ThreadStatusChangedEvent) for e in events) == 1
    assert [e.method for e in events].count("item/brandNew") == 1
    assert isinstance(events[-1], TurnCompletedEvent)


@pytest.mark.parametrize("method", ["run", "compact"])
async def test_a_connection_that_ends_cleanly_in_the_middle_is_an_error(method: str) -> None:
    first = Expect("turn/start") if method == "run" else Expect("thread/compact/start")
    async with thread_at(first, Exit()) as (thread, _server):
        with pytest.raises(ConnectionClosed):
            await (thread.run("Go.") if method == "run" else thread.compact())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Expect("turn/start", error={"code": -32600, "message": "no"}), ErrorReply),
        (Expect("turn/start", result={"turn": {"id": 7}}), InvalidPayload),
    ],
)
async def test_a_turn_that_does_not_start_leaves_nothing_behind(
    answer: Expect, error: type[Exception]
) -> None:
    async with thread_at(answer) as (thread, server):
        with pytest.raises(error):
            await thread.run("Go.")
        server.play(Expect("turn/start"), *turn_started(), *agent_message("Hi"), *turn_completed())
        assert (await thread.run("Again.")).text == "Hi"


async def test_a_thread_answer_that_does_not_fit_is_an_error_at_once() -> None:
    for result in ({}, {"thread": {"id": 3}}, {"thread": None}):
        script = [*HELLO, Expect("thread/start", result=result)]
        async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
            with pytest.raises(InvalidPayload, match="thread"):
                await codex.threads.start()


async def test_6_3_a_silent_turn_raises_once_for_each_silence_and_may_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = [Expect("turn/start"), *turn_started()]
    async with thread_at(*script) as (thread, server):
        turn = thread.turn("Go.", silent_after=0.05)
        async with turn:
            with pytest.raises(TurnSilent) as caught:
                await turn.result()
            assert caught.value.turn_id == turn.id
            with anyio.move_on_after(0.2) as waited:
                await turn.result()
            assert waited.cancelled_caught
            assert [r.getMessage() for r in caplog.records] == [str(caught.value)]
            server.play(*agent_message("At last."), *turn_completed())
            assert (await turn.result()).text == "At last."


async def test_6_3_events_of_sub_agents_keep_their_turn_from_being_silent() -> None:
    said = {"threadId": "child", "turnId": "c1", "itemId": "m", "delta": "x"}
    async with thread_at(Expect("turn/start"), *turn_started()) as (thread, server):
        times = thread._services.last_event
        async with thread.turn("Go.") as turn, NotificationStream(thread._client) as stream:
            place = {"threadId": thread.id, "turnId": turn.id}
            server.play(
                Notify("item/started", {**place, "item": SPAWNS_CHILD, "startedAtMs": 1}),
                Pause(0.01),
                Notify("item/agentMessage/delta", said),
            )
            seen = []
            while not isinstance(await anext(stream), ItemAgentMessageDeltaEvent):
                seen.append(times[thread.id])
            assert times[thread.id] >= times["child"] > seen[-1]
            server.play(*turn_completed())
            await turn.result()


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    thread = CodexClient(ScriptedAppServer().link).threads.get("t")
    with pytest.raises(MisuseError, match="positive"):
        thread.turn("Go.", silent_after=seconds)


async def test_a_turn_that_was_not_entered_says_so() -> None:
    thread = CodexClient(ScriptedAppServer().link).threads.get("t")
    turn = thread.turn("Go.")
    with pytest.raises(MisuseError, match="async with"):
        await anext(turn)
    with pytest.raises(MisuseError, match="async with"):
        await turn.result()
    await turn.aclose()


def test_what_a_turn_takes() -> None:
    text = TextUserInput(text="b")
    parts = user_input(["a", text])
    assert parts == [TextUserInput(text="a"), text]
    assert user_input("a") == user_input(TextUserInput(text="a"))
    assert user_input(("a",)) == user_input("a")


@pytest.mark.parametrize("given", [[], (), None, 7, [None], {"type": "text"}])
def test_what_a_turn_does_not_take(given: Any) -> None:
    with pytest.raises(MisuseError):
        user_input(given)


def test_an_image_that_is_none() -> None:
    with pytest.raises(MisuseError, match="no image file"):
        image("no/such/file.png")
    with pytest.raises(MisuseError, match="PNG"):
        image(b"text")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF1234WEBP", "webp"),
    ],
)
def test_the_type_of_image_bytes_is_seen(data: bytes, kind: str) -> None:
    assert getattr(image(data), "url").startswith(f"data:image/{kind};base64,")  # noqa: B009


CLOSED = Notify("thread/closed", {"threadId": "thread-1"})


async def test_a_turn_whose_thread_codex_closes_ends_and_so_do_those_behind_it() -> None:
    read = Expect("thread/read", result={"thread": {"id": "thread-1", "cwd": "/nowhere"}})
    script = [Expect("turn/start"), *turn_started(), CLOSED, read, Expect("thread/resume")]
    again = [Expect("turn/start"), *turn_started(), *turn_completed()]
    async with thread_at(*script, *again) as (thread, _server):
        async with thread.turn("Go.") as turn:
            with pytest.raises(ThreadClosed, match="open it again"):
                await turn.result()
            with pytest.raises(ThreadClosed):
                await turn.result()
        with pytest.raises(ThreadClosed) as raised:
            await thread.run("More.")
        assert (raised.value.thread_id, raised.value.result.items) == ("thread-1", ())
        assert (await (await thread.resume()).run("Go.")).status == "completed"


@pytest.mark.parametrize("closed_first", [True, False])
async def test_an_interrupt_ends_when_the_thread_is_closed_before_the_turn_begins(
    closed_first: bool,
) -> None:
    refused = Expect("turn/interrupt", error=NO_TURN)
    first: list[Entry] = [CLOSED, refused] if closed_first else [refused, CLOSED]
    script = [Expect("turn/start"), *first, refused]  # the last: the turn is left
    async with thread_at(*script) as (thread, server):
        async with thread.turn("Go.") as turn:
            await turn.interrupt()
        await server.wait_finished()


async def test_a_compaction_that_never_begins_is_given_up_and_disturbs_no_later_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_module, "CLOSE_SECONDS", 0.01)
    script = [Expect("thread/compact/start"), Expect("turn/start"), *turn_started()]
    async with thread_at(*script, *turn_completed()) as (thread, server):
        compaction = asyncio.ensure_future(thread.compact())
        await server.wait_for_message("thread/compact/start")
        compaction.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compaction
        assert not thread._services.hand_over.turns
        assert (await thread.run("Go.")).status == "completed"


async def test_a_compaction_whose_thread_codex_closes_before_it_begins_ends() -> None:
    async with thread_at(Expect("thread/compact/start"), CLOSED) as (thread, _server):
        with pytest.raises(ThreadClosed):
            await thread.compact()
