"""Find the Codex binary and start ``codex app-server`` as a child process, or link to a server.

Owns the command line, the environment, the search for a binary and its errors, and the token of a
remote server. Synchronous, and imports only a few modules of the standard library: the process
boots while this program still imports its models. Must not know the protocol.
Source: ``codex app-server --help``, ``--listen`` and ``--ws-auth``.
"""

# No pathlib, shutil or typing here: each costs milliseconds before the process is spawned.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH120

from __future__ import annotations

import errno
import os
import sys

from codex_acp.codex.connection import agent_guard
from codex_acp.errors import (
    CodexNotExecutable,
    CodexNotFound,
    LaunchError,
    MisuseError,
    environment,
    how_ended,
    refuse_unless,
    several,
)
from codex_acp.transport.child import spawn

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, TypeAlias

    from codex_acp.transport.child import ChildProcess
    from codex_acp.transport.remote_address import Token
    from codex_acp.transport.websocket import WebSocketLink

    Source: TypeAlias = Literal["argument", "CODEX_PATH", "wheel", "PATH"]
    """Place that named the binary."""

PROCESS_NAME = "codex app-server"
"""Name of the process in errors and logs."""

UNLOAD_AT_ONCE = ("-c", "thread_unload_delay_secs=0")
"""Arguments by which Codex stores and unloads a thread as soon as nobody is subscribed to it, so
that another process can have the thread (`shared_calls.let_go`)."""

VERSION_TIMEOUT_SECONDS = 20.0
"""Seconds for ``codex --version``: a first start reads a binary of 300 MB from the disk."""

_NOT_EXECUTABLE_ERRORS = {errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOENT, errno.ETXTBSY}
"""Errors for an existing file that may not be run, is no program, or has no interpreter."""


class LaunchOptions:
    """Options of starting the app-server. Immutable, and compared by content.

    ``codex``: path or name of the binary (`find_codex`, with ``env``). ``args``: more arguments of
    ``codex app-server``, for example ``("-c", "model=gpt-5.5")``. ``env``: the whole environment
    of the process, None for this process's own. ``cwd``: the process's directory.
    """

    # No dataclass: importing dataclasses takes longer than spawning the process.
    __slots__ = ("args", "codex", "cwd", "env")
    __match_args__ = ("codex", "args", "env", "cwd")

    codex: str | None
    args: tuple[str, ...]
    env: Mapping[str, str] | None
    cwd: str | None

    def __init__(
        self,
        codex: str | os.PathLike[str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        set_once = object.__setattr__
        for name, path in (("codex", codex), ("cwd", cwd)):
            is_path = isinstance(path, str | os.PathLike | None)
            refuse_unless(is_path, f"{name} is a path", path)
            set_once(self, name, None if path is None else os.fspath(path))
        set_once(self, "args", several("args", args))
        set_once(self, "env", environment(env))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"LaunchOptions cannot be changed; make new ones to set {name!r}")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LaunchOptions):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __hash__(self) -> int:
        return hash((self.codex, self.args, self.cwd))

    def __repr__(self) -> str:
        # Without environment and arguments, which may have secrets.
        return f"LaunchOptions(codex={self.codex!r}, cwd={self.cwd!r}, ...)"


def spawn_app_server(
    options: LaunchOptions | None = None, *, on_stderr_line: Callable[[str], None] | None = None
) -> ChildProcess:
    """Find the binary and start ``codex app-server`` on standard input and output.

    A process that ends before its first answer is started once more. ``on_stderr_line`` is called
    on the event loop with each line of its stderr. The caller must call `ChildProcess.aclose`, as
    `CodexClient` does.

    Raises CodexNotFound, CodexNotExecutable, or LaunchError if the start fails for another reason
    (the directory is missing, the system is out of processes).
    """
    wanted = f"a Codex is started with LaunchOptions, e.g. LaunchOptions(codex={options!r})"
    refuse_unless(isinstance(options, LaunchOptions | None), wanted, options)
    options = LaunchOptions() if options is None else options
    binary = find_codex(options.codex, {**os.environ, **(options.env or {})})
    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise LaunchError(f"Codex cannot start in {options.cwd!r}: it is not a directory")
    guard = agent_guard.hook_arguments(sys.executable, agent_guard.__file__)
    path = binary.path if options.cwd is None else os.path.abspath(binary.path)
    argv = [path, "app-server", *guard, *UNLOAD_AT_ONCE, *options.args]
    env = options.env
    if binary.path_dir is not None:  # the wheel's helper programs come first
        env = dict(os.environ if env is None else env)
        rest = env.get("PATH")
        env["PATH"] = binary.path_dir if not rest else f"{binary.path_dir}{os.pathsep}{rest}"
    try:
        return spawn(
            argv, env, options.cwd, name=PROCESS_NAME, on_stderr_line=on_stderr_line, once_more=True
        )
    except OSError as error:
        raise _launch_error(binary.path, error) from error


def codex_version(path: str) -> str:
    """Return the version that ``path --version`` prints, such as ``0.163.0``, in about 0.1 s.

    Raises CodexNotExecutable if the file cannot be run, LaunchError if it prints no version.
    """
    import subprocess

    try:
        ended = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _launch_error(path, error) from error
    except subprocess.TimeoutExpired as error:
        message = f"{path!r} printed no version within {VERSION_TIMEOUT_SECONDS:g} seconds"
        raise LaunchError(message) from error
    words = ended.stdout.decode(errors="replace").split()
    if ended.returncode != 0 or not words or not words[-1][:1].isdigit():
        from codex_acp._glyphs import plain_text

        output = plain_text((ended.stderr or ended.stdout).decode(errors="replace"))
        first_line = output.strip().partition("\n")[0]
        raise LaunchError(
            f"{path!r} is not a Codex: --version {how_ended(ended.returncode)}, "
            f"{first_line[:200]!r}; "
            f"name another one with {BY_NAME}"
        )
    return words[-1]


def _launch_error(path: str, error: OSError) -> LaunchError:
    reason = error.strerror or str(error)
    if error.errno not in _NOT_EXECUTABLE_ERRORS:
        return LaunchError(f"{path!r} could not be started: {reason}")
    return CodexNotExecutable(
        f"{path!r} cannot be run: {reason}; it must be a Codex binary for this system, "
        "executable and not still being written"
    )


CODEX_PATH_VARIABLE = "CODEX_PATH"
"""Environment variable that names the binary."""

WHEEL_MODULE = "codex_cli_bin"
"""The module of OpenAI's wheel ``openai-codex-cli-bin``, which the extra ``[codex]`` installs."""

BY_NAME = "LaunchOptions(codex=PATH), --codex PATH or the environment variable CODEX_PATH"
"""The ways to name a binary: in a program, in a command, and in both."""

HOW_TO_GET_CODEX = (
    "install it with `pip install 'codex-acp-sdk[codex]'` or `npm install -g @openai/codex`, "
    f"or name it with {BY_NAME}"
)


class CodexBinary:
    """A binary that was found."""

    __slots__ = ("path", "path_dir", "source")

    def __init__(self, path: str, source: Source, path_dir: str | None = None) -> None:
        self.path: str = path
        """Absolute path of the binary."""
        self.source: Source = source
        """Place that named the binary."""
        self.path_dir: str | None = path_dir
        """Directory of helper programs (ripgrep) to put first on the child's PATH; wheel only."""

    def __repr__(self) -> str:
        return f"CodexBinary({self.path!r}, {self.source!r}, {self.path_dir!r})"


def find_codex(
    explicit: str | None = None, environ: Mapping[str, str] | None = None
) -> CodexBinary:
    """Return the first Codex binary of: ``explicit``, ``CODEX_PATH``, the wheel, ``codex`` on PATH.

    ``explicit`` and ``CODEX_PATH`` are a path, or a bare name to be found on PATH; the wheel is
    ``openai-codex-cli-bin``. A binary that is named but missing is an error: no other binary takes
    its place. ``environ`` is this process's environment by default.

    Raises CodexNotFound, which names each place that was tried and how to get a Codex, and
    CodexNotExecutable for a directory or a file without the permission to run.
    """
    env = os.environ if environ is None else environ
    if explicit:
        return _named_binary(explicit, "argument", "codex (--codex)", env)
    from_env = env.get(CODEX_PATH_VARIABLE)
    if from_env:
        return _named_binary(from_env, "CODEX_PATH", CODEX_PATH_VARIABLE, env)
    binary, why_no_wheel = _find_in_wheel()
    if binary is not None:
        return binary
    path, why_not_on_path = _find_on_path("codex", env)
    if path is not None:
        return CodexBinary(path, "PATH")
    not_set = f"{CODEX_PATH_VARIABLE} is not set"
    raise _not_found(["no path was given", not_set, why_no_wheel, why_not_on_path])


def _named_binary(name: str, source: Source, label: str, env: Mapping[str, str]) -> CodexBinary:
    """Return the binary of a path, or of a bare name on PATH; ``label`` names its source."""
    if os.path.dirname(name) == "" and not name.startswith("~"):
        path, problem = _find_on_path(name, env)
        if path is None and not os.path.exists(name):
            raise _not_found([f"{label} names {name!r}: {problem}"])
        if path is not None:
            return CodexBinary(path, source)
    # Absolute, because the child may start in another directory.
    try:
        path = os.path.abspath(os.path.expanduser(name))
    except FileNotFoundError:
        raise _not_found([f"{label} names {name!r}, and the current directory is gone"]) from None
    if not os.path.exists(path):
        raise _not_found([f"{label} names {path!r}, which does not exist"])
    _must_be_executable(path)
    return CodexBinary(path, source)


def _must_be_executable(path: str) -> None:
    if os.path.isdir(path):
        message = f"{path!r} is a directory, not a Codex binary; name the file itself"
        raise CodexNotExecutable(message)
    if not os.access(path, os.X_OK):
        message = f"{path!r} may not be executed; give it the permission with `chmod +x`"
        raise CodexNotExecutable(message)


def _find_in_wheel() -> tuple[CodexBinary | None, str]:
    """Return the wheel's binary, or why there is none."""
    from importlib.machinery import PathFinder  # importing importlib.util takes too long

    spec = PathFinder.find_spec(WHEEL_MODULE)
    if spec is None or spec.origin is None:
        return None, "the wheel openai-codex-cli-bin is not installed"
    # Try the usual layout first: importing the module takes 20 ms.
    base = os.path.dirname(spec.origin)
    path, path_dir = os.path.join(base, "bin", "codex"), os.path.join(base, "codex-path")
    if os.access(path, os.X_OK) and os.path.isfile(path):
        return CodexBinary(path, "wheel", path_dir if os.path.isdir(path_dir) else None), ""
    from importlib import import_module

    try:  # another layout
        module = import_module(WHEEL_MODULE)
        path, helpers = str(module.bundled_codex_path()), module.bundled_path_dir()
    except (ImportError, AttributeError, OSError) as error:
        return None, f"the wheel openai-codex-cli-bin has no binary ({error})"
    _must_be_executable(path)
    return CodexBinary(path, "wheel", None if helpers is None else str(helpers)), ""


def _find_on_path(name: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the program ``name`` on PATH, or why there is none."""
    refused = []
    for directory in os.get_exec_path(env):
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return os.path.abspath(path), ""
            refused.append(path)
    if refused:
        return None, f"{', '.join(refused)} may not be executed"
    return None, f"there is no {name!r} on PATH"


def _not_found(tried: list[str]) -> CodexNotFound:
    return CodexNotFound(f"no Codex binary was found ({'; '.join(tried)}); {HOW_TO_GET_CODEX}")


UNIX_PREFIX = "unix://"

TOKEN_LIFETIME_SECONDS = 300.0
"""The server checks a token when the connection is made; the clocks of two machines may differ."""


def remote_link(url: str, token: Token | None = None) -> WebSocketLink:
    """Return a link to an app-server. Raises MisuseError as `CodexClient.connect_to` does."""
    from codex_acp._urls import bare_url
    from codex_acp.transport.remote_address import RemotePeer, check_remote_url
    from codex_acp.transport.websocket import WebSocketLink

    refuse_unless(isinstance(url, str), "the URL of an app-server is a text", url)
    if url.startswith(UNIX_PREFIX):
        path = url.removeprefix(UNIX_PREFIX)
        if not path.startswith("/"):
            message = f"{url!r} must name the socket with its full path: unix:///run/codex.sock"
            raise MisuseError(message)
        return WebSocketLink("ws://localhost/", RemotePeer(url), unix_path=path, token=token)
    check_remote_url(url, token, "an app-server: ws://HOST:PORT, wss://... or unix://...")
    return WebSocketLink(url, RemotePeer(bare_url(url)), token=token)


def signed_bearer_token(
    secret: str | bytes,
    *,
    issuer: str | None = None,
    audience: str | None = None,
    lifetime: float = TOKEN_LIFETIME_SECONDS,
    now: float | None = None,
) -> str:
    """Make a token for ``--ws-auth signed-bearer-token``: a JWT signed with HS256.

    ``secret`` is the content of the server's ``--ws-shared-secret-file`` without surrounding
    blanks; ``issuer`` and ``audience`` are needed if the server has ``--ws-issuer`` and
    ``--ws-audience``. ``lifetime`` is in seconds from ``now`` (Unix time; default: this moment). A
    program that connects again later passes ``token=lambda: signed_bearer_token(secret)``.
    """
    refuse_unless(isinstance(secret, str | bytes), "the secret is a text", type(secret))
    import base64
    import hmac
    import json
    import time

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def segment(value: dict[str, object]) -> str:
        return encoded(json.dumps(value, separators=(",", ":")).encode())

    key = (secret.encode() if isinstance(secret, str) else secret).strip()
    start = int(time.time() if now is None else now)
    claims: dict[str, object] = {"iat": start, "nbf": start, "exp": start + max(1, int(lifetime))}
    if issuer is not None:
        claims["iss"] = issuer
    if audience is not None:
        claims["aud"] = audience
    signed = f"{segment({'alg': 'HS256', 'typ': 'JWT'})}.{segment(claims)}"
    signature = hmac.new(key, signed.encode(), "sha256").digest()
    return f"{signed}.{encoded(signature)}"
