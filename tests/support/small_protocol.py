"""A small Codex bundle of one's own: every envelope, and one type of each kind that drifts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from codegen.bundles import EXPERIMENTAL, STABLE, SchemaFiles

Schema = dict[str, Any]


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/v2/{name}"}


def _object(required: str = "", **fields: Any) -> Schema:
    return {"type": "object", "properties": fields, "required": required.split()}


def _tag(key: str, value: str, **fields: Any) -> Schema:
    tagged = {key: {"type": "string", "enum": [value]}, **fields}
    return {"type": "object", "properties": tagged, "required": [key], "title": _title(value)}


def _title(value: str) -> str:
    return value[0].upper() + value[1:] + "Member"


def method(wire: str, params: str) -> Schema:
    """A member of an envelope."""
    return {
        "type": "object",
        "properties": {"method": {"type": "string", "enum": [wire]}, "params": _ref(params)},
        "required": ["method", "params"],
    }


def bundle() -> Schema:
    """The bundle, new each time."""
    text: Schema = {"type": "string"}
    v2 = {
        "ThingGetParams": _object("id", id=text, limit={"type": "integer"}),
        "ThingGetResponse": _object("thing", thing=_ref("Thing")),
        "Thing": _object("name", name=text, color=_ref("Color"), note={"type": ["string", "null"]}),
        "Color": {"type": "string", "enum": ["red", "green"]},
        "Shape": {"oneOf": [_tag("type", "circle", size=text), _tag("type", "square")]},
        "ThreadItem": {"oneOf": [_tag("type", "message", text=text), _tag("type", "tool")]},
        "ItemDoneNotification": _object("item shape", item=_ref("ThreadItem"), shape=_ref("Shape")),
        "AskParams": _object("ask", ask=_ref("McpServerElicitationRequestParams")),
        "AskResponse": _object("decision", decision=_ref("FileChangeApprovalDecision")),
        "McpServerElicitationRequestParams": {
            "oneOf": [_tag("mode", "form", message=text), _tag("mode", "url", url=text)]
        },
        "FileChangeApprovalDecision": {"type": "string", "enum": ["accept", "decline"]},
    }
    return {
        "definitions": {
            "ClientRequest": {"oneOf": [method("thing/get", "ThingGetParams")]},
            "ClientNotification": {"oneOf": [method("ready", "ThingGetParams")]},
            "ServerRequest": {"oneOf": [method("ask", "AskParams")]},
            "ServerNotification": {"oneOf": [method("item/done", "ItemDoneNotification")]},
            "v2": v2,
        }
    }


def files(edit: Callable[[Schema], None] | None = None) -> SchemaFiles:
    """Experimental and stable bundle, both alike, after ``edit`` of the definitions."""
    made = bundle()
    if edit is not None:
        edit(made["definitions"])
    both = {EXPERIMENTAL: made, STABLE: copy.deepcopy(made)}
    return SchemaFiles({"codex": "1.1.0" if edit else "1.0.0"}, both)
