"""The question of an approval as ACP v2's ``session/request_permission``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v2.models import (
    CommandRequestPermissionSubject,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallRequestPermissionSubject,
    ToolCallUpdate,
)
from codex_acp.mapping.v2.updates import call_fields

if TYPE_CHECKING:
    from codex_acp.acp._generated.v2.models import RequestPermissionSubject
    from codex_acp.mapping.events.permissions import PermissionQuestion


def permission_request(question: PermissionQuestion) -> RequestPermissionRequest:
    """The request. Of a command that runs as asked, the subject is that; else the tool call."""
    request = RequestPermissionRequest(
        session_id=question.session_id,
        title=question.shown.title or "Allow this?",
        subject=_subject(question),
        options=[
            PermissionOption(option_id=option.option_id, name=option.name, kind=option.kind)
            for option in question.options
        ],
    )
    if question.reason is not None:
        request.description = question.reason
    return request


def _subject(question: PermissionQuestion) -> RequestPermissionSubject:
    command = question.command
    if command is None:
        tool_call = ToolCallUpdate(**call_fields(question.shown))
        return ToolCallRequestPermissionSubject(tool_call=tool_call)
    return CommandRequestPermissionSubject(
        command=command.command, cwd=command.cwd, tool_call_id=question.shown.id
    )
