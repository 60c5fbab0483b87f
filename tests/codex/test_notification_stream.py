"""The async iterator over one thread's events, and its back-pressure."""

from __future__ import annotations

import anyio
import pytest

from codex_acp.codex.client import CodexClient
from codex_acp.codex.threads.notification_stream import NotificationStream
from codex_acp.codex.types import ItemAgentMessageDeltaEvent, SkillsChangedEvent
from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited
from codex_acp.testing import Expect, Notify, ScriptedAppServer
from codex_acp.transport.outbox import ReadingGate
from tests.codex.codex_bench import HELLO, WAIT_SECONDS

BIG = "x" * 500


def delta(thread: str, text: str = BIG, times: int = 1) -> Notify:
    params = {"threadId": thread, "turnId": "u", "itemId": "i", "delta": text}
    return Notify("item/agentMessage/delta", params, times)


async def test_a_stream_gives_the_typed_events_of_its_thread() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        async with NotificationStream(codex, "a") as stream:
            server.play(delta("a", "1"), delta("b", "2"), Notify("skills/changed", {}))
            server.play(delta("a", "3"))
            with anyio.fail_after(WAIT_SECONDS):
                events = [await anext(stream), await anext(stream)]
        texts = [e.params.delta for e in events if isinstance(e, ItemAgentMessageDeltaEvent)]
        assert texts == ["1", "3"]


async def test_a_stream_of_all_takes_nothing_away_from_the_others() -> None:
    async with (
        ScriptedAppServer(HELLO) as server,
        CodexClient(server.link) as codex,
        NotificationStream(codex) as everything,
        NotificationStream(codex, "a") as one,
    ):
        server.play(delta("a", "1"), Notify("skills/changed", {}))
        with anyio.fail_after(WAIT_SECONDS):
            assert isinstance(await anext(one), ItemAgentMessageDeltaEvent)
            assert isinstance(await anext(everything), ItemAgentMessageDeltaEvent)
            assert isinstance(await anext(everything), SkillsChangedEvent)


async def test_a_stream_collects_from_the_moment_it_is_made() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        stream = NotificationStream(codex, "a")
        server.play(delta("a", "early"), Expect("test/barrier"))
        await codex.call_raw("test/barrier")
        with anyio.fail_after(WAIT_SECONDS):
            event = await anext(stream)
        assert isinstance(event, ItemAgentMessageDeltaEvent)
        await stream.aclose()


async def test_a_clean_end_ends_the_iteration_after_the_last_event() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        stream = NotificationStream(codex, "a")
        server.play(delta("a"), delta("a"))
        await server.wait_finished()
        server.link.peer.end_writing()
        with anyio.fail_after(WAIT_SECONDS):
            assert len([event async for event in stream]) == 2
            assert [event async for event in stream] == []


async def test_a_broken_connection_is_raised_after_the_last_event() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        stream = NotificationStream(codex, "a")
        server.play(delta("a"), Expect("test/barrier"))
        await codex.call_raw("test/barrier")
        server.link.fail(ProcessExited("codex", -9, "panic"))
        events = []
        with anyio.fail_after(WAIT_SECONDS):
            with pytest.raises(ProcessExited, match="panic"):
                events.extend([await anext(stream), await anext(stream)])
            with pytest.raises(ProcessExited, match="panic"):
                await anext(stream)
        with pytest.raises(ProcessExited, match="panic"):
            await anext(NotificationStream(codex, "b"))


async def test_closing_a_stream_ends_an_iteration_that_waits() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        stream = NotificationStream(codex, "a")
        got: list[object] = []

        async def iterate() -> None:
            got.extend([event async for event in stream])
            got.append("done")

        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(iterate)
                await anyio.wait_all_tasks_blocked()
                await stream.aclose()
                await stream.aclose()
        assert got == ["done"]


async def test_a_full_stream_pauses_reading_and_loses_nothing() -> None:
    total = 2000
    async with (
        ScriptedAppServer(HELLO) as server,
        CodexClient(server.link) as codex,
        NotificationStream(codex, "a", limit=10) as stream,
    ):
        server.play(delta("a", times=total))
        with anyio.fail_after(WAIT_SECONDS):
            await anext(stream)
            await anyio.wait_all_tasks_blocked()
            waiting = len(stream._waiting)
            assert codex._gate.paused
            assert waiting < total / 2  # what was read at once, and no more
            for number in range(1, total):
                assert isinstance(await anext(stream), ItemAgentMessageDeltaEvent), number
        assert not codex._gate.paused


async def test_a_call_in_the_loop_over_a_full_stream_is_answered() -> None:
    total = 1000
    async with (
        ScriptedAppServer(HELLO) as server,
        CodexClient(server.link) as codex,
        NotificationStream(codex, "a", limit=5) as stream,
    ):
        server.play(delta("a", times=total), Expect("test/now"))
        with anyio.fail_after(WAIT_SECONDS):
            await anext(stream)
            await anyio.wait_all_tasks_blocked()
            assert codex._gate.paused
            assert await codex.call_raw("test/now") == {}
            assert codex._gate.paused


async def test_closing_a_full_stream_lets_the_client_read_on() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        stream = NotificationStream(codex, "a", limit=5)
        server.play(delta("a", times=1000))
        with anyio.fail_after(WAIT_SECONDS):
            await anext(stream)
            assert codex._gate.paused
            await stream.aclose()
            assert not codex._gate.paused


async def test_a_stream_must_have_room() -> None:
    async with ScriptedAppServer(HELLO) as server, CodexClient(server.link) as codex:
        with pytest.raises(MisuseError, match="at least 1"):
            NotificationStream(codex, "a", limit=0)


async def test_the_end_of_the_client_ends_its_streams() -> None:
    async with ScriptedAppServer(HELLO) as server:
        async with CodexClient(server.link) as codex:
            stream = NotificationStream(codex, "a")
        with anyio.fail_after(WAIT_SECONDS):
            assert [event async for event in stream] == []
        with pytest.raises(ConnectionClosed):
            await codex.thread_list()


def test_the_gate_pauses_while_someone_holds_it_and_nobody_waits() -> None:
    log: list[str] = []
    gate = ReadingGate(lambda: log.append("pause"), lambda: log.append("resume"))
    one, two = object(), object()
    gate.release(one)
    gate.hold(one)
    gate.hold(one)
    gate.hold(two)
    gate.release(one)
    assert log == ["pause"]
    with gate:
        with gate:
            gate.hold(one)
        assert log == ["pause", "resume"]
    assert (log, gate.paused) == (["pause", "resume", "pause"], True)
    gate.release(one)
    gate.release(two)
    assert (log[-1], gate.paused) == ("resume", False)
