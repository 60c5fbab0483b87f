"""The three things a server request can be (contract 1.1), and what is known when it is decided."""

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
    client: ClientFeatures
    sessions: Container[str]
    """Ids of the open sessions, which are the ids of their root threads."""
    looks: Looks = field(default_factory=dict)
    """How the disk has the paths that the request names."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Asks whether one pending action may run: ``session/request_permission``, and nothing else."""

    approval: classify.ApprovalRequest
    session_id: str
    thread_id: str
    turn_id: str
    item_id: str
    tool: ToolIdentity
    digest: str
    """SHA-256 of the arguments, and of where their paths lead, as they are shown."""
    offered: OfferedGrants
    shown: ToolCallChanged
    """The tool call that the person sees; it stands alone, for a client with no optional
    capability."""
    announcement: ToolCallAnnounced
    """The tool call to send first, if none with its id was announced."""
    looks: Looks = field(default_factory=dict)
    """How the disk has the paths that it names, as they are shown."""


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Asks a person for input: ``elicitation/create``, and nothing else."""

    request: ServerRequest | AsyncQuestions
    session_id: str
    thread_id: str
    turn_id: str | None
    form_or_url: FormElicitation | UrlElicitation


@dataclass(frozen=True, slots=True)
class Decline:
    """Answered with the method's refusal at once, and said to the person in one line."""

    request: ServerRequest
    reason: str
    session_id: str | None
    """The session that is told; None if no open session holds the thread."""


Route: TypeAlias = Approval | Elicitation | Decline


def asking_thread(request: ServerRequest | AsyncQuestions) -> str | None:
    """The thread that asks, also of a request in a mode that the schema does not know."""
    params = request.params
    if isinstance(params, UnknownVariant):
        thread_id = params.wire().get("threadId")
        return thread_id if isinstance(thread_id, str) else None
    return getattr(params, "thread_id", None) or getattr(params, "conversation_id", None)
