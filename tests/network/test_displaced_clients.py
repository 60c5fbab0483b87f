"""Two connections of one owner take a session from each other while a turn runs in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from codex_acp.adapter.config_options import Config
from codex_acp.adapter.network import connection as network
from codex_acp.adapter.network.connection import NetworkConnection
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.adapter.session.driver import PromptResult
from codex_acp.adapter.sessions import replay
from codex_acp.errors import RpcError
from codex_acp.mapping.events import (
    PromptEnded,
    PromptStop,
    SessionEvent,
    StateChanged,
    ToolCallAnnounced,
)
from tests.network.listening_adapter import WAIT, Json
from tests.network.served import served
from tests.network.test_kept_sessions import FORMS, where

NOTICES: Json = {"session": {"notices": {}}}


class Shown:
    """A connection, and its own outflow; ``heard`` are the states that it was told."""

    gone = False

    def __init__(self) -> None:
        self.outflow = self
        self.heard: list[StateChanged] = []
        self.shown: list[SessionEvent] = []
        self.features = None

    def send(self, _session_id: str, event: SessionEvent) -> None:
        self.shown.append(event)
        if isinstance(event, StateChanged):
            self.heard.append(event)

    def flush(self) -> None: ...


@pytest.mark.attack("network")
async def test_who_lost_a_session_often_hears_of_its_end_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NetworkSession, "busy", True)
    one, other = Shown(), Shown()
    sessions = SimpleNamespace(open_session=lambda _: None)
    agent = SimpleNamespace(sessions=sessions)
    session = NetworkSession("me", cast("Any", agent), cast("Any", one), outlives_client=False)
    for client in (other, one) * 3:
        with session.taken_over(cast("Any", client)):
            session.client = cast("Any", client)
    session.send("", StateChanged("idle", background=()))
    assert (len(one.heard), len(other.heard)) == (1, 1)


@pytest.mark.parametrize("kept", [False, True])
def test_who_takes_a_session_over_is_shown_the_tool_calls_of_the_turn_that_runs(kept: bool) -> None:
    driver = SimpleNamespace(turn_ids=frozenset(), turn=object(), busy=True)
    shown = SimpleNamespace(sub_agents=(), change_client=lambda _: {}, driver=driver)
    opened = SimpleNamespace(session=shown)
    sessions = SimpleNamespace(open_session=lambda _: opened)
    agent = SimpleNamespace(sessions=sessions)
    one, other = Shown(), Shown()
    session = NetworkSession("me", cast("Any", agent), cast("Any", one), outlives_client=kept)
    announced = ToolCallAnnounced(id="call", title="Run: ls", status="in_progress")
    session.send("", announced)
    history_end = session.begin_history(cast("Any", other))
    session.attach(cast("Any", other), history_end)
    assert other.shown == [announced]
    session.attach(cast("Any", one), None)
    assert one.shown.count(announced) == 2


async def test_who_takes_a_session_over_while_its_prompt_is_cancelled_is_told_of_the_end() -> None:
    sessions = SimpleNamespace(open_session=lambda _: None)
    agent = SimpleNamespace(sessions=sessions)
    one, other = Shown(), Shown()
    session = NetworkSession("me", cast("Any", agent), cast("Any", one), outlives_client=False)
    ending, ended = anyio.Event(), anyio.Event()

    async def prompt() -> PromptResult:
        try:
            await anyio.sleep_forever()
        finally:  # Codex ends the turn
            ending.set()
            await ended.wait()
        raise AssertionError

    running = asyncio.ensure_future(session.await_prompt(prompt(), cast("Any", one)))
    await asyncio.sleep(0)
    running.cancel()
    await ending.wait()
    session.attach(cast("Any", other), None)
    ended.set()
    await asyncio.wait({running})
    assert other.shown == [PromptEnded(PromptStop("cancelled"))]


async def test_who_takes_a_session_over_before_its_prompt_begins_is_told_of_the_end() -> None:
    agent = SimpleNamespace(sessions=SimpleNamespace(open_session=lambda _: None))
    one, other = cast("Any", Shown()), Shown()
    session = NetworkSession("me", cast("Any", agent), one, outlives_client=False)
    end = PromptStop("end_turn")

    async def prompt() -> PromptResult:
        return PromptResult(end)

    running = asyncio.ensure_future(session.await_prompt(prompt(), one))
    session.attach(cast("Any", other), None)
    await running
    assert other.shown == [PromptEnded(end)]


@pytest.mark.attack("network")
async def test_a_close_that_waits_behind_a_take_over_closes_nothing() -> None:
    closed: list[str] = []

    @asynccontextmanager
    async def exclusive(_: str) -> AsyncIterator[None]:
        session.client = cast("Any", Shown())  # another connection held the lock until now
        yield

    async def close(session_id: str) -> None:
        closed.append(session_id)

    registry = SimpleNamespace(
        limits=Limits(),
        spawn=lambda _: None,
        sessions={},
        exclusive=exclusive,
        remove_if_closed=lambda *_: None,
    )
    agent: Any = SimpleNamespace(close_session=close)
    token: Any = SimpleNamespace(owner="me")
    connection = NetworkConnection(cast("Any", registry), token, agent)
    session = NetworkSession("me", agent, connection.client, outlives_client=False)
    registry.sessions["s"] = session
    with pytest.raises(RpcError, match="shown on another connection"):
        await connection.close_session("s")
    assert closed == []


@pytest.mark.attack("network")
async def test_who_lost_the_session_cannot_end_its_turn_by_cancelling_the_prompt(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as server, server.connect() as one, server.connect() as other:
        session = await one.new_session(server.cwd)
        prompt = await one.prompt(session, "wait")
        await other.ask("session/resume", where(server, session))
        await one.send({"method": "$/cancel_request", "params": {"requestId": prompt}})
        assert (await one.outcome(prompt))["error"]["code"] == -32800
        again = await one.ask("session/resume", where(server, session))
        assert again["_meta"]["codex-acp-sdk"]["running"]


@pytest.mark.parametrize("text", ["ask", "form"])
async def test_an_open_question_goes_to_who_takes_the_session_over(
    tmp_path: Path, text: str
) -> None:
    async with (
        served(tmp_path) as server,  # without --keep
        server.connect(capabilities=FORMS) as one,
        server.connect(capabilities=FORMS) as other,
    ):
        session = await one.new_session(server.cwd)
        await one.prompt(session, text)
        asked = await one.question()
        await other.ask("session/load", where(server, session))
        assert (await other.question())["params"] == asked["params"]
        assert one.withdrawn == [asked["id"]]
        assert server.decisions() == []


@pytest.mark.parametrize("text", ["hello", "ask"])
async def test_a_load_that_is_cancelled_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    begun = anyio.Event()

    async def never(*_: object, **__: object) -> None:
        begun.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(network if text == "ask" else replay, "replay_history", never)
    async with (
        served(tmp_path) as server,
        server.connect(capabilities=NOTICES) as one,
        server.connect() as other,
    ):
        session = await one.new_session(server.cwd)
        prompt = await one.prompt(session, text)
        await one.until(lambda: prompt in one.answers or one.asked)
        loading = await other.start("session/load", where(server, session))
        with anyio.fail_after(WAIT):
            await begun.wait()
        if text == "ask":
            await one.choose(await one.question(), "allow_once")
            assert (await one.outcome(prompt))["result"]["stopReason"] == "end_turn"
            assert one.text(session) == "Heard."
        await other.send({"method": "$/cancel_request", "params": {"requestId": loading}})
        assert "error" in await other.outcome(loading)
        await one.outcome(await one.prompt(session, "hello"))
        assert one.text(session).endswith("Hello.")
        assert one.withdrawn == []
        assert "shown on another connection" not in str(one.updates)


async def test_a_load_that_is_cancelled_at_its_end_leaves_the_session_in_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = anyio.Event()

    async def never(*_: object) -> None:
        begun.set()
        await anyio.sleep_forever()

    other_directory = tmp_path / "other"
    other_directory.mkdir()
    async with served(tmp_path) as server, server.connect() as one, server.connect() as other:
        session = await one.new_session(server.cwd)
        await one.outcome(await one.prompt(session, "hello"))
        with monkeypatch.context() as hung:
            hung.setattr(Config, "_restore_choices", never)
            there = {**where(server, session), "cwd": str(other_directory)}
            loading = await other.start("session/load", there)
            with anyio.fail_after(WAIT):
                await begun.wait()
            await other.send({"method": "$/cancel_request", "params": {"requestId": loading}})
            assert "error" in await other.outcome(loading)
        await one.outcome(await one.prompt(session, "/status"))
        assert f"`{server.cwd}`" in one.text(session)
        await one.outcome(await one.prompt(session, "hello"))
        assert one.text(session).endswith("Hello.")
