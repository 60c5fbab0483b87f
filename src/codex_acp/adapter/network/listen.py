"""Listen for clients of the network: options, address, TLS, and the end of the server."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio

from codex_acp._urls import bare_url
from codex_acp.adapter.network.access_control import AccessControl
from codex_acp.adapter.network.connection import Hub
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.registry import Owners
from codex_acp.adapter.serve import VERSIONS, prepare_loop, start_garbage_collection
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.adapter.tasks import SideTasks
from codex_acp.errors import LaunchError, MisuseError, TransportError
from codex_acp.transport.process_tree import adopt_orphans
from codex_acp.transport.remote_address import is_loopback
from codex_acp.transport.shielding import run_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from codex_acp.adapter.network.access_control import Tokens
    from codex_acp.adapter.session_defaults import SessionDefaults
    from codex_acp.codex.connection.launch import LaunchOptions
    from codex_acp.transcript.log import Transcript
    from codex_acp.transport.child import ChildProcess

BACKLOG: Final = 128
"""Connections that the kernel queues until the server accepts them."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read ``http://HOST:PORT/PATH``, also with https, ws or wss. Raises MisuseError."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("ws", "wss", "http", "https") or not parts.hostname or port is None:
            # The message has no text of a wrong URL, in which a secret could stand anywhere.
            raise MisuseError("this is no address to listen at, like http://127.0.0.1:8765/acp")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise MisuseError(f"{bare_url(url)!r} has more than a host, a port and a path")
        return cls(parts.scheme, parts.hostname, port, parts.path or "/acp")

    @property
    def has_tls(self) -> bool:
        return self.scheme in ("wss", "https")

    @property
    def is_http(self) -> bool:
        """Whether streamable HTTP is served, too, and not websockets alone."""
        return self.scheme in ("http", "https")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)

    def url_at(self, port: int) -> str:
        """Return the URL with ``port``, which the system has chosen if the address has port 0."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{port}{self.path}"


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Options of a server."""

    address: Address
    tokens: Tokens
    limits: Limits = field(default_factory=Limits)
    origins: tuple[str, ...] = ()
    """Values of ``Origin`` that are accepted: the sites whose web pages may connect."""
    hosts: tuple[str, ...] = ()
    """Values of ``Host`` that are accepted, besides IP addresses and localhost."""
    certificate: str | None = None
    key: str | None = None
    shared: bool = True
    """Whether all connections share one Codex, or each has its own."""
    owners: str | None = None
    """The file with the owners of sessions."""
    versions: Collection[int] = VERSIONS
    """The versions of ACP that are offered."""
    defaults: SessionDefaults | None = None
    any_interface: bool = False
    """Whether other machines may reach the address."""

    def check(self) -> ssl.SSLContext | None:
        """Check the options; return the TLS context, None without TLS. Raises MisuseError for an
        unsafe combination, or if a package is missing."""
        address = self.address
        extra = "http" if address.is_http else "remote"
        for package in ("websockets", "hypercorn") if address.is_http else ("websockets",):
            if find_spec(package) is None:
                msg = f"{package} is not installed: pip install 'codex-acp-sdk[{extra}]'"
                raise MisuseError(msg)
        if not address.is_loopback:
            if not self.any_interface:
                raise MisuseError(
                    f"{address.host} can be reached from other machines; say so with --expose, or "
                    "listen at 127.0.0.1 and put a proxy or a tunnel in front"
                )
            if not self.tokens.needed:
                raise MisuseError("--no-token is for loopback addresses only")
        if (self.certificate is not None) != address.has_tls:
            msg = "use --tls-cert and --tls-key with wss:// or https://, and only with them"
            raise MisuseError(msg)
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            msg = f"the certificate {self.certificate!r} and its key cannot be used: {error}"
            raise MisuseError(msg) from error
        if address.is_http:
            context.set_alpn_protocols(["h2", "http/1.1"])
        return context


def run_network(
    options: NetworkOptions,
    launch: LaunchOptions,
    spawned: ChildProcess | LaunchError | None,
    transcript: Transcript,
    say: Callable[[str], None],
) -> int:
    """Serve until a signal comes; return the exit code. ``say`` is called with the server's URL.

    ``spawned`` is a Codex that was started already, or the error of its start. Raises MisuseError
    for options that do not go together, TransportError if it cannot listen."""
    tls = options.check()

    async def main() -> int:
        loop = asyncio.get_running_loop()
        end_signal = prepare_loop()
        unused = [spawned]  # the first app-server takes it
        launch_lock = asyncio.Lock()  # one app-server starts after the other

        def new_app_server() -> AppServer:
            child = unused.pop() if unused else None
            server = AppServer(launch, child, lock=launch_lock, defaults=options.defaults)
            # Codex runs no command yet whose processes could become orphans.
            server.before_use = lambda: adopt_orphans(loop)
            return server

        await listen(options, new_app_server, transcript, say, tls, end_signal)
        return 0

    return run_loop(main())


async def listen(
    options: NetworkOptions,
    new_app_server: Callable[[], AppServer],
    transcript: Transcript,
    say: Callable[[str], None],
    tls: ssl.SSLContext | None = None,
    ending: asyncio.Event | None = None,
) -> None:
    """Serve until ``ending`` is set and running prompts are answered; then end all connections."""
    from codex_acp.adapter.network import websockets

    websockets.check_counting()
    if options.address.is_http:
        from codex_acp.adapter.network import http_server

        http_server.check_counting()
    owners = Owners(options.tokens, options.owners)
    listener = _listening_socket(options.address)
    try:
        tasks = SideTasks()
        hub = Hub(  # has all connections, their Codex and their sessions
            new_app_server,
            spawn=tasks.start,
            tokens=options.tokens,
            owners=owners,
            limits=options.limits,
            transcript=transcript,
            shared=options.shared,
            versions=options.versions,
            when_loaded=start_garbage_collection,  # when an agent has loaded its models
        )
        access = AccessControl(
            options.address.path,
            options.tokens,
            options.limits,
            origins=options.origins,
            hosts=options.hosts,
        )
        try:
            with_http = options.address.is_http
            async with websockets.network_server(hub, access, listener, tls, http=with_http):
                port = listener.getsockname()[1]
                say(options.address.url_at(port))
                if options.shared:
                    hub.agent()  # starts Codex before the first client comes
                await (ending or asyncio.Event()).wait()
                await hub.end_connections()
        finally:
            with anyio.CancelScope(shield=True):
                await hub.aclose()
                await tasks.aclose()
    finally:
        listener.close()


def _listening_socket(address: Address) -> socket.socket:
    """Return a socket that listens at the address. Raises TransportError."""
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        message = f"cannot listen at {address.url_at(address.port)}: {error.strerror or error}"
        raise TransportError(message) from error
    return sock
