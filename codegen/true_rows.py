"""Whether the rows of the routing table are true: what becomes of requests, and what is answered.

Every sample of `codegen.route_catalogue` is routed and answered in every way that there is: with
the refusals, with each grant that an approval could get, with each thing that a person does with an
elicitation. Each row must say what then happened, and nothing else.
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
"""A table, and one of its keys."""

Outcome: TypeAlias = tuple[str, object]
"""A field of a row, and what stands in it."""

FIELDS: Final = ("approval", "elicitation", "decline")

DECISIONS: Final[dict[type, Key]] = {
    models.CommandExecutionRequestApprovalResponse: ("COMMAND_DECISIONS", "decision"),
    models.FileChangeRequestApprovalResponse: ("FILE_CHANGE_DECISIONS", "decision"),
    models.ExecCommandApprovalResponse: ("REVIEW_DECISIONS", "decision"),
    models.ApplyPatchApprovalResponse: ("REVIEW_DECISIONS", "decision"),
    models.PermissionsRequestApprovalResponse: ("PERMISSION_SCOPES", "scope"),
    models.McpServerElicitationRequestResponse: ("ELICITATION_ACTIONS", "action"),
}
"""Reply → the table of its decision, and the field that holds it."""

GRANTS: Final[tuple[Grant, ...]] = (
    Once(),
    Session(),
    Always(),
    RememberPrefix(("touch",)),
    RememberHost("example.com", "allow"),
    RememberHost("example.com", "deny"),
)
"""Grants of every class, to be tried besides those that a request offers."""


def require_true() -> None:
    """Raise IncompleteTable that names each row of the table which is not true."""
    tables: Mapping[str, Mapping[str, AnyRow]] = TABLES
    sent = {name for name, rows in tables.items() if not isinstance(next(iter(rows.values())), Row)}
    routes = map(_routed, samples())
    asked = {type(routed.approval) for routed in routes if isinstance(routed, Approval)}
    decided = {table for table, _ in DECISIONS.values()}
    unseen = [f"add a sample of {c.__name__}" for c in set(get_args(ApprovalRequest)) - asked]
    unseen += [f"say in codegen/true_rows.py who sends {n}" for n in sent ^ decided]
    wrong = [
        f"mend the row for {key!r}: {problem}"
        for name, rows in tables.items()
        for key, row in rows.items()
        if (problem := untrue(name, key, row))
    ]
    if wrong or unseen:
        raise IncompleteTable("src/codex_acp/routing/table.py", (*unseen, *wrong))


def untrue(table: str, key: str, row: AnyRow) -> str:
    """What a row says that does not happen, or leaves out that does; empty for a true one."""
    said = {(field, each) for field in FIELDS for each in getattr(row, field)}
    besides = {("decline", Refused)} - said  # each request can be declined, and need not be
    happened = happens()[table, key] - besides
    words = [f"it leaves out {_name(each)}" for each in happened - said]
    words += [f"nothing becomes {_name(each)}" for each in said - happened]
    return ", ".join(sorted(words))


@cache
def happens() -> Mapping[Key, set[Outcome]]:
    """Each row → what its requests become, or what its decision is sent for."""
    found: dict[Key, set[Outcome]] = {(t, key): set() for t, rows in TABLES.items() for key in rows}
    for sample in samples():
        routed = _routed(sample)
        for key in _rows_of(sample.request):
            found[key].add(_became(sample, routed))
        for outcome, reply in _replies(sample, routed):
            for key in _decided(reply):
                found[key].add(outcome)
    return found


def _name(outcome: Outcome) -> str:
    field, what = outcome
    return f"{field} {getattr(what, '__name__', what)}"


def _routed(sample: Sample) -> Route:
    return route(sample.request, RoutingContext(sample.items, sample.client, {SESSION}))


def _rows_of(asked: Any) -> Iterator[Key]:
    """The rows that a request is about: of its method, its mode, its kind."""
    yield "SERVER_REQUEST_ROUTES", asked.method
    for table, attribute in (("ELICITATION_MODES", "mode"), ("COMMAND_KINDS", "kind")):
        value = getattr(asked.params, attribute, None)
        if value in FIELD_TYPES[table]:
            yield table, value


def _became(sample: Sample, routed: Route) -> Outcome:
    what = type(classify(sample.request, sample.items))
    match routed:
        case Approval():
            return "approval", type(routed.approval)
        case Elicitation():
            return "elicitation", what
        case Decline():
            return "decline", what if what is ProgramOnly else Refused


def _replies(sample: Sample, routed: Route) -> Iterator[tuple[Outcome, object]]:
    """Every reply that a sample can get, and what it is for."""
    method, params = sample.request.method, sample.request.params
    yield ("decline", "refusal"), refusals.refusal(method, params, "no")
    yield ("decline", "cancellation"), refusals.cancellation(method, params, "no")
    if isinstance(routed, Approval):
        for grant in dict.fromkeys((*routed.offered.grants, *GRANTS)):
            try:
                yield ("approval", type(grant)), granted(routed.approval, grant)
            except ValueError:
                assert grant not in routed.offered.grants
    elif isinstance(routed, Elicitation):
        what = type(classify(sample.request, sample.items))
        content = {"color": "red"} if "color" in repr(params) else {}
        for said in FIELD_TYPES["ELICITATION_ACTIONS"]:
            answer = reply_to(routed.form_or_url, {"action": said, "content": content})
            yield ("elicitation", what), answer.result


def _decided(reply: object) -> Iterator[Key]:
    """The row of the decision in a reply."""
    if type(reply) in DECISIONS:
        table, member = DECISIONS[type(reply)]
        value = plain(getattr(reply, member))
        yield table, next(iter(value)) if isinstance(value, dict) else str(value)
