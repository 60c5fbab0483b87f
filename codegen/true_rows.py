"""Check the rows of the routing table against the routes and replies that really come out.

Routes every sample of `codegen.route_catalogue` and answers it in every possible way: with the
refusals, with each grant for an approval, with each of a person's answers to an elicitation. Each
row must name exactly the outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias, get_args

from codegen.route_catalogue import SESSION, Sample, samples
from codex_acp.codex._generated import models
from codex_acp.codex.approvals import refusals
from codex_acp.codex.approvals.classify import ApprovalRequest, ProgramOnly, Refused, classify
from codex_acp.codex.approvals.grants import (
    Always,
    Grant,
    Once,
    RememberHost,
    RememberPrefix,
    Session,
    granted,
)
from codex_acp.errors import IncompleteTable
from codex_acp.routing._generated.rows import FIELD_TYPES
from codex_acp.routing.elicitations import reply_to
from codex_acp.routing.route import Approval, Decline, Elicitation, Route, RoutingContext
from codex_acp.routing.rows import AnyRow, Row
from codex_acp.routing.table import TABLES, route
from codex_acp.wire.codec import plain

Key: TypeAlias = tuple[str, str]
"""The name of a table, and one of the table's keys."""

Outcome: TypeAlias = tuple[str, object]
"""The name of a row's field, and one entry of the field."""

FIELDS: Final = ("approval", "elicitation", "decline")

DECISIONS: Final[dict[type, Key]] = {
    models.CommandExecutionRequestApprovalResponse: ("COMMAND_DECISIONS", "decision"),
    models.FileChangeRequestApprovalResponse: ("FILE_CHANGE_DECISIONS", "decision"),
    models.ExecCommandApprovalResponse: ("REVIEW_DECISIONS", "decision"),
    models.ApplyPatchApprovalResponse: ("REVIEW_DECISIONS", "decision"),
    models.PermissionsRequestApprovalResponse: ("PERMISSION_SCOPES", "scope"),
    models.McpServerElicitationRequestResponse: ("ELICITATION_ACTIONS", "action"),
}
"""Class of a reply → the table of its decision, and the field that holds the decision."""

GRANTS: Final[tuple[Grant, ...]] = (
    Once(),
    Session(),
    Always(),
    RememberPrefix(("touch",)),
    RememberHost("example.com", "allow"),
    RememberHost("example.com", "deny"),
)
"""Grants of every class, which are tried in addition to the grants that a request offers."""


def require_true() -> None:
    """Raise IncompleteTable that names each wrong row of the tables."""
    tables: Mapping[str, Mapping[str, AnyRow]] = TABLES
    routes = map(_routed, samples())
    approvals = {type(routed.approval) for routed in routes if isinstance(routed, Approval)}
    unseen = [f"add a sample of {c.__name__}" for c in set(get_args(ApprovalRequest)) - approvals]
    of_decisions = {
        name for name, rows in tables.items() if not isinstance(next(iter(rows.values())), Row)
    }
    named = {table for table, _ in DECISIONS.values()}
    unseen += [f"say in codegen/true_rows.py who sends {n}" for n in of_decisions ^ named]
    wrong = [
        f"mend the row for {key!r}: {problem}"
        for name, rows in tables.items()
        for key, row in rows.items()
        if (problem := untrue(name, key, row))
    ]
    if wrong or unseen:
        raise IncompleteTable("src/codex_acp/routing/table.py", (*unseen, *wrong))


def untrue(table: str, key: str, row: AnyRow) -> str:
    """Return the outcomes that a row leaves out or invents, for a person; empty for a true row."""
    stated = {(field, each) for field in FIELDS for each in getattr(row, field)}
    unstated = {("decline", Refused)} - stated  # every request can be declined: no row must say so
    real = real_outcomes()[table, key] - unstated
    words = [f"it leaves out {_name(each)}" for each in real - stated]
    words += [f"nothing becomes {_name(each)}" for each in stated - real]
    return ", ".join(sorted(words))


@cache
def real_outcomes() -> Mapping[Key, set[Outcome]]:
    """Return each row's key → the routes of its requests, or the replies with its decision."""
    found: dict[Key, set[Outcome]] = {(t, key): set() for t, rows in TABLES.items() for key in rows}
    for sample in samples():
        routed = _routed(sample)
        for key in _rows_of(sample.request):
            found[key].add(_route_outcome(sample, routed))
        for outcome, reply in _replies(sample, routed):
            if type(reply) in DECISIONS:
                table, member = DECISIONS[type(reply)]
                value = plain(getattr(reply, member))
                decision = next(iter(value)) if isinstance(value, dict) else str(value)
                found[table, decision].add(outcome)
    return found


def _name(outcome: Outcome) -> str:
    field, entry = outcome
    return f"{field} {getattr(entry, '__name__', entry)}"


def _routed(sample: Sample) -> Route:
    return route(sample.request, RoutingContext(sample.items, sample.client, {SESSION}))


def _rows_of(request: Any) -> Iterator[Key]:
    """Yield the rows for a request's method, mode and kind."""
    yield "SERVER_REQUEST_ROUTES", request.method
    for table, attribute in (("ELICITATION_MODES", "mode"), ("COMMAND_KINDS", "kind")):
        value = getattr(request.params, attribute, None)
        if value in FIELD_TYPES[table]:
            yield table, value


def _route_outcome(sample: Sample, routed: Route) -> Outcome:
    request_class = type(classify(sample.request, sample.items))
    match routed:
        case Approval():
            return "approval", type(routed.approval)
        case Elicitation():
            return "elicitation", request_class
        case Decline():
            return "decline", request_class if request_class is ProgramOnly else Refused


def _replies(sample: Sample, routed: Route) -> Iterator[tuple[Outcome, object]]:
    """Yield every reply that a sample can get, after the outcome that the reply stands for."""
    method, params = sample.request.method, sample.request.params
    yield ("decline", "refusal"), refusals.refusal(method, params, "no")
    yield ("decline", "cancellation"), refusals.cancellation(method, params, "no")
    if isinstance(routed, Approval):
        for grant in dict.fromkeys((*routed.offered.grants, *GRANTS)):
            try:
                yield ("approval", type(grant)), granted(routed.approval, grant)
            except ValueError:  # a grant of GRANTS that does not fit this approval
                assert grant not in routed.offered.grants
    elif isinstance(routed, Elicitation):
        content = {"color": "red"} if "color" in repr(params) else {}
        for action in FIELD_TYPES["ELICITATION_ACTIONS"]:
            answer = reply_to(routed.form_or_url, {"action": action, "content": content})
            yield _route_outcome(sample, routed), answer.result
