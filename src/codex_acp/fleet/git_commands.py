"""git, run so that nothing that a repository brings can make it run anything else.

No hook, file-system monitor, filter, external diff, submodule or transport helper: none of them is
started, whatever a repository's configuration or attributes say. The user's own configuration is
used where a repository is fetched, for its logins and proxies, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.errors import how_ended
from codex_acp.fleet.errors import CheckoutError
from codex_acp.transcript.secrets import scrub
from codex_acp.transport import process_tree
from codex_acp.transport.shielding import finish, shielded

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PROTOCOLS: Final = "file:https:ssh"
"""How a repository may be fetched. ``ext::`` and the like run what the URL says."""

GIT_SECONDS: Final = 600.0
"""For one command: a first fetch of a large repository takes minutes."""

SHOWN: Final = 2000
"""Characters of git's complaint that are passed on."""

PIPES_SECONDS: Final = 1.0
"""How long the pipes of a git that is over may be open: something that left its group has them."""

_OFF: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.excludesFile=/dev/null", "-c", "diff.ignoreSubmodules=all"),
    *("-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false"),
    # A name that is git's own on the file system of whoever takes the patch is in none.
    *("-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", "-c", "core.safecrlf=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false"),
)

_KEPT: Final = frozenset(
    (
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
        "GIT_SSL_CERT",
        "GIT_SSL_KEY",
    )
)
"""Of the user's ``GIT_*``, what a fetch may need; the others redirect git to somewhere else."""


class GitFailed(CheckoutError):
    """git could not do it; ``code`` is its exit status."""

    def __init__(self, command: str, code: int | None, complaint: str) -> None:
        why = scrub(_shown(complaint.strip())) or f"it {how_ended(code)}"
        super().__init__(f"git {command} failed: {why}")
        self.code = code


def _shown(complaint: str) -> str:
    """Its end, from the beginning of a line or word on: half a secret is not known for one."""
    if len(complaint) <= SHOWN:
        return complaint
    end = complaint[-SHOWN:]
    return end.partition("\n" if "\n" in end else " ")[2]


_NOBODYS: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1",
}  # fmt: skip
"""Environment with nobody's configuration of git."""


def _environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _KEPT}
    env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    return env | {
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_PAGER": "cat",
        "LC_ALL": "C",
    }


async def git(
    command: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    cwd: str | Path | None = None,
    given: bytes | None = None,
    users_own: bool = False,
    limit: int | None = None,
    seconds: float = GIT_SECONDS,
) -> bytes:
    """Run ``git COMMAND ARGUMENTS`` and return its output, at most ``limit`` bytes and one more.

    ``before`` stands before the command; ``env`` is added to the environment; ``given`` is its
    input, for commands that answer nothing; ``users_own`` leaves the user's configuration in.
    Raises GitFailed, also when it takes longer than ``seconds``; what it started is killed then,
    and when this is cancelled.
    """
    environment = _environment() | ({} if users_own else _NOBODYS) | dict(env or {})
    starting = asyncio.ensure_future(
        _spawned(("git", *_OFF, *before, command, *arguments), cwd, environment, given)
    )
    try:
        process = await _started(starting)
    except OSError as error:
        raise GitFailed(command, None, f"git cannot be run: {error}; install git") from error
    assert process.stdout is not None
    complaining = _complaining(process)
    try:
        async with asyncio.timeout(seconds):
            if given is not None and process.stdin is not None:
                process.stdin.write(given)
                process.stdin.close()
            if limit is None:
                out = await process.stdout.read()
            else:  # no more than one byte over it; the rest is left unread
                parts: list[bytes] = []
                left = limit + 1
                while left > 0 and (part := await process.stdout.read(min(left, 1 << 16))):
                    parts.append(part)
                    left -= len(part)
                out = b"".join(parts)
            if limit is not None and len(out) > limit:
                return out
            complaint = await complaining
            await process.wait()
    except TimeoutError:
        raise GitFailed(command, None, f"it took longer than {seconds:g} seconds") from None
    finally:
        await _kill(process, complaining)
    if process.returncode:
        raise GitFailed(command, process.returncode, complaint.decode(errors="replace"))
    return out


async def _spawned(
    words: Sequence[str], cwd: str | Path | None, env: Mapping[str, str], given: bytes | None
) -> Process:
    """git, which is waited for here: it is nobody's orphan, though it leads a session."""
    with process_tree.starting_own():
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        process_tree.add_root(process.pid)
    return process


async def _started(starting: asyncio.Task[Process]) -> Process:
    """Return the process; cancelled meanwhile, end it with all that it has started: asyncio would
    kill git alone, and wait while a child of it has the pipes."""
    try:
        return await shielded(starting)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError, OSError):
            await finish(starting)  # however often this is cancelled
        if not starting.cancelled() and starting.exception() is None:
            await _kill(starting.result(), _complaining(starting.result()))
        raise


def _complaining(process: Process) -> asyncio.Task[bytes]:
    assert process.stderr is not None
    return asyncio.create_task(_end_of(process.stderr))


async def _kill(process: Process, complaining: asyncio.Task[bytes]) -> None:
    """End what still runs of it, and its pipes with it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PIPES_SECONDS):
            await _end_of(process.stdout)
            await complaining
            await process.wait()  # which before Python 3.14 waits for the pipes, too
    except TimeoutError:
        complaining.cancel()
        process._transport.close()  # type: ignore[attr-defined] # nothing else closes its pipes
    finally:
        process_tree.discard_root(process.pid)


async def _end_of(stream: asyncio.StreamReader) -> bytes:
    end = b""
    while part := await stream.read(1 << 16):
        end = (end + part)[-4 * SHOWN - 1 :]  # more than is shown, in any encoding
    return end
