"""Params of every server request, as Codex sends them, and the JSON schema to check replies."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft7Validator

COMMAND: Final = "item/commandExecution/requestApproval"
SCHEMA_FILE = Path(__file__).resolve().parents[2] / "schema" / "codex" / "experimental.json"

_TURN = {"threadId": "t", "turnId": "u"}
_ITEM = {**_TURN, "itemId": "i"}
_ASKED = {**_ITEM, "startedAtMs": 1}

SAMPLES: dict[str, dict[str, Any]] = {
    "item/commandExecution/requestApproval": {**_ASKED, "command": "ls", "cwd": "/w"},
    "item/fileChange/requestApproval": {**_ASKED, "reason": None, "grantRoot": None},
    "item/tool/requestUserInput": {
        **_ITEM,
        "isBlocking": False,
        "questions": [{"id": "q", "header": "H", "question": "Which?"}],
    },
    "mcpServer/elicitation/request": {
        **_TURN,
        "serverName": "notes",
        "mode": "form",
        "_meta": None,
        "message": "Fill in",
        "requestedSchema": {"type": "object", "properties": {}},
    },
    "item/permissions/requestApproval": {
        **_ASKED,
        "cwd": "/w",
        "permissions": {"network": {"enabled": True}},
    },
    "item/tool/call": {**_TURN, "callId": "c", "tool": "clock", "arguments": {}},
    "account/chatgptAuthTokens/refresh": {"reason": "unauthorized"},
    "attestation/generate": {},
    "currentTime/read": {"threadId": "t"},
    "applyPatchApproval": {"callId": "c", "conversationId": "t", "fileChanges": {}},
    "execCommandApproval": {
        "callId": "c",
        "conversationId": "t",
        "command": ["ls"],
        "cwd": "/w",
        "parsedCmd": [],
    },
}


def assert_fits(name: str, value: object) -> None:
    """``value`` is valid against the definition ``name`` of the vendored schema."""
    root = _schema()
    place = "#/definitions" if name in root["definitions"] else "#/definitions/v2"
    Draft7Validator({**root, "$ref": f"{place}/{name}"}).validate(value)


@cache
def _schema() -> dict[str, Any]:
    root: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    definitions = root["definitions"]
    # A $ref hides its siblings, so the root may hold nothing but the definitions.
    return {"definitions": definitions}
