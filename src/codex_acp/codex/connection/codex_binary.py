"""Where the Codex binary is.

Owns the order of the places and the message when none has it. Starts nothing, and imports almost
nothing: it runs before the process is spawned. Must not know what the binary is started for.
"""

# No pathlib, shutil or typing here: each costs milliseconds before the process is spawned.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH120

from __future__ import annotations

import os

from codex_acp.errors import CodexNotExecutable, CodexNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, TypeAlias

    Source: TypeAlias = Literal["argument", "CODEX_PATH", "wheel", "PATH"]
    """Place that named the binary."""

CODEX_PATH_VARIABLE = "CODEX_PATH"
"""Environment variable that names the binary."""

WHEEL_MODULE = "codex_cli_bin"
"""The module of OpenAI's wheel ``openai-codex-cli-bin``, which the extra ``[codex]`` installs."""

HOW_TO_GET_CODEX = (
    "install it with `pip install 'codex-acp-sdk[codex]'` or `npm install -g @openai/codex`, "
    "or name it with --codex PATH or the environment variable CODEX_PATH"
)


class CodexBinary:
    """A binary that was found: its absolute path, and what goes with it."""

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
    """The Codex binary to use, looked for in this order.

    ``explicit`` (a path, or a bare name to be found on PATH); ``CODEX_PATH`` (likewise); the wheel
    ``openai-codex-cli-bin``; ``codex`` on PATH. A binary that is named but is not there is an
    error: another one is never taken in its place. ``environ`` is by default this process's own.

    Raises CodexNotFound, which names each place that was tried and how to get a Codex, and
    CodexNotExecutable for a directory or a file without the permission to run.
    """
    env = os.environ if environ is None else environ
    if explicit:
        return _named(explicit, "argument", "--codex", env)
    from_env = env.get(CODEX_PATH_VARIABLE)
    if from_env:
        return _named(from_env, "CODEX_PATH", CODEX_PATH_VARIABLE, env)
    tried = ["no path was given", f"{CODEX_PATH_VARIABLE} is not set"]
    found, missing = _from_wheel()
    if found is not None:
        return found
    tried.append(missing)
    path, on_path = _on_path("codex", env)
    if path is not None:
        return CodexBinary(path, "PATH")
    tried.append(on_path)
    raise _not_found(tried)


def _named(given: str, source: Source, label: str, env: Mapping[str, str]) -> CodexBinary:
    if os.path.dirname(given) == "" and not given.startswith("~"):
        path, problem = _on_path(given, env)
        if path is None and not os.path.exists(given):
            raise _not_found([f"{label} names {given!r}: {problem}"])
        if path is not None:
            return CodexBinary(path, source)
    # Absolute, because the child may start in another directory.
    try:
        path = os.path.abspath(os.path.expanduser(given))
    except FileNotFoundError:
        raise _not_found([f"{label} names {given!r}, and the current directory is gone"]) from None
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


def _from_wheel() -> tuple[CodexBinary | None, str]:
    """The wheel's binary, or why there is none."""
    from importlib.machinery import PathFinder  # importlib.util takes as long as all else here

    spec = PathFinder.find_spec(WHEEL_MODULE)
    if spec is None or spec.origin is None:
        return None, "the wheel openai-codex-cli-bin is not installed"
    # The usual layout, without the 20 ms that importing the module takes.
    base = os.path.dirname(spec.origin)
    path, path_dir = os.path.join(base, "bin", "codex"), os.path.join(base, "codex-path")
    if os.access(path, os.X_OK) and os.path.isfile(path):
        return CodexBinary(path, "wheel", path_dir if os.path.isdir(path_dir) else None), ""
    return _from_wheel_module()


def _from_wheel_module() -> tuple[CodexBinary | None, str]:
    """Ask the wheel itself for the binary, for a layout that is new to us."""
    from importlib import import_module

    try:
        module = import_module(WHEEL_MODULE)
        path, path_dir = str(module.bundled_codex_path()), module.bundled_path_dir()
    except (ImportError, AttributeError, OSError) as error:
        return None, f"the wheel openai-codex-cli-bin has no binary ({error})"
    _must_be_executable(path)
    return CodexBinary(path, "wheel", None if path_dir is None else str(path_dir)), ""


def _on_path(name: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    """The program ``name`` on PATH, or why there is none."""
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
