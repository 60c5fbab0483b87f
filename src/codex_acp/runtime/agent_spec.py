"""How an agent is started: its command, its environment, and what is to be expected of it.

Owns the two agents that are known by name. Starts nothing.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from codex_acp._urls import bare_url
from codex_acp.errors import MisuseError
from codex_acp.transport.remote_agent import check_agent_url, remote_agent_link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from codex_acp.transport.link import Link
    from codex_acp.transport.remote_address import Token

START_SECONDS: Final = 60.0
"""From spawn to the answer to ``initialize``: a first start may read a binary of 300 MB."""

REMOTE_SECONDS: Final = 30.0
"""The same of one that runs already: to connect, and the answer to ``initialize``."""

FETCH_SECONDS: Final = 300.0
"""The same where npx may have to fetch the agent first."""

CLAUDE_PACKAGE: Final = "@agentclientprotocol/claude-agent-acp"


@dataclass(frozen=True)
class AgentSpec:
    """An agent that speaks ACP on its standard input and output."""

    command: Sequence[str] = field(default=(), repr=False)
    """The program and its arguments; no shell is involved."""
    name: str = ""
    """Name of the agent in messages and in the session store; by default the program's name."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables set for it, over those it inherits."""
    inherit_env: bool = True
    """Whether it inherits this process's environment."""
    cwd: str | Path | None = None
    """Where its process runs; None: where this one does. A session has a cwd of its own."""
    shared: bool = False
    """Whether one process serves all sessions; otherwise each session has its own."""
    auth_method: str | None = None
    """Id of the method for ``authenticate``, used once if the agent asks for a login (-32000)."""
    start_seconds: float = START_SECONDS
    """Bound of its start, from the spawn to the answer to ``initialize``."""
    link: Callable[[], Link] | None = None
    """In place of a command: makes the link to an agent that is no child of this process, for
    example one end of `codex_acp.transport.link.memory_pair` in a test. Needs a name."""
    line_limit: int | None = None
    """The largest message accepted from it, in bytes; None for the default, 64 MiB."""
    version: Literal[1, 2] | None = None
    """The only version of ACP to speak with it; None: the highest that it has."""

    def __post_init__(self) -> None:
        if self.link is not None:
            if self.command or not self.name:
                raise MisuseError("an agent with a link has a name and no command")
            return
        if isinstance(self.command, str) or not self.command or not self.command[0]:
            msg = (
                f"an agent's command is a list of words, not {self.command!r}; see AgentSpec.parse"
            )
            raise MisuseError(msg)
        object.__setattr__(self, "command", tuple(self.command))
        if not self.name:
            object.__setattr__(self, "name", os.path.basename(self.command[0]))  # noqa: PTH119

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for two specs whose processes are alike and may stand in for each other."""
        env = tuple(sorted(self.env.items()))
        start = (self.command, self.name, self.link, env, self.inherit_env, str(self.cwd))
        return (*start, self.auth_method, self.start_seconds, self.line_limit, self.version)

    @property
    def environment(self) -> dict[str, str] | None:
        """The whole environment of the process; None: this process's own."""
        if self.inherit_env and not self.env:
            return None
        return {**(os.environ if self.inherit_env else {}), **self.env}

    @classmethod
    def parse(cls, command: str, *, name: str = "") -> AgentSpec:
        """From one line, split into words as a POSIX shell does. Raises MisuseError."""
        try:
            words = shlex.split(command)
        except ValueError as error:
            msg = f"the command {command!r} cannot be split into words: {error}"
            raise MisuseError(msg) from None
        if not words:
            raise MisuseError("the agent's command is empty")
        return cls(words, name=name)

    @classmethod
    def remote(
        cls, url: str, token: Token | None = None, *, name: str = "", shared: bool = False
    ) -> AgentSpec:
        """An agent that listens, like ``codex-acp-sdk serve --listen``: on a websocket at ``ws://``
        or ``wss://``, by streamable HTTP at ``http://`` or ``https://``.

        ``token`` is shown as ``Authorization: Bearer``; a function is asked for one each time.
        ``shared``: one connection serves all sessions. Raises MisuseError for no such URL, and for
        a token that would travel unencrypted to another machine.
        """
        check_agent_url(url, token)
        name = name or bare_url(url)
        link = _RemoteLink(url, token, name)
        return cls(name=name, link=link, shared=shared, start_seconds=REMOTE_SECONDS)

    @classmethod
    def codex(
        cls,
        *args: str,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        shared: bool = False,
    ) -> AgentSpec:
        """The adapter of this package, in this Python; ``args`` as of ``codex-acp-sdk serve``."""
        # -P: a module that lies in the current directory must not be taken for one of ours.
        command = (sys.executable, "-P", "-m", "codex_acp", "serve", *args)
        return cls(command, "codex", env or {}, inherit_env=inherit_env, shared=shared)

    @classmethod
    def claude(cls, *, env: Mapping[str, str] | None = None, shared: bool = False) -> AgentSpec:
        """``@agentclientprotocol/claude-agent-acp``, which npx fetches if it is not there."""
        command = ("npx", "--yes", CLAUDE_PACKAGE)
        return cls(command, "claude", env or {}, shared=shared, start_seconds=FETCH_SECONDS)


@dataclass(frozen=True)
class _RemoteLink:
    """Connects each time; equal for two that connect alike."""

    url: str = field(repr=False)
    token: Token | None = field(repr=False)
    name: str

    def __call__(self) -> Link:
        return remote_agent_link(self.url, self.token, name=self.name)


BUILT_IN: Final[Mapping[str, AgentSpec]] = {
    "codex": AgentSpec.codex(),
    "claude": AgentSpec.claude(),
}
"""The agents that a runtime knows by name without being told."""
