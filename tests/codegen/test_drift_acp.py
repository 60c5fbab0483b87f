"""Changes of ACP's schemas as they may come, each version stable and unstable, rehearsed."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from codegen import acp
from codegen.bundles import SchemaFiles, read_schema_set
from codegen.drift import schema_set
from codegen.drift_judge import drift
from codegen.drift_model import Judged, SchemaSet, Verdict
from codegen.drift_ours import read_ours
from codegen.errors import CodegenError
from codegen.pinned import ROOT

Json = dict[str, Any]


@cache
def today() -> SchemaFiles:
    files = read_schema_set(ROOT / "schema")
    return SchemaFiles(files.versions, {k: v for k, v in files.files.items() if "acp/" in k})


@cache
def before() -> SchemaSet:
    return schema_set(today())


def judged(after: SchemaFiles) -> list[Judged]:
    new = schema_set(after, is_strict=True)
    assert new.problem == ""
    return list(drift(before(), new, read_ours(ROOT, new.protocols)).judged)


def changed(version: str, *parts: str) -> tuple[SchemaFiles, list[Json]]:
    """A copy of today's schemas, and the definitions of some of a version's files in it."""
    files = copy.deepcopy(dict(today().files))
    definitions = [files[f"acp/{version}{part}.json"]["$defs"] for part in parts]
    return SchemaFiles(today().versions, files), definitions


def add_method(definitions: Json) -> None:
    """``session/dream``, a request to the agent."""
    side = {"type": "object", "x-side": "agent", "x-method": "session/dream"}
    definitions["DreamSessionRequest"] = {**side, "properties": {"sessionId": {"type": "string"}}}
    definitions["DreamSessionResponse"] = {**side, "properties": {}}
    (params, *_) = definitions["ClientRequest"]["properties"]["params"]["anyOf"]
    params["anyOf"].append({"allOf": [{"$ref": "#/$defs/DreamSessionRequest"}]})


def test_nothing_is_new_today() -> None:
    assert judged(today()) == []


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_new_stable_method_needs_a_row(version: str) -> None:
    after, both = changed(version, "", "_unstable")
    for definitions in both:
        add_method(definitions)
    (method,) = [j for j in judged(after) if j.change.area == "request"]
    assert (method.change.protocol, method.change.name) == (version, "session/dream")
    assert (method.verdict, method.change.experimental) == (Verdict.DECISION, False)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_new_unstable_method_needs_none(version: str) -> None:
    after, (definitions,) = changed(version, "_unstable")
    add_method(definitions)
    found = judged(after)
    assert {j.verdict for j in found} == {Verdict.COMPATIBLE}
    assert all(j.change.experimental for j in found)


def test_what_becomes_stable_is_told_as_such() -> None:
    after, (stable, unstable) = changed("v2", "", "_unstable")
    for name in ("PlanRemoved", "PlanFile", "PlanMarkdown"):
        stable[name] = unstable[name]
    for name in ("SessionUpdate", "PlanUpdateContent"):
        stable[name] = {
            **stable[name],
            "anyOf": [
                member
                for member in unstable[name]["anyOf"]
                if "Subagent" not in str(member) and "SessionMessage" not in str(member)
            ],
        }
    protocol = acp.load("v2", after.files["acp/v2_unstable.json"], after.files["acp/v2.json"])
    assert "PlanRemovedSessionUpdate" not in protocol.experimental
    assert "SubagentUpdateSessionUpdate" in protocol.experimental


def test_a_field_that_is_otherwise_in_the_stable_schema_stops_the_run() -> None:
    after, (unstable,) = changed("v2", "_unstable")
    unstable["Usage"]["properties"]["totalTokens"] = {"type": "string"}
    unstable["PromptResponse"]["properties"]["messageId"] = {"type": "integer"}
    with pytest.raises(CodegenError, match="PromptResponse is otherwise in the stable schema"):
        acp.load("v2", after.files["acp/v2_unstable.json"], after.files["acp/v2.json"])
