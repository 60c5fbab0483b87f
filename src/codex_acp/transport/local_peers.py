"""Let the processes of one user on one machine ask each other a line of JSON, on unix sockets.

A folder of mode 0700 has one socket for each process. On Linux both sides also check the user of
the other process. Must not know the questions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import stat
import struct
from itertools import islice
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp._lazy import sha256_hex
from codex_acp._record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.jsonrpc import JsonValue

    Answer: TypeAlias = Callable[[dict[str, JsonValue]], Awaitable[dict[str, JsonValue]]]

logger = logging.getLogger(__name__)

LINE_BYTES: Final = 4096
"""Most bytes of a question or an answer."""

ASK_SECONDS: Final = 1.8
"""Seconds for a peer to answer: a suspended process never answers."""

READ_SECONDS: Final = 1.0
"""Seconds for a peer to send its question."""

ROUNDS: Final = 4
"""Parts into which `ask_all` divides its wait."""

LAST_SECONDS: Final = 0.1
"""Least seconds of a round: it may start after the deadline if this process was held up."""

LISTEN_SECONDS: Final = 1.0
"""Seconds within which a process listens on its new socket; usually microseconds."""

MAX_SOCKETS: Final = 4096
"""Most sockets that `ask_all` looks at. It removes the sockets of killed processes."""

MAX_PEERS: Final = 256
"""Most processes that get one question."""

MAX_ASKERS: Final = 64
"""Peers that this process serves at once; further connections are closed."""

_SUFFIX: Final = ".sock"
_CREDENTIALS: Final = struct.Struct("3i")  # process id, user id, group id
_MODE_FOR_OTHERS: Final = 0o077  # the bits of the group and of all others


class Replies(NamedTuple):
    """Answers of the peers to one question."""

    answers: list[dict[str, JsonValue]]
    incomplete: bool
    """Whether a peer gave no answer: it was silent or too busy, or ended first."""


def private_folder(key: str) -> Path:
    """Return this user's folder for ``key``, a path; make the folder if need be.

    The folder is below ``XDG_RUNTIME_DIR`` (``/run/user/UID`` if unset, as under cron) if that is
    private, else below the temporary directory. Raises OSError if the folder is a link, or open to
    others.
    """
    user = os.geteuid()
    runtime_dir = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}")
    if runtime_dir.is_absolute() and _is_private(runtime_dir):
        parent = runtime_dir / "codex-acp-sdk"
    else:
        parent = Path(_temporary_folder()) / f"codex-acp-sdk-{user}"
    folder = parent / sha256_hex(os.fsencode(os.path.realpath(key)))[:16]
    for each in (parent, folder):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)
        if not _is_private(each):
            raise OSError(f"{each} is not this user's alone")
    return folder


def _temporary_folder() -> str:
    """Return the temporary directory, without importing ``tempfile``, which takes long."""
    for path in (*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"):
        if path and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):  # noqa: PTH112
            return os.path.abspath(path)  # noqa: PTH100
    return "/tmp"


def _is_private(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        found = folder.lstat()
        own = found.st_uid == os.geteuid() and not found.st_mode & _MODE_FOR_OTHERS
        return own and stat.S_ISDIR(found.st_mode)
    return False


class PeerSocket:
    """The socket of this process: calls ``answer`` with each question of this user's processes."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.path = path
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._askers = 0

    async def open(self) -> None:
        """Listen from now on. Raises OSError."""
        _remove(self.path)  # the socket of a killed process that had this process's id
        # Without `start_serving` no question arrives before `_server` is set.
        self._server = await asyncio.start_unix_server(
            self._serve, str(self.path), limit=LINE_BYTES, start_serving=False
        )
        await self._server.start_serving()

    def close(self) -> None:
        """Stop listening. Idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None
            _remove(self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._askers += 1
        try:
            if self._askers > MAX_ASKERS:
                return
            if not _is_this_user(writer.get_extra_info("socket")):
                logger.warning("another user has asked on %s, and was not answered", self.path)
                return
            async with asyncio.timeout(READ_SECONDS):
                question = _object(await reader.readline())
            async with asyncio.timeout(ASK_SECONDS):
                answer = await self._answer(question)
                writer.write(_line(answer))
                await writer.drain()
        except (OSError, ValueError, TimeoutError) as error:
            logger.info("a question on %s was not answered: %s", self.path, error)
        finally:
            self._askers -= 1
            writer.close()


async def ask_all(
    folder: Path,
    question: dict[str, JsonValue],
    own: Path | None,
    seconds: float = ASK_SECONDS,
    enough: Callable[[dict[str, JsonValue]], bool] = lambda _: False,
) -> Replies:
    """Ask all processes of the folder at the same time, without the socket ``own``. Wait for
    ``seconds``, or until ``enough`` is true of an answer."""
    peers, incomplete = _connected(folder, own)
    pending = {asyncio.create_task(_ask(peer, question)) for peer in peers}
    answers: list[dict[str, JsonValue]] = []
    deadline, rounds, satisfied = monotonic() + seconds, 0, False
    try:  # in rounds: if this process was held up in a round, a peer's silence proves nothing
        while pending and not satisfied and (rounds < ROUNDS or monotonic() < deadline):
            left = max(deadline - monotonic(), LAST_SECONDS)
            done, pending = await asyncio.wait(
                pending, timeout=min(left, seconds / ROUNDS), return_when=asyncio.FIRST_COMPLETED
            )
            results = [each.result() for each in done]
            answers += (each for each in results if each is not None)
            incomplete = incomplete or None in results
            satisfied = any(map(enough, answers))
            rounds += 1
        incomplete = incomplete or bool(pending)
    finally:
        for each in pending:
            each.cancel()
        if pending:
            await asyncio.wait(pending)
        for peer in peers:
            peer.close()
    return Replies(answers, incomplete)


def _connected(folder: Path, own: Path | None) -> tuple[list[socket.socket], bool]:
    """Connect to at most `MAX_PEERS` processes, and remove the sockets of ended processes. Return
    the connections, and whether a process is too busy for another connection."""
    found: list[socket.socket] = []
    is_busy = False
    for path in islice(sorted(folder.glob(f"*{_SUFFIX}")), MAX_SOCKETS):
        if path == own or len(found) == MAX_PEERS:
            continue
        peer = socket.socket(socket.AF_UNIX)
        peer.setblocking(False)
        try:
            peer.connect(str(path))
        except OSError as error:
            peer.close()
            is_busy = is_busy or isinstance(error, BlockingIOError)  # the peer's queue is full
            if isinstance(error, ConnectionRefusedError):  # no process listens on the socket
                with contextlib.suppress(OSError):
                    if path.lstat().st_ctime < time() - LISTEN_SECONDS:
                        path.unlink()
            logger.info("%s cannot be asked: %s", path, error)
        else:
            found.append(peer)
    return found, is_busy


async def _ask(peer: socket.socket, question: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
    """Return one process's answer; None if the process ended first or answers no JSON object."""
    loop, line = asyncio.get_running_loop(), b""
    try:
        if not _is_this_user(peer):
            return {}  # another user's answer does not count as missing
        await loop.sock_sendall(peer, _line(question))
        while not line.endswith(b"\n") and len(line) < LINE_BYTES:
            more = await loop.sock_recv(peer, LINE_BYTES)
            if not more:
                break
            line += more
        return _object(line)
    except (OSError, ValueError) as error:
        logger.info("a process that was asked does not answer: %s", error)
        return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _is_this_user(peer: socket.socket) -> bool:
    """Return whether a peer has this process's user. True on systems that do not report the user:
    the folder's mode keeps others out."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    credentials = peer.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.geteuid())


def _line(value: dict[str, JsonValue]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _object(line: bytes) -> dict[str, JsonValue]:
    """Return the JSON object of one line. Raises ValueError."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value
