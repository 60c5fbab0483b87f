"""Two connections of one owner take a session from each other while a turn runs in it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.mapping.events.session_events import SessionEvent, StateChanged


class Shown:
    """A connection, and its own outflow; ``heard`` are the states that it was told."""

    gone = False

    def __init__(self) -> None:
        self.outflow = self
        self.heard: list[StateChanged] = []

    def send(self, _session_id: str, event: SessionEvent) -> None:
        if isinstance(event, StateChanged):
            self.heard.append(event)

    def flush(self) -> None: ...


@pytest.mark.attack("network")
async def test_who_lost_a_session_often_hears_of_its_end_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NetworkSession, "busy", True)
    one, other = Shown(), Shown()
    session = NetworkSession("me", cast("Any", None), cast("Any", one), kept=False)
    for client in (other, one) * 3:
        session.taken_by(cast("Any", client))
        session.client = cast("Any", client)
    session.send("", StateChanged("idle", background=()))
    assert (len(one.heard), len(other.heard)) == (1, 1)
