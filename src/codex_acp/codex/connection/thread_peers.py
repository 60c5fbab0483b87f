"""Hands threads from one process of this package to another: Codex lets one write a thread.

Owns what is asked and answered on the sockets, and how long that takes. Whether a thread may go,
the process decides that has it: the agent for its sessions, the client of a program for its
threads. `writer_of` says which process that is: Codex locks a file, and Linux tells whose lock it
is. Nothing is locked here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from codex_acp._json import text_at, value_at
from codex_acp.codex.connection.shared_calls import is_open_elsewhere
from codex_acp.errors import ErrorReply, ThreadOpenElsewhere
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.local_peers import ASK_SECONDS, PeerSocket, ask_all, private_folder
from codex_acp.transport.process_table import read_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue


State: TypeAlias = Literal["unknown", "opening", "busy", "free"]
"""State of a thread in the process that is asked; free: the process has let go of it."""

logger = logging.getLogger(__name__)

TAKE_SECONDS: Final = 2.2
"""Seconds for a thread to be handed over, from the first question to the last try."""

LET_GO_SECONDS: Final = 1.5
"""Seconds for the holder to let a thread go that it is opening, or whose turn it cancels."""

TRY_AGAIN_SECONDS: Final = 0.05
"""Between two tries: a process that has ended lets go of its threads within milliseconds."""

MAX_NAME: Final = 60
"""Characters of the name of another process's client."""

_numbers = count()


class Asker(NamedTuple):
    """On whose behalf a thread is wanted."""

    client: str
    owner: str | None
    """Owner of a network server's session; None: whoever has this user's files."""
    cancels: bool
    """Whether what runs in it there shall be cancelled."""


class ThreadPeers:
    """Asks other processes for threads, and answers them, for one connection after the other.

    ``client`` names whom this process serves. ``let_go`` is called with a thread that another
    process wants, and lets it go if it may.
    """

    def __init__(
        self, client: Callable[[], str], let_go: Callable[[str, Asker], Awaitable[State]]
    ) -> None:
        self._client = client
        self._let_go = let_go
        self._socket: PeerSocket | None = None
        self._left = False

    async def listen(self, codex: AppServerConnection) -> None:
        """Let others ask from now on; where that cannot be, they are told who has what."""
        if self._left or not isinstance(codex.link, ChildProcess):
            return
        if self._socket is not None:
            if self._socket.path.exists():
                return
            self._socket.close()  # something has cleared the folder
        if not codex.unloads_at_once:  # nothing that it has loaded can be handed over
            return
        try:
            name = f"{os.getpid()}-{next(_numbers)}.sock"
            listening = PeerSocket(private_folder(codex.server.codex_home) / name, self._answer)
            self._socket = listening
            await listening.open()
        except OSError as error:
            logger.info("threads cannot be handed to other processes: %s", error)

    def leave(self) -> None:
        """Answer no questions any more; again is fine."""
        self._left = True
        if self._socket is not None:
            self._socket.close()

    async def _answer(self, question: dict[str, JsonValue]) -> dict[str, JsonValue]:
        asker = Asker(
            text_at(question, "client") or "another window",
            text_at(question, "owner"),
            question.get("cancel") is True,
        )
        state: State = "busy"
        with suppress(TimeoutError):  # its Codex may be silent
            async with asyncio.timeout(LET_GO_SECONDS):
                state = await self._let_go(text_at(question, "thread") or "", asker)
        return {"state": state, "pid": os.getpid(), "client": self._client()}

    async def take(
        self,
        codex: AppServerConnection,
        thread_id: str,
        again: Callable[[], Awaitable[JsonValue]],
        refused: ErrorReply,
        *,
        owner: str | None = None,
        cancels: bool = False,
    ) -> JsonValue:
        """Have a thread handed over; give what ``again`` gives, which opens it.

        ``owner`` and ``cancels`` as in `Asker`. Raises ThreadOpenElsewhere where something runs in
        it, ErrorReply as ``refused`` where nobody hands it over. Takes less than three seconds.
        """
        deadline, moving, tries = monotonic() + TAKE_SECONDS, True, 0
        failure = refused
        question: dict[str, JsonValue] = {
            "thread": thread_id,
            "client": f"{self._client()} (process {os.getpid()})",
            "owner": owner,
            "cancel": cancels,
        }
        while True:
            if moving:
                left = deadline - monotonic()
                moving, failure = await self._ask(codex, question, refused, left)
            try:
                return await again()
            except ErrorReply as error:
                if not is_open_elsewhere(error):
                    raise
            tries += 1
            if monotonic() > deadline or (tries > 1 and not moving):
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
                folder,
                question,
                own,
                seconds,
                lambda answer: (
                    answer.get("state") in ("busy", "free")
                ),  # of the process that has the thread
            )
        except OSError as error:
            logger.info("no other process can be asked for a thread: %s", error)
            return False, refused
        moving, failure = replies.incomplete, refused
        for answer in replies.answers:
            match answer.get("state"):
                case "busy":
                    raise _busy(refused, question, answer)
                case "opening":
                    moving, failure = True, _busy(refused, question, answer)
                case "free":
                    moving = True
        return moving, failure


def _busy(
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
"""Files that are looked at, however many there are."""

_SUFFIX: Final = ".lock"


class Writer(NamedTuple):
    """A process that has a thread open."""

    thread_id: str
    pid: int
    name: str
    started_by: tuple[int, str] | None
    """The process above it, and its name."""
    stopped: int | None
    """Id of the one of both that was stopped, as by Ctrl-Z, and answers nothing."""

    def __str__(self) -> str:
        above = "" if self.started_by is None else ", started by {1} {0}".format(*self.started_by)
        return f"{self.name} (process {self.pid}{above}{', stopped' * bool(self.stopped)})"


def writer_of(codex_home: str, thread_id: str) -> Writer | None:
    """Return which process has a thread open; None: none that can be seen."""
    return next(_writers(Path(codex_home), [f"{thread_id}{_SUFFIX}"]), None)


def writers(codex_home: Path) -> list[Writer]:
    """Return those of all threads of a home that are open, by thread. Raises OSError."""
    names = sorted(os.listdir(codex_home / LOCKS))  # noqa: PTH208 - names, not paths
    found = [name for name in names if name.endswith(_SUFFIX) and not name.startswith(".")]
    return [*_writers(codex_home, found[:MAX_LOCKS])]


def _writers(codex_home: Path, names: list[str]) -> Iterator[Writer]:
    held = _held()
    for name in names:
        with suppress(OSError, ValueError):
            found = (codex_home / LOCKS / name).stat()
            for device, pid in held.get(found.st_ino, ()):
                if device == found.st_dev or _has_open(pid, found):
                    yield _writer(name.removesuffix(_SUFFIX), pid)
                    break


def _held() -> dict[int, list[tuple[int, int]]]:
    """The exclusive locks of whole files: inode → device and process (proc_locks(5))."""
    held: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines():
            fields = line.split()
            if len(fields) < 6 or fields[1:2] != ["FLOCK"] or fields[3] != "WRITE":
                continue
            with suppress(ValueError):
                major, minor, inode = fields[5].split(":")
                device = os.makedev(int(major, 16), int(minor, 16))
                held.setdefault(int(inode), []).append((device, int(fields[4])))
    return held


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    """Whether a process has the file open: some file systems tell another device in their locks."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found = entry.stat()
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False


def _writer(thread_id: str, pid: int) -> Writer:
    process = read_process(pid)
    above = None if process is None else process.parent
    started_by = (above, _name(above)) if above is not None and above > 1 else None
    stopped = next((each for each in (pid, above) if each and _is_stopped(each)), None)
    return Writer(thread_id, pid, _name(pid), started_by, stopped)


def _name(pid: int) -> str:
    """The name of a process alone: its arguments may hold secrets."""
    with suppress(OSError):
        told = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
        return "".join(char for char in told.strip() if char.isprintable())
    return "a process"


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return stat.rpartition(b")")[2].split()[:1] == [b"T"]
    return False
