"""An approval as a person sees it: a tool call that stands alone, and the options to choose from.

What is shown is what runs (contract 3.8): commands and arguments come from Codex's own request or
item, an MCP server's words are marked as its words, and every character that could deceive is
made visible. Nothing is cut without saying so.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from codex_acp.acp._generated.v1.models import (
    PermissionOption,
    ToolCallLocation,
    ToolCallUpdate,
)
from codex_acp.codex._generated.models import (
    GlobPatternFileSystemPath,
    PathFileSystemPath,
    SpecialFileSystemPath,
)
from codex_acp.codex.approvals.classify import (
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
    Once,
    RememberHost,
    RememberPrefix,
    Session,
    allows,
    arguments_of,
)
from codex_acp.routing.changes import change_content, move_target
from codex_acp.routing.content import TITLE_LIMIT, text_content
from codex_acp.routing.display import quoted_words, shortened, visible
from codex_acp.transcript.events import ToolIdentity
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import PermissionOptionKind, ToolCallContent, ToolKind
    from codex_acp.codex._generated.models import (
        FileChangeThreadItem,
        FileSystemPath,
    )
    from codex_acp.codex.approvals.classify import Approval
    from codex_acp.codex.approvals.grants import Grant, OfferedGrants

__all__ = ["Choice", "announced_content", "choices", "identity_of", "shown"]

_NETWORK: Final[dict[bool | None, str]] = {True: "network", False: "no network"}

_VERBS: Final[dict[str, str]] = {
    "writeStdin": "Write to a running command",
    "humanCommand": "Run (your organisation wants a person to decide)",
}
"""What is asked, for kinds of a command approval other than the plain one."""


class Choice(NamedTuple):
    """One option of a permission request; ``grant`` None is the plain rejection."""

    option: PermissionOption
    grant: Grant | None


def choices(offered: OfferedGrants, approval: Approval, token: str) -> tuple[Choice, ...]:
    """The options for one ledger entry: its grants, the plain rejection, then lasting rejections.

    Option ids begin with the entry's ``token``: one entry's id never fits another's. The plain
    rejection is the first, for clients that take the first one whose kind rejects.
    """
    listed = [
        Choice(_option(f"{token}:{number}", grant, approval), grant)
        for number, grant in enumerate(offered.grants)
    ]
    reject = PermissionOption(
        option_id=f"{token}:reject", name="Reject and go on", kind="reject_once"
    )
    allowing = [choice for choice in listed if choice.grant is not None and allows(choice.grant)]
    lasting = [choice for choice in listed if choice not in allowing]
    return (*allowing, Choice(reject, None), *lasting)


def _option(option_id: str, grant: Grant, approval: Approval) -> PermissionOption:
    return PermissionOption(option_id=option_id, name=_name(grant, approval), kind=_kind(grant))


def _kind(grant: Grant) -> PermissionOptionKind:
    if isinstance(grant, Once):
        return "allow_once"
    return "allow_always" if allows(grant) else "reject_always"


def _name(grant: Grant, approval: Approval) -> str:
    """What choosing this really reaches."""
    match grant:
        case Once():
            return "Allow once"
        case Session():
            return f"Allow for this session: {_reach(approval)}"
        case Always():
            return f"Allow always, in later sessions too: {_reach(approval)}"
        case RememberPrefix(prefix=prefix):
            command = " ".join(json.dumps(visible(part), ensure_ascii=False) for part in prefix)
            return f"Allow, and from now on every command that begins with {command}"
        case RememberHost(host=host, action=action):
            verb = "Allow" if action == "allow" else "Reject"
            return f"{verb}, and from now on every connection to {visible(host)}"
        case _:
            assert_never(grant)


def _reach(approval: Approval) -> str:
    match approval:
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return f"every call of {visible(call.server)}/{visible(call.tool)}, any arguments"
        case CommandApproval(request=request) if request.params.network_approval_context:
            return f"connections to {visible(request.params.network_approval_context.host)}"
        case CommandApproval() | LegacyCommandApproval():
            return "this same command"
        case FileChangeApproval() | LegacyPatchApproval():
            return "changes to these files"
        case PermissionsApproval():
            return "these permissions, until the session ends"
        case _:
            assert_never(approval)


def identity_of(approval: Approval) -> ToolIdentity:
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


def shown(approval: Approval, tool_call_id: str, child: str | None) -> ToolCallUpdate:
    """The permission request's tool call. ``child`` names the sub-agent that asks, if one does.

    A file change that Codex announced keeps the diff that was sent with it: content is left out.
    """
    title, kind = _title(approval)
    title = shortened(title, TITLE_LIMIT)
    if child is not None:  # after the cut: it is never what a long command pushes out
        title = f"{title} (asked by sub-agent {visible(child)})"
    update = ToolCallUpdate(
        tool_call_id=tool_call_id,
        title=title,
        kind=kind,
        status="pending",
        raw_input=_raw_input(approval),
    )
    content = _content(approval)
    if content:
        update.content = content
    locations = _locations(approval)
    if locations:
        update.locations = [ToolCallLocation(path=path) for path in locations]
    return update


def announced_content(approval: Approval) -> list[ToolCallContent]:
    """Content of the tool call itself: of a file change the diffs, else what the question shows."""
    if not isinstance(approval, FileChangeApproval):
        return _content(approval)
    return [content for change in approval.item.changes for content in change_content(change)]


def _title(approval: Approval) -> tuple[str, ToolKind]:
    match approval:
        case CommandApproval(request=request):
            params = request.params
            if params.network_approval_context is not None:
                context = params.network_approval_context
                where = f"{context.protocol}://{context.host}"
                return f"Connect to {visible(where)}", "fetch"
            verb = _VERBS.get(params.kind, "Run")
            return f"{verb}: {visible(params.command or '(no command given)')}", "execute"
        case LegacyCommandApproval(request=legacy):
            return f"Run: {visible(shlex.join(legacy.params.command))}", "execute"
        case FileChangeApproval(request=change, item=item):
            root = change.params.grant_root
            also = "" if root is None else f", and from now on write below {visible(root)}"
            return f"Change {_changes(item)}{also}", "edit"
        case LegacyPatchApproval(request=patch):
            return f"Change {_files(list(patch.params.file_changes))}", "edit"
        case PermissionsApproval():
            return f"Give the turn permissions: {_permissions(approval)}", "other"
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return f"{visible(call.server)}: call {visible(call.tool)}", "other"
        case _:
            assert_never(approval)


def _changes(item: FileChangeThreadItem) -> str:
    names = []
    for change in item.changes:
        target = move_target(change)
        moved = "" if target is None else f" (moved to {visible(target)})"
        names.append(f"{visible(change.path)}{moved}")
    return ", ".join(names) or "no file"


def _files(paths: list[str]) -> str:
    return ", ".join(visible(path) for path in paths) or "no file"


def _permissions(approval: PermissionsApproval) -> str:
    asked = approval.request.params.permissions
    parts = []
    if asked.network is not None:
        parts.append(_NETWORK.get(asked.network.enabled, "network as listed below"))
    files = asked.file_system
    if files is not None:
        parts += [f"read {visible(path)}" for path in files.read or ()]
        parts += [f"write {visible(path)}" for path in files.write or ()]
        parts += [f"{visible(entry.access)} {_place(entry.path)}" for entry in files.entries or ()]
    return ", ".join(dict.fromkeys(parts)) or "none named"


def _place(path: FileSystemPath) -> str:
    match path:
        case PathFileSystemPath():
            return visible(path.path)
        case GlobPatternFileSystemPath():
            return f"all that matches {visible(path.pattern)}"
        case SpecialFileSystemPath() | UnknownVariant():
            return visible(json.dumps(plain(path), ensure_ascii=False))
        case _:
            assert_never(path)


def _raw_input(approval: Approval) -> dict[str, object]:
    """Self-contained: what runs, where, and why it is asked."""
    raw = dict(arguments_of(approval))
    reason = _reason(approval)
    if reason is not None:
        raw["reason"] = reason
    return raw


def _reason(approval: Approval) -> str | None:
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


def _content(approval: Approval) -> list[ToolCallContent]:
    """Why it is asked, and what the title and the announced diff do not show in full."""
    texts: list[str] = []
    reason = _reason(approval)
    match approval:
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
            texts.append(f"Arguments:\n{visible(arguments, multiline=True)}")
            if reason:
                texts.append(quoted_words(call.server, reason))
        case CommandApproval(request=request):
            texts += _command_lines(request.params.command, request.params.cwd)
            more = request.params.additional_permissions
            if more is not None:
                listed = json.dumps(plain(more), indent=2, ensure_ascii=False)
                texts.append(f"With more permissions:\n{visible(listed, multiline=True)}")
        case LegacyCommandApproval(request=legacy):
            texts += _command_lines(shlex.join(legacy.params.command), legacy.params.cwd)
        case FileChangeApproval():
            # A permission request's fields replace: content here would erase the announced diff.
            return []
        case LegacyPatchApproval() | PermissionsApproval():
            asked = json.dumps(arguments_of(approval), indent=2, ensure_ascii=False)
            texts.append(visible(asked, multiline=True))
        case _:
            assert_never(approval)
    if reason and not isinstance(approval, McpToolApproval | McpToolQuestion):
        texts.append(f"Reason given: {visible(reason, multiline=True)}")
    return [text_content(text) for text in texts]


def _command_lines(command: str | None, cwd: str | None) -> list[str]:
    lines = [f"$ {visible(command, multiline=True)}"] if command else []
    return [*lines, f"In {visible(cwd)}"] if cwd else lines


def _locations(approval: Approval) -> list[str]:
    if isinstance(approval, FileChangeApproval):
        return [change.path for change in approval.item.changes]
    if isinstance(approval, LegacyPatchApproval):
        return list(approval.request.params.file_changes)
    return []
