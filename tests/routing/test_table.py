"""1.2: the routing table is true: each sample becomes what a row allows, each row is reached.

So whatever else a row said would be noticed: wrong rows are planted, every one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from codex_acp.codex._generated import models
from codex_acp.codex.approvals import classify, refusals
from codex_acp.codex.approvals.classify import ProgramOnly, Refused
from codex_acp.codex.approvals.grants import granted
from codex_acp.errors import IncompleteTable
from codex_acp.routing._generated.rows import TAKES
from codex_acp.routing.catalogue_samples import SESSION, Sample, samples
from codex_acp.routing.elicitations import reply_to
from codex_acp.routing.route import Approval, Decline, Elicitation, RoutingContext
from codex_acp.routing.rows import AnyRow, Row, Sent, require_possible
from codex_acp.routing.table import TABLES, route
from codex_acp.wire.codec import encode
from tests.support.planted_rows import planted

ROUTES = ("approval", "elicitation", "decline")
OF_REQUESTS = {"SERVER_REQUEST_ROUTES", "ELICITATION_MODES", "COMMAND_KINDS"}


def _keys_of(asked: Any) -> list[tuple[str, str]]:
    """The rows of the table that a request is about: of its method, its mode, its kind."""
    found = [("SERVER_REQUEST_ROUTES", asked.method)]
    for name, attribute in (("ELICITATION_MODES", "mode"), ("COMMAND_KINDS", "kind")):
        value = getattr(asked.params, attribute, None)
        found += [(name, value)] if value in TAKES[name] else []
    return found


def _became(sample: Sample) -> tuple[str, object]:
    """The field of the row that allows what a sample becomes, and the class in it."""
    routed = route(sample.request, RoutingContext(sample.items, sample.client, {SESSION}))
    what = type(classify.classify(sample.request, sample.items))
    match routed:
        case Approval():
            return "approval", type(routed.approval)
        case Elicitation():
            return "elicitation", what
        case Decline():
            return "decline", what if what is ProgramOnly else Refused


def _decided(reply: Any) -> list[tuple[str, str]]:
    """The list and the value of the decision in a reply to Codex."""
    by_reply: dict[Any, tuple[str, str]] = {
        models.CommandExecutionRequestApprovalResponse: ("COMMAND_DECISIONS", "decision"),
        models.FileChangeRequestApprovalResponse: ("FILE_CHANGE_DECISIONS", "decision"),
        models.ExecCommandApprovalResponse: ("REVIEW_DECISIONS", "decision"),
        models.ApplyPatchApprovalResponse: ("REVIEW_DECISIONS", "decision"),
        models.PermissionsRequestApprovalResponse: ("PERMISSION_SCOPES", "scope"),
        models.McpServerElicitationRequestResponse: ("ELICITATION_ACTIONS", "action"),
    }
    if type(reply) not in by_reply:
        return []
    name, member = by_reply[type(reply)]
    value = json.loads(encode(reply))[member]
    return [(name, value if isinstance(value, str) else next(iter(value)))]


def _replies(sample: Sample) -> Iterator[tuple[str, object, Any]]:
    """Every reply that a sample can get: the field of the row, what it is for, the reply."""
    method, params = sample.request.method, sample.request.params
    yield "decline", "refusal", refusals.refusal(method, params, "no")
    yield "decline", "cancellation", refusals.cancelled(method, params, "no")
    routed = route(sample.request, RoutingContext(sample.items, sample.client, {SESSION}))
    if isinstance(routed, Approval):
        for grant in routed.offered.grants:
            yield "approval", type(grant), granted(routed.approval, grant)
    elif isinstance(routed, Elicitation):
        what = type(classify.classify(sample.request, sample.items))
        for said in ("accept", "decline", "cancel"):
            content = {"content": {"color": "red"}} if "color" in repr(params) else {"content": {}}
            yield "elicitation", what, reply_to(routed.asked, {"action": said, **content}).result


@cache
def _reached() -> dict[tuple[str, str], set[tuple[str, object]]]:
    """Table and key → what the samples become and how they are answered: the field, what in it."""
    found: dict[tuple[str, str], set[tuple[str, object]]] = {
        (table, key): set() for table, rows in TABLES.items() for key in rows
    }
    for sample in samples():
        for key in _keys_of(sample.request):
            found[key].add(_became(sample))
        for field, why, reply in _replies(sample):
            for key in _decided(reply):
                found[key].add((field, why))
    return found


def _is_true(table: str, key: str, row: AnyRow) -> bool:
    """Whether the samples become all that a row allows, and nothing else."""
    allowed = {(field, each) for field in ROUTES for each in getattr(row, field)}
    besides = {("decline", Refused)} - allowed  # each can be declined, and need not be
    return _reached()[table, key] - besides == allowed


@pytest.mark.parametrize("table", sorted(TABLES))
def test_1_2_each_sample_becomes_what_its_rows_allow_and_each_row_is_reached(table: str) -> None:
    assert [key for key, row in TABLES[table].items() if not _is_true(table, key, row)] == []


def test_1_2_whatever_else_a_row_said_is_noticed() -> None:
    wrong = list(planted())
    assert len({(each.table, each.key) for each in wrong}) == sum(map(len, TABLES.values()))
    assert [each for each in wrong if _is_true(each.table, each.key, each.row)] == []


def _import(table: str, rows: Mapping[str, AnyRow]) -> None:
    require_possible("here", {**TABLES, table: rows}, TAKES)


def test_1_2_a_row_that_is_missing_or_superfluous_stops_the_import() -> None:
    for table, rows in TABLES.items():
        for key in rows:
            with pytest.raises(IncompleteTable, match=f"{table} in here .* row for {key!r}"):
                _import(table, {k: row for k, row in rows.items() if k != key})
        with pytest.raises(IncompleteTable, match="remove the row for 'hologram'"):
            _import(table, {**rows, "hologram": Sent(why="Because.")})


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row(why="", decline=(Refused,)), "it gives no reason"),
        (Row(why="Because."), "it must either ask or decline"),
        (
            Row(why="B.", elicitation=(classify.McpForm,), decline=(Refused,)),
            "it must either ask or decline",
        ),
        (Row(why="B.", approval=(classify.McpToolApproval,)), "it cannot become McpToolApproval"),
        (Row(why="B.", approval=(classify.McpForm,)), "it cannot become McpForm"),
        (Row(why="B.", elicitation=(classify.UserInput,)), "it cannot become UserInput"),
        (Row(why="B.", decline=(classify.McpForm,)), "it cannot become McpForm"),
        (Row(why="B.", decline=(ProgramOnly,)), "it cannot become ProgramOnly"),
    ],
)
def test_1_2_a_row_that_cannot_be_stops_the_import(row: AnyRow, problem: str) -> None:
    key = "openai/userVerification"
    with pytest.raises(IncompleteTable, match=f"mend the row for '{key}': {problem}"):
        _import("ELICITATION_MODES", {**TABLES["ELICITATION_MODES"], key: row})


def test_no_sentence_of_the_table_is_said_twice() -> None:
    said = [row.why for rows in TABLES.values() for row in rows.values()]
    assert len(set(said)) == len(said)
    assert all(why.endswith(".") for why in said)
