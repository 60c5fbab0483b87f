"""Define what travels between the driver and a worker: jobs, events and reports.

Plain data only, so that any engine can carry it. Must not know how it is carried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

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
from codex_acp.jsonrpc.message import AGENT_LOST, OVERLOADED
from codex_acp.runtime import (
    AgentStartError,
    AuthenticationRequired,
    MethodNotOffered,
    OptionNotOffered,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.runtime import AgentSpec

Event: TypeAlias = "Mapping[str, JsonValue]"
"""Something that happened to a task, by its ``type``: ``place``, ``opened``, ``prompt``,
``prompt_ended``, ``tool``, ``usage``."""
Reason: TypeAlias = Literal[
    "end_turn",
    "refusal",
    "max_tokens",
    "max_turn_requests",
    "cancelled",
    "time_limit",
    "token_limit",
    "output_invalid",
    "checkout",
    "directory",
    "changes_incomplete",
    "settings",
    "authentication",
    "agent_error",
    "agent_not_found",
    "agent_not_started",
    "agent_lost",
    "overloaded",
    "worker_lost",
    "stopped",
]
"""Why a task ended: a stop reason of ACP, or what came in its way. ``max_tokens`` is the model's
limit, ``token_limit`` the task's; ``changes_incomplete``: the agent did its work, and the patch
lacks some of it."""
RETRIED: Final[frozenset[Reason]] = frozenset(
    ("agent_not_started", "agent_lost", "overloaded", "worker_lost")
)
"""Reasons that may go better another time: nothing that somebody or something refused."""
CONTINUE: Final = (
    "You were interrupted while you worked on the task below. Look at what is there already, "
    "then go on and finish it.\n\n"
)
"""Goes before a prompt that an earlier attempt had sent, in the session of that attempt."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the agent counted them; ``counted`` is False where some were estimated from how
    full the context was."""

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
    """One attempt of a task, with all that a worker needs for it."""

    attempt_id: str
    """Of no other attempt: answers and reports of another one do not fit."""
    fleet_id: str
    """Of the output directory: later runs find the worktrees of earlier ones by it."""
    run_id: str
    """Of this run: a repository is fetched once in it."""
    task_id: str
    name: str
    """The task's id as a file name."""
    prompts: tuple[str, ...]
    agent: AgentSpec
    cwd: str | None = None
    repository: str | None = field(default=None, repr=False)
    revision: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """``model``, ``mode`` and ``effort``, where they are set."""
    options: Mapping[str, str | bool] = field(default_factory=dict)
    schema: Mapping[str, JsonValue] | None = None
    """Schema that the answer must fit; the driver checks it."""
    time_limit: float | None = None
    max_tokens: int | None = None
    forms: bool = False
    urls: bool = False
    session_id: str | None = None
    """The session of an earlier attempt, to go on with."""
    first_prompt: int = 0
    """The first prompt that no earlier attempt has finished."""
    prompt_sent: bool = False
    """Whether an earlier attempt had sent `first_prompt`."""


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
    """Whether it went on with the session of an earlier attempt."""
    seconds: float = 0.0
    commit: str | None = None
    """Commit that was checked out."""
    changes: bytes | None = None
    """Patch of the task's changes in its worktree; None where they are not known."""
    changes_note: str | None = None
    transcript: bytes = b""


class Post(Protocol):
    """The driver, as the worker of one job sees it."""

    def event(self, event: Event) -> None:
        """Tell something. Never blocks."""

    async def ask(self, question: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Have a question answered. No answer is no consent: the waiting job is cancelled in the
        end."""


# PURE: what an exception of an agent, a worker or a checkout means for a task.

_BUSY: Final = frozenset(
    ("serverOverloaded", "rateLimitExceeded", "flexUnavailable", "policyCapacityUnavailable")
)
"""Of ``codexErrorInfo``, what passes. A used-up quota does not."""
_CONNECTION: Final = frozenset(
    (
        "httpConnectionFailed",
        "responseStreamConnectionFailed",
        "responseStreamDisconnected",
        "responseTooManyFailedAttempts",
    )
)
_PASSING: Final = frozenset((None, 408, 429, 500, 502, 503, 504, 529))
"""HTTP statuses that may be another one next time; None: there was no answer."""


class SettingRefused(CodexAcpError):
    """The agent does not have, or does not take, a setting or an option of the task."""


def reason_of(error: Exception) -> Reason:
    """Return why a task ended that ended with this error."""
    match error:
        case CheckoutError():
            return "checkout"
        case WorkerLost():
            return "worker_lost"
        case SettingRefused() | OptionNotOffered():
            return "settings"
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
        case AgentStartError():
            return "agent_not_started"
        case TransportError():
            return "agent_lost"
        case MethodNotOffered() | MisuseError():
            return "settings"
    return "agent_error"


def _is_busy(error: ErrorReply) -> bool:
    if error.code == OVERLOADED:
        return True
    info = value_at(error.data, "codexErrorInfo")
    if isinstance(info, str):
        return info in _BUSY
    return any(
        name in _CONNECTION
        and isinstance(detail, dict)
        and detail.get("httpStatusCode") in _PASSING
        for name, detail in object_at(info).items()
    )
