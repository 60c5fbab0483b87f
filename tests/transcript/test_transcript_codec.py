"""Events as JSON: what is written can be read, and the published schema tells the truth (5.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import is_dataclass, replace
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from codex_acp.errors import InvalidPayload
from codex_acp.jsonrpc import RequestId
from codex_acp.transcript import TranscriptEvent, from_json, to_json
from codex_acp.transcript.events import EVENT_TYPES, Pattern
from tests.transcript.event_strategies import (
    BY_TYPE,
    DIGEST,
    REF,
    TIME,
    answered,
    any_event,
    json_values,
    quick,
)

SCHEMA: Any = json.loads((files("codex_acp.transcript") / "transcript.schema.json").read_text())
CONTRACT_5_1 = {
    "approval.requested",
    "approval.decided",
    "approval.refused",
    "elicitation.requested",
    "elicitation.answered",
    "request.declined",
}

CHANGED_IN = {
    "wire.message": 2,
    "approval.requested": 3,
    "approval.decided": 3,
    "approval.refused": 3,
    "agreement.decided": 3,
    "elicitation.answered": 3,
}
"""Events whose lines are of a later version of the format than the first."""


@cache
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(SCHEMA)
    return Draft202012Validator(SCHEMA)


def readable(line: Any) -> bool:
    try:
        from_json(line)
    except InvalidPayload:
        return False
    return True


@pytest.mark.parametrize("kind", EVENT_TYPES)
@quick
@given(data=st.data())
def test_5_1_every_event_survives_json_and_fits_the_schema(kind: str, data: st.DataObject) -> None:
    event = data.draw(BY_TYPE[kind])
    line = json.loads(json.dumps(to_json(event, TIME)))
    assert list(line)[:3] == ["schema_version", "time", "type"]
    assert line["type"] == kind
    validator().validate(line)
    assert from_json(line) == (TIME, event)
    assert to_json(from_json(line).event, TIME) == line


def test_5_1_every_event_of_the_contract_has_a_class_of_its_own() -> None:
    assert EVENT_TYPES.keys() >= CONTRACT_5_1
    assert set(EVENT_TYPES.values()) == set(get_args(TranscriptEvent))
    assert BY_TYPE.keys() == EVENT_TYPES.keys()


def test_5_1_approvals_and_elicitations_share_no_event_and_no_way_to_settle() -> None:
    approvals = [c for t, c in EVENT_TYPES.items() if t.startswith("approval.")]
    elicitations = [c for t, c in EVENT_TYPES.items() if t.startswith("elicitation.")]
    assert len(approvals) == 3
    assert len(elicitations) == 2
    assert not set(approvals) & set(elicitations)
    for one in approvals:
        assert not {"action", "mode", "fields", "content"} & get_type_hints(one).keys()
    for other in elicitations:
        assert not {"outcome", "option", "tool", "decision"} & get_type_hints(other).keys()


@pytest.mark.parametrize("kind", sorted(CONTRACT_5_1))
def test_5_1_each_event_carries_time_session_thread_turn_and_ids(kind: str) -> None:
    required = set(_definition(kind)["required"])
    assert required >= {
        "time", "session_id", "thread_id", "turn_id", "generation", "codex_request_id",
        "acp_request_id", "item_id", "method",
    }  # fmt: skip
    if kind.startswith("approval."):
        assert required >= {"tool", "arguments_sha256"}


@pytest.mark.parametrize(("request_id", "other"), [(0, "0"), ("0", 0)])
def test_5_1_the_type_of_an_id_is_kept(request_id: RequestId, other: RequestId) -> None:
    event = replace(answered(None), ref=replace(REF, codex_request_id=request_id))
    line = to_json(event, TIME)
    assert json.dumps(line["codex_request_id"]) == json.dumps(request_id)
    assert from_json(line).event == event
    assert from_json({**line, "codex_request_id": other}).event != event


def _definition(kind: str) -> Any:
    return SCHEMA["$defs"][EVENT_TYPES[kind].__name__]


def _described(hint: object) -> Any:
    """What the schema must say about a field, derived a second time and compactly."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        (pattern,) = args[1:]
        assert isinstance(pattern, Pattern)
        return ("text", f"^{pattern.regex}$")
    if origin is Literal:
        return ("enum", *args)
    if origin in (Union, UnionType):
        return frozenset(_described(one) for one in args)
    if origin is tuple:
        return ("array", _described(args[0]))
    if origin is Mapping:
        return "object"
    if isinstance(hint, type) and is_dataclass(hint):
        members = get_type_hints(hint, include_extras=True)
        return ("object", *((name, _described(one)) for name, one in members.items()))
    return {str: "string", int: "integer", bool: "boolean", NoneType: "null"}[hint]  # type: ignore[index]


def _stated(schema: Any) -> Any:
    """The same picture, read from the schema."""
    if "$ref" in schema:
        return _stated(SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    if "enum" in schema:
        return ("enum", *schema["enum"])
    if "pattern" in schema:
        return ("text", schema["pattern"])
    if "anyOf" in schema:
        parts = [_stated(one) for one in schema["anyOf"]]
        return frozenset().union(*(p if isinstance(p, frozenset) else {p} for p in parts))
    if isinstance(schema["type"], list):
        return frozenset(schema["type"])
    if "properties" in schema:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        return ("object", *((name, _stated(one)) for name, one in schema["properties"].items()))
    if schema["type"] == "array":
        return ("array", _stated(schema["items"]))
    return schema["type"]


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_the_schema_says_what_the_class_says_and_nothing_else(kind: str) -> None:
    hints = get_type_hints(EVENT_TYPES[kind], include_extras=True)
    hints.pop("type")
    ref = get_type_hints(hints.pop("ref"), include_extras=True)
    expected = [(name, _described(hint)) for name, hint in {**ref, **hints}.items()]
    definition = deepcopy(_definition(kind))
    header = {k: definition["properties"].pop(k) for k in ("schema_version", "time", "type")}
    assert header["schema_version"] == {"const": CHANGED_IN.get(kind, 1)}
    assert header["type"] == {"const": kind}
    assert definition["required"][:3] == list(header)
    definition["required"] = definition["required"][3:]
    assert _stated(definition) == ("object", *expected)


def test_the_schema_has_one_definition_for_each_event_and_none_unused() -> None:
    listed = [one["$ref"].rsplit("/", 1)[1] for one in SCHEMA["oneOf"]]
    assert listed == [c.__name__ for c in EVENT_TYPES.values()]
    text = json.dumps(SCHEMA)
    assert [name for name in SCHEMA["$defs"] if f'"#/$defs/{name}"' not in text] == []


def _spoiled(line: dict[str, Any], value: object) -> Iterator[dict[str, Any]]:
    """The line with each key missing, each value replaced, in the inner objects too; a key more."""
    yield {**line, "more": value}
    for key, inner in line.items():
        yield {k: v for k, v in line.items() if k != key}
        yield {**line, key: value}
        if isinstance(inner, dict) and key != "content":
            yield from ({**line, key: one} for one in _spoiled(inner, value))
        elif isinstance(inner, list):
            yield {**line, key: [*inner, value]}


@quick
@given(event=any_event, value=json_values.filter(lambda v: not isinstance(v, float)))
def test_the_reader_refuses_exactly_what_the_schema_refuses(
    event: TranscriptEvent, value: object
) -> None:
    # Floats are left out: to a schema 1.0 is an integer, to the reader it is not.
    for line in _spoiled(dict(to_json(event, TIME)), value):
        if line.get("schema_version") == 1 and CHANGED_IN.get(event.type) == 3:
            continue  # the schema says what is written now; older lines are read as well
        assert readable(line) == validator().is_valid(line), line


def test_the_reader_names_everything_that_is_wrong() -> None:
    line = dict(to_json(answered(None), TIME))
    del line["mode"]
    line |= {"generation": True, "time": "yesterday", "extra": 1, "action": "allow"}
    with pytest.raises(InvalidPayload) as caught:
        from_json(line)
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "action", "extra", "generation", "mode", "time",
    ]  # fmt: skip


@pytest.mark.parametrize("line", [None, [], {}, {"schema_version": 1}, {"schema_version": 2}])
def test_the_reader_refuses_what_is_no_event(line: Any) -> None:
    with pytest.raises(InvalidPayload):
        from_json(line)


@pytest.mark.parametrize("kind", ["approval.requested", "approval.decided", "approval.refused"])
@quick
@given(data=st.data())
def test_a_digest_has_64_lower_case_hexadecimal_characters(kind: str, data: st.DataObject) -> None:
    line = dict(to_json(data.draw(BY_TYPE[kind]), TIME))
    assert readable({**line, "arguments_sha256": DIGEST})
    for wrong in (DIGEST.upper(), DIGEST[1:], DIGEST + "0", ""):
        assert not readable({**line, "arguments_sha256": wrong})


@pytest.mark.parametrize("kind", sorted(CONTRACT_5_1 & CHANGED_IN.keys()))
@quick
@given(data=st.data())
def test_5_1_a_line_of_the_first_version_is_read_with_what_it_had(
    kind: str, data: st.DataObject
) -> None:
    event: Any = data.draw(BY_TYPE[kind])
    if hasattr(event, "by"):
        event = replace(event, by="person")
    now = dict(to_json(event, TIME))
    old = {k: v for k, v in now.items() if k not in ("subject", "policy")} | {"schema_version": 1}
    had = {k: v for k, v in {"subject": (), "policy": None}.items() if k in now}
    assert from_json(old).event == replace(event, **had)
    for name in had:
        assert not readable({**old, name: now[name]}), "it is a line of no version"
