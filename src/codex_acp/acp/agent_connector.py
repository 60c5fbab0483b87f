"""A client in a few lines: an agent is started, greeted and ready to be called.

Owns the handshake and the agent's process. For sessions, prompts and their results as objects
there is `codex_acp.runtime`; this is the protocol itself.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

from codex_acp.acp import types
from codex_acp.acp._generated.v1.methods import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    PROTOCOL_NOTIFICATIONS,
)
from codex_acp.acp.capabilities import PROTOCOL_VERSION
from codex_acp.acp.client_of_both_versions import ClientOfBothVersions
from codex_acp.acp.client_side import outcome_of
from codex_acp.acp.dialects import check_known, methods_of
from codex_acp.acp.side import acp_connection
from codex_acp.errors import LaunchError, MisuseError
from codex_acp.transport.child import spawn
from codex_acp.transport.remote_agent import is_agent_url, remote_agent_link

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence

    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
        SomeClientNotificationHandlers,
        SomeClientRequestHandlers,
    )
    from codex_acp.acp.client_side import ClientSide
    from codex_acp.transport.link import Link
    from codex_acp.transport.remote_address import Token

_ASKED: Final = methods_of(CLIENT_REQUESTS, unstable=False)
_HEARD: Final = methods_of({**CLIENT_NOTIFICATIONS, **PROTOCOL_NOTIFICATIONS}, unstable=False)

_TERMINAL: Final = frozenset(
    f"terminal/{name}" for name in ("create", "output", "release", "wait_for_exit", "kill")
)
"""A client offers all of them or none."""


class ConnectedAgent:
    """An agent after ``initialize``. Made by `connect_agent`; ends the agent when it is left."""

    side: ClientSide
    """The agent's methods, those of version 1: ``await agent.side.session_new(...)``."""
    initialized: types.InitializeResponse
    """The agent's answer to ``initialize``; ``protocol_version`` is the version that both sides
    speak."""

    def __init__(
        self,
        link: Link,
        request: types.InitializeRequest,
        requests: ClientRequestHandlers,
        notifications: ClientNotificationHandlers,
        versions: Collection[int],
    ) -> None:
        self._request = request
        self.side = self._client = ClientOfBothVersions(
            acp_connection(link, name="the agent"), requests, notifications, versions
        )
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

    ``agent`` is a command (no shell; ``env`` is its whole environment, None for this process's
    own), a link, or the URL of one that listens: ``ws://``, ``wss://``, ``http://`` or ``https://``,
    which is shown ``token`` as ``Authorization: Bearer``. ``requests`` and ``notifications`` have
    the handlers of methods, see `ClientSide`; one without a handler is answered -32601 and not
    advertised. Permissions are rejected unless there is a handler for them. ``capabilities`` says
    what cannot be seen from the handlers: which elicitations can be shown.

    The highest version of ACP that the agent has is spoken, or ``protocol_version`` alone; the
    methods, handlers and models are those of version 1 either way. An agent of version 2 has no
    modes, and its updates of kinds that version 1 lacks are left out. Version 2 has no files or
    terminals of the client: whoever has handlers for these speaks version 1.

    Raises MisuseError for a method that ACP does not have, LaunchError if the command cannot be
    started; entering it raises what ``initialize`` does.
    """
    given = requests or {}
    check_known("request", given, _ASKED)
    heard = notifications or {}
    check_known("notification", heard, _HEARD)
    table: dict[str, object] = {
        **dict.fromkeys(_ASKED),
        "session/request_permission": _reject,
        **given,
    }
    told: dict[str, object] = {**dict.fromkeys(_HEARD), **heard}
    request = types.InitializeRequest(
        protocol_version=PROTOCOL_VERSION,
        client_info=types.Implementation(name=name, version=version),
        client_capabilities=_advertised(capabilities or types.ClientCapabilities(), given),
    )
    versions: tuple[int, ...]
    if protocol_version is not None:
        versions = (protocol_version,)
    else:  # those that lose nothing of what the client offers
        offered = [method for method, handler in given.items() if handler is not None]
        lends = any(method.startswith(("fs/", "terminal/")) for method in offered)
        versions = (1,) if lends else (1, 2)
    return ConnectedAgent(
        _link(agent, env, cwd, token),
        request,
        cast("ClientRequestHandlers", table),
        cast("ClientNotificationHandlers", told),
        versions,
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
    if not isinstance(agent, list | tuple | str):
        return cast("Link", agent)
    if isinstance(agent, str) or not agent:
        msg = f"an agent's command is a list of words, not {agent!r}; nor is it the URL of one"
        raise MisuseError(msg)
    try:
        return spawn(agent, env=env, cwd=cwd)
    except OSError as error:
        raise LaunchError(f"the agent {agent[0]!r} cannot be started: {error}") from error


def _advertised(
    given: types.ClientCapabilities, rows: SomeClientRequestHandlers
) -> types.ClientCapabilities:
    """Return the given capabilities, with those added that the handlers imply."""
    offered = {method for method, handler in rows.items() if handler is not None}
    found = given.model_copy()
    found.fs = types.FileSystemCapabilities(
        read_text_file="fs/read_text_file" in offered,
        write_text_file="fs/write_text_file" in offered,
    )
    found.terminal = offered >= _TERMINAL
    return found


async def _reject(request: types.RequestPermissionRequest) -> types.RequestPermissionResponse:
    return types.RequestPermissionResponse(outcome=outcome_of(request.options, "reject_once"))
