"""The client of one app-server: handshake, typed calls, notifications by thread, its requests.

Owns the connection and its end. Must not know what calls and notifications mean.
Source: the app-server's README, "Initialization"; ``schema/codex/experimental.json``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

from codex_acp.codex._generated.calls import CodexCalls
from codex_acp.codex._generated.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, MODELS
from codex_acp.codex.flow import ReadingGate
from codex_acp.codex.handshake import initialize_params, read_answer, user_agent_of
from codex_acp.codex.launch import LaunchOptions, spawn_app_server
from codex_acp.codex.requests import ServerRequests
from codex_acp.codex.sinks import NotificationRouter
from codex_acp.errors import MisuseError, TransportError
from codex_acp.jsonrpc.encode import encode_json
from codex_acp.jsonrpc.message import EncodedJson
from codex_acp.transport.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType
    from typing import Self

    from codex_acp.codex._generated.methods import ServerNotificationMethod
    from codex_acp.codex._generated.models import (
        ClientInfo,
        InitializeCapabilities,
        InitializeResponse,
    )
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import RequestHandlers, ServerRequest
    from codex_acp.codex.notifications import NotificationDecoder
    from codex_acp.codex.policies import Policy
    from codex_acp.codex.policy_runner import PolicyRunner
    from codex_acp.codex.requests import OpenRequest, RefusedRequest
    from codex_acp.codex.sinks import NotificationSink
    from codex_acp.jsonrpc.message import JsonValue, Notification, Request
    from codex_acp.transport.connection import Direction, Responder
    from codex_acp.transport.link import Link
    from codex_acp.wire.model import WireModel

__all__ = ["CodexClient"]

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_SECONDS: Final = 30.0
"""From the first byte to the answer of ``initialize``: usually a tenth of a second, but a cold
start reads a binary of 300 MB, perhaps from a network disk."""

NAME: Final = "codex app-server"
"""What stands for the peer in logs and errors."""

BEGIN_A_THREAD: Final = frozenset({"thread/start", "thread/resume", "thread/fork"})
"""Methods whose result tells the settings of a thread: whether Codex will ask at all."""

EMPTY_PARAMS: Final = EncodedJson(b"{}")
"""What is sent for params that are optional here: the server wants the member all the same."""


class CodexClient(CodexCalls):
    """A connection to one app-server. Every method of the protocol is a typed coroutine of it.

    ``async with CodexClient.launch() as codex:``, or give any `Link`; `start` and `aclose` do the
    same without ``async with``. Belongs to one event loop.

    ``client_info`` names the program (default: this library), as a model or as its JSON.
    ``opt_out_notifications`` lists methods that the server shall not send. ``capabilities``
    replaces the default, which is ``experimentalApi`` only. ``policy`` decides approvals, see
    `use_policy`. ``on_refused`` hears of each server request that was refused without its handler
    having said so. ``on_line`` sees each line of the wire.

    Calls raise ErrorReply (the server answered with an error), InvalidPayload (its result does
    not fit the schema), ProcessExited or ConnectionClosed (it will not be answered any more),
    MisuseError (before `start`).
    """

    def __init__(
        self,
        link: Link,
        *,
        client_info: ClientInfo | dict[str, JsonValue] | None = None,
        opt_out_notifications: Iterable[ServerNotificationMethod] = (),
        capabilities: InitializeCapabilities | None = None,
        policy: Policy | None = None,
        on_refused: Callable[[RefusedRequest], None] | None = None,
        on_line: Callable[[Direction, bytes], None] | None = None,
    ) -> None:
        self._connection = Connection(
            link, name=NAME, version=False, peer_resends=True, on_line=on_line
        )
        self._link = link
        self._client_info = client_info
        self._opt_out = tuple(opt_out_notifications)
        self._capabilities = capabilities
        self._router = NotificationRouter()
        self._on_refused = on_refused
        self._requests = ServerRequests(on_refused)
        self._decoder: NotificationDecoder | None = None
        self._gate = ReadingGate(self._connection.pause_reading, self._connection.resume_reading)
        self._started = False
        self._shaken = False
        self._answer: JsonValue = None
        self._server: InitializeResponse | None = None
        self._handles_others = False
        self._policy: PolicyRunner | None = None
        if policy is not None:
            self.use_policy(policy)

    @classmethod
    def launch(
        cls,
        options: LaunchOptions | None = None,
        *,
        client_info: ClientInfo | dict[str, JsonValue] | None = None,
        opt_out_notifications: Iterable[ServerNotificationMethod] = (),
        capabilities: InitializeCapabilities | None = None,
        policy: Policy | None = None,
        on_refused: Callable[[RefusedRequest], None] | None = None,
        on_line: Callable[[Direction, bytes], None] | None = None,
    ) -> Self:
        """Start ``codex app-server`` and make its client. Raises as `spawn_app_server`.

        The process runs from now on; `aclose` ends it, also if `start` was never called.
        """
        return cls(
            spawn_app_server(options),
            client_info=client_info,
            opt_out_notifications=opt_out_notifications,
            capabilities=capabilities,
            policy=policy,
            on_refused=on_refused,
            on_line=on_line,
        )

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

    async def start(self) -> InitializeResponse:
        """Begin to read, and shake hands: ``initialize``, then ``initialized``.

        Whatever goes wrong (and cancellation) closes the client. Raises as every call, and
        TransportError if the server does not answer within thirty seconds.
        """
        await self.connect()
        return self.server

    async def connect(self) -> None:
        """As `start`, but loads no model: `server` reads the answer when it is first asked."""
        if self._started:
            message = "a CodexClient can be started only once; make a new one"
            raise MisuseError(message)
        self._started = True
        params = initialize_params(self._client_info, self._capabilities, self._opt_out)
        try:
            self._connection.start(self)
            with anyio.move_on_after(HANDSHAKE_TIMEOUT_SECONDS) as timeout:
                self._answer = await self.call_raw("initialize", params)
            if timeout.cancelled_caught:
                message = (
                    f"{NAME} did not answer initialize within {HANDSHAKE_TIMEOUT_SECONDS:g} s; "
                    "is it a Codex app-server?"
                )
                raise TransportError(message)
            self._requests.peer_version = user_agent_of(self._answer)
            self._shaken = True
            self.initialized()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Refuse what the server still asks, close the link and end the handlers; again is fine.

        Calls in flight raise ConnectionClosed. Takes at most a few seconds.
        """
        self._requests.refuse_pending("the client is closing")
        try:
            await self._connection.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                await self._requests.aclose()
            self._router.on_closed(None)  # the connection says nothing if it was never started

    @property
    def server(self) -> InitializeResponse:
        """What the server said of itself. Raises MisuseError before `start` has returned."""
        if not self._shaken:
            message = "the client was not started; call start() first"
            raise MisuseError(message)
        if self._server is None:
            self._server = read_answer(self._answer)
        return self._server

    @property
    def link(self) -> Link:
        """What carries the bytes; a `ChildProcess` if the client was launched."""
        return self._link

    @property
    def closed(self) -> bool:
        """Whether nothing can be called any more."""
        return self._connection.closed

    # Notifications.

    def subscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Give ``sink`` the notifications of a thread.

        For None, of all that no thread's sink gets: those without a thread, and those of a thread
        that nobody subscribed to, such as a sub-agent's. Several sinks may share a thread. If the
        connection has ended, the sink hears `on_closed` at once.
        """
        self._router.subscribe(thread_id, sink)

    def unsubscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Undo `subscribe`: the sink hears nothing more, not even the end."""
        self._router.unsubscribe(thread_id, sink)

    def subscribe_all(self, sink: NotificationSink) -> None:
        """Give ``sink`` every notification, besides whoever else gets it."""
        self._router.subscribe_all(sink)

    def unsubscribe_all(self, sink: NotificationSink) -> None:
        """Undo `subscribe_all`."""
        self._router.unsubscribe_all(sink)

    def decode_notification(self, method: str, params: JsonValue) -> ServerNotification:
        """The typed event; what cannot be read is counted and logged once for each kind."""
        if self._decoder is None:
            from codex_acp.codex.notifications import NotificationDecoder

            self._decoder = NotificationDecoder()
        return self._decoder.decode(method, params)

    @property
    def unreadable_notifications(self) -> dict[str, int]:
        """How often each kind of notification came that could not be read."""
        return {} if self._decoder is None else dict(self._decoder.unreadable)

    def pause_reading(self, holder: object) -> None:
        """Read no more until ``holder`` calls `resume_reading`, except while a call is in flight.

        The server's requests wait, too: hold it only for a sink that is really full.
        """
        self._gate.hold(holder)

    def resume_reading(self, holder: object) -> None:
        """Undo `pause_reading`; without it, this does nothing."""
        self._gate.release(holder)

    # Requests of the server.

    def handle(self, handlers: RequestHandlers) -> None:
        """Register async handlers by method: ``handle({"currentTime/read": read_clock})``.

        Each runs in a task of its own, after all that came in the same read was delivered to the
        sinks. It returns the method's result model; raises RpcError to answer with that error;
        whatever else it raises becomes the method's refusal, or ``-32000`` where there is none.
        Without a handler a request is refused at once. Raises MisuseError for an unknown method.
        """
        self._requests.handle(handlers)

    def handle_others(
        self, handler: Callable[[ServerRequest], Awaitable[WireModel]] | None
    ) -> None:
        """Register what handles every method without a handler of its own; None for nothing.

        Raises MisuseError if a policy does that: see `use_policy`.
        """
        if self._policy is not None:
            message = "a policy handles the other methods; register handlers by method"
            raise MisuseError(message)
        self._handles_others = handler is not None
        self._requests.handle_others(handler)

    def use_policy(self, policy: Policy) -> None:
        """Let ``policy`` decide approvals; a later one replaces it. See `codex_acp.codex.policies`.

        Use it before the first turn: what it has not seen start it declines. It takes every method
        without a handler of its own, and answers those that are no approvals with their negative
        reply. When a thread starts under settings in which Codex never asks, one warning says so.

        Raises MisuseError if `handle_others` is in use.
        """
        if self._policy is not None:
            self._policy.policy = policy
            return
        if self._handles_others:
            message = "handle_others is in use; a policy would take its place"
            raise MisuseError(message)
        from codex_acp.codex.policy_runner import PolicyRunner

        self._policy = PolicyRunner(self, policy, self._on_refused)
        self.subscribe_all(self._policy)
        self._requests.handle_others(self._policy.handle)

    @property
    def open_requests(self) -> tuple[OpenRequest, ...]:
        """The server's requests that are not answered yet, oldest first."""
        return self._requests.open_requests

    # Calls.

    async def call_raw(self, method: str, params: JsonValue = None) -> JsonValue:
        """Call a method that this library may not know, with plain JSON data both ways.

        ``params`` None leaves them out. Raises as every call, except InvalidPayload.
        """
        return await self._request(method, None if params is None else encode_json(params))

    async def drain(self) -> None:
        """Wait until the server has taken most of what was written. Raises TransportError."""
        await self._connection.drain()

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        info = CLIENT_REQUESTS[method]
        value = await self._request(method, _params_of(params, info.params))
        if info.result is None:
            return None
        result = MODELS.decode(info.result, value, f"the result of {method}")
        if self._policy is not None and method in BEGIN_A_THREAD:
            self._policy.thread_started(result)
        return result

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        self._connection.notify(method, _params_of(params, CLIENT_NOTIFICATIONS[method].params))

    async def _request(self, method: str, params: EncodedJson | None) -> JsonValue:
        self._gate.call_begins()
        try:
            return await self._connection.call(method, params)
        finally:
            self._gate.call_ended()

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
    if params is None:
        return None if model is None else EMPTY_PARAMS
    from codex_acp.wire.codec import encode  # here: the handshake needs no model

    return encode(params)
