"""PURE: find out what a server request really is, by the items that run.

The adapter's routing and headless policies share this classifier (contract 1.1). It has a case
for each method, and for each value of the fields that change a method's meaning: the elicitation
``mode``, the approval kind, ``_meta.codex_approval_kind``. ``_meta`` alone never proves anything:
Codex passes the ``_meta`` of an MCP server's own elicitation on unchanged (contract 2.7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, assert_never

from codex_acp.codex._generated import models
from codex_acp.codex._generated.server_requests import (
    AccountChatgptAuthTokensRefresh,
    ApplyPatchApproval,
    AttestationGenerate,
    CurrentTimeRead,
    ExecCommandApproval,
    ItemCommandExecutionRequestApproval,
    ItemFileChangeRequestApproval,
    ItemPermissionsRequestApproval,
    ItemToolCall,
    ItemToolRequestUserInput,
    McpServerElicitationRequest,
)
from codex_acp.codex.approvals.running_items import full_server_name, same_call
from codex_acp.wire.codec import same_json
from codex_acp.wire.model import UnknownValue, UnknownVariant

if TYPE_CHECKING:
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.running_items import Items

APPROVAL_KIND: Final = "codex_approval_kind"
"""A request with this key in ``_meta``, whatever the value, claims to be an approval."""

TOOL_CALL: Final = "mcp_tool_call"
"""The only value of ``_meta.codex_approval_kind`` that can be an approval."""

_MAX_QUOTED: Final = 80
"""Characters of a peer's text that a reason repeats."""

APPROVAL_QUESTION: Final = "mcp_tool_call_approval"
"""Beginning of a question's id: this is Codex's older way to ask for a tool call."""


class CommandApproval(NamedTuple):
    """Asks to run a command, to write text to a running command, or to reach a host.

    ``item`` is the running item with the request's item id, of any type. If text is to be written,
    ``item`` is the command that gets the text, None if unknown.
    """

    request: ItemCommandExecutionRequestApproval
    item: models.ThreadItem | None = None
    environments: tuple[str, ...] = ()
    """The environments of the thread; empty if there is only this machine."""


class FileChangeApproval(NamedTuple):
    """Asks whether files may change; ``item`` has the changes as Codex last reported them."""

    request: ItemFileChangeRequestApproval
    item: models.FileChangeThreadItem
    environments: tuple[str, ...] = ()
    """As in `CommandApproval`; Codex does not say in which one the files change."""


class PermissionsApproval(NamedTuple):
    """Asks whether the turn, or the session, may have more permissions."""

    request: ItemPermissionsRequestApproval
    environments: tuple[str, ...] = ()
    """As in `CommandApproval`."""


class McpToolApproval(NamedTuple):
    """Asks whether a call of an MCP tool may run; ``item`` is the call as Codex reported it."""

    request: McpServerElicitationRequest
    params: models.McpFormElicitationParams
    item: models.McpToolCallThreadItem


class McpToolQuestion(NamedTuple):
    """Asks for a call of an MCP tool in Codex's older way: one question with fixed labels."""

    request: ItemToolRequestUserInput
    item: models.McpToolCallThreadItem


class LegacyCommandApproval(NamedTuple):
    """Asks whether a command may run, in the protocol's first version."""

    request: ExecCommandApproval


class LegacyPatchApproval(NamedTuple):
    """Asks whether files may change, in the protocol's first version."""

    request: ApplyPatchApproval


class McpForm(NamedTuple):
    """An MCP server asks a person for input: a form, or a yes/no question without properties."""

    request: McpServerElicitationRequest
    params: (
        models.McpFormElicitationParams
        | models.McpOpenaiFormElicitationParams
        | models.McpOpenaiFormLegacyElicitationParams
    )


class McpUrl(NamedTuple):
    """An MCP server asks a person to open a page."""

    request: McpServerElicitationRequest
    params: models.McpUrlElicitationParams


class UserInput(NamedTuple):
    """The model asks the person questions."""

    request: ItemToolRequestUserInput


class ProgramOnly(NamedTuple):
    """A request that only the embedding program can answer, with a handler."""

    request: ItemToolCall | AccountChatgptAuthTokensRefresh | AttestationGenerate | CurrentTimeRead
    reason: str


class Refused(NamedTuple):
    """A request to be declined; ``reason`` is one sentence for the person and the log."""

    request: ServerRequest
    reason: str


ApprovalRequest: TypeAlias = (
    CommandApproval | FileChangeApproval | PermissionsApproval | McpToolApproval | McpToolQuestion
    | LegacyCommandApproval | LegacyPatchApproval
)  # fmt: skip
"""Asks whether one pending action may run."""

ElicitationRequest: TypeAlias = McpForm | McpUrl | UserInput
"""Asks a person for input."""

Classified: TypeAlias = ApprovalRequest | ElicitationRequest | ProgramOnly | Refused


def classify(request: ServerRequest, items: Items) -> Classified:
    """Return the class of ``request``, given the running items; never raise for its content."""
    match request:
        case ItemCommandExecutionRequestApproval():
            return _classify_command(request, items)
        case ItemFileChangeRequestApproval():
            if (refused := _refused_without_turn(request, items)) is not None:
                return refused
            running = items.get(request.params.thread_id, request.params.item_id)
            if running is None or not isinstance(running.item, models.FileChangeThreadItem):
                return Refused(request, "Codex asks about file changes that it has not reported")
            environments = items.environments_of(running.thread_id)
            return FileChangeApproval(request, running.item, environments)
        case ItemPermissionsRequestApproval():
            refused = _refused_without_turn(request, items)
            environments = items.environments_of(request.params.thread_id)
            return refused or PermissionsApproval(request, environments)
        case McpServerElicitationRequest():
            return _classify_elicitation(request, items)
        case ItemToolRequestUserInput():
            return _classify_user_input(request, items)
        case ItemToolCall():
            tool = _quoted(request.params.tool)
            return ProgramOnly(request, f"the tool {tool} belongs to a program that is not there")
        case AccountChatgptAuthTokensRefresh() | AttestationGenerate() | CurrentTimeRead():
            return ProgramOnly(request, f"{request.method} is not offered by this client")
        case ExecCommandApproval() | ApplyPatchApproval():
            if items.running_turn(request.params.conversation_id) is None:
                return Refused(request, "Codex asks for an approval while no turn is running")
            if isinstance(request, ExecCommandApproval):
                return LegacyCommandApproval(request)
            return LegacyPatchApproval(request)
        case _:
            assert_never(request)


def _classify_command(request: ItemCommandExecutionRequestApproval, items: Items) -> Classified:
    kind = request.params.kind
    match kind:
        case "command" | "writeStdin" | "humanCommand":
            thread_id, item_id = request.params.thread_id, request.params.item_id
            if kind == "writeStdin":
                item: models.ThreadItem | None = items.written_to(thread_id, item_id)
            else:
                running = items.get(thread_id, item_id)
                item = None if running is None else running.item
            refused = _refused_without_turn(request, items)
            return refused or CommandApproval(request, item, items.environments_of(thread_id))
        case UnknownValue():
            return Refused(request, f"Codex asks for an unknown kind of approval, {_quoted(kind)}")
        case _:
            assert_never(kind)


def _refused_without_turn(
    request: (
        ItemCommandExecutionRequestApproval
        | ItemFileChangeRequestApproval
        | ItemPermissionsRequestApproval
    ),
    items: Items,
) -> Refused | None:
    """Return the refusal of a request whose turn does not run."""
    if items.is_running(request.params.thread_id, request.params.turn_id):
        return None
    return Refused(request, "Codex asks for an approval in a turn that is not running")


# --- elicitations of MCP servers ---------------------------------------------------------------


def _classify_elicitation(request: McpServerElicitationRequest, items: Items) -> Classified:
    params = request.params
    if isinstance(params, UnknownVariant):
        mode = params.wire().get("mode")
        return Refused(request, f"an MCP server asks in an unknown mode, {_quoted(mode)}")
    meta: dict[str, Any] = params.meta if isinstance(params.meta, dict) else {}
    if APPROVAL_KIND in meta:
        return _classify_claim(request, meta, items)
    match params:
        case models.McpUserVerificationElicitationParams():
            server = full_server_name(params.server_name, params.environment_id)
            return Refused(request, f"{server}: a proof by this device cannot be given over ACP")
        case (
            models.McpFormElicitationParams()
            | models.McpOpenaiFormElicitationParams()
            | models.McpOpenaiFormLegacyElicitationParams()
        ):
            return McpForm(request, params)
        case models.McpUrlElicitationParams():
            return McpUrl(request, params)
        case _:
            assert_never(params)


def _quoted(value: object) -> str:
    """Return a peer's text for a reason: on one line, and short."""
    return f"{value!r:.{_MAX_QUOTED}}"


def _classify_claim(
    request: McpServerElicitationRequest, meta: dict[str, Any], items: Items
) -> Classified:
    """Classify a request that claims to be an approval. Codex's own items must prove the claim,
    because an MCP server can claim so, too (contract 2.7)."""
    params, kind = request.params, meta[APPROVAL_KIND]
    server = "an MCP server"
    if not isinstance(params, UnknownVariant):
        server = full_server_name(params.server_name, params.environment_id)
    if kind != TOOL_CALL:
        return Refused(request, f"{server}: an approval of the unknown kind {_quoted(kind)}")
    if not isinstance(params, models.McpFormElicitationParams):
        return Refused(request, f"{server}: claims to be a tool approval but is no plain form")
    if params.requested_schema.properties:
        return Refused(request, f"{server}: claims to be a tool approval but asks for input")
    if params.turn_id is None or not items.is_running(params.thread_id, params.turn_id):
        return Refused(request, f"{server}: claims to be a tool approval outside a running turn")
    calls = [
        running.item
        for running in items.mcp_calls(params.thread_id, params.turn_id, server)
        if isinstance(running.item, models.McpToolCallThreadItem)
        and _is_claimed(running.item, meta)
    ]
    # The person sees no difference between calls that differ only in their id.
    if not calls or not all(same_call(call, calls[0]) for call in calls):
        fitting = "several different calls" if calls else "no call"
        reason = f"claims to be a tool approval, but {fitting} would fit it"
        return Refused(request, f"{server}: {reason}")
    return McpToolApproval(request, params, calls[0])


def _is_claimed(call: models.McpToolCallThreadItem, meta: dict[str, Any]) -> bool:
    """Return whether a running call fits the call that ``_meta`` claims to ask about."""
    if "tool_name" in meta and meta["tool_name"] != call.tool:
        return False
    claimed, actual = meta.get("tool_params"), call.arguments
    # A call without arguments is reported as null, as {} or not at all.
    return same_json({} if claimed is None else claimed, {} if actual is None else actual)


# --- questions of the model --------------------------------------------------------------------


def _classify_user_input(request: ItemToolRequestUserInput, items: Items) -> Classified:
    params = request.params
    if not any(q.id.startswith(APPROVAL_QUESTION) for q in params.questions):
        return UserInput(request)
    if len(params.questions) != 1:
        return Refused(request, "a question claims to be a tool approval among others")
    running = items.get(params.thread_id, params.item_id)
    if (
        running is not None
        and running.turn_id == params.turn_id
        and items.is_running(params.thread_id, params.turn_id)
        and isinstance(running.item, models.McpToolCallThreadItem)
        and not running.asked  # Codex asks once for each call
    ):
        return McpToolQuestion(request, running.item)
    return Refused(request, "a question claims to be a tool approval, but no call would fit it")
