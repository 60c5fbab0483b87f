"""The three routes of a server request (contract 1.1), and the context that decides its route."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Container

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals import classify
    from codex_acp.codex.approvals.grants import OfferedGrants
    from codex_acp.codex.approvals.running_items import Items
    from codex_acp.mapping.events import ToolCallAnnounced, ToolCallChanged
    from codex_acp.routing.changes import Looks
    from codex_acp.routing.elicitations import AsyncQuestions, FormElicitation, UrlElicitation
    from codex_acp.transcript.events import ToolIdentity


@dataclass(frozen=True, slots=True)
class RoutingContext:
    """State of the threads, the client and the open sessions."""

    items: Items
    """The items that run, by thread and item id."""
    client: ClientFeatures
    sessions: Container[str]
    """Ids of the open sessions, which are the ids of their root threads."""
    looks: Looks = field(default_factory=dict)
    """Where the paths that the request names lead on the disk."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A question whether one pending action may run; sent as ``session/request_permission``."""

    approval: classify.ApprovalRequest
    session_id: str
    thread_id: str
    turn_id: str
    item_id: str
    tool: ToolIdentity
    digest: str
    """SHA-256 of the arguments and of where their paths lead, both as the person sees them."""
    offered: OfferedGrants
    shown: ToolCallChanged
    """The tool call as the person sees it; a client needs no optional capability to show it."""
    announcement: ToolCallAnnounced
    """The tool call to send first, if none with its id was announced."""
    looks: Looks = field(default_factory=dict)
    """Where the paths of the action lead on the disk, as the question shows."""


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question that asks a person for input; sent as ``elicitation/create``."""

    request: ServerRequest | AsyncQuestions
    """A request of Codex, or the questions of a message, for whose answers no turn waits."""
    session_id: str
    thread_id: str
    turn_id: str | None
    form_or_url: FormElicitation | UrlElicitation


@dataclass(frozen=True, slots=True)
class Decline:
    """A request that gets its method's refusal at once; the person gets a notice of one line."""

    request: ServerRequest
    reason: str
    session_id: str | None
    """The session that gets the notice; None if no open session has the thread."""


Route: TypeAlias = Approval | Elicitation | Decline


def asking_thread(request: ServerRequest | AsyncQuestions) -> str | None:
    """Return the id of the thread that asks; from the JSON if the elicitation's mode is unknown."""
    params = request.params
    if isinstance(params, UnknownVariant):
        thread_id = params.wire().get("threadId")
        return thread_id if isinstance(thread_id, str) else None
    return getattr(params, "thread_id", None) or getattr(params, "conversation_id", None)
