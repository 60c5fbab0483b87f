"""Write the events of a session as ACP v1's ``session/update``. Total, pure, and without a memory.

Also the question of an approval, as ``session/request_permission``. What v1 has no room for is left
out: see `mapping.events`. Source: schema ``SessionUpdate`` of v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.acp._generated.v1.models import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    PermissionOption,
    RequestPermissionRequest,
    TextContentBlock,
    ToolCallSessionUpdate,
    ToolCallUpdate,
    ToolCallUpdateSessionUpdate,
)
from codex_acp.mapping.events import (
    CallStatus,
    Command,
    CommandsChanged,
    CompactionChanged,
    MessageAnew,
    ModeChanged,
    Notice,
    OptionsChanged,
    PlanChanged,
    PromptTaken,
    SessionEvent,
    SessionMessage,
    StateChanged,
    SubAgentChanged,
    TerminalOutput,
    TerminalState,
    TextChunk,
    ThoughtChunk,
    ThoughtLine,
    TitleChanged,
    ToolCallAnnounced,
    ToolCallChanged,
    UsageChanged,
    UserMessage,
    given,
)
from codex_acp.mapping.session import told_alike
from codex_acp.mapping.v1.content import block_of, content_of, locations_of
from codex_acp.routing.display import as_code, fenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import SessionUpdate, ToolCallStatus
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.mapping.events import PermissionQuestion


COMPACTION: Final = "Compact conversation"
"""The title of a compaction for a client that knows none."""


def updates_of(event: SessionEvent, client: ClientFeatures) -> Sequence[SessionUpdate]:
    """The updates that tell a client of an event, of those that it takes."""
    match event:
        case TextChunk() | ThoughtChunk():
            return (_chunk(event),)
        case ThoughtLine():
            return (_line(event.text),)
        case UserMessage():
            return _user_message(event)
        case Notice():
            return (_notice(event, client),) if client.notices or not event.aside else ()
        case ToolCallAnnounced():
            return (ToolCallSessionUpdate(**_fields(event)),)
        case ToolCallChanged():
            return (ToolCallUpdateSessionUpdate(**_fields(event)),)
        case TerminalOutput():
            output = {"terminal_id": event.terminal_id, "data": event.data}
            meta = {"terminal_output": output}
            return (ToolCallUpdateSessionUpdate(tool_call_id=event.terminal_id, meta=meta),)
        case CompactionChanged():
            return (_compaction(event, client),)
        case (
            PlanChanged()
            | UsageChanged()
            | TitleChanged()
            | CommandsChanged()
            | OptionsChanged()
            | ModeChanged()
        ):
            return (_of_session(event),)
        case SubAgentChanged() | SessionMessage():
            return (_of_session(event),) if client.subagents else ()
        case StateChanged() | PromptTaken() | MessageAnew():
            return ()  # v1 tells a prompt's end by its answer, and has nothing but pieces
        case _:
            assert_never(event)


def permission_call(shown: ToolCallChanged) -> ToolCallUpdate:
    """The tool call of ``session/request_permission``."""
    return ToolCallUpdate(**_fields(shown))


# What is said.


def _chunk(chunk: TextChunk | ThoughtChunk) -> SessionUpdate:
    block = TextContentBlock(text=chunk.text)
    if isinstance(chunk, TextChunk):
        return AgentMessageChunkSessionUpdate(content=block, message_id=chunk.message_id)
    return AgentThoughtChunkSessionUpdate(content=block, message_id=chunk.message_id)


def _line(text: str) -> SessionUpdate:
    return AgentThoughtChunkSessionUpdate(content=TextContentBlock(text=f"\n{text}\n"))


def _user_message(message: UserMessage) -> Sequence[SessionUpdate]:
    from codex_acp.acp._generated.v1.models import UserMessageChunkSessionUpdate

    return [
        UserMessageChunkSessionUpdate(content=block_of(part), message_id=message.message_id)
        for part in message.content
    ]


def _notice(notice: Notice, client: ClientFeatures) -> SessionUpdate:
    """A notice is plain text; a thought is Markdown, and others' words in it are code."""
    if not client.notices:
        parts = (notice.title, notice.details)
        return _line("\n".join(_markdown(part) for part in parts if part))
    from codex_acp.acp._generated.v1.models import NoticeSessionUpdate

    update = NoticeSessionUpdate(severity=notice.severity, title=notice.title)
    if notice.details:
        update.description = notice.details
    return update


def _markdown(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > 1 and any(as_code(line) != line for line in lines):
        return fenced(text)
    return "\n".join(map(as_code, lines))


# Tool calls.


def _fields(call: ToolCallAnnounced | ToolCallChanged) -> dict[str, Any]:
    fields = given(call)
    fields["tool_call_id"] = fields.pop("id")
    terminal = fields.pop("terminal", None)
    fields.pop("stoppable", None)
    if terminal is not None:
        meta = _terminal_meta(terminal)
        if meta:
            fields["meta"] = meta
    if call.status is not None:
        fields["status"] = _status(call.status)
    if call.content is not None:
        fields["content"] = content_of(call.content)
    if call.locations is not None:
        fields["locations"] = locations_of(call.locations)
    return fields


def _status(status: CallStatus) -> ToolCallStatus:
    return "failed" if status == "cancelled" else status


def _terminal_meta(terminal: TerminalState) -> dict[str, Any]:
    """``_meta`` of Zed's convention; the terminal has the id of the tool call."""
    terminal_id = terminal.terminal_id
    meta: dict[str, Any] = {}
    if terminal.cwd is not None:
        meta["terminal_info"] = {"terminal_id": terminal_id, "cwd": terminal.cwd}
    if terminal.output:
        meta["terminal_output"] = {"terminal_id": terminal_id, "data": terminal.output}
    if terminal.exit is not None:
        code = terminal.exit.code
        meta["terminal_exit"] = {"terminal_id": terminal_id, "exit_code": code, "signal": None}
    return meta


def _compaction(compaction: CompactionChanged, client: ClientFeatures) -> SessionUpdate:
    compaction_id, status = compaction.compaction_id, compaction.status
    if client.compaction:
        from codex_acp.acp._generated.v1.models import CompactionUpdateSessionUpdate

        return CompactionUpdateSessionUpdate(compaction_id=compaction_id, status=status)
    if compaction.known:
        return ToolCallUpdateSessionUpdate(tool_call_id=compaction_id, status=_status(status))
    return ToolCallSessionUpdate(
        tool_call_id=compaction_id, title=COMPACTION, kind="think", status=_status(status)
    )


# The session.


def _of_session(
    event: PlanChanged | UsageChanged | TitleChanged | CommandsChanged | OptionsChanged
    | ModeChanged | SubAgentChanged | SessionMessage,
) -> SessionUpdate:  # fmt: skip
    """Write a rare update as JSON, so that it loads no model."""
    update: SessionUpdate = MODELS.decode("SessionUpdate", _written(event), "an update")
    return update


def _written(
    event: PlanChanged | UsageChanged | TitleChanged | CommandsChanged | OptionsChanged
    | ModeChanged | SubAgentChanged | SessionMessage,
) -> dict[str, Any]:  # fmt: skip
    match event:
        case PlanChanged():
            # Codex has no priorities, ACP requires one.
            entries = [
                {"content": step.content, "priority": "medium", "status": step.status}
                for step in event.steps
            ]
            return {"sessionUpdate": "plan", "entries": entries}
        case CommandsChanged():
            commands = [_command(command) for command in event.commands]
            return {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        case OptionsChanged():
            from codex_acp.mapping.options import written

            options = [written(option) for option in event.options]
            return {"sessionUpdate": "config_option_update", "configOptions": options}
        case ModeChanged():
            return {"sessionUpdate": "current_mode_update", "currentModeId": event.mode_id}
        case UsageChanged() | TitleChanged() | SubAgentChanged() | SessionMessage():
            return told_alike(event, block_of)
        case _:
            assert_never(event)


def _command(command: Command) -> dict[str, Any]:
    written: dict[str, Any] = {"name": command.name, "description": command.description}
    if command.hint is not None:
        written["input"] = {"hint": command.hint}
    return written


def permission_request(question: PermissionQuestion) -> RequestPermissionRequest:
    """The request; why it is asked stands in the tool call's content."""
    return RequestPermissionRequest(
        session_id=question.session_id,
        tool_call=permission_call(question.shown),
        options=[
            PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind)
            for option in question.options
        ],
    )
