"""Starting ``codex app-server`` as a child process.

Owns the command line, the environment, and the errors of a binary that cannot be run.
Synchronous, and imports nothing but a few modules of the standard library: the process boots
while this program still imports its models. Must not know the protocol.
"""

from __future__ import annotations

import errno
import os
import sys

from codex_acp.codex.connection import agent_guard
from codex_acp.codex.connection.codex_binary import find_codex
from codex_acp.errors import CodexNotExecutable, LaunchError, how_ended
from codex_acp.transport.child import spawn

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.codex.connection.codex_binary import CodexBinary
    from codex_acp.transport.child import ChildProcess

PROCESS_NAME = "codex app-server"
"""Name of the process in errors and logs."""

UNLOAD_AT_ONCE = ("-c", "thread_unload_delay_secs=0")
"""A thread that this side lets go of is free for another process at once, see `unloading`; what
is not written of it, Codex writes before."""

VERSION_TIMEOUT_SECONDS = 20.0
"""For ``codex --version``: a first start reads a binary of 300 MB from the disk."""

_REFUSED_BY_SYSTEM = {errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOENT, errno.ETXTBSY}
"""The file is there, but it may not be run, is no program, or its interpreter is missing."""


class LaunchOptions:
    """How to start the app-server. A value: it cannot be changed, and compares by content.

    ``codex``: path of the binary, see `find_codex`. ``args``: more arguments of
    ``codex app-server``, for example ``("-c", "model=gpt-5.5")``. ``env``: the whole environment
    of the process, None for this process's own. ``cwd``: the directory it starts in.
    """

    # By hand: importing dataclasses takes longer than spawning the process.
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
        set_once(self, "codex", None if codex is None else os.fspath(codex))
        set_once(self, "args", tuple(args))
        set_once(self, "env", None if env is None else dict(env))
        set_once(self, "cwd", None if cwd is None else os.fspath(cwd))

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
        # Neither values of the environment nor arguments: both may hold secrets.
        return f"LaunchOptions(codex={self.codex!r}, cwd={self.cwd!r}, ...)"


def spawn_app_server(
    options: LaunchOptions | None = None, *, on_stderr_line: Callable[[str], None] | None = None
) -> ChildProcess:
    """Find the binary and start ``codex app-server`` on standard input and output.

    One that ends before it has answered anything is started once more. ``on_stderr_line`` is called
    on the event loop with each line of its stderr. Whoever calls
    this must `ChildProcess.aclose` it; `CodexClient` does.

    Raises CodexNotFound, CodexNotExecutable, or LaunchError for whatever else prevents the start
    (the directory is missing, the system is out of processes).
    """
    options = LaunchOptions() if options is None else options
    binary = find_codex(options.codex)
    if options.cwd is not None and not os.path.isdir(options.cwd):  # noqa: PTH112 - no pathlib here
        raise LaunchError(f"Codex cannot start in {options.cwd!r}: it is not a directory")
    guard = agent_guard.hook_arguments(sys.executable, agent_guard.__file__)
    path = binary.path if options.cwd is None else os.path.abspath(binary.path)  # noqa: PTH100
    argv = [path, "app-server", *guard, *UNLOAD_AT_ONCE, *options.args]
    env = _environment(binary, options.env)
    try:
        return spawn(
            argv,
            env,
            options.cwd,
            name=PROCESS_NAME,
            on_stderr_line=on_stderr_line,
            once_more=True,
        )
    except OSError as error:
        raise _launch_error(binary.path, error) from error


def codex_version(path: str) -> str:
    """The version that ``path --version`` tells, such as ``0.163.0``. Takes a tenth of a second.

    Raises CodexNotExecutable if it cannot be run, LaunchError if it tells no version.
    """
    import subprocess

    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _launch_error(path, error) from error
    except subprocess.TimeoutExpired as error:
        message = f"{path!r} told no version within {VERSION_TIMEOUT_SECONDS:g} seconds"
        raise LaunchError(message) from error
    words = done.stdout.decode(errors="replace").split()
    if done.returncode != 0 or not words or not words[-1][:1].isdigit():
        from codex_acp.transport.plain_text import plain_text

        said = plain_text((done.stderr or done.stdout).decode(errors="replace"))
        said = said.strip().partition("\n")[0]
        raise LaunchError(
            f"{path!r} is not a Codex: --version {how_ended(done.returncode)}, {said[:200]!r}; "
            "name another one with --codex PATH or the environment variable CODEX_PATH"
        )
    return words[-1]


def _environment(binary: CodexBinary, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The child's environment, with the wheel's helper programs first on PATH."""
    if binary.path_dir is None:
        return given
    env = dict(os.environ if given is None else given)
    rest = env.get("PATH")
    env["PATH"] = binary.path_dir if not rest else f"{binary.path_dir}{os.pathsep}{rest}"
    return env


def _launch_error(path: str, error: OSError) -> LaunchError:
    reason = error.strerror or str(error)
    if error.errno not in _REFUSED_BY_SYSTEM:
        return LaunchError(f"{path!r} could not be started: {reason}")
    return CodexNotExecutable(
        f"{path!r} cannot be run: {reason}; it must be a Codex binary for this system, "
        "executable and not still being written"
    )
