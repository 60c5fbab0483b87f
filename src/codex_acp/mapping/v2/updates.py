"""Write session events, permission requests and content for ACP v2; read the content of prompts.

An event alone decides on its updates: no state is kept. Unknown members of an open union are
refused, as v2 requires. The change of a file becomes a patch in git's format, but with absolute
paths, without ``a/`` and ``b/``.
Sources: schema ``SessionUpdate`` and ``DiffPatchFormat`` of v2; ACP's pages on the prompt's life
and on tool calls; git's "Generating patch text with -p".
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never, cast

from codex_acp.acp._generated.v2 import models
from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp._generated.v2.models import (
    CommandRequestPermissionSubject,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallRequestPermissionSubject,
    ToolCallUpdate,
)
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import INVALID_PARAMS
from codex_acp.mapping import events
from codex_acp.mapping.content import (
    FileDiff,
    ImageBlock,
    TerminalContent,
    write_block,
    write_locations,
)
from codex_acp.mapping.session import shared_update, state_of
from codex_acp.mapping.v2.handshake import command_json, config_option_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v2.models import RequestPermissionSubject, SessionUpdate
    from codex_acp.mapping.content import Block, CallContent

_RareEvent: TypeAlias = (
    events.PlanChanged
    | events.CommandsChanged
    | events.OptionsChanged
    | events.CompactionChanged
    | events.Notice
    | events.StateChanged
    | events.SharedEvent
)
"""Rare events, which are written as JSON, so that their models load only when needed."""


def updates_of(event: events.SessionEvent) -> Sequence[SessionUpdate]:
    """Return the updates for an event."""
    match event:
        case events.TextChunk():
            text, message_id = models.TextContentBlock(text=event.text), event.message_id
            return (models.AgentMessageChunkSessionUpdate(message_id=message_id, content=text),)
        case events.ThoughtChunk() | events.ThoughtLine():
            text, message_id = models.TextContentBlock(text=event.text), event.message_id
            return (models.AgentThoughtChunkSessionUpdate(message_id=message_id, content=text),)
        case events.MessageRestarted():
            thought, message = models.AgentThoughtSessionUpdate, models.AgentMessageSessionUpdate
            update_class = thought if event.thought else message
            return (update_class(message_id=event.message_id, content=[]),)
        case events.UserMessage() | events.PromptTaken():
            id_from_client = event.client_id if isinstance(event, events.UserMessage) else None
            message_id = id_from_client or event.message_id
            content = [block_of(block) for block in event.content]
            return (models.UserMessageSessionUpdate(message_id=message_id, content=content),)
        case events.ToolCallAnnounced() | events.ToolCallChanged():
            return _call_updates(event)
        case events.TerminalOutput():
            terminal_id = event.terminal_id
            if event.replacement is not None:
                output = models.TerminalOutput(data=_base64(event.replacement))
                return (models.TerminalUpdateSessionUpdate(terminal_id=terminal_id, output=output),)
            data = _base64(event.data)
            return (models.TerminalOutputChunkSessionUpdate(terminal_id=terminal_id, data=data),)
        case events.ModeChanged() | events.PromptEnded():
            return ()  # in v2 a mode is only a config option, and `StateChanged` has the end
    if isinstance(event, _RareEvent):
        update: SessionUpdate = MODELS.decode("SessionUpdate", _as_json(event), "an update")
        return (update,)
    assert_never(event)


def _fields_of(call: events.ToolCallAnnounced | events.ToolCallChanged) -> dict[str, Any]:
    fields = events.fields_set(call)
    fields["tool_call_id"] = fields.pop("id")
    fields.pop("terminal", None)
    stoppable = fields.pop("stoppable", None)
    if call.content is not None:
        fields["content"] = content_of(call.content)
    if call.locations is not None:
        fields["locations"] = write_locations(models, call.locations)
    if stoppable is not None:
        can_cancel = models.ToolCallCapabilities(cancel=models.ToolCallCancelCapabilities())
        fields["capabilities"] = can_cancel if stoppable else None
    return fields


def _call_updates(
    call: events.ToolCallAnnounced | events.ToolCallChanged,
) -> Sequence[SessionUpdate]:
    """Return the updates of the terminal, then of the tool call that shows it, if any changed."""
    updates: list[SessionUpdate] = []
    if call.terminal is not None:
        updates += _terminal_updates(call.terminal, call.stoppable)
    fields = _fields_of(call)
    if len(fields) > 1:
        updates.append(models.ToolCallUpdateSessionUpdate(**fields))
    return updates


def _terminal_updates(
    terminal: events.TerminalState, stoppable: bool | None
) -> Sequence[SessionUpdate]:
    terminal_id = terminal.terminal_id
    updates: list[SessionUpdate] = []
    if terminal.command is not None:
        started = models.TerminalUpdateSessionUpdate(
            terminal_id=terminal_id, command=terminal.command, cwd=terminal.cwd
        )
        if stoppable:
            cancel = models.TerminalCancelCapabilities()
            started.capabilities = models.TerminalCapabilities(cancel=cancel)
        if terminal.output is not None:  # replaces the output that the client has kept
            started.output = models.TerminalOutput(data=_base64(terminal.output))
        updates.append(started)
    elif terminal.output:
        data = _base64(terminal.output)
        updates.append(models.TerminalOutputChunkSessionUpdate(terminal_id=terminal_id, data=data))
    if terminal.ended:
        status = models.TerminalExitStatus()
        if terminal.exit_code is not None:
            status.exit_code = terminal.exit_code
        ended = models.TerminalUpdateSessionUpdate(terminal_id=terminal_id, exit_status=status)
        if stoppable is False:
            ended.capabilities = None
        updates.append(ended)
    return updates


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")


# The session.


def _as_json(event: _RareEvent) -> dict[str, Any]:
    if isinstance(event, events.SharedEvent):
        return shared_update(event, block_of)
    match event:
        case events.PlanChanged():
            # Codex has no priorities, ACP requires one.
            entries = [
                {"content": step.content, "priority": "medium", "status": step.status}
                for step in event.steps
            ]
            plan = {"type": "items", "planId": event.plan_id, "entries": entries}
            return {"sessionUpdate": "plan_update", "plan": plan}
        case events.CommandsChanged():
            commands = [*map(command_json, event.commands)]
            return {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        case events.OptionsChanged():
            options = [*map(config_option_json, event.options)]
            return {"sessionUpdate": "config_option_update", "configOptions": options}
        case events.CompactionChanged():
            compaction = {"compactionId": event.compaction_id, "status": event.status}
            return {"sessionUpdate": "compaction_update", **compaction}
        case events.Notice():
            notice = {"severity": event.severity, "title": event.title}
            if event.details:
                notice["description"] = event.details
            return {"sessionUpdate": "notice", **notice}
        case events.StateChanged():
            return {"sessionUpdate": "state_update", **state_of(event)}
        case _:
            assert_never(event)


def permission_request(question: events.PermissionQuestion) -> RequestPermissionRequest:
    """Write a permission request: about the command if the question has one, else about the tool
    call."""
    subject: RequestPermissionSubject
    if question.command is None:
        tool_call = ToolCallUpdate(**_fields_of(question.shown))
        subject = ToolCallRequestPermissionSubject(tool_call=tool_call)
    else:
        subject = CommandRequestPermissionSubject(
            command=question.command.command,
            cwd=question.command.cwd,
            tool_call_id=question.shown.id,
        )
    request = RequestPermissionRequest(
        session_id=question.session_id,
        title=question.shown.title or "Allow this?",
        subject=subject,
        options=[
            PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind)
            for option in question.options
        ],
    )
    if question.reason is not None:
        request.description = question.reason
    return request


def block_of(block: Block) -> models.ContentBlock:
    """Write a block."""
    written: models.ContentBlock = write_block(models, block)
    if isinstance(block, ImageBlock) and block.uri is not None:
        cast("models.ImageContentBlock", written).uri = block.uri
    return written


def content_of(content: Sequence[CallContent]) -> list[models.ToolCallContent]:
    """Write the content of a tool call."""
    written: list[models.ToolCallContent] = []
    for part in content:
        if isinstance(part, FileDiff):
            diff = models.DiffToolCallContent(changes=[_diff_change(part)])
            patch = git_patch(part)
            if patch is not None:
                diff.patch = models.DiffPatch(format="git_patch", text=patch)
            written.append(diff)
        elif isinstance(part, TerminalContent):
            written.append(models.TerminalToolCallContent(terminal_id=part.terminal_id))
        else:
            written.append(models.ContentToolCallContent(content=block_of(part)))
    return written


def _diff_change(diff: FileDiff) -> models.DiffChange:
    match diff.operation:
        case "add":
            return models.AddDiffChange(path=diff.path)
        case "delete":
            return models.DeleteDiffChange(path=diff.path)
        case "modify":
            return models.ModifyDiffChange(path=diff.path)
        case "move":
            return models.MoveDiffChange(old_path=diff.moved_from or diff.path, path=diff.path)
        case _:
            assert_never(diff.operation)


_PLAIN_NAME: Final = re.compile(r'[^\x00-\x1f\x7f"\\]+')
"""Names that git writes without quotation marks."""
_NO_NEWLINE: Final = "\\ No newline at end of file\n"


def git_patch(diff: FileDiff) -> str | None:
    """Return the patch of a diff; None if the hunks are not known, or if nothing changes."""
    old_name, name = _quoted(diff.moved_from or diff.path), _quoted(diff.path)
    head = f"diff --git {old_name} {name}\n"
    match diff.operation:
        case "add":
            return f"{head}new file mode 100644\n{_whole_hunk(diff, '/dev/null', name)}"
        case "delete":
            return f"{head}deleted file mode 100644\n{_whole_hunk(diff, old_name, '/dev/null')}"
        case "modify" if diff.patch is None and diff.after is not None:
            return f"{head}{_whole_hunk(diff, old_name, name)}"
        case "modify" | "move":
            moved = diff.moved_from is not None
            rename = f"rename from {old_name}\nrename to {name}\n" if moved else ""
            if not diff.patch:
                return f"{head}{rename}" if rename else None
            end = "" if diff.patch.endswith("\n") else "\n"
            return f"{head}{rename}--- {old_name}\n+++ {name}\n{diff.patch}{end}"
        case _:
            assert_never(diff.operation)


def _whole_hunk(diff: FileDiff, old_name: str, name: str) -> str:
    """Return one hunk that replaces the whole old text by the new text; "" if both are empty."""
    before, after = _signed_lines("-", diff.before or ""), _signed_lines("+", diff.after or "")
    if not (before or after):
        return ""
    head = f"--- {old_name}\n+++ {name}\n@@ -{_hunk_range(before)} +{_hunk_range(after)} @@\n"
    return f"{head}{''.join(before)}{''.join(after)}"


def _quoted(name: str) -> str:
    """Return the name of a file as git writes it: in quotation marks if it has odd characters."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    shown = [
        char
        if char.isprintable()
        else "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in escaped
    ]
    return f'"{"".join(shown)}"'


def _signed_lines(sign: str, text: str) -> list[str]:
    """Return the lines of a text, each after ``sign``; only ``\\n`` ends a line."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [f"{sign}{part}\n" for part in parts]
    return [*lines, f"{sign}{last}\n", _NO_NEWLINE] if last else lines


def _hunk_range(lines: list[str]) -> str:
    """Return the range of all ``lines`` in the header of a hunk."""
    if not lines:
        return "0,0"
    count = len(lines) - (lines[-1] == _NO_NEWLINE)
    return "1" if count == 1 else f"1,{count}"


def wants_history(request: models.ResumeSessionRequest) -> bool:
    """Return whether to replay the history. Raises RpcError -32602 if not from the start."""
    if request.replay_from is None:
        return False
    if isinstance(request.replay_from, models.StartReplayFrom):
        return True
    kind = request.replay_from.wire().get("type")
    message = f"replayFrom: this agent replays from the start only, not from {kind!r}"
    raise RpcError(INVALID_PARAMS, message)


def option_and_value(request: models.SetSessionConfigOptionRequest) -> tuple[str, str, str | bool]:
    """Return session id, option id and value. Raises RpcError -32602 for an unknown type."""
    if isinstance(
        request,
        models.IdSetSessionConfigOptionRequest | models.BooleanSetSessionConfigOptionRequest,
    ):
        return request.session_id, request.config_id, request.value
    kind = request.wire().get("type")
    raise RpcError(INVALID_PARAMS, f"type: there are no values of the type {kind!r}")
