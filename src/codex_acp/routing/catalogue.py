"""PURE: every server request and what becomes of it, found out by routing a sample of each case.

Owns how the routing table and these cases are written. A case says what `table.route` did, never a
copy of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypedDict, assert_never

from codex_acp.codex.approvals.refusals import cancelled, refusal
from codex_acp.errors import RpcError
from codex_acp.routing import elicitations
from codex_acp.routing.approvals import choices
from codex_acp.routing.catalogue_samples import SESSION, Sample, samples
from codex_acp.routing.display import visible
from codex_acp.routing.route import Approval, Decline, Elicitation, Route, RoutingContext
from codex_acp.routing.table import TABLES, route
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.transcript.events import RouteName

_REASON: Final = "<the reason>"
"""Stands for what the negative reply says to Codex, which differs each time."""


@dataclass(frozen=True, slots=True)
class CatalogueOption:
    """One choice of a permission request. ``kind`` is ACP's ``PermissionOptionKind``."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """One server request in one case.

    ``shown`` is what the person sees: an approval's title, an elicitation's message, the line that
    says why it was declined. ``negative`` and ``cancelling`` are the results sent to Codex as
    JSON, or ``{"error": {"code", "message"}}``; ``cancelling`` is for a cancelled prompt and None
    where nobody is asked.
    """

    method: str
    case: str
    route: RouteName
    shown: str
    options: tuple[CatalogueOption, ...]
    negative: object
    cancelling: object


def catalogue() -> tuple[CatalogueRow, ...]:
    """All rows, in the order of the contract's table."""
    return tuple(_row(sample) for sample in samples())


def as_markdown(rows: Iterable[CatalogueRow]) -> str:
    """The rows as one table, with a new line at the end."""
    heads = ("server request", "case", "route", "shown", "options", "no", "cancelled")
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in rows:
        options = "<br>".join(f"{_cell(o.name)} ({o.kind})" for o in row.options)
        cancelling = "" if row.cancelling is None else _code(row.cancelling)
        lines.append(
            f"| `{row.method}` | {_cell(row.case)} | {row.route} | {_cell(row.shown)} | {options} "
            f"| {_code(row.negative)} | {cancelling} |"
        )
    return "\n".join(lines) + "\n"


def table_as_markdown() -> str:
    """The routing table: what each request and each value inside one can become, and why."""
    lines = ["| server request, or value inside one | can become | why |", "| --- | --- | --- |"]
    for row in _table():
        can = "; ".join(f"{name}: {', '.join(row[name])}" for name in _ROUTES if row[name])
        lines.append(f"| `{row['key']}`{_of(row['list'])} | {can or 'never sent'} | {row['why']} |")
    return "\n".join(lines) + "\n"


_ROUTES: Final[tuple[Literal["approval", "elicitation", "decline"], ...]] = (
    "approval",
    "elicitation",
    "decline",
)


class _TableRow(TypedDict):
    """One row of the routing table; the routes name the classes, grants and replies."""

    list: str
    key: str
    approval: list[str]
    elicitation: list[str]
    decline: list[str]
    why: str


def _table() -> list[_TableRow]:
    return [
        {
            "list": name,
            "key": key,
            "approval": _names(row.approval),
            "elicitation": _names(row.elicitation),
            "decline": _names(row.decline),
            "why": row.why,
        }
        for name, rows in TABLES.items()
        for key, row in rows.items()
    ]


def _names(named: Iterable[object]) -> list[str]:
    return [each if isinstance(each, str) else getattr(each, "__name__", "") for each in named]


def _of(name: str) -> str:
    return "" if name == "SERVER_REQUEST_ROUTES" else f" ({name.lower().replace('_', ' ')})"


def as_json(rows: Iterable[CatalogueRow]) -> str:
    """The routing table and the rows as JSON, with a new line at the end."""
    cases = [
        {
            "method": row.method,
            "case": row.case,
            "route": row.route,
            "shown": row.shown,
            "options": [{"kind": option.kind, "name": option.name} for option in row.options],
            "negativeReply": row.negative,
            "cancellingReply": row.cancelling,
        }
        for row in rows
    ]
    whole = {"table": _table(), "cases": cases}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _row(sample: Sample) -> CatalogueRow:
    routed = route(sample.request, RoutingContext(sample.items, sample.client, {SESSION}))
    request = sample.request
    name, shown, options = _shown(routed)
    asked = name != "decline"
    return CatalogueRow(
        method=request.method,
        case=sample.case,
        route=name,
        shown=shown,
        options=options,
        negative=_reply(refusal(request.method, request.params, _REASON)),
        cancelling=_cancelling(request) if asked else None,
    )


def _shown(routed: Route) -> tuple[RouteName, str, tuple[CatalogueOption, ...]]:
    match routed:
        case Approval():
            listed = [choice.option for choice in choices(routed.offered, routed.approval, "p")]
            options = tuple(CatalogueOption(option.kind, option.name) for option in listed)
            return "approval", routed.shown.title or "", options
        case Elicitation():
            request = elicitations.create_request(routed.asked, routed.session_id, "e")
            return "elicitation", request["message"], ()
        case Decline():
            told = "" if routed.session_id is None else "Declined without asking: "
            return "decline", f"{told}{routed.reason}", ()
        case _:
            assert_never(routed)


def _cancelling(request: ServerRequest) -> object:
    return _reply(cancelled(request.method, request.params, _REASON))


def _reply(reply: object) -> object:
    if isinstance(reply, RpcError):
        return {"error": {"code": reply.code, "message": reply.message}}
    return plain(reply)


def _cell(text: str) -> str:
    shown = "<br>".join(visible(line) for line in text.split("\n"))
    return shown.replace("|", "\\|")


def _code(value: object) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`".replace("|", "\\|")
