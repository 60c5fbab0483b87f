"""The client of one app-server, for programs: its connection, with policies, tools and threads.

Importing it loads next to nothing, and making a client no event loop: `CodexClient.start` spawns
the process first, which boots while the rest is imported.
"""

from __future__ import annotations

from codex_acp.codex.connection.launch import LaunchOptions, spawn_app_server
from codex_acp.codex.request_api import RequestApi
from codex_acp.errors import InvalidPayload

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final, Self, Unpack

    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.connection.app_server_connection import ConnectionSettings
    from codex_acp.codex.connection.remote import Token
    from codex_acp.codex.threads.threads import Threads
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.transport.link import Link

    class ClientSettings(ConnectionSettings, total=False):
        """What every way to make a client takes; see `CodexClient`."""

        policy: Policy | None
        tools: Iterable[Tool | Callable[..., object]]


__all__ = ["CodexClient"]

BEGIN_A_THREAD: Final = frozenset({"thread/start", "thread/resume", "thread/fork"})
"""Methods whose result tells the settings of a thread: whether Codex will ask at all."""


class CodexClient(RequestApi):
    """A connection to one app-server. Every method of the protocol is a typed coroutine of it.

    ``async with CodexClient.start() as codex:`` launches an app-server, `connect_to` joins a
    running one, and the constructor takes any `Link`. `threads` has the threads as objects that
    run turns. Belongs to one event loop.

    ``policy`` decides approvals, see `use_policy`. ``tools`` are functions offered to the model
    in every thread, see `tool`. ``settings``, and what calls raise: see `AppServerConnection`.
    """

    def __init__(
        self,
        link: Link,
        *,
        policy: Policy | None = None,
        tools: Iterable[Tool | Callable[..., object]] = (),
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        super().__init__(link, **settings)
        self._threads: Threads | None = None
        if policy is not None:
            self.use_policy(policy)
        if tools := tuple(tools):
            self.add_tools(tools)

    @classmethod
    def start(
        cls, options: LaunchOptions | None = None, **settings: Unpack[ClientSettings]
    ) -> Self:
        """Start ``codex app-server`` and make its client. Raises as `spawn_app_server`.

        ``settings`` are the constructor's. The process runs from now on, so a program that calls
        this before it imports much (asyncio, say) has its Codex earlier; `aclose` ends it, also if
        the client was never entered.
        """
        process = spawn_app_server(options)
        try:
            return cls(process, **settings)
        except BaseException:
            process.kill_tree()
            raise

    @classmethod
    def connect_to(
        cls, url: str, *, token: Token | None = None, **settings: Unpack[ClientSettings]
    ) -> Self:
        """A client of an app-server that runs already: ``codex app-server --listen URL``.

        ``url`` is ``ws://HOST:PORT``, ``wss://...`` or ``unix://PATH``, as the server was given
        it. ``token`` is what the server's ``--ws-auth`` asks for, a text or a function that gives
        one at each connection: the capability token, or a signed one from `signed_bearer_token`.
        Needs the extra ``codex-acp-sdk[remote]``. Connects when the client is entered, and raises
        ConnectionClosed then if nobody listens or the token is refused; the server lives on when
        the client is closed.

        Raises MisuseError for another URL, for a token that would travel unencrypted to another
        machine, or if the extra is missing.
        """
        from codex_acp.codex.connection.remote import remote_link

        return cls(remote_link(url, token), **settings)

    @property
    def threads(self) -> Threads:
        """The threads of the app-server: start, resume, fork, list."""
        if self._threads is None:
            from codex_acp.codex.threads.threads import Threads

            self._threads = Threads(self)
        return self._threads

    async def _request(
        self, method: str, params: EncodedJson | None, *, written: bool = False
    ) -> JsonValue:
        value = await super()._request(method, params, written=written)
        if self._policy is not None and method in BEGIN_A_THREAD:
            try:
                begun = self.decode_result(method, value)
            except InvalidPayload:
                return value  # this is only to warn; whoever called finds out by itself
            self._policy.thread_started(begun)
        return value
