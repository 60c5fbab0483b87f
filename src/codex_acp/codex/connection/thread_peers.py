"""Hand threads from one process of this package to another: only one process can write a thread.

Owns the questions and answers on the sockets, and their time limits. The process that has a thread
decides whether to let it go: the agent for its sessions, the client of a program for its threads.
`writer_of` finds the process that has a thread: Codex locks a file, and Linux lists the owners of
locks.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from codex_acp._json import text_at, value_at
from codex_acp._record import NamedTuple
from codex_acp.codex.connection.shared_calls import is_open_elsewhere
from codex_acp.errors import ErrorReply, ThreadOpenElsewhere
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.local_peers import ASK_SECONDS, PeerSocket, ask_all, private_folder
from codex_acp.transport.process_table import read_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue


State: TypeAlias = Literal["unknown", "opening", "busy", "free"]
"""State of a thread in the process that answers, which has let a ``free`` thread go."""

logger = logging.getLogger(__name__)

TAKE_SECONDS: Final = 2.2
"""Seconds for a thread to be handed over, from the first question to the last attempt."""

LET_GO_SECONDS: Final = 1.5
"""Seconds for a process to let go of a thread that it is opening, or whose turn it cancels."""

TRY_AGAIN_SECONDS: Final = 0.05
"""Seconds between two attempts: an ended process loses its threads within milliseconds."""

MAX_NAME: Final = 60
"""Characters of the name of another process's client."""

_socket_numbers = count()


class Asker(NamedTuple):
    """The side that wants a thread."""

    client: str
    owner: str | None
    """Owner of a network server's session; None for a process with this user's files."""
    cancels: bool
    """Whether the turn that runs in the thread shall be cancelled."""


class ThreadPeers:
    """Asks other processes for threads, and answers their questions, for any connection to Codex.

    ``client`` returns the name of the client that this process serves. ``let_go`` is called with
    a thread's id and the `Asker` that wants the thread; the function lets the thread go if
    allowed, and returns the thread's state.
    """

    def __init__(
        self, client: Callable[[], str], let_go: Callable[[str, Asker], Awaitable[State]]
    ) -> None:
        self._client = client
        self._let_go = let_go
        self._socket: PeerSocket | None = None
        self._stopped = False

    async def listen(self, codex: AppServerConnection) -> None:
        """Open the socket on which other processes ask for threads."""
        if self._stopped or not isinstance(codex.link, ChildProcess):
            return
        if self._socket is not None:
            if self._socket.path.exists():
                return
            self._socket.close()  # the socket's file was removed
        if not codex.unloads_at_once:  # this Codex could let no thread go
            return
        try:
            name = f"{os.getpid()}-{next(_socket_numbers)}.sock"
            listening = PeerSocket(private_folder(codex.server.codex_home) / name, self._answer)
            self._socket = listening
            await listening.open()
        except OSError as error:
            logger.info("threads cannot be handed to other processes: %s", error)

    def leave(self) -> None:
        """Stop answering for good."""
        self._stopped = True
        if self._socket is not None:
            self._socket.close()

    async def _answer(self, question: dict[str, JsonValue]) -> dict[str, JsonValue]:
        asker = Asker(
            text_at(question, "client") or "another window",
            text_at(question, "owner"),
            question.get("cancel") is True,
        )
        state: State = "busy"
        with suppress(TimeoutError):  # this process's Codex may not answer
            async with asyncio.timeout(LET_GO_SECONDS):
                state = await self._let_go(text_at(question, "thread") or "", asker)
        return {"state": state, "pid": os.getpid(), "client": self._client()}

    async def take(
        self,
        codex: AppServerConnection,
        thread_id: str,
        open_thread: Callable[[], Awaitable[JsonValue]],
        refused: ErrorReply,
        *,
        owner: str | None = None,
        cancels: bool = False,
    ) -> JsonValue:
        """Ask other processes to let a thread go; return the result of ``open_thread``. ``owner``
        and ``cancels`` are as in `Asker`. Raises ThreadOpenElsewhere if a turn runs in the
        thread, ``refused`` if no process lets it go. Takes less than three seconds."""
        deadline = monotonic() + TAKE_SECONDS
        may_be_freed, failure, attempts = True, refused, 0
        question: dict[str, JsonValue] = {
            "thread": thread_id,
            "client": f"{self._client()} (process {os.getpid()})",
            "owner": owner,
            "cancel": cancels,
        }
        while True:
            if may_be_freed:
                seconds_left = deadline - monotonic()
                may_be_freed, failure = await self._ask(codex, question, refused, seconds_left)
            try:
                return await open_thread()
            except ErrorReply as error:
                if not is_open_elsewhere(error):
                    raise
            attempts += 1
            # A second attempt always: an ended process loses its threads a moment later.
            if monotonic() > deadline or (attempts > 1 and not may_be_freed):
                raise failure
            await asyncio.sleep(TRY_AGAIN_SECONDS)

    async def _ask(
        self,
        codex: AppServerConnection,
        question: dict[str, JsonValue],
        refused: ErrorReply,
        seconds: float,
    ) -> tuple[bool, ErrorReply]:
        """Ask all processes to let the thread go; return whether it may be free soon, and the error
        to raise if it is not."""
        own: Path | None = None if self._socket is None else self._socket.path
        seconds = min(max(seconds, TRY_AGAIN_SECONDS), ASK_SECONDS)
        try:
            folder = private_folder(codex.server.codex_home)
            replies = await ask_all(
                folder, question, own, seconds, lambda reply: reply.get("state") in ("busy", "free")
            )
        except OSError as error:
            logger.info("no other process can be asked for a thread: %s", error)
            return False, refused
        may_be_freed, failure = replies.incomplete, refused  # a silent process may let it go late
        for answer in replies.answers:
            match answer.get("state"):
                case "busy":
                    raise _busy_error(refused, question, answer)
                case "opening":
                    may_be_freed, failure = True, _busy_error(refused, question, answer)
                case "free":
                    may_be_freed = True
        return may_be_freed, failure


def _busy_error(
    refused: ErrorReply, question: dict[str, JsonValue], answer: dict[str, JsonValue]
) -> ThreadOpenElsewhere:
    name = "".join(char for char in text_at(answer, "client") or "" if char.isprintable())
    pid, thread_id = value_at(answer, "pid"), text_at(question, "thread") or ""
    return ThreadOpenElsewhere(
        refused, thread_id, name[:MAX_NAME], pid if type(pid) is int else None, busy=True
    )


LOCKS: Final = "thread-writer-locks"
"""The folder of a Codex home with a locked file for each thread that is open."""

MAX_LOCKS: Final = 256
"""Lock files that are examined at most."""

_LOCK_SUFFIX: Final = ".lock"


class Writer(NamedTuple):
    """A process that has a thread open."""

    thread_id: str
    pid: int
    name: str
    started_by: tuple[int, str] | None
    """Id and name of the parent process."""
    stopped: int | None
    """Id of the process, or else of its parent, if it is stopped (Ctrl-Z) and cannot answer."""

    def __str__(self) -> str:
        parent = ""
        if self.started_by is not None:
            pid, name = self.started_by
            parent = f", started by {name} {pid}"
        stopped = ", stopped" if self.stopped else ""
        return f"{self.name} (process {self.pid}{parent}{stopped})"


def writer_of(codex_home: str, thread_id: str) -> Writer | None:
    """Return the process that has a thread open; None if none can be seen."""
    return next(_writers(Path(codex_home), [f"{thread_id}{_LOCK_SUFFIX}"]), None)


def writers(codex_home: Path) -> list[Writer]:
    """Return the processes that have threads of a Codex home open, by thread. Raises OSError."""
    names = sorted(os.listdir(codex_home / LOCKS))  # noqa: PTH208 - names, not paths
    locks = [name for name in names if name.endswith(_LOCK_SUFFIX) and not name.startswith(".")]
    return [*_writers(codex_home, locks[:MAX_LOCKS])]


def _writers(codex_home: Path, names: list[str]) -> Iterator[Writer]:
    locks = _locks()
    for name in names:
        with suppress(OSError, ValueError):
            file = (codex_home / LOCKS / name).stat()
            for device, pid in locks.get(file.st_ino, ()):
                if device == file.st_dev or _has_open(pid, file):
                    yield _writer(name.removesuffix(_LOCK_SUFFIX), pid)
                    break


def _locks() -> dict[int, list[tuple[int, int]]]:
    """Return the exclusive locks of whole files: inode → device and process (proc_locks(5))."""
    locks: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines():
            with suppress(ValueError):  # fewer fields, or other ones
                _number, kind, _advisory, mode, pid, place, *_range = line.split()
                major, minor, inode = place.split(":")
                if kind == "FLOCK" and mode == "WRITE":
                    device = os.makedev(int(major, 16), int(minor, 16))
                    locks.setdefault(int(inode), []).append((device, int(pid)))
    return locks


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Return whether a process has a file open: some file systems have another device in locks."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(entry.stat(), file):
                return True
    return False


def _writer(thread_id: str, pid: int) -> Writer:
    process = read_process(pid)
    parent = None if process is None else process.parent
    started_by = (parent, _process_name(parent)) if parent is not None and parent > 1 else None
    stopped = next((each for each in (pid, parent) if each and _is_stopped(each)), None)
    return Writer(thread_id, pid, _process_name(pid), started_by, stopped)


def _process_name(pid: int) -> str:
    """Return the name of a process without its arguments, which may have secrets."""
    with suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
        return "".join(char for char in name.strip() if char.isprintable())
    return "a process"


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        after_name = stat.rpartition(b")")[2]
        return after_name.split()[:1] == [b"T"]
    return False
