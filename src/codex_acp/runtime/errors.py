"""Define the exceptions of the runtime; `codex_acp.errors` has their base classes.

::

    CodexAcpError
    ├── LaunchError
    │   └── AgentLaunchError         the agent's command could not be started
    ├── PeerError
    │   ├── AgentStartError          the agent started, but the handshake failed
    │   ├── AnswerTimeout            the agent did not answer a request in time
    │   ├── AnswerTooLarge           the agent sent too much in one prompt
    │   └── ErrorReply
    │       ├── AuthenticationRequired
    │       └── SessionBusy          another process works in the session
    ├── TransportError
    │   └── CrashLoop                the agent ended too often; it is not started for a while
    ├── MisuseError
    │   └── SessionClosed            this program has closed the session
    ├── MethodNotOffered             the agent does not offer a method or feature
    │   └── OptionNotOffered
    └── StoreError                   the file of stored sessions cannot be used

If an agent ends, calls raise `ProcessExited`, with the agent's exit status and the end of its
stderr. This module imports no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    LaunchError,
    MisuseError,
    PeerError,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp.types import AuthMethod


class AgentLaunchError(LaunchError):
    """The agent's command could not be started: it is missing or not executable."""


class AgentStartError(PeerError):
    """The agent's process started, but ``initialize`` failed; the process was ended.
    ``stderr_tail`` is the end of the agent's output on stderr."""

    def __init__(self, agent: str, why: str, stderr_tail: str = "") -> None:
        tail = f"; the end of its stderr:\n{stderr_tail}" if stderr_tail else ""
        super().__init__(f"{agent} could not be used: {why}{tail}")
        self.agent = agent
        self.stderr_tail = stderr_tail


class AnswerTimeout(PeerError):
    """The agent did not answer ``method`` within ``seconds``; the request was given up."""

    def __init__(self, agent: str, method: str, seconds: float) -> None:
        super().__init__(f"{agent} did not answer {method} within {seconds:g} seconds")
        self.agent = agent
        self.method = method
        self.seconds = seconds


class AnswerTooLarge(PeerError):
    """The messages, thoughts and tool calls of one prompt took more than ``limit`` bytes of memory;
    the prompt was cancelled and given up."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the agent sent more than {limit >> 20} MiB of messages and tool calls in one prompt; "
            "the prompt was cancelled"
        )
        self.limit = limit


class AuthenticationRequired(ErrorReply):
    """The agent requires a login first (-32000); ``methods`` are the logins that it offers. Log in
    with the agent's own command, or name one of the methods as `AgentSpec.auth_method`."""

    def __init__(self, reply: ErrorReply, methods: Sequence[AuthMethod]) -> None:
        super().__init__(reply.method, reply.code, reply.message, reply.data)
        self.methods: tuple[AuthMethod, ...] = tuple(methods)


class SessionBusy(ErrorReply):
    """Another process works in the session, and did not stop within ``seconds``. Try again later.
    If the agent knows the process, ``data`` has a ``holder`` with its ``pid`` and ``name``."""

    def __init__(self, reply: ErrorReply, seconds: float) -> None:
        super().__init__(reply.method, reply.code, reply.message, reply.data)
        self.seconds = seconds


class CrashLoop(TransportError):
    """The agent ended ``count`` times within ``seconds``; ``last`` is the error of the last end."""

    def __init__(self, agent: str, count: int, seconds: float, last: Exception) -> None:
        super().__init__(
            f"{agent} ended {count} times within {seconds:g} seconds and is not started again "
            f"for now; the last time: {last}"
        )
        self.agent = agent
        self.count = count
        self.seconds = seconds
        self.last = last


class SessionClosed(MisuseError):
    """This program has closed the session; open it again by its id."""


class MethodNotOffered(CodexAcpError):
    """The agent did not advertise a method or feature, or answered "method not found" (-32601)."""

    def __init__(self, agent: str, method: str) -> None:
        super().__init__(f"{agent} does not offer {method}")
        self.agent = agent
        self.method = method


class OptionNotOffered(MethodNotOffered):
    """The session does not have a config option; ``method`` describes the option."""


class StoreError(CodexAcpError):
    """The session store cannot be read, written or locked; the message says what to do."""
