"""Connect to an agent in a few lines: start it or open its URL, and send ``initialize``.

Owns the handshake and the agent's process. A program then calls the methods of the protocol;
`codex_acp.runtime` has objects for sessions, prompts and their results.
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from codex_acp._files import absolute
from codex_acp.acp import types
from codex_acp.acp._generated.v1 import methods
from codex_acp.acp.capabilities import PROTOCOL_VERSION, implementation
from codex_acp.acp.client_of_both_versions import ClientOfBothVersions, versions_for
from codex_acp.acp.client_side import outcome_of
from codex_acp.acp.dialects import complete_rows
from codex_acp.acp.side import acp_connection
from codex_acp.errors import LaunchError, MisuseError, environment, refuse_unless, several
from codex_acp.transport.child import spawn
from codex_acp.transport.remote_agent import is_agent_url, remote_agent_link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
        SomeClientNotificationHandlers,
        SomeClientRequestHandlers,
    )
    from codex_acp.acp.client_side import ClientSide
    from codex_acp.transport.link import Link
    from codex_acp.transport.remote_address import Token

_TERMINAL: Final = frozenset(
    f"terminal/{name}" for name in ("create", "output", "release", "wait_for_exit", "kill")
)
"""The capability ``terminal`` means all of these methods."""


class ConnectedAgent:
    """A connected agent, made by `connect_agent`. The start of the context connects, the end of
    the context ends the agent's process."""

    side: ClientSide
    """The agent's methods of version 1: ``await agent.side.session_new(...)``."""
    initialized: types.InitializeResponse
    """The agent's answer to ``initialize``; ``protocol_version`` is the version that both sides
    speak."""

    def __init__(
        self,
        link: Link,
        request: types.InitializeRequest,
        requests: ClientRequestHandlers,
        notifications: ClientNotificationHandlers,
        version: int | None,
    ) -> None:
        self._request = request
        self._client = ClientOfBothVersions(
            acp_connection(link, name="the agent"), requests, notifications, version
        )
        self.side = self._client  # in public with the type of any client
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"ConnectedAgent({self.side!r})"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.side)
            self.initialized = await self._client.introduce(self._request)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._stack.__aexit__(*exc)


def connect_agent(
    agent: str | Sequence[str] | Link,
    *,
    name: str,
    version: str = "0",
    requests: SomeClientRequestHandlers | None = None,
    notifications: SomeClientNotificationHandlers | None = None,
    capabilities: types.ClientCapabilities | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    token: Token | None = None,
    protocol_version: Literal[1, 2] | None = None,
) -> ConnectedAgent:
    """Connect to an agent: ``async with connect_agent(["my-agent"], name="me") as agent:``.

    ``agent`` is a command, a link, or the URL of a listening agent. A command runs without a shell;
    ``env`` is its whole environment, None means this process's environment. A URL begins with
    ``ws://``, ``wss://``, ``http://`` or ``https://``; its agent gets ``token`` as
    ``Authorization: Bearer``. ``requests`` and ``notifications`` have the handlers of methods, see
    `ClientSide`; a method without a handler is answered -32601 and not advertised. Without a
    handler, permissions are rejected.
    ``capabilities`` adds what the handlers do not imply: the elicitations that the client can show.

    The connection uses the highest version of ACP that the agent has, or ``protocol_version``
    alone; methods, handlers and models are version 1 either way. An agent of version 2 has no
    modes, and updates of kinds that version 1 lacks are left out. Version 2 has no files or
    terminals of the client: with handlers for these the connection uses version 1.

    Raises MisuseError for a method that ACP does not have, LaunchError if the command cannot be
    started. ``async with`` raises what ``initialize`` raises.
    """
    handlers = requests or {}
    all_requests = complete_rows("request", handlers, methods.CLIENT_REQUESTS)
    if "session/request_permission" not in handlers:
        all_requests["session/request_permission"] = _reject
    versions_for(all_requests, protocol_version)  # raises before a process is started
    known = {**methods.CLIENT_NOTIFICATIONS, **methods.PROTOCOL_NOTIFICATIONS}
    all_notifications = complete_rows("notification", notifications or {}, known)
    request = types.InitializeRequest(
        protocol_version=PROTOCOL_VERSION,
        client_info=implementation(name, version),
        client_capabilities=_advertised(capabilities, handlers),
    )
    return ConnectedAgent(
        _link(agent, env, cwd, token),
        request,
        cast("ClientRequestHandlers", all_requests),
        cast("ClientNotificationHandlers", all_notifications),
        protocol_version,
    )


def _link(
    agent: str | Sequence[str] | Link,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    token: Token | None,
) -> Link:
    if isinstance(agent, str) and is_agent_url(agent):
        return remote_agent_link(agent, token)
    if token is not None:
        raise MisuseError("a token is for the URL of an agent")
    if hasattr(agent, "start"):
        return cast("Link", agent)
    command = several("a command, if this is no link or URL,", agent)
    are_words = command and all(isinstance(word, str | os.PathLike) for word in command)
    refuse_unless(are_words, "an agent's command is a list of words", agent)
    directory = None if cwd is None else absolute("cwd", cwd)
    try:
        return spawn(command, env=environment(env), cwd=directory)
    except OSError as error:
        raise LaunchError(f"the agent {command[0]!r} cannot be started: {error}") from error


def _advertised(
    given: types.ClientCapabilities | None, requests: SomeClientRequestHandlers
) -> types.ClientCapabilities:
    """Return a copy of ``given``; the handlers decide about files and terminals."""
    offered = {method for method, handler in requests.items() if handler is not None}
    capabilities = types.ClientCapabilities() if given is None else given
    is_right = isinstance(capabilities, types.ClientCapabilities)
    refuse_unless(is_right, "capabilities are ClientCapabilities(...)", capabilities)
    capabilities = capabilities.model_copy()
    capabilities.fs = types.FileSystemCapabilities(
        read_text_file="fs/read_text_file" in offered,
        write_text_file="fs/write_text_file" in offered,
    )
    capabilities.terminal = offered >= _TERMINAL
    return capabilities


async def _reject(request: types.RequestPermissionRequest) -> types.RequestPermissionResponse:
    return types.RequestPermissionResponse(outcome=outcome_of(request.options, "reject_once"))
