"""Route a sample of each case of each server request, and write the routes down.

A sample is one request, with what Codex has reported before the request. Each circumstance that
changes the route is a case. Also writes the text that `codex-acp-sdk routes` prints: the routing
table and the cases. `table.route` computes the route of a case, so the text is never a copy by
hand. Samples have the shapes that Codex sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, assert_never

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
from codex_acp.routing.rows import AnyRow
from codex_acp.routing.table import TABLES, route
from codex_acp.transcript.events import RouteName
from codex_acp.wire.codec import plain

SESSION: Final = "thread-1"
"""Id of the open session and its thread. One sample names another thread, which is not open."""

_ALL_FEATURES: Final = ClientFeatures(elicitation_form=True, elicitation_url=True)
_NO_FEATURES: Final = ClientFeatures()

_COMMAND: Final = "item/commandExecution/requestApproval"
_FILES: Final = "item/fileChange/requestApproval"
_PERMISSIONS: Final = "item/permissions/requestApproval"
_ELICITATION: Final = "mcpServer/elicitation/request"
_QUESTIONS: Final = "item/tool/requestUserInput"

_TURN_IDS: Final[dict[str, Any]] = {"threadId": SESSION, "turnId": "turn-1"}
_ITEM_IDS: Final[dict[str, Any]] = {**_TURN_IDS, "itemId": "item-1", "startedAtMs": 0}
_RUN_PARAMS: Final[dict[str, Any]] = {**_ITEM_IDS, "command": "touch made", "cwd": "/project"}
_ARGUMENTS: Final[dict[str, Any]] = {"name": "todo", "text": "Buy milk"}
_CALL_ITEM: Final[dict[str, Any]] = {
    "type": "mcpToolCall",
    "id": "item-1",
    "server": "notes",
    "tool": "write_note",
    "arguments": _ARGUMENTS,
    "status": "inProgress",
}
_COMMAND_ITEM: Final[dict[str, Any]] = {
    "type": "commandExecution",
    "id": "item-1",
    "command": "python3 -i",
    "commandActions": [],
    "cwd": "/project",
    "status": "inProgress",
}
_FILES_ITEM: Final[dict[str, Any]] = {
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
    **_TURN_IDS,
    "serverName": "notes",
    "mode": "form",
    "_meta": None,
    "message": "Which color?",
    "requestedSchema": _FIELDS,
}
_TOOL_APPROVAL: Final[dict[str, Any]] = {
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
    **_TURN_IDS,
    "serverName": "notes",
    "mode": "url",
    "_meta": None,
    "message": "Please sign in",
    "url": "https://example.com/sign-in",
    "elicitationId": "e-1",
}
_USER_INPUT: Final[dict[str, Any]] = {
    **_TURN_IDS,
    "itemId": "item-1",
    "isBlocking": False,
    "questions": [{"id": "color", "header": "Color", "question": "Which color?"}],
}
_NETWORK: Final[dict[str, Any]] = {
    "networkApprovalContext": {"host": "example.com", "protocol": "https"},
    "proposedNetworkPolicyAmendments": [
        {"host": "example.com", "action": "allow"},
        {"host": "example.com", "action": "deny"},
    ],
}
_OTHERS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("item/tool/call", "", {**_TURN_IDS, "callId": "item-1", "tool": "clock", "arguments": {}}),
    ("account/chatgptAuthTokens/refresh", "", {"reason": "unauthorized"}),
    ("attestation/generate", "", {}),
    ("currentTime/read", "", {"threadId": SESSION}),
)
"""Method, case and params of requests without a running item. A new request is added here first."""


class Sample(NamedTuple):
    """One request, and what is known when the request comes."""

    case: str
    """Name of the case, unique within the method; empty if the method has only one case."""
    request: ServerRequest
    items: Items
    """The items that Codex has reported."""
    client: ClientFeatures


def samples() -> Iterator[Sample]:
    """Yield all samples, in the order of the contract's table."""
    yield from _commands()
    yield from _other_approvals()
    yield from _tool_approvals()
    yield from _elicitations()
    yield from _questions()
    for method, case, params in _OTHERS:
        yield _sample(method, case, params)


def _commands() -> Iterator[Sample]:
    yield _sample(_COMMAND, "kind command, no decisions listed", _RUN_PARAMS)
    listed = {
        "proposedExecpolicyAmendment": ["touch"],
        "availableDecisions": [
            "accept",
            {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}},
            "cancel",
        ],
    }
    yield _sample(_COMMAND, "kind command, decisions listed", {**_RUN_PARAMS, **listed})
    unknown = {"availableDecisions": ["acceptOnTuesdays", "cancel"]}
    yield _sample(_COMMAND, "kind command, no known way to allow it", {**_RUN_PARAMS, **unknown})
    yield _sample(_COMMAND, "kind command, network context", {**_RUN_PARAMS, **_NETWORK})
    more = {"additionalPermissions": {"network": {"enabled": True}}}
    yield _sample(_COMMAND, "kind command, more permissions", {**_RUN_PARAMS, **more})
    stdin = {**_RUN_PARAMS, "kind": "writeStdin", "approvalId": "stdin-1"}
    yield _sample(_COMMAND, "kind writeStdin", stdin, _COMMAND_ITEM)
    yield _sample(_COMMAND, "kind writeStdin, to an unknown command", stdin)
    human = {**_RUN_PARAMS, "kind": "humanCommand", "approvalId": "checkpoint-1"}
    yield _sample(_COMMAND, "kind humanCommand", human)
    lasting = {"availableDecisions": ["accept", "acceptForSession", "decline", "cancel"]}
    yield _sample(_COMMAND, "kind humanCommand, a lasting decision listed", {**human, **lasting})
    yield _sample(_COMMAND, "kind unknown to this schema", {**_RUN_PARAMS, "kind": "hologram"})
    yield _sample(_COMMAND, "its turn is not running", {**_RUN_PARAMS, "turnId": "turn-0"})
    yield _sample(_COMMAND, "no open session holds the thread", _RUN_PARAMS, thread="thread-2")


def _other_approvals() -> Iterator[Sample]:
    yield _sample(_FILES, "its item is in progress", _ITEM_IDS, _FILES_ITEM)
    yield _sample(_FILES, "its item is not in progress", _ITEM_IDS)
    wanted = {"network": {"enabled": True}, "fileSystem": {"write": ["/outside"]}}
    asked = {**_ITEM_IDS, "cwd": "/project", "permissions": wanted}
    yield _sample(_PERMISSIONS, "", asked)
    call = {"conversationId": SESSION, "callId": "item-1"}
    run = {**call, "command": ["touch", "made"], "cwd": "/project", "parsedCmd": []}
    yield _sample("execCommandApproval", "", run)
    changes = {"fileChanges": {"/project/a.txt": {"type": "add", "content": "text\n"}}}
    yield _sample("applyPatchApproval", "", {**call, **changes})


def _tool_approvals() -> Iterator[Sample]:
    kind = "codex_approval_kind mcp_tool_call"
    yield _sample(
        _ELICITATION, f"{kind}, and a call in progress bears it out", _TOOL_APPROVAL, _CALL_ITEM
    )
    yield _sample(_ELICITATION, f"{kind}, and no call bears it out", _TOOL_APPROVAL)
    fields = {**_TOOL_APPROVAL, "requestedSchema": _FIELDS}
    yield _sample(_ELICITATION, f"{kind}, with fields", fields, _CALL_ITEM)
    url = {**_URL, "_meta": _TOOL_APPROVAL["_meta"]}
    yield _sample(_ELICITATION, f"{kind}, as a URL", url, _CALL_ITEM)
    other = {**_TOOL_APPROVAL, "_meta": {"codex_approval_kind": "tool_suggestion"}}
    yield _sample(_ELICITATION, "another codex_approval_kind", other, _CALL_ITEM)


def _elicitations() -> Iterator[Sample]:
    yield _sample(_ELICITATION, "mode form", _FORM)
    no_fields = {**_FORM, "message": "Go on?", "requestedSchema": _NO_FIELDS}
    yield _sample(_ELICITATION, "mode form, no properties", no_fields)
    yield _sample(_ELICITATION, "mode form, no turn", {**_FORM, "turnId": None})
    yield _sample(_ELICITATION, "mode form, client without forms", _FORM, client=_NO_FEATURES)
    yield _sample(_ELICITATION, "mode url", _URL)
    plain = {**_URL, "url": "http://example.com/"}
    yield _sample(_ELICITATION, "mode url, not https", plain)
    yield _sample(_ELICITATION, "mode url, client without URLs", _URL, client=_NO_FEATURES)
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    for mode in ("openai/form", "openaiForm"):
        asked = {**_FORM, "mode": mode}
        yield _sample(_ELICITATION, f"mode {mode}, fits ACP", asked)
        unfit = {**asked, "requestedSchema": nested}
        yield _sample(_ELICITATION, f"mode {mode}, does not fit ACP", unfit)
    proof = {"mode": "openai/userVerification", "challenge": "c", "title": "t", "description": "d"}
    server = {**_TURN_IDS, "serverName": "notes"}
    yield _sample(_ELICITATION, "mode openai/userVerification", {**server, **proof})
    yield _sample(_ELICITATION, "mode unknown to this schema", {**_FORM, "mode": "hologram"})


def _questions() -> Iterator[Sample]:
    yield _sample(_QUESTIONS, "questions of the model", _USER_INPUT)
    yield _sample(
        _QUESTIONS, "questions of the model, client without forms", _USER_INPUT, client=_NO_FEATURES
    )
    secret = {**_USER_INPUT["questions"][0], "question": "Your password?", "isSecret": True}
    yield _sample(_QUESTIONS, "a question marked isSecret", {**_USER_INPUT, "questions": [secret]})
    labels = ["Allow", "Allow for this session", "Cancel"]
    approval = {
        "id": "mcp_tool_call_approval_1",
        "header": "Approve",
        "question": "Allow the tool call?",
        "options": [{"label": label, "description": ""} for label in labels],
    }
    asked = {**_USER_INPUT, "questions": [approval]}
    yield _sample(_QUESTIONS, "id mcp_tool_call_approval, its call in progress", asked, _CALL_ITEM)
    yield _sample(_QUESTIONS, "id mcp_tool_call_approval, without such a call", asked)


def _sample(
    method: str,
    case: str,
    params: dict[str, Any],
    item: dict[str, Any] | None = None,
    *,
    client: ClientFeatures = _ALL_FEATURES,
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
"""Stands for the reason in a negative reply to Codex, which differs each time."""


@dataclass(frozen=True, slots=True)
class CatalogueOption:
    """One choice of a permission request. ``kind`` is ACP's ``PermissionOptionKind``."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """One server request in one case.

    ``shown`` is the text for the person: an approval's title, an elicitation's message, or the line
    with the reason of a decline. ``negative`` (for a no) and ``cancelling`` (for a cancelled
    prompt) are replies to Codex as JSON: a result, or ``{"error": {"code", "message"}}``.
    ``cancelling`` is None if nobody is asked.
    """

    method: str
    case: str
    route: RouteName
    shown: str
    options: tuple[CatalogueOption, ...]
    negative: object
    cancelling: object


def catalogue() -> tuple[CatalogueRow, ...]:
    """Return all rows, in the order of the contract's table."""
    return tuple(_row(sample) for sample in samples())


def as_markdown(rows: Iterable[CatalogueRow]) -> str:
    """Return the rows as one Markdown table, with a line break at the end."""
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
    """Return the routing table as Markdown: routes and reasons of requests and values in them."""
    lines = ["| server request, or value inside one | can become | why |", "| --- | --- | --- |"]
    for table, key, row in _table_rows():
        names = {route: ", ".join(_names(row, route)) for route in _ROUTES}
        routes = "; ".join(f"{route}: {text}" for route, text in names.items() if text)
        where = "" if table == "SERVER_REQUEST_ROUTES" else f" ({table.lower().replace('_', ' ')})"
        lines.append(f"| `{key}`{where} | {routes or 'never sent'} | {row.why} |")
    return "\n".join(lines) + "\n"


_ROUTES: Final[tuple[RouteName, ...]] = ("approval", "elicitation", "decline")


def _table_rows() -> Iterator[tuple[str, str, AnyRow]]:
    """Yield (name of the table, key, row) of all rows."""
    for name, rows in TABLES.items():
        for key, row in rows.items():
            yield name, key, row


def _names(row: AnyRow, route: RouteName) -> list[str]:
    """Return the names of the classes, grants and replies of one route."""
    return [getattr(each, "__name__", each) for each in getattr(row, route)]


def as_json(rows: Iterable[CatalogueRow]) -> str:
    """Return the routing table and the rows as JSON, with a line break at the end."""
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
    table = [
        {"list": name, "key": key, **{each: _names(row, each) for each in _ROUTES}, "why": row.why}
        for name, key, row in _table_rows()
    ]
    whole = {"table": table, "cases": cases}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _row(sample: Sample) -> CatalogueRow:
    routed = route(sample.request, RoutingContext(sample.items, sample.client, {SESSION}))
    request = sample.request
    name, shown, options = _shown(routed)
    is_asked = name != "decline"
    cancelling = _reply(cancellation(request.method, request.params, _REASON)) if is_asked else None
    return CatalogueRow(
        method=request.method,
        case=sample.case,
        route=name,
        shown=shown,
        options=options,
        negative=_reply(refusal(request.method, request.params, _REASON)),
        cancelling=cancelling,
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
            prefix = "" if routed.session_id is None else "Declined without asking: "
            return "decline", f"{prefix}{routed.reason}", ()
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
