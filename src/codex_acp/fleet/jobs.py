"""Define the jobs, events and reports that the driver and a worker exchange.

All three can be pickled, so that any engine can transport them. Must not know the engines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from codex_acp._json import object_at, value_at
from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    LaunchError,
    MisuseError,
    ServerOverloaded,
    TransportError,
)
from codex_acp.fleet.errors import CheckoutError, WorkerLost
from codex_acp.jsonrpc import AGENT_LOST, OVERLOADED
from codex_acp.runtime import AgentStartError, AuthenticationRequired, MethodNotOffered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.fleet.questions import Question
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.runtime import AgentSpec

Event: TypeAlias = "Mapping[str, JsonValue]"
"""An event of a task. Its ``type`` is ``worker``, ``place``, ``opened``, ``prompt``,
``prompt_ended``, ``tool`` or ``usage``; the driver adds ``question``, ``answered``, ``retry`` and
``ended``."""
Reason: TypeAlias = Literal[
    "end_turn", "refusal", "max_tokens", "max_turn_requests", "cancelled", "time_limit",
    "token_limit", "output_invalid", "checkout", "directory", "changes_incomplete", "settings",
    "authentication", "agent_error", "agent_not_found", "agent_not_started", "agent_lost",
    "overloaded", "worker_lost", "stopped",
]  # fmt: skip
"""Why a task ended: a stop reason of ACP, or the problem that ended the task. ``max_tokens`` is the
model's limit, ``token_limit`` the task's. ``changes_incomplete``: the agent completed the task, but
the patch lacks some changes."""
RETRIED: Final[frozenset[Reason]] = frozenset(
    ("agent_not_started", "agent_lost", "overloaded", "worker_lost")
)
"""Temporary reasons, after which the fleet tries the task again; a refusal is not temporary."""
CONTINUE: Final = (
    "You were interrupted while you worked on the task below. Look at what is there already, "
    "then go on and finish it.\n\n"
)
"""Text before a prompt that an earlier attempt has already sent in this session."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens. ``counted``: the agent counted all; else some are estimated."""

    total: int = 0
    input: int = 0
    output: int = 0
    counted: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.total + other.total,
            self.input + other.input,
            self.output + other.output,
            self.counted and other.counted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of a task, with all that a worker needs for the attempt."""

    attempt_id: str
    """Id that no other attempt has, so that no attempt gets the answer or report of another."""
    fleet_id: str
    """Id of the output directory, by which later runs find the worktrees of earlier runs."""
    run_id: str
    """Id of the fleet's run, which fetches each repository once."""
    task_id: str
    name: str
    """The task's id as a file name."""
    prompts: tuple[str, ...]
    agent: AgentSpec
    cwd: str | None = None
    repository: str | None = field(default=None, repr=False)
    revision: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """`Task.settings`."""
    options: Mapping[str, str | bool] = field(default_factory=dict)
    schema: Mapping[str, JsonValue] | None = None
    """Schema that the last message must fit; the driver checks the message."""
    time_limit: float | None = None
    """Seconds."""
    max_tokens: int | None = None
    forms: bool = False
    """Whether the driver answers forms."""
    urls: bool = False
    """Whether the driver answers requests to open a page."""
    session_id: str | None = None
    """The session of an earlier attempt, which this attempt resumes."""
    first_prompt: int = 0
    """Number of the first prompt that no earlier attempt has finished."""
    prompt_sent: bool = False
    """Whether an earlier attempt has sent `first_prompt`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Result of a job."""

    reason: Reason
    message: str | None = None
    text: str = ""
    """The agent's last message of the last prompt."""
    output: JsonValue = None
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    resumed: bool = False
    """Whether the attempt resumed the session of an earlier attempt."""
    seconds: float = 0.0
    commit: str | None = None
    """Commit that was checked out."""
    changes: bytes | None = None
    """Patch of the task's changes; None if no patch could be made."""
    changes_note: str | None = None
    """Why there is no patch, or what the patch lacks."""
    transcript: bytes = b""


class Post(Protocol):
    """The driver, as the worker of one job sees it."""

    def event(self, event: Event) -> None:
        """Send an event to the driver. Never blocks."""

    async def ask(self, question: Question) -> Any:
        """Ask the driver; return the answer, whose type depends on the type of the question."""


def now() -> str:
    """Return the current time in ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# PURE: the reason of a task that an exception ended.

_BUSY: Final = frozenset(
    ("serverOverloaded", "rateLimitExceeded", "flexUnavailable", "policyCapacityUnavailable")
)
"""Values of ``codexErrorInfo`` for temporary faults. A used-up quota is not temporary."""
_CONNECTION: Final = frozenset((
    "httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected",
    "responseTooManyFailedAttempts",
))  # fmt: skip
"""Keys of ``codexErrorInfo`` for failures of HTTP, with ``httpStatusCode``."""
_TEMPORARY_STATUSES: Final = frozenset((None, 408, 429, 500, 502, 503, 504, 529))
"""HTTP statuses of temporary faults; None: there was no answer."""


class SettingRefused(CodexAcpError):
    """The agent does not offer, or refused, a setting or an option of the task."""


def reason_of(error: Exception) -> Reason:
    """Return the reason of a task that ``error`` ended."""
    match error:
        case CheckoutError():
            return "checkout"
        case WorkerLost():
            return "worker_lost"
        case AuthenticationRequired():
            return "authentication"
        case ServerOverloaded():
            return "overloaded"
        case ErrorReply():
            if value_at(error.data, "reason") == AGENT_LOST:
                return "agent_lost"
            return "overloaded" if _is_busy(error) else "agent_error"
        case LaunchError():
            return "agent_not_found"
        case AgentStartError(__cause__=ErrorReply() | TransportError() as cause):
            return reason_of(cause)
        case AgentStartError():
            return "agent_not_started"
        case TransportError():
            return "agent_lost"
        case SettingRefused() | MethodNotOffered() | MisuseError():
            return "settings"
    return "agent_error"


def _is_busy(error: ErrorReply) -> bool:
    """Return whether the model is overloaded, or could not be reached."""
    if error.code == OVERLOADED:
        return True
    info = value_at(error.data, "codexErrorInfo")
    if isinstance(info, str):
        return info in _BUSY
    return any(
        name in _CONNECTION
        and isinstance(detail, dict)
        and detail.get("httpStatusCode") in _TEMPORARY_STATUSES
        for name, detail in object_at(info).items()
    )
