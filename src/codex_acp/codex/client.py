"""The client of one app-server: handshake, typed calls, notifications by thread, its requests.

Owns the connection and its end. Must not know what calls and notifications mean. Importing it
loads next to nothing, and making a client no event loop: `CodexClient.start` spawns the process
first, which boots while the rest is imported.
Source: the app-server's README, "Initialization"; ``schema/codex/experimental.json``.
"""

from __future__ import annotations

from codex_acp.codex._generated.calls import CodexCalls
from codex_acp.codex.connection.launch import LaunchOptions, spawn_app_server
from codex_acp.codex.connection.notification_api import NotificationApi
from codex_acp.codex.request_api import RequestApi
from codex_acp.errors import ErrorReply, InvalidPayload, MisuseError, TransportError

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, Final, Self, TypedDict, Unpack

    from codex_acp.codex._generated.methods import ServerNotificationMethod
    from codex_acp.codex._generated.models import (
        ClientInfo,
        InitializeCapabilities,
        InitializeResponse,
    )
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.connection.remote import Token
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.codex.threads.threads import Threads
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue, Notification, Request
    from codex_acp.transport.connection import Direction, Responder
    from codex_acp.transport.link import Link
    from codex_acp.wire.model import WireModel

    class ClientSettings(TypedDict, total=False):
        """What every way to make a client takes; see `CodexClient`."""

        policy: Policy | None
        tools: Iterable[Tool | Callable[..., object]]
        client_info: ClientInfo | dict[str, JsonValue] | None
        opt_out_notifications: Iterable[ServerNotificationMethod]
        capabilities: InitializeCapabilities | dict[str, JsonValue] | None
        on_refused: Callable[[RefusedRequest], None] | None
        on_line: Callable[[Direction, bytes], None] | None


__all__ = ["CodexClient"]

HANDSHAKE_TIMEOUT_SECONDS: Final = 30.0
"""From the first byte to the answer of ``initialize``: usually a tenth of a second, but a cold
start reads a binary of 300 MB, perhaps from a network disk."""

NAME: Final = "codex app-server"
"""What stands for the peer in logs and errors."""

NOT_CONNECTED: Final = "the client is not connected; use it with `async with`"

BEGIN_A_THREAD: Final = frozenset({"thread/start", "thread/resume", "thread/fork"})
"""Methods whose result tells the settings of a thread: whether Codex will ask at all."""


class CodexClient(RequestApi, NotificationApi, CodexCalls):
    """A connection to one app-server. Every method of the protocol is a typed coroutine of it.

    ``async with CodexClient.start() as codex:`` launches an app-server, `connect_to` joins a
    running one, and the constructor takes any `Link`. `threads` has the threads as objects that
    run turns. Belongs to one event loop.

    ``policy`` decides approvals, see `use_policy`. ``tools`` are functions offered to the model
    in every thread, see `tool`. ``client_info`` names the program (default: this library), as a
    model or as its JSON. ``opt_out_notifications`` lists methods that the server shall not send.
    ``capabilities`` replaces the default, which is ``experimentalApi`` only. ``on_refused`` hears
    of each server request that was refused without its handler having said so. ``on_line`` sees
    each line of the wire.

    Calls raise ErrorReply (the server answered with an error; ServerOverloaded if it stays
    overloaded while the call is tried again), InvalidPayload (its result does not fit the schema),
    ProcessExited or ConnectionClosed (it will not be answered any more), MisuseError (before the
    client was entered).
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
        from codex_acp.codex.connection.handshake import Hello

        self._hello = Hello(client_info, capabilities, opt_out_notifications)
        self._hello.say_early(link)  # before the next lines load an event loop
        from codex_acp.codex.connection.notification_router import NotificationRouter
        from codex_acp.codex.connection.server_requests import ServerRequests
        from codex_acp.codex.connection.unknown_parts import UnknownParts
        from codex_acp.transport.connection import Connection
        from codex_acp.transport.reading_gate import ReadingGate

        self._connection = Connection(
            link, name=NAME, version=False, peer_resends=True, on_line=on_line
        )
        self._link = link
        self._router = NotificationRouter()
        self._on_refused = on_refused
        self._unknown = UnknownParts()
        self._requests = ServerRequests(on_refused, self._unknown)
        self._gate = ReadingGate(self._connection.pause_reading, self._connection.resume_reading)
        self._started = False
        self._shaken = False
        self._answer: JsonValue = None
        self._server: InitializeResponse | None = None
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

    async def __aenter__(self) -> Self:
        """See `connect`."""
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """See `aclose`."""
        await self.aclose()

    async def connect(self) -> None:
        """Begin to read, and shake hands: ``initialize``, then ``initialized``.

        What ``async with`` does. Loads no model. Whatever goes wrong (and cancellation) closes the
        client. Raises as every call, and TransportError if the server does not answer within
        thirty seconds.
        """
        import asyncio  # not anyio, which would be loaded before the first thread for this alone

        from codex_acp.codex.connection.handshake import note_version, user_agent_of

        if self._started:
            message = "a CodexClient can be started only once; make a new one"
            raise MisuseError(message)
        self._started = True
        try:
            self._connection.start(self)
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS) as timeout:
                self._answer = await self._request(
                    "initialize", self._hello.params, written=self._hello.said
                )
            user_agent = user_agent_of(self._answer)
            if user_agent is None:  # says what does not fit
                user_agent = self.decode_result("initialize", self._answer).user_agent
            note_version(user_agent)
            self._requests.peer_version = user_agent
            self._shaken = True
            self.initialized()
        except BaseException as error:
            await self.aclose()
            if isinstance(error, TimeoutError) and timeout.expired():
                message = (
                    f"{NAME} did not answer initialize within {HANDSHAKE_TIMEOUT_SECONDS:g} s; "
                    "is it a Codex app-server?"
                )
                raise TransportError(message) from None
            raise

    async def aclose(self) -> None:
        """Refuse what the server still asks, close the link and end the handlers; again is fine.

        Calls in flight raise ConnectionClosed. Takes at most a few seconds.
        """
        import anyio

        self._requests.refuse_pending("the client is closing")
        try:
            await self._connection.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                await self._requests.aclose()
            self._router.on_closed(None)  # the connection says nothing if it was never started

    @property
    def server(self) -> InitializeResponse:
        """What the server said of itself. Raises MisuseError before the handshake."""
        if not self._shaken:
            raise MisuseError(NOT_CONNECTED)
        if self._server is None:
            self._server = self.decode_result("initialize", self._answer)
        return self._server

    @property
    def link(self) -> Link:
        """What carries the bytes; a `ChildProcess` if the client was launched."""
        return self._link

    @property
    def closed(self) -> bool:
        """Whether nothing can be called any more."""
        return self._connection.closed

    @property
    def threads(self) -> Threads:
        """The threads of the app-server: start, resume, fork, list."""
        if self._threads is None:
            from codex_acp.codex.threads.threads import Threads

            self._threads = Threads(self)
        return self._threads

    # Calls.

    async def call_raw(self, method: str, params: JsonValue = None) -> JsonValue:
        """Call a method that this library may not know, with plain JSON data both ways.

        ``params`` None leaves them out. Raises as every call, except InvalidPayload.
        """
        from codex_acp.jsonrpc.encode import encode_json

        return await self._request(method, None if params is None else encode_json(params))

    async def drain(self) -> None:
        """Wait until the server has taken most of what was written. Raises TransportError."""
        await self._connection.drain()

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        from codex_acp.codex._generated.methods import CLIENT_REQUESTS

        info = CLIENT_REQUESTS[method]
        value = await self._request(method, _params_of(params, info.params))
        return None if info.result is None else self.decode_result(method, value)

    def decode_result(self, method: str, value: JsonValue) -> Any:
        """What `call_raw` gave as the result model of the method. Raises InvalidPayload."""
        from codex_acp.codex._generated.methods import CLIENT_REQUESTS, MODELS

        name = CLIENT_REQUESTS[method].result
        assert name is not None
        result = MODELS.decode(name, value, f"the result of {method}")
        self._unknown.look(result)
        return result

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        from codex_acp.codex._generated.methods import CLIENT_NOTIFICATIONS

        self._connection.notify(method, _params_of(params, CLIENT_NOTIFICATIONS[method].params))

    async def _request(
        self, method: str, params: EncodedJson | None, *, written: bool = False
    ) -> JsonValue:
        if not self._started and not self.closed:
            raise MisuseError(NOT_CONNECTED)
        with self._gate:
            try:
                value = await self._connection.call(method, params, written=written)
            except ErrorReply as error:
                from codex_acp.jsonrpc.message import OVERLOADED

                if error.code != OVERLOADED:
                    raise
                from codex_acp.codex.connection.overload import call_again

                value = await call_again(lambda: self._connection.call(method, params), error)
        if self._policy is not None and method in BEGIN_A_THREAD:
            try:
                begun = self.decode_result(method, value)
            except InvalidPayload:
                return value  # this is only to warn; whoever called finds out by itself
            self._policy.thread_started(begun)
        return value

    # What the connection calls.

    def on_request(self, request: Request, responder: Responder) -> None:
        """See `Handler.on_request`."""
        self._requests.on_request(request, responder)

    def on_request_again(self, request: Request) -> None:
        """See `Handler.on_request_again`."""
        self._requests.on_request_again(request)

    def on_notification(self, notification: Notification) -> None:
        """See `Handler.on_notification`."""
        self._router.on_notification(notification.method, notification.params)

    def on_batch_end(self) -> None:
        """See `Handler.on_batch_end`."""
        self._router.on_batch_end()

    def on_closed(self, error: TransportError | None) -> None:
        """See `Handler.on_closed`."""
        self._requests.on_closed()
        self._router.on_closed(error)


def _params_of(params: WireModel | Any | None, model: str | None) -> EncodedJson | None:
    from codex_acp.jsonrpc.message import EncodedJson

    if params is None:
        # The server wants the member even where the schema says that it is optional.
        return None if model is None else EncodedJson(b"{}")
    from codex_acp.wire.codec import encode  # here: the handshake needs no model

    return encode(params)
