"""The exceptions of codex_acp, one tree.

::

    CodexAcpError
    ├── MisuseError              this program called the library wrongly
    │   ├── UnknownOption        a keyword argument has an unknown name or value
    │   └── IncompleteTable      a handwritten table does not match the schema
    ├── PeerError                the other side broke its protocol
    │   ├── ErrorReply           it answered a request with a JSON-RPC error
    │   │   ├── ServerOverloaded the app-server is overloaded, and refused each attempt
    │   │   └── ThreadOpenElsewhere  another process has the thread open
    │   ├── NotAnswered          Codex, stopped or hung, left a call of the agent without a reply
    │   ├── InvalidPayload       params or a result do not fit the schema
    │   ├── UnsupportedVersion   an agent answered a version of ACP that was not offered
    │   └── LineTooLong          one message was larger than the limit
    ├── TransportError           bytes can no longer travel
    │   ├── ConnectionClosed     the stream ended
    │   └── ProcessExited        the child process ended
    ├── LaunchError              a program could not be started: Codex, or another agent
    │   ├── CodexNotFound
    │   ├── CodexNotExecutable
    │   └── CodexTooOld          its protocol is not the one that this library speaks
    ├── TurnUnfinished           a turn of Codex did not end as it should: `codex_acp.codex` has
    │                            TurnFailed, TurnInterrupted, TurnSilent and OutputInvalid
    ├── NotLoggedIn              Codex needs a login for its model, and there is none
    ├── UntrustedGitPrograms     git would run programs of a directory that nobody trusts
    └── RpcError                 raised by a request handler: the error to answer with

`codex_acp.runtime.errors` has further classes for agents, below these. Each message says what
happened and what to do next. This module imports no generated class.
"""

from __future__ import annotations

from os import PathLike

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = [
    "CodexAcpError", "MisuseError", "IncompleteTable", "UnknownOption",
    "PeerError", "ErrorReply", "ServerOverloaded", "ThreadOpenElsewhere", "NotAnswered",
    "InvalidPayload", "UnsupportedVersion", "LineTooLong",
    "TransportError", "ConnectionClosed", "ProcessExited",
    "LaunchError", "CodexNotFound", "CodexNotExecutable", "CodexTooOld",
    "NotLoggedIn", "UntrustedGitPrograms", "RpcError",
]  # fmt: skip


class CodexAcpError(Exception):
    """Base of every exception that this library raises on purpose."""


class MisuseError(CodexAcpError):
    """The library was called in a way that cannot work, for example before it was started."""


def refuse_unless(is_right: object, wanted: str, given: object) -> None:
    """Raise MisuseError for a value that only a program without type checks can give."""
    if not is_right:
        raise MisuseError(f"{wanted}, not {given!r}")


def must_be_seconds(what: str, seconds: object) -> None:
    """Raise MisuseError unless ``seconds`` is a positive number."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    is_right = is_number and seconds > 0  # type: ignore[operator]
    refuse_unless(is_right, f"{what} is a positive number of seconds", seconds)


def must_be_count(what: str, number: object) -> None:
    """Raise MisuseError unless ``number`` is a whole number of at least 1."""
    is_right = isinstance(number, int) and not isinstance(number, bool) and number > 0
    refuse_unless(is_right, f"{what} is a whole number of at least 1", number)


def several(what: str, values: Iterable[_T]) -> tuple[_T, ...]:
    """Return the values as a tuple. Raises MisuseError for a single value, a text or a mapping."""
    is_list = hasattr(values, "__iter__") and not isinstance(values, str | bytes | dict)
    refuse_unless(is_list, f"{what} is a list", values)
    return tuple(values)


def environment(env: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return a copy of a process's environment, None for None. Raises MisuseError for what no
    process can have; the message has no value, because values may be secret."""
    if env is None:
        return None
    refuse_unless(hasattr(env, "items"), "env has a text for each name", type(env))
    texts = (str, bytes, PathLike)
    values: Iterable[tuple[object, object]] = env.items()
    wrong = [name for name, value in values if not isinstance(value, texts)]
    refuse_unless(not wrong, "env has a text for each name", f"another value for {wrong}")
    return dict(env)


class UnknownOption(MisuseError, TypeError):
    """A keyword argument has an unknown name or value. Also a TypeError, as in Python itself."""


class IncompleteTable(MisuseError):
    """A table of methods lacks a row or has one too many; ``problems`` names the rows."""

    def __init__(self, table: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"{table} does not match the schema: {'; '.join(problems)}")
        self.table = table
        self.problems = problems


class PeerError(CodexAcpError):
    """The other side of a connection did not keep to its protocol."""


class ErrorReply(PeerError):
    """The peer answered a request of ours with a JSON-RPC error.

    ``code``, ``message`` and ``data`` come from the peer; ``method`` is that of the request.
    """

    def __init__(self, method: str, code: int, message: str, data: object = None) -> None:
        begin = f"{method} failed: "  # an agent of this package begins its message so, too
        super().__init__(f"{begin}{message.removeprefix(begin)} ({code})")
        self.method = method
        self.code = code
        self.message = message
        self.data = data


class ServerOverloaded(ErrorReply):
    """The app-server answered ``-32001`` to each of ``attempts`` attempts of a call.

    No attempt took effect; you may try again later.
    """

    def __init__(self, error: ErrorReply, attempts: int) -> None:
        super().__init__(error.method, error.code, error.message, error.data)
        self.attempts = attempts


class ThreadOpenElsewhere(ErrorReply):
    """Another process has the thread open, and Codex lets one process write it.

    ``holder`` names the other process, ``pid`` is its id if known. ``busy``: the holder is a
    process of this package and cannot hand the thread over yet, because something runs in it.
    """

    def __init__(
        self, error: ErrorReply, thread_id: str, holder: str, pid: int | None, *, busy: bool
    ) -> None:
        if busy:
            why = f"something runs in the thread {thread_id!r} in {holder} (process {pid})"
            cure = "wait for its end, cancel it there"
        else:
            why = (
                f"the thread {thread_id!r} is open in {holder}, and Codex lets one process write it"
            )
            cure = "close it there and try again"
        message = f"{why}; {cure}, or go on with a fork of it"
        super().__init__(error.method, error.code, message, error.data)
        self.thread_id = thread_id
        self.holder = holder
        self.pid = pid
        self.busy = busy


class NotAnswered(PeerError):
    """Codex did not answer ``method`` within ``seconds``, but may have carried the call out."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(
            f"Codex has not answered {method} for {seconds:g} s: it is stopped, or hangs; "
            "try again later, or start the agent anew"
        )
        self.method = method
        self.seconds = seconds


class InvalidPayload(PeerError):
    """Params or a result do not fit the schema; ``problems`` names each field and what is wrong."""

    def __init__(self, what: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"{what} does not fit its schema: " + "; ".join(problems))
        self.what = what
        self.problems = problems


class UnsupportedVersion(PeerError):
    """An ACP agent answered ``initialize`` with a protocol version that was not offered.

    ``answered`` is None if the answer names no version; ``offered`` are the client's versions.
    """

    def __init__(self, answered: int | None, offered: Sequence[int]) -> None:
        known = " and ".join(map(str, offered))
        what = "no protocol version" if answered is None else f"protocol version {answered}"
        super().__init__(f"the agent answered {what}; this client has {known}")
        self.answered = answered
        self.offered: tuple[int, ...] = tuple(offered)


class LineTooLong(PeerError):
    """The peer sent one line above the size limit; ``limit`` is in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a message was larger than the limit of {limit} bytes")
        self.limit = limit


class TransportError(CodexAcpError):
    """The connection to the peer is gone; open requests will not be answered."""


class ConnectionClosed(TransportError):
    """The peer's stream ended, or this side closed the connection."""


class ProcessExited(TransportError):
    """The child process ended.

    ``returncode`` is negative for a signal, None if it is not known;
    ``stderr_tail`` is the end of what the process wrote to its standard error.
    """

    def __init__(self, command: str, returncode: int | None, stderr_tail: str) -> None:
        tail = f"; the end of its stderr:\n{stderr_tail}" if stderr_tail else ""
        super().__init__(f"{command} {how_ended(returncode)}{tail}")
        self.command = command
        self.returncode = returncode
        self.stderr_tail = stderr_tail


def how_ended(returncode: int | None) -> str:
    """Return the verb of a sentence about a process, like ``exited with status 3``."""
    if returncode is None:
        return "ended"
    if returncode >= 0:
        return f"exited with status {returncode}"
    name = signal_name(-returncode)
    if name == "SIGKILL":
        return "was killed (SIGKILL), as the system does when memory runs out"
    crashed = name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
    return f"crashed ({name})" if crashed else f"was ended by {name}"


def signal_name(number: int) -> str:
    """Return the name of a signal, like SIGTERM, or its number if it has no name."""
    from signal import Signals  # not needed before a process has ended

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


class LaunchError(CodexAcpError):
    """A program could not be started: Codex, or another agent."""


class CodexNotFound(LaunchError):
    """No Codex binary was found; the message says how to get one."""


class CodexNotExecutable(LaunchError):
    """A Codex binary was named, but the system refuses to run it."""


class CodexTooOld(LaunchError):
    """Codex is older than this library can read.

    ``version`` is Codex's; this library was checked with ``oldest`` to ``newest``.
    """

    def __init__(self, version: str, oldest: str, newest: str) -> None:
        super().__init__(
            f"Codex {version} is too old: this library works with {oldest} to {newest} and what "
            "is compatible with that; update Codex, or name another one with CODEX_PATH"
        )
        self.version = version
        self.oldest = oldest
        self.newest = newest


class NotLoggedIn(CodexAcpError):
    """No turn was started: the model provider needs a login, and nobody is logged in to Codex.

    Log in with `codex-acp-sdk login`, or with the client's method ``account_login_start``.
    """

    def __init__(self) -> None:
        super().__init__("Codex is not logged in; run `codex-acp-sdk login`, then try again")


class UntrustedGitPrograms(CodexAcpError):
    """Nothing was sent to Codex, because git would run programs that ``directory`` configures.

    ``programs`` has the file, the key and the command of each program; the key is empty if the file
    cannot be read. Nobody has trusted ``directory``.
    """

    def __init__(
        self, message: str, directory: str, programs: Sequence[tuple[str, str, str]]
    ) -> None:
        super().__init__(message)
        self.directory = directory
        self.programs = programs


class RpcError(CodexAcpError):
    """Raised by a request handler to answer its request with this JSON-RPC error.

    Source: JSON-RPC 2.0, section 5.1; ACP adds -32000 (authentication required),
    -32002 (resource not found) and -32800 (request cancelled).
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data
