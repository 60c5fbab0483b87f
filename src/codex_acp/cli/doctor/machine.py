"""Checks what can be seen without asking Codex: Python, the packages, the binary, its home and
files."""

from __future__ import annotations

import os
import platform
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import pydantic

from codex_acp._regular_files import read_regular
from codex_acp._version import __version__
from codex_acp.acp._generated.version import SCHEMA_PACKAGE as ACP_PACKAGE
from codex_acp.acp._generated.version import SCHEMA_VERSION as ACP_VERSION
from codex_acp.cli.doctor.finding import Finding, problem, said, warning
from codex_acp.codex._generated.version import OLDEST_VERSION
from codex_acp.codex._generated.version import SCHEMA_VERSION as CODEX_VERSION
from codex_acp.codex.connection.handshake import check_version
from codex_acp.codex.connection.launch import HOW_TO_GET_CODEX, CodexBinary, find_codex
from codex_acp.errors import CodexTooOld, LaunchError, how_ended
from codex_acp.wire.lazy import IS_TESTED, TESTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


MAX_CONFIG: Final = 1024 * 1024
"""Bytes of a file that is read or copied; a configuration has a few thousand."""
VERSION_SECONDS: Final = 20.0
"""For ``codex --version``: a first start reads a binary of 300 MB from the disk."""
_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WRITE_FOR_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Home(NamedTuple):
    """Codex's home, and how it is named in advice."""

    path: Path | None
    config: bytes | None
    """Content of ``config.toml``; None if there is none, or it cannot be read."""
    usable: bool
    """Whether what is in it can be read."""
    broken: bool
    """Whether something is wrong with it; one that is not there yet is not."""


def look_at_python() -> Iterator[Finding]:
    """The interpreter and the packages."""
    version = platform.python_version()
    yield Finding("python", "ok", f"Python {version} at {sys.executable}")
    acp = f"{ACP_PACKAGE.removeprefix('npm:')} {ACP_VERSION}"
    yield Finding("schemas", "ok", f"ACP v1 and v2 as in {acp}, Codex as in {CODEX_VERSION}")
    text = f"codex-acp-sdk {__version__} with pydantic {pydantic.VERSION}"
    if IS_TESTED:
        yield Finding("package", "ok", text)
    else:
        yield warning(
            "package", f"{text}, which was not tested: models load slower",
            f"install pydantic {TESTED[-1]}",
        )  # fmt: skip


def look_at_codex(codex: str | None, deadline: Deadline) -> tuple[Finding, CodexBinary | None]:
    """The binary and its version; the binary if it can be used."""
    try:
        binary = find_codex(codex)
    except LaunchError as error:
        text = str(error).removesuffix(f"; {HOW_TO_GET_CODEX}")
        return problem("codex", text, HOW_TO_GET_CODEX), None
    where = f"{binary.path} (from {binary.source})"
    other = "name another Codex with --codex or CODEX_PATH"
    seconds = deadline.left(VERSION_SECONDS)
    try:
        done = run_program([binary.path, "--version"], os.environ, "/", seconds)
    except TooSlow:
        text = f"{where} told no version within {seconds:.3g} seconds"
        return problem("codex", text, other), None
    except OSError as error:
        text = f"{where} cannot be run: {error.strerror or error}"
        return problem("codex", text, f"it must be a Codex for this system; {other}"), None
    words = done.output.split()
    if done.status != 0 or not words or not words[-1][:1].isdigit():
        text = f"{where} is not a Codex: --version {how_ended(done.status)}, {said(done.output)!r}"
        return problem("codex", text, other), None
    version = words[-1]
    try:
        check_version(version)
    except CodexTooOld as error:
        return problem("codex", f"{where}: {error}", "update it, for example with pip or npm"), None
    text = f"Codex {version} at {where}; this package reads {OLDEST_VERSION} to {CODEX_VERSION}"
    if _numbers(version) > _numbers(CODEX_VERSION):
        text += ", and of a newer one all but what is new"
    return Finding("codex", "ok", text), binary


def look_at_home() -> tuple[list[Finding], Home]:
    """``CODEX_HOME``, its configuration and the file of its login."""
    given = os.environ.get("CODEX_HOME")
    name = "CODEX_HOME"
    try:
        path = Path(given) if given else Path.home() / ".codex"
    except (RuntimeError, KeyError):
        advice = "set HOME, or CODEX_HOME to a directory"
        return [problem("codex_home", "this user has no home directory", advice)], Home(
            None, None, usable=False, broken=True
        )
    findings: list[Finding] = []
    usable = _look_at_folder(findings, path, given is not None, name)
    config = _look_at_config(findings, path / "config.toml") if usable else None
    if usable:
        _look_at_login_file(findings, path / "auth.json")
    broken = any(one.check == "codex_home" and one.level == "problem" for one in findings)
    return findings, Home(path, config, usable, broken)


def _look_at_folder(findings: list[Finding], path: Path, named: bool, name: str) -> bool:
    check = "codex_home"
    try:
        found = path.stat()
    except FileNotFoundError:
        if named:
            advice = f"make it (mkdir -m 700 {path}), or unset {name}"
            findings.append(problem(check, f"{name} is {path}, which does not exist", advice))
            return False
        if os.access(path.parent, os.W_OK | os.X_OK):
            findings.append(Finding(check, "ok", f"{path} does not exist yet; Codex makes it"))
        else:
            text = f"{path} does not exist, and cannot be made"
            advice = f"set HOME to a directory of yours, or {name}"
            findings.append(problem(check, text, advice))
        return False
    except OSError as error:
        text = f"{path} cannot be looked at: {error.strerror}"
        findings.append(problem(check, text, f"name another directory with {name}"))
        return False
    if not stat.S_ISDIR(found.st_mode):
        findings.append(problem(check, f"{path} is no directory", f"name one with {name}"))
        return False
    missing = [word for word, mode in (("read", os.R_OK | os.X_OK), ("written", os.W_OK))
               if not os.access(path, mode)]  # fmt: skip
    owner = _owner(found.st_uid)
    if missing:
        text = f"{path} cannot be {' or '.join(missing)}; it belongs to {owner}"
        findings.append(problem(check, text, f"chown it, or name another one with {name}"))
        return os.access(path, os.R_OK | os.X_OK)
    disk = os.statvfs(path)
    if disk.f_blocks and not disk.f_bavail:
        text = f"there is no room left on the disk of {path}: Codex cannot keep sessions there"
        findings.append(problem(check, text, f"make room, or name another one with {name}"))
        return True
    if found.st_uid != os.geteuid():
        text = f"{path} belongs to {owner}, and this is {_owner(os.geteuid())}"
        findings.append(warning(check, text, f"use a home of your own: set {name}"))
    elif found.st_mode & _WRITE_FOR_OTHERS:
        text = f"others may write to {path}, and so decide what Codex runs"
        findings.append(warning(check, text, f"chmod go-w {path}"))
    else:
        findings.append(Finding(check, "ok", f"{path} can be read and written; it is {owner}'s"))
    return True


def _look_at_config(findings: list[Finding], path: Path) -> bytes | None:
    check = "config"
    try:
        content = read_regular(path, MAX_CONFIG)
    except FileNotFoundError:
        findings.append(Finding(check, "ok", f"there is no {path}: Codex's defaults hold"))
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        text = f"{path} cannot be read: {reason}"
        findings.append(problem(check, text, "make it a file that you may read, or move it away"))
        return None
    findings.append(Finding(check, "ok", f"{path} can be read ({len(content)} bytes)"))
    return content


def look_at_syntax(content: bytes | None) -> Iterator[Finding]:
    """Whether the configuration is TOML, where there is no Codex to say so."""
    try:
        tomllib.loads((content or b"").decode())
    except UnicodeDecodeError:
        yield problem("config", "config.toml is not UTF-8", "save it as UTF-8")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # Python's message names the place; what stands there may be a key, so it is left out.
        place = str(error).rpartition("(")[2].rstrip(")") or "somewhere"
        yield problem("config", f"config.toml is no TOML: a mistake {place}", "mend that line")


def _look_at_login_file(findings: list[Finding], path: Path) -> None:
    try:
        found = path.stat()
    except OSError:
        return  # there is none, or Codex will say
    if found.st_mode & _FOR_OTHERS and stat.S_ISREG(found.st_mode):
        text = f"others may read {path}, which holds your login"
        findings.append(warning("login_file", text, f"chmod 600 {path}"))


def toml_of(content: bytes | None) -> dict[str, object]:
    """Read a configuration; return nothing if it cannot be read."""
    try:
        return tomllib.loads((content or b"").decode())
    except (ValueError, RecursionError):
        return {}


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())


# Limits of checks: a program that hangs, and a file system that does, end no later than this.

CHECK_SECONDS: Final = 10.0
"""For looking at files: a local disk takes none, a network disk that has stopped all of it."""
MAX_OUTPUT: Final = 64 * 1024
_T = TypeVar("_T")


WHOLE_SECONDS: Final = 60.0
"""For all checks together but that of a turn; a healthy machine takes three."""


class Deadline:
    """The end of all checks together, so that none begins with its own limit behind it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, most: float) -> float:
        """Return the seconds that a check may take, of the ``most`` that it has by itself."""
        return max(0.0, min(most, self._end - time.monotonic()))


class TooSlow(Exception):
    """A check took longer than its limit."""


class Done(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    """Of both streams."""


class _Result(Generic[_T]):
    """Value or error of a thread."""

    value: _T
    error: BaseException | None = None


def within(seconds: float, check: Callable[[], _T]) -> _T:
    """Run ``check`` in a thread that is left behind if it takes longer; return its value.

    Raises TooSlow, or what ``check`` raises.
    """
    result = _Result[_T]()

    def run() -> None:
        try:
            result.value = check()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            result.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TooSlow
    if result.error is not None:
        raise result.error
    return result.value


def run_program(argv: Sequence[str], env: Mapping[str, str], cwd: str, seconds: float) -> Done:
    """Run a program to its end, and end it and its group with the limit.

    Its output goes to a file: a pipe would be held open by whatever it left behind. Raises
    OSError if it cannot be started, TooSlow.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise TooSlow from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        output.seek(0)
        return Done(status, output.read(MAX_OUTPUT).decode(errors="replace"))
