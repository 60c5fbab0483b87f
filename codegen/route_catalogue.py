"""Every server request and what becomes of it, found out by routing a sample of each case.

Owns the samples (one request and what Codex has reported when it comes, for each thing that changes
what becomes of it), and how the routing table and these cases are written: `codex-acp-sdk routes`
prints the text that is kept beside the table. A case says what `table.route` did, never a copy of
it. The samples keep to the shapes that Codex sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypedDict, assert_never

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS, SERVER_REQUESTS
from codex_acp.codex._generated.notifications import NOTIFICATION_CLASSES
from codex_acp.codex._generated.server_requests import REQUEST_CLASSES, ServerRequest
from codex_acp.codex.approvals.refusals import cancellation, refusal
from codex_acp.codex.approvals.running_items import Items
from codex_acp.errors import RpcError
from codex_acp.routing import elicitations
from codex_acp.routing.approvals import choices
from codex_acp.routing.display import visible
from codex_acp.routing.route import Approval, Decline, Elicitation, Route, RoutingContext
from codex_acp.routing.table import TABLES, route
from codex_acp.transcript.events import RouteName
from codex_acp.wire.codec import plain

SESSION: Final = "thread-1"
"""The open session, which is the thread of all samples but those of nobody."""

_ALL: Final = ClientFeatures(elicitation_form=True, elicitation_url=True)
_NONE: Final = ClientFeatures()

_COMMAND: Final = "item/commandExecution/requestApproval"
_FILES: Final = "item/fileChange/requestApproval"
_PERMISSIONS: Final = "item/permissions/requestApproval"
_ELICITATION: Final = "mcpServer/elicitation/request"
_QUESTIONS: Final = "item/tool/requestUserInput"

_TURN: Final[dict[str, Any]] = {"threadId": SESSION, "turnId": "turn-1"}
_ASKED: Final[dict[str, Any]] = {**_TURN, "itemId": "item-1", "startedAtMs": 0}
_RUN: Final[dict[str, Any]] = {**_ASKED, "command": "touch made", "cwd": "/project"}
_ARGUMENTS: Final[dict[str, Any]] = {"name": "todo", "text": "Buy milk"}
_CALL: Final[dict[str, Any]] = {
    "type": "mcpToolCall",
    "id": "item-1",
    "server": "notes",
    "tool": "write_note",
    "arguments": _ARGUMENTS,
    "status": "inProgress",
}
_RUNNING: Final[dict[str, Any]] = {
    "type": "commandExecution",
    "id": "item-1",
    "command": "python3 -i",
    "commandActions": [],
    "cwd": "/project",
    "status": "inProgress",
}
_CHANGE: Final[dict[str, Any]] = {
    "type": "fileChange",
    "id": "item-1",
    "status": "inProgress",
    "changes": [{"path": "/project/a.txt", "kind": {"type": "add"}, "diff": "text\n"}],
}
_FIELDS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"color": {"type": "string", "title": "Color"}},
    "required": ["color"],
}
_NO_FIELDS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_FORM: Final[dict[str, Any]] = {
    **_TURN,
    "serverName": "notes",
    "mode": "form",
    "_meta": None,
    "message": "Which color?",
    "requestedSchema": _FIELDS,
}
_CLAIM: Final[dict[str, Any]] = {
    **_FORM,
    "message": "Allow the tool call?",
    "requestedSchema": _NO_FIELDS,
    "_meta": {
        "codex_approval_kind": "mcp_tool_call",
        "persist": ["session", "always"],
        "tool_params": _ARGUMENTS,
    },
}
_URL: Final[dict[str, Any]] = {
    **_TURN,
    "serverName": "notes",
    "mode": "url",
    "_meta": None,
    "message": "Please sign in",
    "url": "https://example.com/sign-in",
    "elicitationId": "e-1",
}
_ASKS: Final[dict[str, Any]] = {
    **_TURN,
    "itemId": "item-1",
    "isBlocking": False,
    "questions": [{"id": "color", "header": "Color", "question": "Which color?"}],
}
_HOST: Final[dict[str, Any]] = {
    "networkApprovalContext": {"host": "example.com", "protocol": "https"},
    "proposedNetworkPolicyAmendments": [
        {"host": "example.com", "action": "allow"},
        {"host": "example.com", "action": "deny"},
    ],
}
_ALONE: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("item/tool/call", "", {**_TURN, "callId": "item-1", "tool": "clock", "arguments": {}}),
    ("account/chatgptAuthTokens/refresh", "", {"reason": "unauthorized"}),
    ("attestation/generate", "", {}),
    ("currentTime/read", "", {"threadId": SESSION}),
)
"""Method, case, params of what needs nothing else to be known; a new request stands here first."""


class Sample(NamedTuple):
    """One request, and what is known when it comes."""

    case: str
    """Name that distinguishes it inside its method."""
    request: ServerRequest
    items: Items
    client: ClientFeatures


def samples() -> Iterator[Sample]:
    """All samples, in the order of the contract's table."""
    yield from _commands()
    yield from _other_approvals()
    yield from _claims()
    yield from _elicitations()
    yield from _questions()
    for method, case, params in _ALONE:
        yield _sample(method, case, params)


def _commands() -> Iterator[Sample]:
    yield _sample(_COMMAND, "kind command, no decisions listed", _RUN)
    listed = {
        "proposedExecpolicyAmendment": ["touch"],
        "availableDecisions": [
            "accept",
            {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}},
            "cancel",
        ],
    }
    yield _sample(_COMMAND, "kind command, decisions listed", {**_RUN, **listed})
    unknown = {"availableDecisions": ["acceptOnTuesdays", "cancel"]}
    yield _sample(_COMMAND, "kind command, no known way to allow it", {**_RUN, **unknown})
    yield _sample(_COMMAND, "kind command, network context", {**_RUN, **_HOST})
    more = {"additionalPermissions": {"network": {"enabled": True}}}
    yield _sample(_COMMAND, "kind command, more permissions", {**_RUN, **more})
    stdin = {**_RUN, "kind": "writeStdin", "approvalId": "stdin-1"}
    yield _sample(_COMMAND, "kind writeStdin", stdin, _RUNNING)
    yield _sample(_COMMAND, "kind writeStdin, to an unknown command", stdin)
    human = {**_RUN, "kind": "humanCommand", "approvalId": "checkpoint-1"}
    yield _sample(_COMMAND, "kind humanCommand", human)
    lasting = {"availableDecisions": ["accept", "acceptForSession", "decline", "cancel"]}
    yield _sample(_COMMAND, "kind humanCommand, a lasting decision listed", {**human, **lasting})
    yield _sample(_COMMAND, "kind unknown to this schema", {**_RUN, "kind": "hologram"})
    yield _sample(_COMMAND, "its turn is not running", {**_RUN, "turnId": "turn-0"})
    yield _sample(_COMMAND, "no open session holds the thread", _RUN, thread="thread-2")


def _other_approvals() -> Iterator[Sample]:
    yield _sample(_FILES, "its item is in progress", _ASKED, _CHANGE)
    yield _sample(_FILES, "its item is not in progress", _ASKED)
    wanted = {"network": {"enabled": True}, "fileSystem": {"write": ["/outside"]}}
    asked = {**_ASKED, "cwd": "/project", "permissions": wanted}
    yield _sample(_PERMISSIONS, "", asked)
    call = {"conversationId": SESSION, "callId": "item-1"}
    run = {**call, "command": ["touch", "made"], "cwd": "/project", "parsedCmd": []}
    yield _sample("execCommandApproval", "", run)
    changes = {"fileChanges": {"/project/a.txt": {"type": "add", "content": "text\n"}}}
    yield _sample("applyPatchApproval", "", {**call, **changes})


def _claims() -> Iterator[Sample]:
    kind = "codex_approval_kind mcp_tool_call"
    yield _sample(_ELICITATION, f"{kind}, and a call in progress bears it out", _CLAIM, _CALL)
    yield _sample(_ELICITATION, f"{kind}, and no call bears it out", _CLAIM)
    fields = {**_CLAIM, "requestedSchema": _FIELDS}
    yield _sample(_ELICITATION, f"{kind}, with fields", fields, _CALL)
    url = {**_URL, "_meta": _CLAIM["_meta"]}
    yield _sample(_ELICITATION, f"{kind}, as a URL", url, _CALL)
    other = {**_CLAIM, "_meta": {"codex_approval_kind": "tool_suggestion"}}
    yield _sample(_ELICITATION, "another codex_approval_kind", other, _CALL)


def _elicitations() -> Iterator[Sample]:
    yield _sample(_ELICITATION, "mode form", _FORM)
    no_fields = {**_FORM, "message": "Go on?", "requestedSchema": _NO_FIELDS}
    yield _sample(_ELICITATION, "mode form, no properties", no_fields)
    yield _sample(_ELICITATION, "mode form, no turn", {**_FORM, "turnId": None})
    yield _sample(_ELICITATION, "mode form, client without forms", _FORM, client=_NONE)
    yield _sample(_ELICITATION, "mode url", _URL)
    plain = {**_URL, "url": "http://example.com/"}
    yield _sample(_ELICITATION, "mode url, not https", plain)
    yield _sample(_ELICITATION, "mode url, client without URLs", _URL, client=_NONE)
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    for mode in ("openai/form", "openaiForm"):
        asked = {**_FORM, "mode": mode}
        yield _sample(_ELICITATION, f"mode {mode}, fits ACP", asked)
        unfit = {**asked, "requestedSchema": nested}
        yield _sample(_ELICITATION, f"mode {mode}, does not fit ACP", unfit)
    proof = {"mode": "openai/userVerification", "challenge": "c", "title": "t", "description": "d"}
    server = {**_TURN, "serverName": "notes"}
    yield _sample(_ELICITATION, "mode openai/userVerification", {**server, **proof})
    yield _sample(_ELICITATION, "mode unknown to this schema", {**_FORM, "mode": "hologram"})


def _questions() -> Iterator[Sample]:
    yield _sample(_QUESTIONS, "questions of the model", _ASKS)
    yield _sample(_QUESTIONS, "questions of the model, client without forms", _ASKS, client=_NONE)
    secret = {**_ASKS["questions"][0], "question": "Your password?", "isSecret": True}
    yield _sample(_QUESTIONS, "a question marked isSecret", {**_ASKS, "questions": [secret]})
    labels = ["Allow", "Allow for this session", "Cancel"]
    approval = {
        "id": "mcp_tool_call_approval_1",
        "header": "Approve",
        "question": "Allow the tool call?",
        "options": [{"label": label, "description": ""} for label in labels],
    }
    asked = {**_ASKS, "questions": [approval]}
    yield _sample(_QUESTIONS, "id mcp_tool_call_approval, its call in progress", asked, _CALL)
    yield _sample(_QUESTIONS, "id mcp_tool_call_approval, without such a call", asked)


def _sample(
    method: str,
    case: str,
    params: dict[str, Any],
    item: dict[str, Any] | None = None,
    *,
    client: ClientFeatures = _ALL,
    thread: str = SESSION,
) -> Sample:
    if "threadId" in params:
        params = {**params, "threadId": thread}
    items = Items()
    turn = {"id": "turn-1", "items": [], "status": "inProgress"}
    _report(items, "turn/started", {"threadId": thread, "turn": turn})
    if item is not None:
        started = {"threadId": thread, "turnId": "turn-1", "startedAtMs": 0, "item": item}
        _report(items, "item/started", started)
    return Sample(
        case,
        REQUEST_CLASSES[method](0, _decoded(SERVER_REQUESTS[method].params, params)),
        items,
        client,
    )


def _report(items: Items, method: str, params: dict[str, Any]) -> None:
    items.apply(NOTIFICATION_CLASSES[method](_decoded(SERVER_NOTIFICATIONS[method].params, params)))


def _decoded(model: str | None, params: dict[str, Any]) -> Any:
    assert model is not None
    return MODELS.decode(model, params, model)


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


_ROUTES: Final[tuple[RouteName, ...]] = ("approval", "elicitation", "decline")


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
        cancelling=_reply(cancellation(request.method, request.params, _REASON)) if asked else None,
    )


def _shown(routed: Route) -> tuple[RouteName, str, tuple[CatalogueOption, ...]]:
    match routed:
        case Approval():
            listed = [choice.option for choice in choices(routed.offered, routed.approval, "p")]
            options = tuple(CatalogueOption(option.kind, option.name) for option in listed)
            return "approval", routed.shown.title or "", options
        case Elicitation():
            request = elicitations.create_request(routed.form_or_url, routed.session_id, "e")
            return "elicitation", request["message"], ()
        case Decline():
            told = "" if routed.session_id is None else "Declined without asking: "
            return "decline", f"{told}{routed.reason}", ()
        case _:
            assert_never(routed)


def _reply(reply: object) -> object:
    if isinstance(reply, RpcError):
        return {"error": {"code": reply.code, "message": reply.message}}
    return plain(reply)


def _cell(text: str) -> str:
    shown = "<br>".join(visible(line) for line in text.split("\n"))
    return shown.replace("|", "\\|")


def _code(value: object) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`".replace("|", "\\|")
