"""An approval as a person sees it: a tool call that stands alone, and the options to choose from.

What is shown is what runs (contract 3.8): commands and arguments come from Codex's own request or
item, an MCP server's words are marked as its words, and every character that could deceive is
made visible. Nothing is cut without saying so.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from codex_acp.codex._generated import models
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    CommandApproval,
    FileChangeApproval,
    LegacyCommandApproval,
    LegacyPatchApproval,
    McpToolApproval,
    McpToolQuestion,
    PermissionsApproval,
)
from codex_acp.codex.approvals.grants import (
    Always,
    Grant,
    OfferedGrants,
    Once,
    RememberHost,
    RememberPrefix,
    Session,
    allows,
    arguments_of,
)
from codex_acp.mapping.events.content import CallContent, Location
from codex_acp.mapping.events.permissions import CommandSubject, OptionKind, PermissionOption
from codex_acp.mapping.events.session_events import CallKind, ToolCallChanged
from codex_acp.routing.changes import change_content, move_target
from codex_acp.routing.content import CONTENT_LIMIT, code_content, text_content
from codex_acp.routing.display import (
    inline,
    is_plain,
    listed,
    quotation,
    quoted_words,
    server_name,
    shortened,
    visible,
)
from codex_acp.transcript.events import ToolIdentity
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence


_NETWORK: Final[dict[bool | None, str]] = {True: "network", False: "no network"}

_FOR_GOOD: Final = "always, in every directory and later session"
"""How long Codex keeps a rule that it writes to its own files, in ``CODEX_HOME``."""

_BOOKKEEPING: Final = frozenset(
    {"threadId", "turnId", "itemId", "approvalId", "startedAtMs", "availableDecisions"}
)
"""Of a request's fields those that say nothing of the action; they are digested like the others."""

_VERBS: Final[dict[str, str]] = {
    "writeStdin": "Write to a running command",
    "humanCommand": "Run (your organisation wants a person to decide)",
}
"""What is asked, for kinds of a command approval other than the plain one."""


class PermissionChoice(NamedTuple):
    """One option of a permission request; ``grant`` None is the plain rejection."""

    option: PermissionOption
    grant: Grant | None


def choices(
    offered: OfferedGrants, approval: ApprovalRequest, token: str
) -> tuple[PermissionChoice, ...]:
    """The options for one ledger entry: its grants, the plain rejection, then lasting rejections.

    Option ids begin with the entry's ``token``: one entry's id never fits another's. The plain
    rejection is the first, for clients that take the first one whose kind rejects. An action that
    is not shown whole cannot be allowed.
    """
    whole = _is_shown_whole(approval)
    grants = [
        PermissionChoice(_option(f"{token}:{number}", grant, approval), grant)
        for number, grant in enumerate(offered.grants)
        if whole or not allows(grant)
    ]
    reject = PermissionOption(
        option_id=f"{token}:reject", name="Reject and go on", kind="reject_once"
    )
    allowing = [choice for choice in grants if choice.grant is not None and allows(choice.grant)]
    lasting = [choice for choice in grants if choice not in allowing]
    return (*allowing, PermissionChoice(reject, None), *lasting)


def _is_shown_whole(approval: ApprovalRequest) -> bool:
    parts = [part.text for part in _action(approval)]
    if isinstance(approval, FileChangeApproval):
        parts = [change.diff for change in approval.item.changes]
    return all(len(visible(part, multiline=True)) <= CONTENT_LIMIT for part in parts)


def _option(option_id: str, grant: Grant, approval: ApprovalRequest) -> PermissionOption:
    return PermissionOption(option_id=option_id, name=_name(grant, approval), kind=_kind(grant))


def _kind(grant: Grant) -> OptionKind:
    if isinstance(grant, Once):
        return "allow_once"
    return "allow_always" if allows(grant) else "reject_always"


def _name(grant: Grant, approval: ApprovalRequest) -> str:
    """Say what choosing this reaches, as Codex really takes it (`docs/contract.md`, 2.6)."""
    match grant:
        case Once():
            return "Allow once"
        case Session():
            return f"Allow for this session: {_reach(approval)}"
        case Always():
            return f"Allow {_FOR_GOOD}: {_reach(approval)}"
        case RememberPrefix(prefix=prefix):
            command = " ".join(json.dumps(part, ensure_ascii=False) for part in prefix)
            return (
                f"Allow {_FOR_GOOD}, unasked and outside of the sandbox: every command that "
                f"begins with {inline(command, None)}"
            )
        case RememberHost(host=host, action=action):
            verb = "Allow" if action == "allow" else "Reject"
            return f"{verb} {_FOR_GOOD}: every connection to {inline(host, None)}"
        case _:
            assert_never(grant)


def _reach(approval: ApprovalRequest) -> str:
    match approval:
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return f"every call of {inline(f'{call.server}/{call.tool}', None)}, any arguments"
        case CommandApproval(request=request) if request.params.network_approval_context:
            return f"connections to {inline(request.params.network_approval_context.host, None)}"
        case CommandApproval() | LegacyCommandApproval():
            return "this same command in this directory"
        case FileChangeApproval() | LegacyPatchApproval():
            return "any change to these files, their deletion too"
        case PermissionsApproval():
            return "these permissions, for every command and edit until the session ends"
        case _:
            assert_never(approval)


def identity_of(approval: ApprovalRequest) -> ToolIdentity:
    """Which tool is asked for, in the ledger and the transcript."""
    match approval:
        case CommandApproval() | LegacyCommandApproval():
            return ToolIdentity(kind="shell", name="shell")
        case FileChangeApproval() | LegacyPatchApproval():
            return ToolIdentity(kind="file_change", name="file change")
        case PermissionsApproval():
            return ToolIdentity(kind="permissions", name="permissions")
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return ToolIdentity(kind="mcp_tool", name=f"{call.server}/{call.tool}")
        case _:
            assert_never(approval)


def shown(approval: ApprovalRequest, tool_call_id: str, child: str | None) -> ToolCallChanged:
    """The permission request's tool call. ``child`` names the sub-agent that asks, if one does.

    A file change that Codex announced keeps the diff that was sent with it: content is left out.
    """
    title, kind = _title(approval)
    if child is not None:
        title = f"{title} (asked by sub-agent {inline(child)})"
    return ToolCallChanged(
        id=tool_call_id,
        title=title,
        kind=kind,
        status="pending",
        content=_content(approval) or None,
        locations=[Location(path) for path in _locations(approval)] or None,
        raw_input=_raw_input(approval),
    )


def announced_content(approval: ApprovalRequest, shown: ToolCallChanged) -> Sequence[CallContent]:
    """Content of the tool call itself: of a file change the diffs, else what the question shows."""
    if not isinstance(approval, FileChangeApproval):
        return shown.content or ()
    return [content for change in approval.item.changes for content in change_content(change)]


def _title(approval: ApprovalRequest) -> tuple[str, CallKind]:
    match approval:
        case CommandApproval(request=request):
            params = request.params
            if params.network_approval_context is not None:
                context = params.network_approval_context
                where = f"{context.protocol}://{context.host}"
                return f"Connect to {inline(where)}", "fetch"
            verb = _VERBS.get(params.kind, "Run")
            return f"{verb}: {inline(params.command or '(no command given)')}", "execute"
        case LegacyCommandApproval(request=legacy):
            return f"Run: {inline(shlex.join(legacy.params.command))}", "execute"
        case FileChangeApproval(request=change, item=item):
            root = change.params.grant_root
            also = "" if root is None else f", and from now on write below {inline(root)}"
            return f"Change {_changes(item)}{also}", "edit"
        case LegacyPatchApproval(request=patch):
            return f"Change {_files(list(patch.params.file_changes))}", "edit"
        case PermissionsApproval():
            return f"Give the turn permissions: {_permissions(approval)}", "other"
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return f"{inline(call.server)}: call {inline(call.tool)}", "other"
        case _:
            assert_never(approval)


def _changes(item: models.FileChangeThreadItem) -> str:
    names = []
    for change in item.changes:
        target = move_target(change)
        moved = "" if target is None else f" (moved to {inline(target)})"
        names.append(f"{inline(change.path)}{moved}")
    return listed(names) or "no file"


def _files(paths: list[str]) -> str:
    return listed([inline(path) for path in paths]) or "no file"


def _permissions(approval: PermissionsApproval) -> str:
    asked = approval.request.params.permissions
    parts = []
    if asked.network is not None:
        parts.append(_NETWORK.get(asked.network.enabled, "network as listed below"))
    files = asked.file_system
    if files is not None:
        parts += [f"read {inline(path)}" for path in files.read or ()]
        parts += [f"write {inline(path)}" for path in files.write or ()]
        parts += [f"{inline(entry.access)} {_place(entry.path)}" for entry in files.entries or ()]
    return listed(list(dict.fromkeys(parts))) or "none named"


def _place(path: models.FileSystemPath) -> str:
    match path:
        case models.PathFileSystemPath():
            return inline(path.path)
        case models.GlobPatternFileSystemPath():
            return f"all that matches {inline(path.pattern)}"
        case models.SpecialFileSystemPath() | UnknownVariant():
            return inline(json.dumps(plain(path), ensure_ascii=False))
        case _:
            assert_never(path)


def _raw_input(approval: ApprovalRequest) -> dict[str, object]:
    """Self-contained: what runs, where, and why it is asked."""
    raw = {k: v for k, v in arguments_of(approval).items() if k not in _BOOKKEEPING}
    reason = _reason(approval)
    if reason is None:
        return raw
    name = "reason"
    if isinstance(approval, McpToolApproval | McpToolQuestion):
        name = f"{server_name(approval.item.server)} says"  # nothing proves that it is Codex
    return {**raw, name: reason}


def _reason(approval: ApprovalRequest) -> str | None:
    match approval:
        case CommandApproval() | FileChangeApproval() | PermissionsApproval():
            return approval.request.params.reason
        case LegacyCommandApproval() | LegacyPatchApproval():
            return approval.request.params.reason
        case McpToolApproval(params=params):
            return params.message
        case McpToolQuestion(request=question):
            return question.params.questions[0].question
        case _:
            assert_never(approval)


class _Part(NamedTuple):
    """A piece of what is to be allowed, as others wrote it."""

    heading: str
    text: str
    language: str = "json"


def _content(approval: ApprovalRequest) -> list[CallContent]:
    """The action, and why it is asked; nothing of a file change, whose diffs were announced.

    A permission request's fields replace: content here would erase them.
    """
    if isinstance(approval, FileChangeApproval):
        return []
    content: list[CallContent] = [
        code_content(text, name, heading) for heading, text, name in _action(approval)
    ]
    match approval:
        case CommandApproval(request=request) if request.params.cwd:
            content.append(text_content(f"In {inline(request.params.cwd, None)}"))
        case LegacyCommandApproval(request=legacy):
            content.append(text_content(f"In {inline(legacy.params.cwd, None)}"))
    reason = reason_shown(approval)
    return [*content, *([text_content(reason)] if reason else [])]


def reason_shown(approval: ApprovalRequest) -> str | None:
    """Why it is asked, as the words of who asks; None if nobody says."""
    reason = shortened(_reason(approval) or "", CONTENT_LIMIT)
    if not reason:
        return None
    if isinstance(approval, McpToolApproval | McpToolQuestion):
        return quoted_words(approval.item.server, reason)
    return f"Reason given:\n{quotation(reason)}"


def command_of(approval: ApprovalRequest) -> CommandSubject | None:
    """The command that is asked for, if that and where it runs is all there is to see.

    None for a connection, an input or more permissions, and where a character is made visible:
    then the tool call shows it.
    """
    found: CommandSubject | None = None
    match approval:
        case CommandApproval(request=request):
            params = request.params
            more = params.network_approval_context or params.additional_permissions
            if more is None and params.kind != "writeStdin" and params.command and params.cwd:
                found = CommandSubject(params.command, params.cwd)
        case LegacyCommandApproval(request=legacy):
            found = CommandSubject(shlex.join(legacy.params.command), legacy.params.cwd)
    if found is None or not (is_plain(found.command, multiline=True) and is_plain(found.cwd)):
        return None
    return found


def _action(approval: ApprovalRequest) -> list[_Part]:
    """What the title and the announced diff do not show in full."""
    match approval:
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return [_Part("Arguments:", _json(call.arguments))]
        case CommandApproval(request=request):
            params, more = request.params, request.params.additional_permissions
            parts = [_Part("", params.command, "sh")] if params.command else []
            if more is not None:
                parts.append(_Part("With more permissions:", _json(plain(more))))
            return parts
        case LegacyCommandApproval(request=legacy):
            return [_Part("", shlex.join(legacy.params.command), "sh")]
        case FileChangeApproval():
            return []
        case LegacyPatchApproval() | PermissionsApproval():
            return [_Part("", _json(arguments_of(approval)))]
        case _:
            assert_never(approval)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _locations(approval: ApprovalRequest) -> list[str]:
    if isinstance(approval, FileChangeApproval):
        return [change.path for change in approval.item.changes]
    if isinstance(approval, LegacyPatchApproval):
        return list(approval.request.params.file_changes)
    return []
