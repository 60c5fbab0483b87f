"""A repository that brings an MCP server and hooks of its own, each of which leaves a mark."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from codex_acp.testing import CodexHome
from codex_acp.testing.codex_home import TomlValue

WAIT_SECONDS: Final = 30.0

EVERYTHING: Final[dict[str, TomlValue]] = {
    "sandbox_mode": "workspace-write",
    "sandbox_workspace_write": {
        "network_access": True,
        "exclude_slash_tmp": True,
        "exclude_tmpdir_env_var": True,
    },
}

CONFIGURATIONS: Final[Mapping[str, tuple[dict[str, TomlValue], set[str]]]] = {
    "workspace-write": ({"sandbox_mode": "workspace-write"}, {"inside", "temporary"}),
    "everything": (EVERYTHING, {"inside", "network"}),
    "full": ({"sandbox_mode": "danger-full-access"}, {"inside", "guarded", "temporary", "network"}),
    "profile": ({"default_permissions": ":workspace"}, {"inside", "temporary"}),
    "own-profile": (
        {
            "default_permissions": "mine",
            "permissions": {
                "mine": {
                    "filesystem": {":root": "read", ":workspace_roots": {".": "write"}},
                    "network": {"enabled": True},
                }
            },
        },
        {"inside", "network"},
    ),
    "limited-network": (
        {
            **EVERYTHING,
            "features": {"network_proxy": {"enabled": True, "domains": {"ok.example": "allow"}}},
        },
        {"inside"},
    ),
}
"""What a user may have configured, and what a command may do then; measured without this library
on Codex 0.147, 0.163, 0.169 and 0.171. All of them let Codex trust a directory by itself."""


class Repository:
    """In the home's own directories, not in its workspace."""

    def __init__(self, home: CodexHome, name: str = "repository") -> None:
        self.path = home.root / name
        self._home = home
        self._marks = home.root / f"{name}-marks"
        for directory in (self.path / ".git", self.path / ".codex", self._marks):
            directory.mkdir(parents=True)
        (self.path / ".git/HEAD").write_text("ref: refs/heads/main\n")
        server = {"command": "/bin/sh", "args": ["-c", f"touch '{self._marks}/server'; sleep 1"]}
        table = f"command = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n"
        (self.path / ".codex/config.toml").write_text(f"[mcp_servers.theirs]\n{table}")
        hooks = {name: [self._hook(name)] for name in ("SessionStart", "UserPromptSubmit")}
        (self.path / ".codex/hooks.json").write_text(json.dumps({"hooks": hooks}))
        (self.path / "AGENTS.md").write_text("Instructions of the repository.\n")
        self._before = home.config_file.read_bytes()

    def _hook(self, name: str) -> dict[str, Any]:
        return {"hooks": [{"type": "command", "command": f"touch '{self._marks}/{name}'"}]}

    @property
    def ran(self) -> set[str]:
        """What of it has run."""
        return {mark.name for mark in self._marks.iterdir()}

    @property
    def server_mark(self) -> Path:
        """The file that is there when its MCP server has started."""
        return self._marks / "server"

    def written(self) -> bool:
        """Whether the user's configuration is another one than when this was made."""
        return self._home.config_file.read_bytes() != self._before

    def configuration_is_as_it_should(self) -> None:
        """What is in the user's configuration now was put there by the test."""
        self._before = self._home.config_file.read_bytes()


def wait_for(mark: Path) -> None:
    """Wait until a file is there; blocks."""
    end = time.monotonic() + WAIT_SECONDS
    while not mark.exists():
        assert time.monotonic() < end, f"{mark} never came"
        time.sleep(0.02)


@contextmanager
def probe() -> Iterator[str]:
    """A command that says what it may do: see `probed`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield (
            "(touch in && echo may-inside) 2>&1; (touch .git/in && echo may-guarded) 2>&1;"
            ' (touch "$TMPDIR/x" && echo may-temporary) 2>&1;'
            f" (bash -c '</dev/tcp/127.0.0.1/{port}' && echo may-network) 2>&1; true"
        )


def probed(output: str) -> set[str]:
    """What a `probe` could do, of its output."""
    words = ("inside", "guarded", "temporary", "network")
    return {word for word in words if f"may-{word}" in output}
