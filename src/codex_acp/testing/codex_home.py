"""Make a temporary ``CODEX_HOME``, in which the real Codex runs without an account and a network.

Makes the directories, ``config.toml`` and the environment of Codex. Starts no process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, Union

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from typing import Self

REMOVE_TRIES = 20
"""Attempts to remove the directories, to which Codex may still write."""
REMOVE_PAUSE_SECONDS = 0.1


class HomeDirectories:
    """Four directories in a new `root`, which is removed at the end.

    `root` is made in ``parent`` (by default the system's temporary directory), with a name that
    begins with ``prefix``.
    """

    def __init__(self, prefix: str, parent: str | os.PathLike[str] | None = None) -> None:
        self._prefix = prefix
        self._parent = parent
        self._root: Path | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({None if self._root is None else str(self._root)!r})"

    def __enter__(self) -> Self:
        if self._root is not None:
            raise MisuseError(f"this {type(self).__name__} is already in use; make a new one")
        # Resolved, because Codex reports real paths, and macOS's temporary directory is a link.
        self._root = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self._parent)).resolve()
        for directory in (self.codex_home, self.home, self.workspace, self.temporary):
            directory.mkdir()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the directories; give up after two seconds. Never raises."""
        if self._root is None:
            return
        root, self._root = self._root, None
        for _ in range(REMOVE_TRIES):
            shutil.rmtree(root, ignore_errors=True)
            if not root.exists():
                return
            time.sleep(REMOVE_PAUSE_SECONDS)

    @property
    def root(self) -> Path:
        """The directory that contains the four others. Raises MisuseError outside the ``with``."""
        if self._root is None:
            name = type(self).__name__
            raise MisuseError(f"the {name} has no directories; use it in a with statement")
        return self._root

    @property
    def codex_home(self) -> Path:
        """``CODEX_HOME``: configuration, sessions, logs."""
        return self.root / "codex"

    @property
    def home(self) -> Path:
        """An empty ``HOME``: Codex runs commands in a login shell, and a profile would slow it."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """``TMPDIR`` of Codex; the sandbox leaves files there."""
        return self.root / "tmp"

    @property
    def workspace(self) -> Path:
        """An empty directory for the threads; no configuration trusts it."""
        return self.root / "workspace"


TomlValue: TypeAlias = Union[  # noqa: UP007 - it is recursive
    str, int, float, bool, Sequence["TomlValue"], Mapping[str, "TomlValue"]
]
"""A value in TOML, which has no null."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, TomlValue]) -> str:
    """Write a document as TOML. Raises MisuseError for a value that TOML does not have."""
    lines: list[str] = []
    _write_table(document, (), lines)
    return "\n".join(lines) + "\n"


def _write_table(table: Mapping[str, TomlValue], path: tuple[str, ...], lines: list[str]) -> None:
    """Add the lines of the table at ``path``. Values come before inner tables, because keys after
    the header of an inner table belong to that table."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or not table):  # a table of only tables needs no header
        lines.append(f"[{'.'.join(map(_toml_key, path))}]")
    lines.extend(f"{_toml_key(key)} = {toml_value(value)}" for key, value in plain.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            _write_table(value, (*path, key), lines)


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _toml_string(key)


def _toml_string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MisuseError(f"TOML text is Unicode without surrogates: {text!r}") from error
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # escapes as in JSON


def toml_value(value: TomlValue) -> str:
    """Write a value that follows a key in TOML. Raises MisuseError for a value that TOML lacks."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # TOML writes inf and nan as Python does
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(key)} = {toml_value(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    raise MisuseError(f"TOML cannot hold {type(value).__name__}: {value!r}")


ApprovalPolicy: TypeAlias = "str | Mapping[str, TomlValue]"
"""Codex's ``approval_policy``: ``on-request``, ``never`` or a ``granular`` table."""
SandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]
DEFAULT_MODEL = "gpt-5.5"
"""A model to which Codex offers function tools. For newer models Codex uses code mode."""
NO_MODEL_URL = "http://127.0.0.1:9/v1"
"""URL at which nothing listens (the discard port): turns fail at once, everything else works."""
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "LD_LIBRARY_PATH", "CODEX_PATH")
"""Variables that Codex inherits. Other variables might contain a key, an account or a proxy."""


class CodexHome(HomeDirectories):
    """A home for Codex that uses a scripted model; removed at the end.

    ``with ScriptedModel(script) as model, CodexHome(model.base_url) as home:`` and then run
    ``codex app-server`` with ``env=home.env`` and threads in ``home.workspace``.

    ``config`` is merged into the settings, table by table; ``mcp_servers`` is the table of that
    name (``{"notes": {"command": ..., "args": [...]}}``). ``parent`` is the directory for the
    home's directories, by default the system's temporary directory.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        approval_policy: ApprovalPolicy = "on-request",
        sandbox_mode: SandboxMode = "read-only",
        model: str = DEFAULT_MODEL,
        mcp_servers: Mapping[str, Mapping[str, TomlValue]] | None = None,
        config: Mapping[str, TomlValue] | None = None,
        parent: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__("codex-home-", parent)
        settings: dict[str, TomlValue] = {
            "model": model,
            "model_provider": "scripted",
            "approval_policy": approval_policy,
            "sandbox_mode": sandbox_mode,
            "check_for_update_on_startup": False,
            "model_reasoning_summary": "auto",
            "tools": {"update_plan": {"enabled": True}},
            "model_providers": {
                "scripted": {
                    "name": "scripted",
                    "base_url": base_url or NO_MODEL_URL,
                    "wire_api": "responses",
                    "requires_openai_auth": False,
                    "supports_websockets": False,
                    # Without retries, a scripted failure reaches the client.
                    "request_max_retries": 0,
                    "stream_max_retries": 0,
                }
            },
            "analytics": {"enabled": False},
            "feedback": {"enabled": False},
            # With plugins, Codex runs `git ls-remote` on GitHub at its start.
            "features": {"plugins": False},
        }
        if mcp_servers:
            settings["mcp_servers"] = mcp_servers
        self.config: Mapping[str, TomlValue] = _merge(settings, config or {})

    def __enter__(self) -> Self:
        super().__enter__()
        self.config_file.write_text(toml_text(self.config), encoding="utf-8")
        return self

    @property
    def config_file(self) -> Path:
        """``config.toml``; a test may rewrite it before Codex starts."""
        return self.codex_home / "config.toml"

    @property
    def env(self) -> dict[str, str]:
        """The complete environment of Codex, a new dict each time."""
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        env["CODEX_HOME"] = str(self.codex_home)
        env["HOME"] = str(self.home)
        env["TMPDIR"] = str(self.temporary)
        env["NO_PROXY"] = env["no_proxy"] = "127.0.0.1,localhost"
        return env


def _merge(base: Mapping[str, TomlValue], over: Mapping[str, TomlValue]) -> dict[str, TomlValue]:
    """Return ``base`` with the values of ``over``; tables in both are merged."""
    merged = dict(base)
    for key, value in over.items():
        base_value = merged.get(key)
        if isinstance(base_value, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(base_value, value)
        else:
            merged[key] = value
    return merged
