"""What an app-server of another version sends is survived, counted, and logged once each."""

from __future__ import annotations

import copy
import json
import logging
from typing import Any

import pytest

from codex_acp.codex import CodexClient
from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS
from codex_acp.codex._generated.version import OLDEST_VERSION, SCHEMA_VERSION
from codex_acp.codex.connection.handshake import Hello, note_version
from codex_acp.codex.connection.notification_decoding import NotificationDecoder
from codex_acp.codex.connection.server_requests import (
    MAX_KINDS,
    MAX_PARTS,
    OTHER_KINDS,
    UnknownParts,
    count_kind,
)
from codex_acp.codex.types import ItemStartedEvent, ThreadListParams
from codex_acp.errors import CodexTooOld
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import AskClient, AwaitAnswer, Expect, Notify, ScriptedAppServer
from codex_acp.wire.model import UnknownVariant

DELTA: dict[str, JsonValue] = {"threadId": "a", "turnId": "b", "itemId": "c", "delta": "hi"}
WHERE: dict[str, Any] = {"threadId": "a", "turnId": "b", "startedAtMs": 0}


def item(**fields: Any) -> dict[str, Any]:
    return {**WHERE, "item": {"type": "sleep", "id": "i", "durationMs": 1, **fields}}


def counts_after(method: str, params: Any, times: int = 1) -> dict[str, int]:
    unknown = UnknownParts()
    decoder = NotificationDecoder(unknown)
    for _ in range(times):
        decoder.decode(method, copy.copy(params))
    return dict(unknown.counts)


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        (
            "item/agentMessage/delta",
            {**DELTA, "mood": 1},
            "field AgentMessageDeltaNotification.mood",
        ),
        ("item/started", item(dream=True), "field SleepThreadItem.dream"),
        ("item/started", item(type="hologram"), "member ItemStartedNotification.item 'hologram'"),
        (
            "thread/status/changed",
            {"threadId": "a", "status": {"type": "active", "activeFlags": ["dozing"]}},
            "value ActiveThreadStatus.active_flags 'dozing'",
        ),
    ],
)
def test_a_new_field_member_or_value_is_counted_each_time_and_logged_once(
    caplog: pytest.LogCaptureFixture, method: str, params: Any, kind: str
) -> None:
    with caplog.at_level(logging.INFO):
        assert counts_after(method, params, times=3) == {kind: 3}
    (line,) = [r.getMessage() for r in caplog.records]
    assert kind in line
    assert SCHEMA_VERSION in line


def test_what_the_schema_knows_is_not_counted() -> None:
    assert counts_after("item/agentMessage/delta", DELTA) == {}
    assert counts_after("item/started", item()) == {}


def test_what_is_unknown_is_kept_as_it_came() -> None:
    event = NotificationDecoder(UnknownParts()).decode("item/started", item(type="hologram"))
    assert isinstance(event, ItemStartedEvent)
    assert isinstance(event.params.item, UnknownVariant)
    assert event.params.item.wire() == {"type": "hologram", "id": "i", "durationMs": 1}


def test_the_kinds_that_a_peer_can_make_are_bounded() -> None:
    unknown = UnknownParts()
    for number in range(MAX_KINDS + 50):
        count_kind(unknown.counts, f"field Thing.f{number}")
    assert len(unknown.counts) == MAX_KINDS + 1
    assert unknown.counts[OTHER_KINDS] == 50


def test_a_huge_message_is_not_looked_at_to_its_end() -> None:
    turns = [{"id": "t", "items": [], "status": "completed", "new": 1}] * (MAX_PARTS + 10)
    params = MODELS.decode("ThreadTurnsListResponse", {"data": turns}, "thread/turns/list")
    unknown = UnknownParts()
    unknown.examine(params)
    assert 0 < unknown.counts["field Turn.new"] <= MAX_PARTS


@pytest.mark.parametrize(
    "method", [m for m in SERVER_NOTIFICATIONS if m.startswith("item/") and m.endswith("elta")]
)
def test_a_delta_is_only_looked_at_by_its_own_fields(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def walk(*_: object) -> None:
        pytest.fail("the walk through a message is too slow for deltas")

    monkeypatch.setattr(UnknownParts, "_walk", walk)
    texts = {"delta": "hi", "summaryIndex": 0, "contentIndex": 0}
    assert counts_after(method, {**DELTA, **texts}).keys() <= {
        f"field {SERVER_NOTIFICATIONS[method].params}.{name}" for name in texts
    }


async def test_the_client_counts_notifications_requests_and_results() -> None:
    server = ScriptedAppServer(
        [
            Expect("thread/list", result={"data": [], "nextCursor": None, "newPage": 1}),
            Notify("brand/new", {}),
            Notify("item/started", item(dream=True)),
            AskClient("hologram/open", {}),
            AwaitAnswer("hologram/open"),
            Expect("test/barrier"),
        ]
    )
    async with server, CodexClient(server.link) as codex:
        codex.subscribe(None, _Decoding(codex))
        await codex.thread_list(ThreadListParams())
        await codex.call_raw("test/barrier")
        assert codex.unknown == {
            "brand/new": 1,
            "field ThreadListResponse.newPage": 1,
            "field SleepThreadItem.dream": 1,
            "request hologram/open": 1,
        }


class _Decoding:
    """A sink that reads each notification."""

    def __init__(self, codex: CodexClient) -> None:
        self._codex = codex

    def on_notification(self, method: str, params: JsonValue) -> None:
        self._codex.decode_notification(method, params)

    def on_batch_end(self) -> None:
        pass

    def on_closed(self, error: Exception | None) -> None:
        pass


@pytest.mark.parametrize(
    ("version", "level", "said"),
    [
        ("99.1.0", logging.INFO, "newer than the schema"),
        (SCHEMA_VERSION, None, ""),
        (OLDEST_VERSION, None, ""),
        (f"{OLDEST_VERSION}-alpha.3", None, ""),
        ("0.0.0", None, ""),
    ],
)
def test_the_handshake_notes_a_server_of_another_time(
    caplog: pytest.LogCaptureFixture, version: str, level: int | None, said: str
) -> None:
    with caplog.at_level(logging.INFO):
        note_version(f"codex_acp_sdk/{version} (Debian 12; x86_64) dumb (codex_acp_sdk; 1.2.3)")
    assert [r.levelno for r in caplog.records] == ([] if level is None else [level])
    assert said in caplog.text


@pytest.mark.parametrize("user_agent", ["a/0.100.9 (x)", "my/9.9.9/0.80.0-alpha.1 (x) b/9.9.9"])
def test_a_server_that_is_too_old_is_refused_with_the_versions_that_are_not(
    user_agent: str,
) -> None:
    with pytest.raises(CodexTooOld, match=f"works with {OLDEST_VERSION} to {SCHEMA_VERSION}"):
        note_version(user_agent)


@pytest.mark.parametrize("user_agent", ["", "codex", "codex/latest"])
def test_a_user_agent_without_a_version_says_nothing(
    caplog: pytest.LogCaptureFixture, user_agent: str
) -> None:
    with caplog.at_level(logging.INFO):
        note_version(user_agent)
    assert caplog.records == []


def test_capabilities_may_be_plain_json() -> None:
    can: dict[str, JsonValue] = {"experimentalApi": True, "requiredHumanApproval": True}
    params = json.loads(Hello(None, can, ("a/b",)).params)
    assert params["capabilities"] == {**can, "optOutNotificationMethods": ["a/b"]}
    assert can == {"experimentalApi": True, "requiredHumanApproval": True}
