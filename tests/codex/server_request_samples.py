"""Params of every server request, as Codex sends them, and the JSON schema to check replies."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft7Validator

from codegen.bundles import EXPERIMENTAL, unpack

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
    root = schema_of_all_versions()
    place = "#/definitions" if name in root["definitions"] else "#/definitions/v2"
    Draft7Validator({**root, "$ref": f"{place}/{name}"}).validate(value)


@cache
def schema_of_all_versions() -> dict[str, Any]:
    """Of the newest Codex, with what older ones that are promised still have."""
    root: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    definitions = root["definitions"]
    for packed in sorted((SCHEMA_FILE.parent / "older").glob("*.json.xz"), reverse=True):
        before = unpack(packed.read_bytes(), packed.name).files[EXPERIMENTAL]["definitions"]
        for name, definition in before.items():
            definitions.setdefault(name, definition)
        for name, definition in before["v2"].items():
            definitions["v2"].setdefault(name, definition)
    # A $ref hides its siblings, so the root may hold nothing but the definitions.
    return {"definitions": definitions}
