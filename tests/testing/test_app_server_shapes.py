"""What the scripted app-server says by itself fits the pinned schema of the real one."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import (
    AppServerPlayer,
    Expect,
    Send,
    agent_message,
    command_approval,
    file_change_approval,
    request_resolved,
    turn_completed,
    turn_started,
)
from codex_acp.testing.app_server_script import default_result

SCHEMA = Path(__file__).parents[2] / "schema" / "codex" / "experimental.json"

RESULTS = {
    "initialize": "InitializeResponse",
    "thread/start": "v2/ThreadStartResponse",
    "thread/resume": "v2/ThreadResumeResponse",
    "thread/read": "v2/ThreadReadResponse",
    "thread/list": "v2/ThreadListResponse",
    "thread/unsubscribe": "v2/ThreadUnsubscribeResponse",
    "thread/archive": "v2/ThreadArchiveResponse",
    "thread/name/set": "v2/ThreadSetNameResponse",
    "turn/start": "v2/TurnStartResponse",
    "turn/steer": "v2/TurnSteerResponse",
    "turn/interrupt": "v2/TurnInterruptResponse",
    "model/list": "v2/ModelListResponse",
}


@cache
def bundle() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return schema


def problems(definition: str, value: object) -> list[str]:
    """What is wrong with ``value``."""
    schema = {"$ref": f"#/definitions/{definition}", "definitions": bundle()["definitions"]}
    validator = import_module("jsonschema").Draft7Validator(schema)
    return [error.message for error in validator.iter_errors(value)]


@pytest.mark.parametrize(("method", "definition"), RESULTS.items())
def test_a_default_result_fits(method: str, definition: str) -> None:
    result = default_result(method, {"threadId": "t", "cwd": "/w"}, "turn-1")
    assert result is not None
    assert problems(definition, result) == []


def test_the_check_can_fail() -> None:
    assert problems("v2/ThreadStartResponse", {"thread": {}})
    assert problems("ServerNotification", {"method": "turn/started", "params": {}})


def test_the_parts_of_a_turn_fit() -> None:
    player = AppServerPlayer(
        [
            Expect("turn/start"),
            *turn_started(),
            *agent_message("a", "b"),
            *command_approval(),
            *file_change_approval(),
            *request_resolved(0),
            *turn_completed("failed", error="no"),
        ]
    )
    outputs = player.feed({"id": 1, "method": "turn/start", "params": {"threadId": "t"}})
    assert player.finished
    for output in outputs[1:]:
        assert isinstance(output, Send)
        message = output.message
        kind = "ServerRequest" if "id" in message else "ServerNotification"
        assert problems(kind, message) == [], message
