"""PURE: what an agent of version 2 asks a person, as the questions of version 1.

Nothing becomes easier to allow by it: an option of a kind that is not known is not there to be
chosen, and a question that cannot be told whole is none.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from codex_acp.acp._generated.v1.models import RequestPermissionRequest
from codex_acp.acp.as_v1.values import as_json, fitting
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import CreateElicitationRequest
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp.as_v1.tool_calls import ToolCalls

_KINDS: Final = ("allow_once", "allow_always", "reject_once", "reject_always")

_numbers = count(1)


def permission(request: v2.RequestPermissionRequest, calls: ToolCalls) -> RequestPermissionRequest:
    """As version 1 asks it, about a tool call whose content ends with the ``description``.

    ``title``, ``description`` and ``subject`` are kept as they came, among the fields that
    version 1 lacks.
    """
    said = as_json(request)
    options = [option for option in said["options"] if option.get("kind") in _KINDS]
    tool_call = _tool_call(said, calls)
    return RequestPermissionRequest.model_validate(
        {**said, "toolCall": tool_call, "options": options}
    )


def elicitation(request: v2.CreateElicitationRequest) -> CreateElicitationRequest | None:
    """A form or a URL; None for a mode that is not known, and for a form that version 1 lacks."""
    if isinstance(request, UnknownVariant):
        return None
    made: CreateElicitationRequest | None = fitting("CreateElicitationRequest", as_json(request))
    return made


def _tool_call(said: dict[str, Any], calls: ToolCalls) -> dict[str, Any]:
    """A patch, as in version 1: what was said of the tool call before is not changed by it."""
    subject = said.get("subject") or {}
    if subject.get("type") == "tool_call":
        call_id = subject["toolCall"]["toolCallId"]
        known = calls.knows(call_id)
        patch = {**({} if known else {"title": said["title"]}), **calls.patch(subject["toolCall"])}
        return {**patch, **_why(said, calls, call_id)}
    text = "\n\n".join(filter(None, (said["title"], said.get("description"))))
    new: dict[str, Any] = {
        "toolCallId": f"permission-{next(_numbers)}",
        "title": said["title"],
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
    }
    if subject.get("type") != "command":
        return new
    command = {"command": subject["command"], "cwd": subject["cwd"]}
    made = {**new, "title": subject["command"], "kind": "execute", "rawInput": command}
    call_id = subject.get("toolCallId")
    if call_id is None:
        return made
    if calls.knows(call_id):
        return {"toolCallId": call_id, "rawInput": command, **_why(said, calls, call_id)}
    return {**made, "toolCallId": call_id}


def _why(said: dict[str, Any], calls: ToolCalls, call_id: str) -> dict[str, Any]:
    """The content of a tool call that is shown already, and why it is asked about."""
    if not said.get("description"):
        return {}
    text = {"type": "text", "text": said["description"]}
    return {"content": [*calls.shown(call_id), {"type": "content", "content": text}]}
