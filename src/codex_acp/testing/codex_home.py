"""A throw-away ``CODEX_HOME``, so that the real Codex runs with no account and no network.

Owns the temporary directories and the environment of the child; starts no process. The
settings are those of Codex's ``config.toml``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp.testing.home_directories import HomeDirectories
from codex_acp.testing.toml_writer import TomlValue, toml_text

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

ApprovalPolicy: TypeAlias = "str | Mapping[str, TomlValue]"
"""``on-request``, ``never`` or a ``granular`` table."""

SandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]

DEFAULT_MODEL = "gpt-5.5"
"""A slug that Codex knows and gives classic function tools; newer ones use code mode."""

NO_MODEL_URL = "http://127.0.0.1:9/v1"
"""The discard port: nothing listens there, so a turn fails at once and nothing else does."""

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "LD_LIBRARY_PATH", "CODEX_PATH")
"""Variables that the child inherits. All others are left out: no key, no account, no proxy, and no
CODEX_* but the one that names the binary."""


class CodexHome(HomeDirectories):
    """Four directories and an environment, removed at the end.

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
        super().__init__("codex-home-", parent)
        settings = _settings(base_url or NO_MODEL_URL, approval_policy, sandbox_mode, model)
        if mcp_servers:
            settings["mcp_servers"] = mcp_servers
        self.config: Mapping[str, TomlValue] = _merged(settings, config or {})

    def __enter__(self) -> Self:
        """Make the directories and write ``config.toml``."""
        super().__enter__()
        self.config_file.write_text(toml_text(self.config), encoding="utf-8")
        return self

    @property
    def config_file(self) -> Path:
        """``config.toml``; a test may rewrite it before Codex starts."""
        return self.codex_home / "config.toml"

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of the Codex process, a new dict each time."""
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        env["CODEX_HOME"] = str(self.codex_home)
        env["HOME"] = str(self.home)
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
