"""The client of one app-server, for programs: its connection, with policies, tools and threads.

Importing this module loads next to nothing, and making a client needs no event loop:
`CodexClient.start` spawns the process, which boots while the program imports the rest.
"""

from __future__ import annotations

from codex_acp.codex.connection.launch import LaunchOptions, spawn_app_server
from codex_acp.codex.request_api import RequestApi
from codex_acp.errors import UnknownOption, refuse_unless, several

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final, Self, TypedDict, Unpack

    from codex_acp.codex._generated.methods import ServerNotificationMethod
    from codex_acp.codex._generated.models import ClientInfo, InitializeCapabilities
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.codex.threads.threads import Threads
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.transport.connection import Direction
    from codex_acp.transport.link import Link
    from codex_acp.transport.remote_address import Token

    class ClientSettings(TypedDict, total=False):
        """Settings of every way to make a `CodexClient`."""

        policy: Policy | None
        tools: Iterable[Tool | Callable[..., object]]
        client_info: ClientInfo | dict[str, JsonValue] | None
        opt_out_notifications: Iterable[ServerNotificationMethod]
        capabilities: InitializeCapabilities | dict[str, JsonValue] | None
        on_refused: Callable[[RefusedRequest], None] | None
        on_line: Callable[[Direction, bytes], None] | None


VAR_KEYWORDS: Final = 0x08
"""The flag of a function that takes any keyword: ``inspect.CO_VARKEYWORDS``."""


class CodexClient(RequestApi):
    """A connection to one app-server. Every method of the protocol is a typed coroutine of it.

    ``async with CodexClient.start() as codex:`` launches an app-server, `connect_to` joins a
    running one, and the constructor takes any `Link`. `threads` has the threads as objects that
    run turns. Belongs to one event loop.

    ``policy`` decides approvals (`use_policy`). ``tools`` are functions offered to the model in
    every thread (`tool`). `AppServerConnection` describes the other settings and what calls raise.
    """

    def __init__(
        self,
        link: Link,
        *,
        policy: Policy | None = None,
        tools: Iterable[Tool | Callable[..., object]] = (),
        client_info: ClientInfo | dict[str, JsonValue] | None = None,
        opt_out_notifications: Iterable[ServerNotificationMethod] = (),
        capabilities: InitializeCapabilities | dict[str, JsonValue] | None = None,
        on_refused: Callable[[RefusedRequest], None] | None = None,
        on_line: Callable[[Direction, bytes], None] | None = None,
    ) -> None:
        refuse_unless(hasattr(link, "start"), "CodexClient.start makes a client", link)
        super().__init__(
            link,
            client_info=client_info,
            opt_out_notifications=opt_out_notifications,
            capabilities=capabilities,
            on_refused=on_refused,
            on_line=on_line,
        )
        self._threads: Threads | None = None
        if policy is not None:
            self.use_policy(policy)
        if tools := several("tools", tools):
            self.add_tools(tools)

    def __repr__(self) -> str:
        return f"CodexClient({self.link!r})"

    @classmethod
    def start(
        cls, options: LaunchOptions | None = None, **settings: Unpack[ClientSettings]
    ) -> Self:
        """Start ``codex app-server`` and make its client. Raises as `spawn_app_server` does.

        ``settings`` are the constructor's. The process runs from now on: a program that calls this
        before its large imports (asyncio, say) has its Codex earlier. `aclose` ends the process,
        even if the client was never entered.
        """
        _refuse_unknown(cls, settings)
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
        """Return a client of an app-server that runs already: ``codex app-server --listen URL``.

        ``url`` is ``ws://HOST:PORT``, ``wss://...`` or ``unix://PATH``, the server's ``--listen``.
        ``token`` is the token for the server's ``--ws-auth`` (its capability token, or one from
        `signed_bearer_token`), or a function that returns it for each connection. Needs the extra
        ``codex-acp-sdk[remote]``. The client connects when it is entered, and then raises
        ConnectionClosed if nobody listens or the token is refused; the server keeps running when
        the client is closed.

        Raises MisuseError for another URL, for a token that would travel unencrypted to another
        machine, or if the extra is missing.
        """
        from codex_acp.codex.connection.launch import remote_link

        _refuse_unknown(cls, settings)
        return cls(remote_link(url, token), **settings)

    @property
    def threads(self) -> Threads:
        """Return the threads of the app-server: start, resume, fork, list."""
        if self._threads is None:
            from codex_acp.codex.threads.threads import Threads

            self._threads = Threads(self)
        return self._threads


def _refuse_unknown(client: type[CodexClient], settings: ClientSettings) -> None:
    """Raise UnknownOption for a setting that does not exist, before a process is started."""
    make = client.__init__
    known = make.__kwdefaults__ or {}
    takes_any = make.__code__.co_flags & VAR_KEYWORDS
    if not takes_any and not settings.keys() <= known.keys():
        from codex_acp.codex.threads.options import refuse_unknown

        for name in settings:
            if name in LaunchOptions.__slots__:
                how = f"pass LaunchOptions({name}=...) to CodexClient.start"
                raise UnknownOption(f"there is no option {name!r} here; {how}")
        refuse_unknown(settings, known)
