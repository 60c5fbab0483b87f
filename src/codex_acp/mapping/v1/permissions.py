"""The question of an approval as ACP v1's ``session/request_permission``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import PermissionOption, RequestPermissionRequest
from codex_acp.mapping.v1.updates import permission_call

if TYPE_CHECKING:
    from codex_acp.mapping.events.permissions import PermissionQuestion


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
