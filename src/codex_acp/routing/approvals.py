"""PURE: an approval as a person sees it: a complete tool call, and the options to choose from.

The tool call shows the action that will run (docs/contract.md, 3.8). Commands and arguments come
from Codex's own request or item; an MCP server's text is marked as the server's. Every character
that could deceive is made visible, and a note says where a text was cut.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from codex_acp.codex._generated import models
from codex_acp.codex.approvals import classify as classes
from codex_acp.codex.approvals import grants
from codex_acp.codex.approvals.actions import (
    changes_of,
    command_written_to,
    elsewhere,
    is_input,
    path_of_entry,
)
from codex_acp.codex.approvals.running_items import created_paths, removed_paths, server_of
from codex_acp.mapping import events
from codex_acp.mapping.content import CallContent, Location, TextBlock
from codex_acp.routing.changes import (
    CONTENT_LIMIT,
    Change,
    changes_title,
    code_content,
    place_lines,
    place_notes,
    real_paths,
    shown_path,
)
from codex_acp.routing.display import (
    TITLE_LIMIT,
    code_span,
    inline,
    is_plain,
    json_text,
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

    from codex_acp.routing.changes import Looks


_NO_COMMAND: Final = "(no command given)"
UNKNOWN_COMMAND: Final = "a running command that is not known any more"
_NETWORK: Final[dict[bool | None, str]] = {True: "network", False: "no network"}
_FOR_GOOD: Final = "always, in every directory and later session"
"""How long Codex keeps a rule, which it writes to a file in ``CODEX_HOME``."""
_BOOKKEEPING: Final = frozenset(
    {"threadId", "turnId", "itemId", "approvalId", "startedAtMs", "availableDecisions"}
)
"""Fields of a request that do not describe the action; the digest covers them, too."""


class PermissionChoice(NamedTuple):
    """One option of a permission request; ``grant`` None is the plain rejection."""

    option: events.PermissionOption
    grant: grants.Grant | None


def choices(
    offered: grants.OfferedGrants, approval: classes.ApprovalRequest, token: str
) -> tuple[PermissionChoice, ...]:
    """Return the options of an approval: grants, the plain rejection, lasting rejections.

    Option ids begin with ``token``. Each entry of `routing.ledger` has another token, so no two
    approvals have an option id in common. The plain rejection comes before the lasting rejections,
    because some clients take the first option whose kind rejects. An action that is not shown in
    full cannot be allowed.
    """
    parts = [part.text for part in _parts_of_action(approval)]
    if isinstance(approval, classes.FileChangeApproval):
        parts = [change.diff for change in approval.item.changes]
    is_complete = all(len(visible(part, multiline=True)) <= CONTENT_LIMIT for part in parts)
    allowing: list[PermissionChoice] = []
    reject = events.PermissionOption(f"{token}:reject", "Reject and go on", "reject_once")
    rejecting = [PermissionChoice(reject, None)]
    for number, grant in enumerate(offered.grants):
        kind: events.OptionKind = "reject_always"
        if grants.allows(grant):
            kind = "allow_once" if isinstance(grant, grants.Once) else "allow_always"
        option = events.PermissionOption(f"{token}:{number}", _label(grant, approval), kind)
        if not grants.allows(grant):
            rejecting.append(PermissionChoice(option, grant))
        elif is_complete:
            allowing.append(PermissionChoice(option, grant))
    return (*allowing, *rejecting)


def _label(grant: grants.Grant, approval: classes.ApprovalRequest) -> str:
    """Return the label of an option, which says all that the grant allows (contract 2.6)."""
    match grant:
        case grants.Once():
            return "Allow once"
        case grants.Session():
            return f"Allow for this session: {_reach(approval)}"
        case grants.Always():
            return f"Allow {_FOR_GOOD}: {_reach(approval)}"
        case grants.RememberPrefix(prefix=prefix):
            command = " ".join(json.dumps(part, ensure_ascii=False) for part in prefix)
            return (
                f"Allow {_FOR_GOOD}, unasked and outside of the sandbox: every command that "
                f"begins with {inline(command, None)}"
            )
        case grants.RememberHost(host=host, action=action):
            verb = "Allow" if action == "allow" else "Reject"
            return f"{verb} {_FOR_GOOD}: every connection to {inline(host, None)}"
        case _:
            assert_never(grant)


def _reach(approval: classes.ApprovalRequest) -> str:
    """Return the actions that a grant for the session, or for good, allows."""
    match approval:
        # Codex asks about a call of an MCP tool in a newer or in an older way.
        case classes.McpToolApproval(item=call) | classes.McpToolQuestion(item=call):
            return f"every call of {inline(f'{server_of(call)}/{call.tool}', None)}, any arguments"
        case classes.CommandApproval(request=request) if request.params.network_approval_context:
            return f"connections to {inline(request.params.network_approval_context.host, None)}"
        case classes.CommandApproval() | classes.LegacyCommandApproval():
            return "this same command in this directory"
        case classes.FileChangeApproval() | classes.LegacyPatchApproval():
            return "any change at these paths, their deletion too"
        case classes.PermissionsApproval():
            return "these permissions, for every command and edit until the session ends"
        case _:
            assert_never(approval)


def identity_of(approval: classes.ApprovalRequest) -> ToolIdentity:
    """Return the tool that the approval is about, for the ledger and the transcript."""
    match approval:
        case classes.CommandApproval() | classes.LegacyCommandApproval():
            return ToolIdentity(kind="shell", name="shell")
        case classes.FileChangeApproval() | classes.LegacyPatchApproval():
            return ToolIdentity(kind="file_change", name="file change")
        case classes.PermissionsApproval():
            return ToolIdentity(kind="permissions", name="permissions")
        case classes.McpToolApproval(item=call) | classes.McpToolQuestion(item=call):
            return ToolIdentity(kind="mcp_tool", name=f"{server_of(call)}/{call.tool}")
        case _:
            assert_never(approval)


def permission_call(
    approval: classes.ApprovalRequest, tool_call_id: str, sub_agent: str | None, looks: Looks
) -> events.ToolCallChanged:
    """Return the permission request's tool call. ``sub_agent`` is the thread id of the sub-agent
    that asks, if one does. The content of a file change is left out: the client keeps the diffs
    that were announced with the item. An action on another machine has the kind ``other``: a client
    that allows, say, every ``edit`` allows edits on this machine alone. Locations have no line."""
    title, kind = _title(approval, looks)
    where = other_environment(approval)
    if where is not None:
        title, kind = f"{where}: {title}", "other"
    if sub_agent is not None:
        title = f"{title} (asked by sub-agent {inline(sub_agent)})"
    return events.ToolCallChanged(
        id=tool_call_id,
        title=title,
        kind=kind,
        status="pending",
        content=_content(approval, looks) or None,
        locations=[
            Location(place.path)
            for change in _changes(approval, looks)
            for place in change.locations()
        ]
        or None,
        raw_input=_raw_input(approval, looks),
    )


def other_environment(approval: classes.ApprovalRequest) -> str | None:
    """Return the other machine of an action, as the beginning of a sentence; None: this machine."""
    names = [inline(name) for name in elsewhere(approval)]
    if len(names) > 1:
        return f"On one of {', '.join(names)} (Codex does not say which)"
    return f"On {names[0]}" if names else None


def announced_content(
    approval: classes.ApprovalRequest, shown: events.ToolCallChanged, looks: Looks
) -> Sequence[CallContent]:
    """Return the content to announce: the diffs of a file change, else the question's content."""
    if not isinstance(approval, classes.FileChangeApproval):
        return shown.content or ()
    return [part for change in _changes(approval, looks) for part in change.content()]


def _changes(approval: classes.ApprovalRequest, looks: Looks) -> list[Change]:
    """Return the file changes in question; none is done yet, because Codex waits."""
    return [Change(change, looks, not_done=True, waiting=True) for change in changes_of(approval)]


def _title(approval: classes.ApprovalRequest, looks: Looks) -> tuple[str, events.CallKind]:
    """Return the title and the kind of the permission request's tool call."""
    match approval:
        case classes.CommandApproval(request=request):
            params = request.params
            if params.network_approval_context is not None:
                context = params.network_approval_context
                where = f"{context.protocol}://{context.host}"
                return f"Connect to {inline(where)}", "fetch"
            verb = "Run"
            if params.kind == "humanCommand":
                verb = "Run (your organisation wants a person to decide)"
            elif is_input(approval):
                running = command_written_to(approval)
                target = UNKNOWN_COMMAND if running is None else _code(running or _NO_COMMAND)
                verb = f"Write to {target}"
            command = _shown_command(approval, params.command or _NO_COMMAND, looks)
            return f"{verb}: {command}", "execute"
        case classes.LegacyCommandApproval(request=legacy):
            command = _shown_command(
                approval, shlex.join(legacy.params.command) or _NO_COMMAND, looks
            )
            return f"Run: {command}", "execute"
        case classes.FileChangeApproval() | classes.LegacyPatchApproval():
            title = changes_title(_changes(approval, looks), shown_path, listed)
            root = approval.request.params.grant_root
            if root is not None:
                place = f"{shown_path(root)}{place_notes(looks, root)}"
                title = f"{title}, and from now on write below {place}"
            return title, "edit"
        case classes.PermissionsApproval():
            return f"Give the turn permissions: {_shown_permissions(approval, looks)}", "other"
        case classes.McpToolApproval(item=call) | classes.McpToolQuestion(item=call):
            return f"{inline(server_of(call))}: call {inline(call.tool)}", "other"
        case _:
            assert_never(approval)


def _shown_command(approval: classes.ApprovalRequest, command: str, looks: Looks) -> str:
    """Return the command, and the real paths if links lead its directory or permissions away."""
    noted = {path: f"{shown_path(path)}{place_notes(looks, path)}" for path in real_paths(looks)}
    if not noted:
        return inline(command)
    noted_cwd = noted.pop(_cwd(approval) or "", None)
    directory = "" if noted_cwd is None else f", in {noted_cwd}"
    permissions = f", with permissions for {listed([*noted.values()])}" if noted else ""
    return f"{_code(command)}{directory}{permissions}"


def _code(command: str) -> str:
    return code_span(shortened(visible(command), TITLE_LIMIT))


def _shown_permissions(approval: classes.PermissionsApproval, looks: Looks) -> str:
    params = approval.request.params
    network, files = params.permissions.network, params.permissions.file_system
    parts: list[str] = []
    if network is not None:
        parts.append(_NETWORK.get(network.enabled, "network as listed below"))
    if files is not None:
        for access, paths in (("read", files.read), ("write", files.write)):
            parts += [f"{access} {shown_path(p)}{place_notes(looks, p)}" for p in paths or ()]
        for entry in files.entries or ():
            real = place_notes(looks, path_of_entry(entry.path, params.cwd) or "")
            parts.append(f"{inline(entry.access)} {_shown_place(entry.path)}{real}")
    # First the paths with a note, which ends with a bracket: a long list is cut at its end.
    parts.sort(key=lambda part: not part.endswith(")"))
    return listed(list(dict.fromkeys(parts))) or "none named"


def _shown_place(path: models.FileSystemPath) -> str:
    match path:
        case models.PathFileSystemPath():
            return shown_path(path.path)
        case models.GlobPatternFileSystemPath():
            return f"all that matches {inline(path.pattern)}"
        case models.SpecialFileSystemPath() | UnknownVariant():
            return inline(json.dumps(plain(path), ensure_ascii=False))
        case _:
            assert_never(path)


def _raw_input(approval: classes.ApprovalRequest, looks: Looks) -> dict[str, object]:
    """Return the action, where its paths lead, and the reason: the whole question as JSON."""
    raw: dict[str, object] = {
        k: v for k, v in grants.arguments_of(approval).items() if k not in _BOOKKEEPING
    }
    changes = changes_of(approval)
    replaced = [path for path in created_paths(changes) if path in looks and looks[path].exists]
    if places := real_paths(looks, removed_paths(changes)):
        raw["realPaths"] = places
    if replaced:
        raw["replaces"] = replaced
    reason = _reason(approval)
    if reason is None:
        return raw
    name = "reason"
    if isinstance(approval, classes.McpToolApproval | classes.McpToolQuestion):
        name = f"{server_name(server_of(approval.item))} says"  # nothing proves that Codex wrote it
    return {**raw, name: reason}


def _reason(approval: classes.ApprovalRequest) -> str | None:
    match approval:
        case (
            classes.CommandApproval()
            | classes.LegacyCommandApproval()
            | classes.FileChangeApproval()
            | classes.LegacyPatchApproval()
            | classes.PermissionsApproval()
        ):
            return approval.request.params.reason
        case classes.McpToolApproval(params=params):
            return params.message
        case classes.McpToolQuestion(request=question):
            return question.params.questions[0].question
        case _:
            assert_never(approval)


class _Part(NamedTuple):
    """A foreign text that is a part of the action, unchanged."""

    heading: str
    text: str
    language: str = "json"


def _content(approval: classes.ApprovalRequest, looks: Looks) -> list[CallContent]:
    """Return the action and the reason; nothing for a file change: its announced diffs stay."""
    if isinstance(approval, classes.FileChangeApproval):
        return []
    where = other_environment(approval)
    content: list[CallContent] = [] if where is None else [TextBlock(f"{where}.")]
    parts = _parts_of_action(approval)
    content += [code_content(part.text, part.language, part.heading) for part in parts]
    if cwd := _cwd(approval):
        content.append(TextBlock(f"In {shown_path(cwd, None)}{place_notes(looks, cwd)}"))
    if lines := place_lines(looks, [path for path in looks if path != _cwd(approval)]):
        content.append(TextBlock("\n\n".join(lines)))
    reason = reason_shown(approval)
    return [*content, *([TextBlock(reason)] if reason else [])]


def _cwd(approval: classes.ApprovalRequest) -> str | None:
    if isinstance(approval, classes.CommandApproval | classes.LegacyCommandApproval):
        return approval.request.params.cwd
    return None


def reason_shown(approval: classes.ApprovalRequest) -> str | None:
    """Return the reason as a quotation of the asker; None if the request gives no reason."""
    reason = shortened(_reason(approval) or "", CONTENT_LIMIT)
    if not reason:
        return None
    if isinstance(approval, classes.McpToolApproval | classes.McpToolQuestion):
        return quoted_words(server_of(approval.item), reason)
    return f"Reason given:\n{quotation(reason)}"


def command_of(approval: classes.ApprovalRequest, looks: Looks) -> events.CommandSubject | None:
    """Return the command in question if the command and its directory are the whole action. Returns
    None for another machine, a connection, an input, more permissions, a path behind a link, or a
    character without a glyph: then only the tool call shows the action."""
    if real_paths(looks) or elsewhere(approval):
        return None
    subject: events.CommandSubject | None = None
    match approval:
        case classes.CommandApproval(request=request):
            params = request.params
            more = params.network_approval_context or params.additional_permissions
            if more is None and not is_input(approval) and params.command and params.cwd:
                subject = events.CommandSubject(params.command, params.cwd)
        case classes.LegacyCommandApproval(request=legacy):
            subject = events.CommandSubject(shlex.join(legacy.params.command), legacy.params.cwd)
    if subject is None or not is_plain(subject.command, multiline=True):
        return None
    return subject if is_plain(subject.cwd) else None


def _parts_of_action(approval: classes.ApprovalRequest) -> list[_Part]:
    """Return the parts that the title and the announced diff do not show in full."""
    match approval:
        case classes.McpToolApproval(item=call) | classes.McpToolQuestion(item=call):
            return [_Part("Arguments:", json_text(call.arguments))]
        case classes.CommandApproval(request=request):
            params, more = request.params, request.params.additional_permissions
            parts = [_Part("", params.command, "sh")] if params.command else []
            if is_input(approval) and (running := command_written_to(approval)):
                parts.append(_Part("Written to the running command:", running, "sh"))
            if more is not None:
                parts.append(_Part("With more permissions:", json_text(plain(more))))
            return parts
        case classes.LegacyCommandApproval(request=legacy):
            return [_Part("", shlex.join(legacy.params.command), "sh")]
        case classes.FileChangeApproval():
            return []
        case classes.LegacyPatchApproval() | classes.PermissionsApproval():
            return [_Part("", json_text(grants.arguments_of(approval)))]
        case _:
            assert_never(approval)
