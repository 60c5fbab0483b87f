"""Write session events, permission requests and the ends of prompts for ACP v1.

An event alone decides on its updates: no state is kept. Facts without a field in v1 are left out.
Source: schema ``SessionUpdate`` of v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from codex_acp.acp._generated.v1 import models
from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.acp._generated.v1.models import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    PermissionOption,
    PromptResponse,
    RequestPermissionRequest,
    TextContentBlock,
    ToolCallSessionUpdate,
    ToolCallUpdate,
    ToolCallUpdateSessionUpdate,
)
from codex_acp.mapping import content as blocks
from codex_acp.mapping import events
from codex_acp.mapping.agent import META_KEY
from codex_acp.mapping.content import write_locations
from codex_acp.mapping.session import shared_update
from codex_acp.routing.changes import parse_hunks, shown_path
from codex_acp.routing.display import as_code, fenced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.acp._generated.v1.models import SessionUpdate, ToolCallStatus
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.events import PromptStop

COMPACTION: Final = "Compact conversation"
"""Title of the tool call that shows a compaction to a client without ``compaction``."""


_RareEvent: TypeAlias = (
    events.PlanChanged
    | events.CommandsChanged
    | events.OptionsChanged
    | events.ModeChanged
    | events.SharedEvent
)
"""Rare events, which are written as JSON, so that their models load only when needed."""


def updates_of(event: events.SessionEvent, features: ClientFeatures) -> Sequence[SessionUpdate]:
    """Return the updates for an event; none if v1 or the client cannot show the event."""
    match event:
        case events.TextChunk():
            block = TextContentBlock(text=event.text)
            return (AgentMessageChunkSessionUpdate(content=block, message_id=event.message_id),)
        case events.ThoughtChunk():
            block = TextContentBlock(text=event.text)
            return (AgentThoughtChunkSessionUpdate(content=block, message_id=event.message_id),)
        case events.ThoughtLine():
            return (_thought_line(event.text),)
        case events.UserMessage():
            return [
                models.UserMessageChunkSessionUpdate(
                    content=block_of(part), message_id=event.message_id
                )
                for part in event.content
            ]
        case events.Notice() | events.PromptEnded():
            notice = event if isinstance(event, events.Notice) else _end_of_prompt(event.end)
            return (_notice(notice, features),) if features.notices or not notice.optional else ()
        case events.ToolCallAnnounced() | events.ToolCallChanged():
            is_new = isinstance(event, events.ToolCallAnnounced)
            update_class = ToolCallSessionUpdate if is_new else ToolCallUpdateSessionUpdate
            return (update_class(**_fields_of(event)),)
        case events.TerminalOutput():
            output = {"terminal_id": event.terminal_id, "data": event.data}
            meta = {"terminal_output": output}
            return (ToolCallUpdateSessionUpdate(tool_call_id=event.terminal_id, meta=meta),)
        case events.CompactionChanged():
            return (_compaction(event, features),)
        case events.StateChanged() | events.PromptTaken() | events.MessageRestarted():
            return ()  # v1 has no such updates: the end is the answer to session/prompt
        case events.SubAgentChanged() | events.SessionMessage() if not features.subagents:
            return ()
    if isinstance(event, _RareEvent):
        update: SessionUpdate = MODELS.decode("SessionUpdate", _as_json(event), "an update")
        return (update,)
    assert_never(event)


# Messages.


def _thought_line(text: str) -> SessionUpdate:
    return AgentThoughtChunkSessionUpdate(content=TextContentBlock(text=f"\n{text}\n"))


def _notice(notice: events.Notice, features: ClientFeatures) -> SessionUpdate:
    """Write a notice, which is plain text; for a client without notices a thought in Markdown."""
    if not features.notices:
        parts = (notice.title, notice.details)
        return _thought_line("\n".join(_as_markdown(part) for part in parts if part))
    update = models.NoticeSessionUpdate(severity=notice.severity, title=notice.title)
    if notice.details:
        update.description = notice.details
    return update


def _end_of_prompt(end: events.PromptEnd) -> events.Notice:
    title = "The prompt of an earlier connection has"
    if isinstance(end, events.PromptFailure):
        return events.Notice("error", f"{title} failed: {end.message}")
    return events.Notice("info", f"{title} ended: {end.reason}")


def _as_markdown(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > 1 and any(as_code(line) != line for line in lines):  # Markdown could change it
        return fenced(text)
    return "\n".join(map(as_code, lines))


# Tool calls.


def _fields_of(call: events.ToolCallAnnounced | events.ToolCallChanged) -> dict[str, Any]:
    fields = events.fields_set(call)
    fields["tool_call_id"] = fields.pop("id")
    terminal = fields.pop("terminal", None)
    fields.pop("stoppable", None)  # only v2 can show it
    if terminal is not None:
        meta = _terminal_meta(terminal)
        if meta:
            fields["meta"] = meta
    if call.status is not None:
        fields["status"] = _status_in_v1(call.status)
    if call.content is not None:
        fields["content"] = content_of(call.content)
    if call.locations is not None:
        fields["locations"] = write_locations(models, call.locations)
    return fields


def _status_in_v1(status: events.CallStatus) -> ToolCallStatus:
    return "failed" if status == "cancelled" else status


def _terminal_meta(terminal: events.TerminalState) -> dict[str, Any]:
    """Return ``_meta`` of Zed's convention, where a terminal has the id of the tool call."""
    terminal_id = terminal.terminal_id
    meta: dict[str, Any] = {}
    if terminal.cwd is not None:
        meta["terminal_info"] = {"terminal_id": terminal_id, "cwd": terminal.cwd}
    if terminal.output:
        meta["terminal_output"] = {"terminal_id": terminal_id, "data": terminal.output}
    if terminal.ended:
        code = terminal.exit_code
        meta["terminal_exit"] = {"terminal_id": terminal_id, "exit_code": code, "signal": None}
    return meta


def _compaction(compaction: events.CompactionChanged, features: ClientFeatures) -> SessionUpdate:
    compaction_id, status = compaction.compaction_id, compaction.status
    if features.compaction:
        return models.CompactionUpdateSessionUpdate(compaction_id=compaction_id, status=status)
    if compaction.announced:
        return ToolCallUpdateSessionUpdate(tool_call_id=compaction_id, status=_status_in_v1(status))
    return ToolCallSessionUpdate(
        tool_call_id=compaction_id, title=COMPACTION, kind="think", status=_status_in_v1(status)
    )


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
            return {"sessionUpdate": "plan", "entries": entries}
        case events.CommandsChanged():
            commands: list[dict[str, Any]] = []
            for command in event.commands:
                commands.append({"name": command.name, "description": command.description})
                if command.hint is not None:
                    commands[-1]["input"] = {"hint": command.hint}
            return {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        case events.OptionsChanged():
            from codex_acp.mapping.options import option_json

            options = [option_json(option) for option in event.options]
            return {"sessionUpdate": "config_option_update", "configOptions": options}
        case events.ModeChanged():
            return {"sessionUpdate": "current_mode_update", "currentModeId": event.mode_id}
        case _:
            assert_never(event)


def permission_request(question: events.PermissionQuestion) -> RequestPermissionRequest:
    """Write a permission request; the content of the tool call has the reason."""
    return RequestPermissionRequest(
        session_id=question.session_id,
        tool_call=ToolCallUpdate(**_fields_of(question.shown)),
        options=[
            PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind)
            for option in question.options
        ],
    )


def block_of(block: blocks.Block) -> models.ContentBlock:
    """Write a block."""
    written: models.ContentBlock = blocks.write_block(models, block)
    return written


def content_of(content: Sequence[blocks.CallContent]) -> list[models.ToolCallContent]:
    """Write the content of a tool call."""
    written: list[models.ToolCallContent] = []
    for part in content:
        if isinstance(part, blocks.FileDiff):
            written += _diffs(part)
        elif isinstance(part, blocks.TerminalContent):
            written.append(models.TerminalToolCallContent(terminal_id=part.terminal_id))
        else:
            written.append(models.ContentToolCallContent(content=block_of(part)))
    return written


def _diffs(diff: blocks.FileDiff) -> Iterator[models.ToolCallContent]:
    """Yield one diff if both texts of the file are known, else a diff for each hunk, or a text."""
    before, after = diff.before, diff.after
    match diff.operation:
        case "add":
            yield models.DiffToolCallContent(path=diff.path, old_text=None, new_text=after or "")
        case "delete":
            yield models.DiffToolCallContent(path=diff.path, old_text=before, new_text="")
        case "modify" | "move":
            if diff.moved_from is not None and diff.text is None:
                source, target = shown_path(diff.moved_from, None), shown_path(diff.path, None)
                moved = blocks.TextBlock(f"{source} moves to {target}")
                yield models.ContentToolCallContent(content=block_of(moved))
            if after is not None and (before is not None or diff.patch is None):
                old = before or ""  # None would mean a new file
                yield models.DiffToolCallContent(path=diff.path, old_text=old, new_text=after)
            elif diff.text is not None:
                yield models.ContentToolCallContent(content=block_of(diff.text))
            else:
                for hunk in parse_hunks(diff.patch or "") or ():
                    yield models.DiffToolCallContent(
                        path=diff.path, old_text="".join(hunk.old), new_text="".join(hunk.new)
                    )
        case _:
            assert_never(diff.operation)


def prompt_response(stop: PromptStop, usage: Mapping[str, JsonValue] | None) -> PromptResponse:
    """Return the answer to a prompt; ``usage`` is unstable, so it is in ``_meta``."""
    response = PromptResponse(stop_reason=stop.reason)
    if usage is not None:
        response.meta = {META_KEY: {"usage": usage}}
    return response
