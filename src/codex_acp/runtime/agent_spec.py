"""Describe how to start an agent, or how to connect to one.

Owns the two agents that are known by name. Starts nothing.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from codex_acp._urls import bare_url
from codex_acp.errors import (
    MisuseError,
    environment,
    must_be_count,
    must_be_seconds,
    refuse_unless,
)
from codex_acp.transport.remote_agent import check_agent_url, remote_agent_link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codex_acp.transport.link import Link
    from codex_acp.transport.remote_address import Token

START_SECONDS: Final = 60.0
"""Seconds from the spawn to the answer to ``initialize``. A first start reads 300 MB."""

REMOTE_SECONDS: Final = 30.0
"""Seconds to connect to a running agent and to get the answer to ``initialize``."""

FETCH_SECONDS: Final = 300.0
"""Seconds to start an agent that npx may have to download first."""

CLAUDE_PACKAGE: Final = "@agentclientprotocol/claude-agent-acp"


@dataclass(frozen=True)
class AgentSpec:
    """How to start an ACP agent, which speaks on stdin and stdout, or to connect to one."""

    command: Sequence[str] = field(default=(), repr=False)
    """The program and its arguments; no shell is involved."""
    name: str = ""
    """Name of the agent in messages and in the session store; by default the program's name."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables of the agent; they override inherited variables."""
    inherit_env: bool = True
    """Whether the agent inherits this process's environment."""
    cwd: str | Path | None = None
    """Directory of the agent's process; None for this process's. A session has its own cwd."""
    shared: bool = False
    """Whether one process serves all sessions; otherwise each session has its own."""
    auth_method: str | None = None
    """Id of the method for ``authenticate``, used once if the agent requires a login (-32000)."""
    start_seconds: float = START_SECONDS
    """Time limit from the spawn to the answer to ``initialize``."""
    link: Callable[[], Link] | None = None
    """Returns a link to an agent that is not started here, in place of a command; called for each
    connection. Needs ``name``. A test can use one end of `codex_acp.transport.link.memory_pair`."""
    line_limit: int | None = None
    """Bytes of the largest message that is accepted from the agent; None for 64 MiB."""
    version: Literal[1, 2] | None = None
    """The only version of ACP to use; None for the highest version that the agent has."""

    def __post_init__(self) -> None:
        refuse_unless(self.version in (None, 1, 2), "the version of ACP is 1 or 2", self.version)
        must_be_seconds("start_seconds", self.start_seconds)
        if self.line_limit is not None:
            must_be_count("line_limit", self.line_limit)
        for name, text in (("name", self.name), ("auth_method", self.auth_method)):
            refuse_unless(isinstance(text, str | None), f"{name} is a text", text)
        is_path = isinstance(self.cwd, str | os.PathLike | None)
        refuse_unless(is_path, "an agent's cwd is a path", self.cwd)
        environment(self.env)  # raises for a wrong one
        is_function = self.link is None or callable(self.link)
        refuse_unless(is_function, "link is a function", self.link)
        if self.link is not None:
            if self.command or not self.name:
                raise MisuseError("an agent with a link has a name and no command")
            return
        given: Any = self.command
        words = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
        are_words = words and words[0] and all(isinstance(w, str | os.PathLike) for w in words)
        wanted = "an agent's command is a list of words (AgentSpec.parse splits a text)"
        refuse_unless(are_words, wanted, given)
        object.__setattr__(self, "command", tuple(map(os.fspath, words)))
        if not self.name:
            object.__setattr__(self, "name", os.path.basename(self.command[0]))  # noqa: PTH119

    @property
    def key(self) -> tuple[object, ...]:
        """Key by which sessions share a process: equal for specs that start equal processes."""
        env = tuple(sorted(self.env.items()))
        start = (self.command, self.name, self.link, env, self.inherit_env, str(self.cwd))
        return (*start, self.auth_method, self.start_seconds, self.line_limit, self.version)

    @property
    def environment(self) -> dict[str, str] | None:
        """Environment of the agent's process; None for this process's."""
        if self.inherit_env and not self.env:
            return None
        return {**(os.environ if self.inherit_env else {}), **self.env}

    @classmethod
    def parse(cls, command: str, *, name: str = "") -> AgentSpec:
        """Make the spec of a command line, split into words as by a POSIX shell. Raises
        MisuseError."""
        refuse_unless(isinstance(command, str), "a command line is a text", command)
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
        """Make the spec of an agent that accepts network clients, like ``codex-acp-sdk --listen``.

        ``ws://`` and ``wss://`` URLs use a websocket, ``http://`` and ``https://`` streamable HTTP.
        ``token`` is sent as ``Authorization: Bearer``. A function as ``token`` is called for each
        connection. With ``shared``, one connection serves all sessions. Raises MisuseError for
        another URL, or if the token would be sent unencrypted to another machine.
        """
        refuse_unless(isinstance(url, str), "an agent's URL is a text", url)
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
        """Make the spec of this package's agent in this Python; ``args`` follow ``serve``."""
        # -P: Python must not import modules from the current directory.
        command = (sys.executable, "-P", "-m", "codex_acp", "serve", *args)
        return cls(command, "codex", env or {}, inherit_env=inherit_env, shared=shared)

    @classmethod
    def claude(cls, *, env: Mapping[str, str] | None = None, shared: bool = False) -> AgentSpec:
        """Make the spec of ``@agentclientprotocol/claude-agent-acp``, which npx downloads."""
        command = ("npx", "--yes", CLAUDE_PACKAGE)
        return cls(command, "claude", env or {}, shared=shared, start_seconds=FETCH_SECONDS)


@dataclass(frozen=True)
class _RemoteLink:
    """Makes links to one remote agent. Equal by value, so that specs of one agent are equal."""

    url: str = field(repr=False)
    token: Token | None = field(repr=False)
    name: str

    def __call__(self) -> Link:
        return remote_agent_link(self.url, self.token, name=self.name)


BUILT_IN: Final[Mapping[str, AgentSpec]] = {
    "codex": AgentSpec.codex(),
    "claude": AgentSpec.claude(),
}
"""Agents that every runtime knows by name."""
