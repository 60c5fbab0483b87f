"""Check the machine and Codex's answers for ``codex-acp-sdk doctor``.

`safe_line` makes each text of the report: no secrets, no control characters.
"""

from __future__ import annotations

import asyncio
import os
import platform
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar

import pydantic

from codex_acp._files import read_regular
from codex_acp._json import object_at, text_at, value_at
from codex_acp._version import __version__
from codex_acp.acp._generated.version import SCHEMA_PACKAGE as ACP_PACKAGE
from codex_acp.acp._generated.version import SCHEMA_VERSION as ACP_VERSION
from codex_acp.codex._generated.version import OLDEST_VERSION
from codex_acp.codex._generated.version import SCHEMA_VERSION as CODEX_VERSION
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.handshake import check_version
from codex_acp.codex.connection.launch import (
    HOW_TO_GET_CODEX,
    LaunchOptions,
    find_codex,
    spawn_app_server,
)
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import (
    CodexAcpError,
    CodexTooOld,
    ErrorReply,
    LaunchError,
    TransportError,
    how_ended,
)
from codex_acp.routing.display import visible
from codex_acp.runtime import AgentRuntime, AgentSpec
from codex_acp.testing import CodexHome, ScriptedModel, Text, exec_command
from codex_acp.testing.codex_home import HomeDirectories
from codex_acp.transcript.secrets import scrub
from codex_acp.transport.process_tree import adopt_orphans, leave_orphans
from codex_acp.wire.lazy import IS_TESTED, TESTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codex_acp.jsonrpc import JsonValue

Level: TypeAlias = Literal["ok", "warning", "problem"]

REPORT_VERSION: Final = 1
"""Version of the JSON report. It grows if a member changes its meaning, not for a new check."""
MAX_TEXT: Final = 500
"""Characters of a finding's text that the report shows."""


class Finding(NamedTuple):
    """One line of the report."""

    check: str
    """Name of the check."""
    level: Level
    text: str
    """One sentence: what the check found."""
    advice: str | None = None
    """The next step for the person."""


def problem(check: str, text: str, advice: str) -> Finding:
    """Make the finding that something does not work."""
    return Finding(check, "problem", text, advice)


def warning(check: str, text: str, advice: str) -> Finding:
    """Make the finding that something works with a flaw, or could not be checked."""
    return Finding(check, "warning", text, advice)


def safe_line(text: str) -> str:
    """Return a text as one line, without secrets and control characters, of limited length."""
    line = visible(" ".join(scrub(text).split()))
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}\u2026"


def as_json(findings: Sequence[Finding], editor: dict[str, JsonValue] | None) -> JsonValue:
    """Return the report. ``editor`` holds the settings for the editor that the person named."""
    checks: list[JsonValue] = [
        {
            "check": finding.check, "level": finding.level, "text": safe_line(finding.text),
            "advice": None if finding.advice is None else safe_line(finding.advice),
        }
        for finding in findings
    ]  # fmt: skip
    return {
        "version": REPORT_VERSION,
        "problems": sum(finding.level == "problem" for finding in findings),
        "warnings": sum(finding.level == "warning" for finding in findings),
        "checks": checks,
        "editor": editor,
    }


# Time limits of checks, for a program or a file system that hangs.

WHOLE_SECONDS: Final = 60.0
"""Time limit of all checks but the turn; a healthy machine takes three seconds."""
CHECK_SECONDS: Final = 10.0
"""Time limit of reading files; only a network disk that has stopped takes long."""
MAX_OUTPUT: Final = 64 * 1024
"""Bytes of a program's output that are read."""
_T = TypeVar("_T")


class Deadline:
    """The time when all checks must have ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def at_most(self, limit: float) -> float:
        """Return the seconds that a check may take: ``limit``, or fewer if the end is near."""
        return max(0.0, min(limit, self._end - time.monotonic()))


class TooSlow(Exception):
    """A check took longer than its time limit."""


def within(seconds: float, check: Callable[[], _T]) -> _T:
    """Run ``check`` in a thread, and return its result or raise its error. Raises TooSlow after
    ``seconds``; then the thread runs on."""
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(check())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([result], seconds).done:
        raise TooSlow
    return result.result()


def run_program(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, seconds: float
) -> tuple[int, str]:
    """Run a program; kill its process group; return status and output. Raises OSError, TooSlow."""
    # A file, not a pipe: a process that survives the program would keep the pipe open.
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
        return status, output.read(MAX_OUTPUT).decode(errors="replace")


# The machine: Python, the Codex binary, and Codex's home.

MAX_CONFIG: Final = 1024 * 1024
"""Most bytes of a file that is read or copied; a configuration has a few thousand."""
VERSION_SECONDS: Final = 20.0
"""Time limit of ``codex --version``: a first start reads a binary of 300 MB from the disk."""
MAX_KEY_PARTS: Final = 32
"""Most parts of a dotted key, for which Python's TOML parser takes quadratic time."""
_PART: Final = rb"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)[ \t]*+"""
"""Matches one part of a dotted key, bare or quoted; the last quote may be missing."""
_KEYS: Final = re.compile(
    rb"(?P<long>(?:%b\.[ \t]*+){%d})|(?:%b\.?+[ \t]*+)++" % (_PART, MAX_KEY_PARTS, _PART)
)
"""Matches dotted keys (as the group ``long`` if there are too many parts), and all other words and
quoted values, so that their parts are not searched again."""
_ACCESS_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WRITE_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
"""Permission bits of the group and of everybody: all users but the owner."""


class Home(NamedTuple):
    """The directory ``CODEX_HOME``."""

    path: Path | None
    """None if this user has no home directory."""
    config: bytes | None
    """Content of ``config.toml``; None if the file does not exist or cannot be read."""
    readable: bool
    """Whether the directory exists and its files can be read."""
    broken: bool
    """Whether Codex cannot use the directory; one that does not exist yet is not broken."""


def check_python() -> Iterator[Finding]:
    """Check the interpreter and the packages."""
    yield Finding("python", "ok", f"Python {platform.python_version()} at {sys.executable}")
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


def check_codex(codex: str | None, deadline: Deadline) -> tuple[Finding, str | None]:
    """Check the binary and its version; also return the path of a binary that can be used."""
    try:
        binary = find_codex(codex)
    except LaunchError as error:
        text = str(error).removesuffix(f"; {HOW_TO_GET_CODEX}")
        return problem("codex", text, HOW_TO_GET_CODEX), None
    where = f"{binary.path} (from {binary.source})"
    advice = "name another Codex with --codex or CODEX_PATH"
    seconds = deadline.at_most(VERSION_SECONDS)
    try:
        status, output = run_program([binary.path, "--version"], os.environ, "/", seconds)
    except TooSlow:
        text = f"{where} printed no version within {seconds:.3g} seconds"
        return problem("codex", text, advice), None
    except OSError as error:
        text = f"{where} cannot be run: {error.strerror or error}"
        return problem("codex", text, f"it must be a Codex for this system; {advice}"), None
    words = output.split()  # codex-cli 0.144.0
    if status != 0 or not words or not words[-1][:1].isdigit():
        text = f"{where} is not a Codex: --version {how_ended(status)}, {safe_line(output)!r}"
        return problem("codex", text, advice), None
    version = words[-1]
    try:
        check_version(version)
    except CodexTooOld as error:
        return problem("codex", f"{where}: {error}", "update it, for example with pip or npm"), None
    text = f"Codex {version} at {where}; this package reads {OLDEST_VERSION} to {CODEX_VERSION}"
    if _version_numbers(version) > _version_numbers(CODEX_VERSION):
        text += ", and of a newer one all but what is new"
    return Finding("codex", "ok", text), binary.path


def check_home() -> tuple[list[Finding], Home]:
    """Check ``CODEX_HOME``, its configuration and the file of its login."""
    variable = os.environ.get("CODEX_HOME")
    try:
        path = Path(variable) if variable else Path.home() / ".codex"
    except (RuntimeError, KeyError):
        advice = "set HOME, or CODEX_HOME to a directory"
        finding = problem("codex_home", "this user has no home directory", advice)
        return [finding], Home(None, None, readable=False, broken=True)
    finding = _check_folder(path, variable is not None)
    broken = finding.level == "problem"
    readable = os.access(path, os.R_OK | os.X_OK) and path.is_dir()
    findings = [finding]
    content = None
    if readable:
        finding, content = _check_config(path / "config.toml")
        findings.append(finding)
        login = path / "auth.json"
        with suppress(OSError):  # no such file, or the check of the login reports the error
            mode = login.stat().st_mode
            if mode & _ACCESS_OF_OTHERS and stat.S_ISREG(mode):
                text = f"others may read {login}, which holds your login"
                findings.append(warning("login_file", text, f"chmod 600 {login}"))
    return findings, Home(path, content, readable, broken)


def _check_folder(path: Path, named_by_variable: bool) -> Finding:
    check, name = "codex_home", "CODEX_HOME"
    try:
        found = path.stat()
    except FileNotFoundError:
        if named_by_variable:
            advice = f"make it (mkdir -m 700 {path}), or unset {name}"
            return problem(check, f"{name} is {path}, which does not exist", advice)
        if os.access(path.parent, os.W_OK | os.X_OK):
            return Finding(check, "ok", f"{path} does not exist yet; Codex makes it")
        text = f"{path} does not exist, and cannot be made"
        return problem(check, text, f"set HOME to a directory of yours, or {name}")
    except OSError as error:
        text = f"{path} cannot be looked at: {error.strerror}"
        return problem(check, text, f"name another directory with {name}")
    if not stat.S_ISDIR(found.st_mode):
        return problem(check, f"{path} is no directory", f"name one with {name}")
    readable, writable = os.access(path, os.R_OK | os.X_OK), os.access(path, os.W_OK)
    owner = _owner(found.st_uid)
    if not (readable and writable):
        denied = [word for word, ok in (("read", readable), ("written", writable)) if not ok]
        text = f"{path} cannot be {' or '.join(denied)}; it belongs to {owner}"
        return problem(check, text, f"chown it, or name another one with {name}")
    disk = os.statvfs(path)
    if disk.f_blocks and not disk.f_bavail:  # a file system without a size has no blocks
        text = f"there is no room left on the disk of {path}: Codex cannot keep sessions there"
        return problem(check, text, f"make room, or name another one with {name}")
    if found.st_uid != os.geteuid():
        text = f"{path} belongs to {owner}, and this is {_owner(os.geteuid())}"
        return warning(check, text, f"use a home of your own: set {name}")
    if found.st_mode & _WRITE_OF_OTHERS:
        text = f"others may write to {path}, and so decide what Codex runs"
        return warning(check, text, f"chmod go-w {path}")
    return Finding(check, "ok", f"{path} can be read and written; it is {owner}'s")


def _check_config(path: Path) -> tuple[Finding, bytes | None]:
    check = "config"
    try:
        content = read_regular(path, MAX_CONFIG)
    except FileNotFoundError:
        return Finding(check, "ok", f"there is no {path}: Codex's defaults hold"), None
    except (OSError, ValueError) as error:
        text = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        return problem(check, text, "make it a file that you may read, or move it away"), None
    for key in _KEYS.finditer(content):
        if key["long"] is not None:
            line = content.count(b"\n", 0, key.start()) + 1
            text = f"line {line} of {path} has a key of more than {MAX_KEY_PARTS} parts"
            return problem(check, text, "shorten the key, or move the file away"), None
    return Finding(check, "ok", f"{path} can be read ({len(content)} bytes)"), content


def check_syntax(content: bytes | None) -> Iterator[Finding]:
    """Check that the configuration is TOML. A Codex that can be run checks more."""
    try:
        tomllib.loads((content or b"").decode())
    except UnicodeDecodeError:
        yield problem("config", "config.toml is not UTF-8", "save it as UTF-8")
    except (ValueError, RecursionError) as error:  # ValueError: an integer of 4,301 digits, too
        # Show only the position from Python's message: the text at that position may be a secret.
        found = re.search(r"\((at [^()]*)\)\Z", str(error))
        place = found[1] if found else "somewhere (a number too long, or lists too deep)"
        yield problem("config", f"config.toml is no TOML: a mistake {place}", "mend that line")


def toml_of(content: bytes | None) -> dict[str, object]:
    """Read a configuration; return an empty dict if the content is no TOML."""
    try:
        return tomllib.loads((content or b"").decode())
    except (ValueError, RecursionError):
        return {}


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())


# A copy of Codex's home with the files that Codex reads and does not write.

MAX_FILES: Final = 200
"""Most files that are copied."""
FOLDERS: Final = ("rules", "agents")
"""Folders of configuration that ``config.toml`` may refer to."""
SUFFIXES: Final = (".toml", ".md", ".rules", ".json")
"""Suffixes of the files that are copied."""
NOT_COPIED: Final = ("auth.json", "hooks.json", ".credentials.json")
"""Logins and hooks: Codex must not renew the login, or start the hooks' programs."""


class HomeCopy(HomeDirectories):
    """``with HomeCopy(home) as copy:`` makes an empty home, ``copy.codex_home``. `copy_files` fills
    it with files of ``home``, or not if ``home`` is None."""

    def __init__(self, source: Path | None) -> None:
        super().__init__("codex-doctor-")
        self._source = source

    def copy_files(self) -> None:
        """Copy the files of configuration; leave out a file that cannot be read."""
        if self._source is None:
            return
        for path in islice(_copied_files(self._source), MAX_FILES):
            target = self.codex_home / path.relative_to(self._source)
            with suppress(OSError, ValueError):
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(read_regular(path, MAX_CONFIG))

    @property
    def env(self) -> dict[str, str]:
        """Return this process's environment, with the copy as Codex's home."""
        home, temporary = str(self.codex_home), str(self.temporary)
        return {
            **os.environ, "CODEX_HOME": home, "CODEX_SQLITE_HOME": home, "TMPDIR": temporary,
        }  # fmt: skip

    @property
    def offline_env(self) -> dict[str, str]:
        """Return `env` without a network: a copied login, if renewed, would end the real one."""
        proxies = ("http_proxy", "https_proxy", "all_proxy")
        nowhere = dict.fromkeys((*proxies, *map(str.upper, proxies)), NOWHERE)
        return {**self.env, **nowhere, "CODEX_REFRESH_TOKEN_URL_OVERRIDE": NOWHERE}

    def with_real_paths(self, text: str) -> str:
        """Replace the copy's path by the real home's path in a text of Codex."""
        return text.replace(str(self.codex_home), str(self._source or self.codex_home))


def _copied_files(source: Path) -> Iterator[Path]:
    for folder in (source, *(source / name for name in FOLDERS)):
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.suffix in SUFFIXES and path.name not in NOT_COPIED:
                    yield path


# The requests to an app-server that runs with a copy of Codex's home, and their time limits.

START_SECONDS: Final = 20.0
"""From the start of the process to the answer of ``initialize``."""
ANSWER_SECONDS: Final = 20.0
"""Time limit of each request."""
MCP_SECONDS: Final = 30.0
"""Time limit of all MCP servers, which start at once; Codex gives each ten seconds."""
WARNING_SECONDS: Final = 0.3
"""Time to wait for more ``configWarning`` notifications after the last answer."""
NOWHERE: Final = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""
_PROVIDER: Final = "codex_acp_doctor"
_THREAD_PARAMS: Final[dict[str, JsonValue]] = {
    "sandbox": "read-only",
    "ephemeral": True,
    "modelProvider": _PROVIDER,
    "config": {
        f"model_providers.{_PROVIDER}": {
            "name": _PROVIDER, "base_url": f"{NOWHERE}/v1", "requires_openai_auth": False,
            "supports_websockets": False,
        }
    },
}  # fmt: skip
"""Params of a thread that starts the MCP servers, calls no model, and is not kept."""


class Answers(NotificationSink):
    """Answers and notifications of Codex."""

    def __init__(self) -> None:
        self.start_error: str | None = None
        """Why Codex did not start; None if Codex started."""
        self.warnings: list[dict[str, JsonValue]] = []
        """Params of each ``configWarning``."""
        self.results: dict[str, JsonValue] = {}
        """Name of a request → its result."""
        self.errors: dict[str, str] = {}
        """Name of a request → its error, or that there was no answer."""
        self.servers: dict[str, dict[str, JsonValue]] = {}
        """MCP server → the params of its last ``startupStatus/updated``."""
        self.changed: asyncio.Event = asyncio.Event()
        """Set by each notification, and when the connection closes."""

    # The connection calls these methods of `NotificationSink`.

    def on_notification(self, method: str, params: JsonValue) -> None:
        if not isinstance(params, dict):
            return
        if method == "configWarning":
            self.warnings.append(params)
        elif method == "mcpServer/startupStatus/updated":
            self.servers[str(params.get("name"))] = params
        self.changed.set()

    def on_closed(self, error: TransportError | None) -> None:  # noqa: ARG002 - calls raise it
        self.changed.set()


async def collect_answers(path: str, copy: HomeCopy, deadline: Deadline) -> Answers:
    """Start the Codex at ``path``, send all requests, end Codex. The answers have all errors."""
    answers = Answers()
    settings = {  # the values are TOML
        "sqlite_home": f'"{copy.codex_home}"',
        "log_dir": f'"{copy.codex_home}"',
        "check_for_update_on_startup": "false",
        "analytics.enabled": "false",
        "features.shell_snapshot": "false",
        "otel.exporter": '"none"',
    }
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    options = LaunchOptions(path, words, copy.env, copy.workspace)
    adopt_orphans(asyncio.get_running_loop())
    try:
        child = spawn_app_server(options)
        try:
            connection = AppServerConnection(child)
            connection.subscribe_all(answers)
            seconds = deadline.at_most(START_SECONDS)
            async with asyncio.timeout(seconds):
                await connection.connect()
            try:
                await _ask_all(connection, answers, copy, deadline)
            finally:
                await connection.aclose()
        finally:
            child.kill_tree()
    except TimeoutError:
        answers.start_error = f"it said nothing for {seconds:.3g} s"
    except CodexAcpError as error:
        answers.start_error = str(error)
    finally:
        leave_orphans()
    return answers


async def _ask_all(
    connection: AppServerConnection, answers: Answers, copy: HomeCopy, deadline: Deadline
) -> None:
    """Send the requests, one after the other; wait for the MCP servers and for more warnings."""

    async def ask(name: str, method: str, params: JsonValue) -> None:
        seconds = deadline.at_most(ANSWER_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                answers.results[name] = await connection.call_raw(method, params)
        except TimeoutError:
            answers.errors[name] = f"it did not answer {method} within {seconds:.3g} s"
        except ErrorReply as error:
            answers.errors[name] = error.message
        except CodexAcpError as error:
            answers.errors[name] = str(error)

    await ask("config", "config/read", {"includeLayers": False})
    await ask("requirements", "configRequirements/read", None)
    await ask("account", "account/read", {"refreshToken": False})
    policies: dict[str, JsonValue] = {
        "read-only": {"type": "readOnly", "networkAccess": False},
        "workspace-write": {
            "type": "workspaceWrite", "writableRoots": [], "networkAccess": False,
            "excludeTmpdirEnvVar": True, "excludeSlashTmp": True,
        },
    }  # fmt: skip
    for name, policy in policies.items():
        # Try to write a file in the workspace, and a file beside the workspace.
        inside, outside = copy.workspace / name, copy.root / name
        command = (
            f"echo started; (: > '{inside}') 2>/dev/null && echo inside; "
            f"(: > '{outside}') 2>/dev/null && echo outside; echo ended"
        )
        params: dict[str, JsonValue] = {
            "command": ["/bin/sh", "-c", command], "cwd": str(copy.workspace),
            "timeoutMs": round(ANSWER_SECONDS / 2 * 1000), "sandboxPolicy": policy,
        }  # fmt: skip
        await ask(name, "command/exec", params)
    servers = [
        name
        for name, server in object_at(answers.results, "config", "config", "mcp_servers").items()
        if not (isinstance(server, dict) and server.get("enabled") is False)
    ]
    if servers:
        await ask("thread", "thread/start", {**_THREAD_PARAMS, "cwd": str(copy.workspace)})

        def no_server_is_starting() -> bool:
            """Return whether each server has started or failed, or cannot start any more."""
            states = [answers.servers.get(name, {}).get("status") for name in servers]
            have_ended = all(state not in (None, "starting") for state in states)
            return have_ended or "thread" in answers.errors or connection.closed

        await _wait_until(answers, no_server_is_starting, deadline.at_most(MCP_SECONDS))
    await _wait_until(answers, lambda: connection.closed, WARNING_SECONDS)


async def _wait_until(answers: Answers, condition: Callable[[], bool], seconds: float) -> None:
    """Wait at most ``seconds`` for a condition, which is looked at after each notification."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():
                answers.changed.clear()
                await answers.changed.wait()


# The findings of the answers.

_QUOTED: Final = re.compile(r'"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*+"?|\'[^\'\n]*\'')
"""A quoted value in TOML, or the rest of a line with an open quote, which is not searched again."""
_NAMED_VALUE: Final = re.compile(
    r"(unknown variant|invalid (?:type|value): \w+|invalid (?:type|value): [a-z ]+) "
    r"(`[^`]*`|\"(?:[^\"\\]|\\.)*\")"
)
"""A value of the configuration that Codex's message names, after the kind of the error."""
_MIN_VALUE: Final = 4
"""Characters of the shortest value that is left out of messages."""
LEFT_OUT: Final = "\u2026"
"""Text in a message in place of a value of the configuration."""
_NOISE: Final = re.compile(
    r" \[[\w:]*::[^\n]*\] error|^MCP client for `[^`]*` (failed to start: )?(MCP startup failed: )?"
    r"|, when send initialize request[^\n]*"
)
"""Parts of an MCP server's error that say nothing to a person."""
_MAX_ERROR: Final = 220
"""Characters of an MCP server's error that the report shows."""
_MAX_SEARCHED: Final = 4_000
"""Characters of the error in which `_NOISE` is searched, in time that grows with their square."""
_FAILED: Final = ("failed", "cancelled")
"""States of an MCP server that did not start."""
SANDBOXES: Final[dict[str, list[str]]] = {"read-only": [], "workspace-write": ["inside"]}
"""Sandbox mode → where a command may write: ``inside`` its working directory, or ``outside``."""


def values_in(content: bytes | None) -> list[str]:
    """Return every quoted value of a configuration, which need not be valid TOML."""
    quoted = _QUOTED.findall((content or b"").decode(errors="replace"))
    values = [text.strip("\"'") for text in quoted]
    return [value for value in values if len(value) >= _MIN_VALUE]


def without_values(text: str, values: Iterable[str]) -> str:
    """Return a message of Codex without values of the configuration, which may be secret."""
    text = _NAMED_VALUE.sub(rf"\1 {LEFT_OUT}", text)
    for value in sorted(values, key=len, reverse=True):
        for quote in ('"', "'", "`"):
            text = text.replace(f"{quote}{value}{quote}", LEFT_OUT)
    return text


def codex_findings(
    answers: Answers, values: list[str], environ: Mapping[str, str], login: list[Finding]
) -> Iterator[Finding]:
    """Yield the findings of Codex's answers. Among them are the findings in ``login``, unless the
    model provider needs no login. ``values``: the quoted values of the configuration."""
    if answers.start_error is not None:
        advice = "see what `codex app-server` says in a terminal; reinstall or update Codex"
        yield problem("start", f"Codex does not start: {answers.start_error}", advice)
        return
    yield Finding("start", "ok", "`codex app-server` starts and answers")
    findings = list(_check_configuration(answers, values))
    yield from findings
    valid = all(finding.level != "problem" for finding in findings)
    limits = value_at(answers.results, "requirements", "requirements")
    if isinstance(limits, dict):
        names = ", ".join(sorted(name for name, value in limits.items() if value is not None))
        text = f"an administrator restricts Codex on this machine ({names or 'no setting'})"
        yield Finding("requirements", "ok", text)
    yield from _check_account(answers, environ, login)
    # With an invalid configuration, Codex lets no command write anywhere.
    yield from _check_sandbox(answers, SANDBOXES if valid else {"read-only": []})
    yield from _check_mcp_servers(answers)


def _check_configuration(answers: Answers, values: list[str]) -> Iterator[Finding]:
    check = "codex_config"
    invalid = False
    for params in answers.warnings:
        summary, details = str(params.get("summary") or ""), params.get("details")
        text = f"{summary.rstrip('.')}: {details}" if isinstance(details, str) else summary
        text = without_values(text, values)
        if "bubblewrap" in summary:
            text = "there is no bubblewrap on PATH; Codex uses the one that it brings"
            advice = "install bubblewrap with the system's package manager"
            yield warning("bubblewrap", text, advice)
        elif isinstance(details, str):
            invalid = True
            yield problem(check, text, "mend it; until then Codex opens no session")
        else:
            yield warning(check, text, "see Codex's documentation of its configuration")
    config = _config_of(answers)
    if "config" in answers.errors:
        if not invalid:
            text = f"Codex cannot read it: {without_values(answers.errors['config'], values)}"
            yield problem(check, text, "mend it, or move config.toml away")
    elif not invalid:
        yield Finding(check, "ok", "Codex can use its configuration")
    if config.get("approval_policy") == "never":
        mode = config.get("sandbox_mode")
        text = "Codex is configured never to ask"
        if mode == "danger-full-access":
            text += ", and not to use its sandbox: it runs whatever the model wants"
        yield warning("approvals", text, "set approval_policy to on-request to be asked")


def _check_account(
    answers: Answers, environ: Mapping[str, str], login: list[Finding]
) -> Iterator[Finding]:
    if value_at(answers.results, "account", "requiresOpenaiAuth") is not False:
        yield from login
        return
    config = _config_of(answers)
    provider = config.get("model_provider")
    variable = value_at(config, "model_providers", str(provider), "env_key")
    name = f"the model provider {provider!r}"
    if isinstance(variable, str) and variable and not environ.get(variable):
        text = f"{name} takes its key from the variable {variable}, which is not set"
        yield problem("login", text, f"set {variable} where the editor is started")
    else:
        yield Finding("login", "ok", f"{name} needs no login at OpenAI")


def _check_sandbox(answers: Answers, sandboxes: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Check that the command in each sandbox wrote where it may, and nowhere else."""
    failed = []
    for mode, allowed in sandboxes.items():
        if mode in answers.errors:
            failed.append(f"{mode}: {answers.errors[mode]}")
            continue
        stdout = text_at(answers.results, mode, "stdout") or ""
        stderr = text_at(answers.results, mode, "stderr") or ""
        words = stdout.split()
        if words[:1] != ["started"] or words[-1:] != ["ended"]:
            said = stderr or stdout or "it said nothing"
            failed.append(f"{mode}: a command did not run: {said}")
        elif words[1:-1] != allowed:
            where = " and ".join(words[1:-1]) or "nowhere"
            failed.append(f"{mode}: a command could write {where} the directory")
    if failed:
        advice = (
            "on Linux: install bubblewrap, and allow user namespaces (on Ubuntu: sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container: its seccomp profile)"
        )
        yield problem("sandbox", f"Codex's sandbox does not work: {'; '.join(failed)}", advice)
    else:
        text = "commands run in Codex's sandbox, and cannot write where they must not"
        yield Finding("sandbox", "ok", text)


def _check_mcp_servers(answers: Answers) -> Iterator[Finding]:
    configured = _config_of(answers).get("mcp_servers")
    if not isinstance(configured, dict):
        return
    for name, settings in configured.items():
        check = "mcp"
        if isinstance(settings, dict) and settings.get("enabled") is False:
            yield Finding(check, "ok", f"MCP server {name!r} is switched off")
            continue
        last_status = answers.servers.get(name, {})
        state = last_status.get("status")
        if state == "ready":
            yield Finding(check, "ok", f"MCP server {name!r} starts")
        elif last_status.get("failureReason") == "reauthenticationRequired" and state in _FAILED:
            text = f"MCP server {name!r} wants a login, which was not tried from here"
            advice = f"if it does not start in a session: codex mcp login {name}"
            yield warning(check, text, advice)
        elif state in _FAILED:
            error = str(last_status.get("error") or "it failed")
            why = _NOISE.sub("", scrub(error, _MAX_SEARCHED))[:_MAX_ERROR]
            remote = isinstance(settings, dict) and settings.get("url") is not None
            see = "see whether its URL answers" if remote else "run its command in a terminal"
            advice = f"{see}, or switch it off: mcp_servers.{name}.enabled = false"
            yield problem(check, f"MCP server {name!r} does not start: {why}", advice)
        elif "thread" in answers.errors:
            text = f"MCP server {name!r} was not looked at: {answers.errors['thread']}"
            yield warning(check, text, "mend what is above first")
        else:
            text = f"MCP server {name!r} has not started in time"
            yield warning(check, text, "see whether its command runs in a terminal")


def login_findings(status: int, output: str, store: object) -> list[Finding]:
    """Return the findings of ``codex login status``; ``store``: the login's configured place."""
    log_in = "log in: codex-acp-sdk login"
    if "Logged in using" in output:
        way = "an API key" if "API key" in output else "ChatGPT"
        return [Finding("login", "ok", f"logged in with {way}")]
    if "Not logged in" in output:
        if store in ("keyring", "auto"):
            text = "the login is kept in the system's keyring, which was not looked at"
            return [warning("login", text, "`codex login status` tells whether there is one")]
        return [problem("login", "nobody is logged in", log_in)]
    if "Error loading configuration" in output:
        text = "it was not looked at: Codex cannot use its configuration"
        return [warning("login", text, "mend the configuration first")]
    if "Error checking login status" in output:
        return [problem("login", "auth.json cannot be read by Codex", log_in)]
    text = f"`codex login status` {how_ended(status)}"
    return [warning("login", text, "run it in a terminal to see why")]


def _config_of(answers: Answers) -> dict[str, JsonValue]:
    return object_at(answers.results, "config", "config")


# A whole turn: ACP client → adapter → the real Codex → a scripted model, in a throw-away home.

TURN_SECONDS: Final = 60.0
"""Time limit of a turn, which takes two seconds, and twenty on a slow disk."""
TEXT: Final = "There is one file."
"""Last message of the scripted model."""
FILE: Final = "a-file-of-the-doctor"
"""Name of a file that ``ls`` must find."""
SCRIPT: Final = ((exec_command("ls"),), (Text(TEXT),))
NO_LOOPBACK: Final = "this machine has no loopback network, and the scripted model is at 127.0.0.1"
HOW_TO_ENABLE_LOOPBACK: Final = "bring it up with `ip link set lo up`"
_LOOPBACK_SECONDS: Final = 5.0
"""Time limit of the connection, which takes a millisecond unless a firewall drops it."""


def has_loopback() -> bool:
    """Return whether this process can connect to a port of this machine."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=_LOOPBACK_SECONDS),
        ):
            return True
    except OSError:
        return False


async def check_turn(codex: str, deadline: Deadline) -> Finding:
    """Send one prompt, for which Codex runs ``ls`` in its sandbox, and check the results."""
    if not has_loopback():
        return problem("turn", NO_LOOPBACK, HOW_TO_ENABLE_LOOPBACK)
    seconds = deadline.at_most(TURN_SECONDS)
    advice = "codex-acp-sdk demo --yes --wire shows the same turn line by line"
    try:
        with ScriptedModel(SCRIPT) as model, CodexHome(model.base_url) as home:
            (home.workspace / FILE).touch()
            async with asyncio.timeout(seconds):
                command = (sys.executable, "-P", "-m", "codex_acp", "serve", "--codex", codex)
                env = home.env
                if search_path := os.environ.get("PYTHONPATH"):
                    env["PYTHONPATH"] = search_path
                spec = AgentSpec(command, name="the adapter", env=env, inherit_env=False)
                async with (
                    AgentRuntime() as runtime,
                    runtime.open(spec, cwd=home.workspace) as session,
                ):
                    result = await session.run("What is here?")
            outputs = [text for request in model.requests for text in request.tool_outputs.values()]
    except TimeoutError:
        return problem("turn", f"a turn did not end within {seconds:.3g} s", advice)
    except (CodexAcpError, OSError) as error:
        return problem("turn", f"a turn failed: {error}", advice)
    if result.stop_reason != "end_turn" or TEXT not in result.text:
        text = f"a turn ended with {result.stop_reason} and another text than the model's"
        return problem("turn", text, advice)
    if not any(FILE in text for text in outputs):
        return problem("turn", "a command of a turn did not give its output to the model", advice)
    return Finding("turn", "ok", "a whole turn, with a command in the sandbox, went as scripted")
