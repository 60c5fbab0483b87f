"""Run git so that no file of a repository can make git run another program.

git starts no hook, file-system monitor, submodule or transport helper, even if a repository's
configuration or attributes name one. A caller whose command could run a filter or an external diff
gives git a ``GIT_DIR`` of the fleet, whose configuration names none. Only a fetch uses the user's
configuration, for logins and proxies.
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
"""Protocols that git may use. ``ext::`` and others would run a program that the URL names."""

GIT_SECONDS: Final = 600.0
"""Seconds for one command: a first fetch of a large repository takes minutes."""

MAX_STDERR: Final = 2000
"""Characters of git's stderr that an error shows."""

PIPES_SECONDS: Final = 1.0
"""Seconds to wait for git's pipes to close after git's end: a daemon may keep the pipes open."""

_SAFE_OPTIONS: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.excludesFile=/dev/null", "-c", "diff.ignoreSubmodules=all"),
    *("-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false"),
    # Refuse paths that a file system of macOS or Windows takes for ``.git``.
    *("-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", "-c", "core.safecrlf=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false"),
)

_KEPT_VARIABLES: Final = frozenset((
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY",
))  # fmt: skip
"""The user's ``GIT_*`` variables that a fetch may need; others make git use other directories."""


class GitFailed(CheckoutError):
    """A git command failed; ``code`` is its exit status."""

    def __init__(self, command: str, code: int | None, stderr: str) -> None:
        why = scrub(_end_of_text(stderr.strip())) or f"it {how_ended(code)}"
        super().__init__(f"git {command} failed: {why}")
        self.code = code


def _end_of_text(text: str) -> str:
    """Return the end without the line or word that is cut: `scrub` does not find half a secret."""
    if len(text) <= MAX_STDERR:
        return text
    end = text[-MAX_STDERR:]
    return end.partition("\n" if "\n" in end else " ")[2]


_NO_CONFIGURATION: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1",
}  # fmt: skip
"""Environment without the configuration of the user and the system."""


def _make_environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _KEPT_VARIABLES}
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
    stdin: bytes | None = None,
    user_config: bool = False,
    limit: int | None = None,
    seconds: float = GIT_SECONDS,
) -> bytes:
    """Run ``git BEFORE COMMAND ARGUMENTS`` and return its output. The output is cut after ``limit``
    + 1 bytes. ``env`` is added to the environment; ``user_config`` makes git use the user's
    configuration. Raises GitFailed, also if git runs longer than ``seconds``. If git runs when this
    call ends or is cancelled, git's process group is killed."""
    environment = _make_environment() | ({} if user_config else _NO_CONFIGURATION) | dict(env or {})
    starting = asyncio.ensure_future(
        _spawn(("git", *_SAFE_OPTIONS, *before, command, *arguments), cwd, environment, stdin)
    )
    try:
        process = await _wait_for(starting)
    except OSError as error:
        raise GitFailed(command, None, f"git cannot be run: {error}; install git") from error
    assert process.stdout is not None
    reading_stderr = _read_stderr(process)
    try:
        async with asyncio.timeout(seconds):
            if stdin is not None and process.stdin is not None:
                process.stdin.write(stdin)
                process.stdin.close()
            if limit is None:
                out = await process.stdout.read()
            else:
                try:  # one byte more shows that the output is longer
                    # Enough: `finally` ends git, and its exit status does not count.
                    return await process.stdout.readexactly(limit + 1)
                except asyncio.IncompleteReadError as end:
                    out = end.partial
            stderr = await reading_stderr
            await process.wait()
    except TimeoutError:
        raise GitFailed(command, None, f"it took longer than {seconds:g} seconds") from None
    finally:
        await _end_git(process, reading_stderr)
    if process.returncode:
        raise GitFailed(command, process.returncode, stderr.decode(errors="replace"))
    return out


async def _spawn(
    words: Sequence[str], cwd: str | Path | None, env: Mapping[str, str], stdin: bytes | None
) -> Process:
    """Start git as the leader of its own process group. `process_tree` takes git for no orphan."""
    with process_tree.starting_child():
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        process_tree.add_root(process.pid)
    return process


async def _wait_for(starting: asyncio.Task[Process]) -> Process:
    """Wait for the start. If cancelled, kill git's process group: asyncio would kill git alone, and
    wait while a child process of git has the pipes open."""
    try:
        return await shielded(starting)
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError, OSError):
            await finish(starting)  # even if this call is cancelled again
        if not starting.cancelled() and starting.exception() is None:
            await _end_git(starting.result(), _read_stderr(starting.result()))
        raise


def _read_stderr(process: Process) -> asyncio.Task[bytes]:
    assert process.stderr is not None
    return asyncio.create_task(_read_end(process.stderr))


async def _end_git(process: Process, reading_stderr: asyncio.Task[bytes]) -> None:
    """Kill git's process group if git still runs; read or close git's pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(PIPES_SECONDS):
                await _read_end(process.stdout)
                await reading_stderr
                await process.wait()  # before Python 3.14, this waits for the pipes, too
    finally:
        reading_stderr.cancel()
        process._transport.close()  # type: ignore[attr-defined] # nothing else closes its pipes
        process_tree.discard_root(process.pid)


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end; return the last bytes, more than `MAX_STDERR` characters."""
    end = b""
    while part := await stream.read(1 << 16):
        end = (end + part)[-4 * MAX_STDERR - 1 :]  # UTF-8 has at most 4 bytes for a character
    return end
