"""Notifications in, ACP updates out: what the tests of the mapping share.

Every update is held against ACP's schema on its way, and against what the client advertised.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS
from codex_acp.mapping.events import SessionEvent, SessionEvents
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, Ignored
from codex_acp.mapping.state import SessionState
from codex_acp.mapping.v1.updates import updates_of
from codex_acp.mapping.v2.updates import updates_of as updates_of_v2
from codex_acp.wire.codec import encode
from tests.support.acp_schema import problems_of_message

Json = dict[str, Any]

NONE: Final = ClientFeatures()
ALL: Final = ClientFeatures(
    elicitation_form=True,
    elicitation_url=True,
    read_text_file=True,
    write_text_file=True,
    terminal=True,
    terminal_auth=True,
    notices=True,
    compaction=True,
    boolean_config_options=True,
    terminal_output_meta=True,
    terminal_auth_meta=True,
)

V2: Final = ClientFeatures(
    elicitation_form=True,
    elicitation_url=True,
    terminal_auth=True,
    notices=True,
    compaction=True,
    boolean_config_options=True,
    agent_terminals=True,
)
"""A client of v2; all but the first three is every such client's baseline."""

ROWS: Final = cast("Mapping[str, Any]", NOTIFICATION_HANDLERS)

_GATES: Final[dict[str, str]] = {
    "notice": "notices",
    "compaction_update": "compaction",
    "compaction_summary_chunk": "compaction",
}
"""Kinds of updates that only a client with this feature may be sent."""


def step(state: SessionState, method: str, params: Json) -> list[Json]:
    """What the table makes of one notification as Codex sends it."""
    row = ROWS[method]
    if isinstance(row, Ignored):
        return []
    name = SERVER_NOTIFICATIONS[method].params
    assert name is not None
    return wired(state, row(state, MODELS.decode(name, params, method)))


def wired(state: SessionState, events: SessionEvents) -> list[Json]:
    """The updates as they are written. Raises AssertionError for one not to be sent.

    Those of v2 for a client of that, else those of v1.
    """
    written = [update for event in events for update in wire(event, state.features)]
    for update in written:
        gate = _GATES.get(update["sessionUpdate"])
        assert gate is None or getattr(state.features, gate), f"not advertised: {update}"
        params = {"sessionId": "s", "update": update}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        version = 2 if state.features.agent_terminals else 1
        assert problems_of_message("agent", message, None, version) == [], update
    return written


def wire(event: SessionEvent, client: ClientFeatures = NONE) -> list[Json]:
    """The updates that tell of one event, as they are written; see `wired`."""
    if client.agent_terminals:
        return [json.loads(encode(update)) for update in updates_of_v2(event)]
    return [json.loads(encode(update)) for update in updates_of(event, client)]


def chunks(updates: list[Json], kind: str = "agent_message_chunk") -> list[tuple[str | None, str]]:
    """(message id, text) of the chunks of one kind; other updates are left out."""
    return [
        (update.get("messageId"), update["content"]["text"])
        for update in updates
        if update["sessionUpdate"] == kind
    ]


def said(updates: list[Json]) -> list[str]:
    """What a person is told apart from items, as a client with or without notices shows it."""
    told = []
    for update in updates:
        if update["sessionUpdate"] == "notice":
            parts = (update["title"], update.get("description"))
            told.append("\n".join(part for part in parts if part))
        elif update["sessionUpdate"] == "agent_thought_chunk" and "messageId" not in update:
            told.append(update["content"]["text"].strip())
    return told
