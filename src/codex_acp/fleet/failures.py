"""PURE: what an exception of an agent, a worker or a checkout means for a task.

Told by the class and by the codes of the protocols, never by the words of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    from codex_acp.fleet.jobs import Reason

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
    """Why a task ended that ended with this."""
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
