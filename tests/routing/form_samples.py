"""Samples for the tests of forms: the model's questions, and a form as it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from codex_acp.acp.form_answers import Form
from codex_acp.codex._generated.models import ToolRequestUserInputParams
from codex_acp.wire.codec import decode, encode

_ACP: Final = json.loads(
    (Path(__file__).parents[2] / "schema" / "acp" / "v1.json").read_text("utf-8")
)
_ON_THE_WIRE: Final = Draft202012Validator(
    {"$ref": "#/$defs/ElicitationSchema", "$defs": _ACP["$defs"]}
)


def written(schema: Form) -> dict[str, Any]:
    """The form as it is written, checked against ACP's schema."""
    value: dict[str, Any] = json.loads(encode(schema))
    _ON_THE_WIRE.validate(value)
    return value


def question(name: str, *labels: str, **fields: Any) -> dict[str, Any]:
    options = [{"label": label, "description": f"{label}!"} for label in labels]
    plain = {"id": name, "header": name.title(), "question": f"Which {name}?"}
    return {**plain, "options": options or None, **fields}


def params(*questions: dict[str, Any]) -> ToolRequestUserInputParams:
    where = {"threadId": "t", "turnId": "u", "itemId": "i", "isBlocking": False}
    return decode(ToolRequestUserInputParams, {**where, "questions": list(questions)})
