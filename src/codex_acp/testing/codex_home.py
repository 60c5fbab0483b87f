"""A throw-away ``CODEX_HOME``, so that the real Codex runs with no account and no network.

Owns the temporary directories and the environment of the child; starts no process. The
settings are those of Codex's ``config.toml``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp.errors import MisuseError
from codex_acp.testing.toml_writer import TomlValue, toml_text

if TYPE_CHECKING:
    from typing import Self

__all__ = ["CodexHome", "ApprovalPolicy", "SandboxMode", "DEFAULT_MODEL"]

ApprovalPolicy: TypeAlias = "str | Mapping[str, TomlValue]"
"""``on-request``, ``never`` or a ``granular`` table."""

SandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]

DEFAULT_MODEL = "gpt-5.5"
"""A slug that Codex knows and gives classic function tools; newer ones use code mode."""

NO_MODEL_URL = "http://127.0.0.1:9/v1"
"""The discard port: nothing listens there, so a turn fails at once and nothing else does."""

REMOVE_TRIES = 20
REMOVE_PAUSE_SECONDS = 0.1
"""Codex may still write when the directory is removed: try again for two seconds."""

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "LD_LIBRARY_PATH", "CODEX_PATH")
"""What the child inherits. All else is left out: no key, no account, no proxy, and no CODEX_* but
the one that names the binary."""


class CodexHome:
    """Three directories and an environment, removed at the end.

    ``with ScriptedModel(script) as model, CodexHome(model.base_url) as home:`` and then run
    ``codex app-server`` with ``env=home.env`` and threads in ``home.workspace``.

    ``config`` is merged over the generated settings, table by table; ``mcp_servers`` is the
    table of that name (``{"notes": {"command": ..., "args": [...]}}``). The directories are
    made in ``parent``, by default the system's temporary directory.
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
        settings = _settings(base_url or NO_MODEL_URL, approval_policy, sandbox_mode, model)
        if mcp_servers:
            settings["mcp_servers"] = mcp_servers
        self.config: Mapping[str, TomlValue] = _merged(settings, config or {})
        self._parent = parent
        self._root: Path | None = None

    def __repr__(self) -> str:
        return f"CodexHome({None if self._root is None else str(self._root)!r})"

    def __enter__(self) -> Self:
        """Make the directories and write ``config.toml``."""
        if self._root is not None:
            raise MisuseError("this CodexHome is already in use; make a new one")
        # Resolved: on macOS the temporary directory is a link and Codex reports real paths.
        self._root = Path(tempfile.mkdtemp(prefix="codex-home-", dir=self._parent)).resolve()
        for directory in (self.codex_home, self.home, self.workspace, self.temporary):
            directory.mkdir()
        self.config_file.write_text(toml_text(self.config), encoding="utf-8")
        return self

    def __exit__(self, *_exc: object) -> None:
        """Remove everything."""
        self.remove()

    def remove(self) -> None:
        """Remove the directories; never raises, and gives up after two seconds."""
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
        """The directory that holds the other three. Raises MisuseError outside the ``with``."""
        if self._root is None:
            raise MisuseError("the CodexHome has no directories; use it in a with statement")
        return self._root

    @property
    def codex_home(self) -> Path:
        """``CODEX_HOME``: configuration, sessions, logs."""
        return self.root / "codex"

    @property
    def config_file(self) -> Path:
        """``config.toml``; a test may rewrite it before Codex starts."""
        return self.codex_home / "config.toml"

    @property
    def home(self) -> Path:
        """A bare ``HOME``: Codex runs commands in a login shell, and a profile would slow it."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """What the process has as ``TMPDIR``."""
        return self.root / "tmp"

    @property
    def workspace(self) -> Path:
        """An empty directory for the threads to work in."""
        return self.root / "workspace"

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of the Codex process, a new dict each time."""
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        env["CODEX_HOME"] = str(self.codex_home)
        env["HOME"] = str(self.home)
        # Codex leaves files of its sandbox in the temporary directory.
        env["TMPDIR"] = str(self.temporary)
        env["NO_PROXY"] = env["no_proxy"] = "127.0.0.1,localhost"
        return env


def _settings(
    base_url: str, approval_policy: ApprovalPolicy, sandbox_mode: SandboxMode, model: str
) -> dict[str, TomlValue]:
    return {
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
                "base_url": base_url,
                "wire_api": "responses",
                "requires_openai_auth": False,
                "supports_websockets": False,
                # A scripted failure is meant to be seen, not to be tried again.
                "request_max_retries": 0,
                "stream_max_retries": 0,
            }
        },
        "analytics": {"enabled": False},
        "feedback": {"enabled": False},
    }


def _merged(base: Mapping[str, TomlValue], over: Mapping[str, TomlValue]) -> dict[str, TomlValue]:
    """``base`` with ``over`` on top; tables are merged, all else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged
