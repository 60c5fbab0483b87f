"""Exceptions of the agents of a runtime, beyond the exceptions of `codex_acp.errors`.

::

    CodexAcpError
    ├── LaunchError
    │   └── AgentLaunchError         the agent's command could not be started
    ├── PeerError
    │   ├── AgentStartError          it started, but did not become an agent that can be used
    │   ├── AnswerTimeout            it did not answer a request in time
    │   └── ErrorReply
    │       ├── AuthenticationRequired
    │       └── SessionBusy          another process works in the session
    ├── TransportError
    │   └── CrashLoop                it ended too often; it is not started again for a while
    ├── MisuseError
    │   └── SessionClosed            the session was closed here
    ├── MethodNotOffered             the agent does not offer what was asked for
    │   └── OptionNotOffered
    └── StoreError                   the file of stored sessions cannot be used

An agent that ends is a `ProcessExited`, with its exit status and the end of its stderr. Nothing
here imports a model.
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
    """The agent's process runs but ``initialize`` led nowhere; the process was ended.

    ``stderr_tail`` is the end of what it wrote to its standard error.
    """

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


class AuthenticationRequired(ErrorReply):
    """The agent wants a login first (-32000); ``methods`` are those that it offers.

    Log in with the agent's own command, or name one of the methods as `AgentSpec.auth_method`.
    """

    def __init__(self, reply: ErrorReply, methods: Sequence[AuthMethod]) -> None:
        super().__init__(reply.method, reply.code, reply.message, reply.data)
        self.methods: tuple[AuthMethod, ...] = tuple(methods)


class SessionBusy(ErrorReply):
    """Another process works in the session and did not end within ``seconds``; nothing is lost.

    ``data`` has the ``holder``, with its ``pid`` and ``name``, where the agent knows it.
    """

    def __init__(self, reply: ErrorReply, seconds: float) -> None:
        super().__init__(reply.method, reply.code, reply.message, reply.data)
        self.seconds = seconds


class CrashLoop(TransportError):
    """The agent ended ``count`` times within ``seconds``; ``last`` says how, the last time."""

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
    """The session was closed by this program; open it again by its id."""


class MethodNotOffered(CodexAcpError):
    """The agent said at ``initialize`` that it cannot do this, or answered so (-32601)."""

    def __init__(self, agent: str, method: str) -> None:
        super().__init__(f"{agent} does not offer {method}")
        self.agent = agent
        self.method = method


class OptionNotOffered(MethodNotOffered):
    """The session has no such config option; ``method`` is what was looked for."""


class StoreError(CodexAcpError):
    """The session store cannot be read, written or locked; the message says what to do."""
