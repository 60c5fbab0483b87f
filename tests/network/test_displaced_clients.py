"""Two connections of one owner take a session from each other while a turn runs in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from codex_acp.adapter.network.connection import NetworkConnection
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.errors import RpcError
from codex_acp.mapping.events import (
    SessionEvent,
    StateChanged,
    ToolCallAnnounced,
)


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
        session.detach_earlier_client(cast("Any", client))
        session.client = cast("Any", client)
    session.send("", StateChanged("idle", background=()))
    assert (len(one.heard), len(other.heard)) == (1, 1)


@pytest.mark.parametrize("kept", [False, True])
def test_who_takes_a_session_over_is_shown_the_tool_calls_of_the_turn_that_runs(kept: bool) -> None:
    driver = SimpleNamespace(turn_ids=frozenset(), turn=object(), busy=True)
    shown = SimpleNamespace(sub_agents=(), change_client=lambda _: None, driver=driver)
    opened = SimpleNamespace(session=shown)
    sessions = SimpleNamespace(open_session=lambda _: opened)
    agent = SimpleNamespace(sessions=sessions)
    one, other = Shown(), Shown()
    session = NetworkSession("me", cast("Any", agent), cast("Any", one), outlives_client=kept)
    announced = ToolCallAnnounced(id="call", title="Run: ls", status="in_progress")
    session.send("", announced)
    history_end = session.journal_position()
    session.detach_earlier_client(cast("Any", other))
    session.attach(cast("Any", other), history_end)
    assert other.shown == [announced]
    session.detach_earlier_client(cast("Any", one))
    session.attach(cast("Any", one), None)
    assert one.shown.count(announced) == 2


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
