"""The connection to one app-server: handshake, typed calls, notifications by thread, its requests.

Owns the connection and its end. Must not know what calls and notifications mean. Importing this
module loads next to nothing, and making a connection loads no event loop.
Source: the app-server's README, "Initialization"; ``schema/codex/experimental.json``.
"""

from __future__ import annotations

from codex_acp._json import list_at, text_at, value_at
from codex_acp.codex._generated.calls import CodexCalls
from codex_acp.errors import ErrorReply, MisuseError, TransportError, refuse_unless

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any, Final, Self

    from codex_acp.codex._generated.methods import ServerNotificationMethod
    from codex_acp.codex._generated.models import (
        ClientInfo,
        InitializeCapabilities,
        InitializeResponse,
    )
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.connection.answer_bound import AnswerBound, AnswerTimes
    from codex_acp.codex.connection.handshake import Hello
    from codex_acp.codex.connection.notification_decoding import NotificationDecoder
    from codex_acp.codex.connection.notification_router import NotificationSink
    from codex_acp.codex.connection.server_requests import OpenRequest, RefusedRequest
    from codex_acp.errors import CodexAcpError
    from codex_acp.jsonrpc import EncodedJson, JsonValue, Notification, Request
    from codex_acp.transport.connection import Direction, Responder
    from codex_acp.transport.link import Link
    from codex_acp.wire.model import WireModel

MAKE_A_THREAD: Final = ("thread/start", "thread/fork")
"""Methods that make a new thread: only the reply names its id."""

HANDSHAKE_TIMEOUT_SECONDS: Final = 30.0
"""Seconds for the answer to ``initialize``: usually a tenth of a second is enough, but a cold start
reads a binary of 300 MB, perhaps from a network disk."""

NAME: Final = "codex app-server"
"""Name of the peer in logs and errors."""

OPEN_A_THREAD: Final = frozenset({"thread/start", "thread/resume", "thread/fork"})
"""Methods whose result has the thread and its settings."""

SETTINGS_UPDATED: Final = "thread/settings/updated"

MAX_OPENED: Final = 10_000
"""Number of threads in `AppServerConnection.opened_threads`."""

NOT_CONNECTED: Final = "the client is not connected; use it with `async with`"


class AppServerConnection(CodexCalls):
    """A connection to one app-server. Every method of the protocol is a typed coroutine of it.

    ``client_info`` names the program (default: this library), as a model or as its JSON.
    ``opt_out_notifications`` lists methods that the server shall not send. ``capabilities``
    replaces the default, which is ``experimentalApi`` only. ``on_refused`` is called with each
    server request that was refused although no handler refused it. ``on_line`` gets each line of
    the wire. ``hello`` is a handshake whose request may be on the link already. ``answer_times``
    bounds the wait for replies of awaited calls (NotAnswered); None sets no bound. Belongs to one
    event loop.

    Calls raise ErrorReply (the server answered with an error; ServerOverloaded if it stays
    overloaded while the call is repeated), InvalidPayload (the result does not fit the schema),
    ProcessExited or ConnectionClosed (no reply can arrive any more), MisuseError (before
    `connect`).
    """

    def __init__(
        self,
        link: Link,
        *,
        client_info: ClientInfo | dict[str, JsonValue] | None = None,
        opt_out_notifications: Iterable[ServerNotificationMethod] = (),
        capabilities: InitializeCapabilities | dict[str, JsonValue] | None = None,
        on_refused: Callable[[RefusedRequest], None] | None = None,
        on_line: Callable[[Direction, bytes], None] | None = None,
        hello: Hello | None = None,
        answer_times: AnswerTimes | None = None,
    ) -> None:
        from codex_acp.codex.connection.handshake import Hello

        for name, callback in (("on_refused", on_refused), ("on_line", on_line)):
            refuse_unless(callback is None or callable(callback), f"{name} is a function", callback)
        self._hello = hello or Hello(client_info, capabilities, opt_out_notifications)
        if not self._hello.is_sent:
            self._hello.send_early(link)  # before the next lines load an event loop
        from codex_acp._last_ones import LastOnes
        from codex_acp.codex.connection.notification_router import NotificationRouter
        from codex_acp.codex.connection.server_requests import ServerRequests, UnknownParts
        from codex_acp.transport.connection import Connection
        from codex_acp.transport.outbox import ReadingGate

        self._connection = Connection(
            link, name=NAME, version=False, peer_resends=True, on_line=on_line
        )
        self._link = link
        self._router = NotificationRouter()
        self._on_refused = on_refused
        self._unknown = UnknownParts()
        self._requests = ServerRequests(on_refused, self._unknown)
        self._answer_bound: AnswerBound | None = None
        if answer_times is not None:
            from codex_acp.codex.connection.answer_bound import AnswerBound

            self._answer_bound = AnswerBound(self._connection, answer_times)
        self._decoder: NotificationDecoder | None = None
        self._gate = ReadingGate(self._connection.pause_reading, self._connection.resume_reading)
        self.opened_threads: LastOnes[str, tuple[str, ...]] = LastOnes(MAX_OPENED)
        """Thread that this side opened → the ids of its environments, as Codex last listed them. No
        such thread is a sub-agent, even if a model names it as one."""
        self.believes_worktrees: bool = False
        """Whether this Codex trusts false worktrees (`handshake.believes_worktrees`)."""
        self.unloads_at_once: bool = False
        """Whether this Codex unloads an unused thread at once (`handshake.unloads_at_once`)."""
        self._started = False
        self._answer: JsonValue = None
        """The answer to ``initialize``; None before the end of the handshake."""
        self._server: InitializeResponse | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Begin to read, and make the handshake: ``initialize``, then ``initialized``.

        ``async with`` calls this. Loads no model. An error or a cancellation closes the client.
        Raises the errors of calls, TransportError if the server does not answer within thirty
        seconds, MisuseError if no asyncio loop runs.
        """
        import asyncio  # not anyio: only this call would need it before the first thread

        from codex_acp.codex.connection import handshake

        if self._started or self.closed:
            raise MisuseError("a CodexClient can be started only once; make a new one")
        self._connection.loop()
        self._started = True
        try:
            self._connection.start(self)
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS) as timeout:
                answer = await self._request(
                    "initialize", self._hello.params, written=self._hello.is_sent
                )
            user_agent = text_at(answer, "userAgent")  # without a model
            if user_agent is None:  # decoding raises the error that names the field
                user_agent = self.decode_result("initialize", answer).user_agent
            handshake.note_version(user_agent)
            self.believes_worktrees = handshake.believes_worktrees(user_agent)
            self.unloads_at_once = handshake.unloads_at_once(user_agent)
            self._requests.peer_version = user_agent
            self._answer = answer
            self.initialized()
        except BaseException as error:
            await self.aclose()
            if isinstance(error, TimeoutError) and timeout.expired():
                raise TransportError(
                    f"{NAME} did not answer initialize within {HANDSHAKE_TIMEOUT_SECONDS:g} s; "
                    "is it a Codex app-server?"
                ) from None
            raise

    async def aclose(self) -> None:
        """Refuse the open server requests, close the link and end the handlers.

        Calls in flight raise ConnectionClosed. Takes at most a few seconds; no effect if repeated.
        """
        import anyio

        self._requests.refuse_pending("the client is closing")
        try:
            await self._connection.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                await self._requests.aclose()
            self._router.on_closed(None)  # a connection that was never started does not call it

    @property
    def server(self) -> InitializeResponse:
        """Return the server's answer to ``initialize``. Raises MisuseError before the handshake."""
        if self._answer is None:
            raise MisuseError(NOT_CONNECTED)
        if self._server is None:
            self._server = self.decode_result("initialize", self._answer)
        return self._server

    @property
    def link(self) -> Link:
        """The link that carries the bytes: a `ChildProcess` if the client was launched."""
        return self._link

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._connection.closed

    # Calls.

    async def call_raw(self, method: str, params: JsonValue = None) -> JsonValue:
        """Call a method that this library may not know, with plain JSON data both ways.

        ``params`` None sends no params. Raises the errors of calls, except InvalidPayload.
        """
        return await self._request(method, _params_of(params, None))

    def post(
        self,
        method: str,
        params: WireModel | JsonValue,
        on_reply: Callable[[JsonValue | CodexAcpError], None],
    ) -> Callable[[], None]:
        """Send a call at once; return a function that gives the call up.

        ``on_reply`` is called once, with the result as plain JSON or the error, in order with the
        server's notifications (`call_raw` returns a moment later), but never after the call was
        given up. Raises TransportError if the connection is closed, MisuseError before `connect`.
        """
        if not self._started and not self.closed:
            raise MisuseError(NOT_CONNECTED)
        from codex_acp.codex.connection.calls import post

        return post(self._connection, self._gate, method, _params_of(params, None), on_reply)

    async def drain(self) -> None:
        """Wait until the server has taken most of what was written. Raises TransportError."""
        await self._connection.drain()

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        from codex_acp.codex._generated.methods import CLIENT_REQUESTS

        info = CLIENT_REQUESTS[method]
        value = await self._request(method, _params_of(params, info.params))
        return None if info.result is None else self.decode_result(method, value)

    def decode_result(self, method: str, value: JsonValue) -> Any:
        """Decode a result of `call_raw` with the method's model. Raises InvalidPayload."""
        from codex_acp.codex._generated.methods import CLIENT_REQUESTS, MODELS

        name = CLIENT_REQUESTS[method].result
        assert name is not None
        result = MODELS.decode(name, value, f"the result of {method}")
        self._unknown.examine(result)
        return result

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        from codex_acp.codex._generated.methods import CLIENT_NOTIFICATIONS

        self._connection.notify(method, _params_of(params, CLIENT_NOTIFICATIONS[method].params))

    async def _request(
        self, method: str, params: EncodedJson | None, *, written: bool = False
    ) -> JsonValue:
        """Send a call and return its result. ``written``: the request is on the link already."""
        if not self._started and not self.closed:
            raise MisuseError(NOT_CONNECTED)
        # ``late`` is called with a result that arrives after the caller gave the call up.
        late = self._unsubscribe_from if method in MAKE_A_THREAD else None
        with self._gate:
            call = self._connection.call(method, params, written=written, late=late)
            try:
                bound = self._answer_bound
                result = await (call if bound is None else bound.wait(method, call))
            except ErrorReply as error:
                from codex_acp.jsonrpc import OVERLOADED

                if error.code != OVERLOADED:
                    raise
                from codex_acp.codex.connection.calls import call_again

                result = await call_again(
                    lambda: self._connection.call(method, params, late=late), error
                )
        thread_id = text_at(result, "thread", "id")
        if method in OPEN_A_THREAD and thread_id is not None:
            self.opened_threads[thread_id] = _environments_in(value_at(result, "thread"))
        return result

    def _unsubscribe_from(self, result: JsonValue) -> None:
        """Unsubscribe from a thread whose caller gave the call up: Codex would keep it loaded."""
        import asyncio

        params: JsonValue = {"threadId": text_at(result, "thread", "id")}
        call = self._request("thread/unsubscribe", _params_of(params, None))
        # Asking a failed task for its exception keeps asyncio from logging it.
        asyncio.ensure_future(call).add_done_callback(lambda t: t.cancelled() or t.exception())

    # Notifications.

    def subscribe(
        self, thread_id: str | None, sink: NotificationSink, methods: frozenset[str] | None = None
    ) -> None:
        """Give ``sink`` the notifications of a thread, or only those of ``methods``.

        ``thread_id`` None stands for notifications without a thread, and for each thread without a
        sink, such as a sub-agent's. Several sinks may share a thread. If the connection has ended,
        the sink's `on_closed` is called at once. Raises MisuseError for an id that is no text.
        """
        refuse_unless(isinstance(thread_id, str | None), "a thread is named by its id", thread_id)
        self._router.subscribe(thread_id, sink, methods)

    def unsubscribe(self, thread_id: str | None, sink: NotificationSink) -> None:
        """Undo `subscribe`: none of the sink's methods is called any more."""
        self._router.unsubscribe(thread_id, sink)

    def subscribe_all(self, sink: NotificationSink, methods: frozenset[str] | None = None) -> None:
        """Give ``sink`` every notification, or those of ``methods``, in addition to other sinks."""
        self._router.subscribe_all(sink, methods)

    def unsubscribe_all(self, sink: NotificationSink) -> None:
        """Undo `subscribe_all`."""
        self._router.unsubscribe_all(sink)

    def decode_notification(self, method: str, params: JsonValue) -> ServerNotification:
        """Return the typed event; count unreadable ones, and log each kind of them once."""
        if self._decoder is None:
            from codex_acp.codex.connection.notification_decoding import NotificationDecoder

            self._decoder = NotificationDecoder(self._unknown)
        return self._decoder.decode(method, params)

    @property
    def unknown(self) -> dict[str, int]:
        """Count of each method, field, value or union member that the schema does not know or that
        could not be read; each kind was logged once."""
        unreadable = {} if self._decoder is None else self._decoder.unreadable
        return {**unreadable, **self._unknown.counts}

    def pause_reading(self, holder: object) -> None:
        """Stop reading until ``holder`` calls `resume_reading`, except while a call is in flight.

        The server's requests wait, too: pause only for a sink that is really full.
        """
        self._gate.hold(holder)

    def resume_reading(self, holder: object) -> None:
        """Undo `pause_reading` of ``holder``, if it paused."""
        self._gate.release(holder)

    # The server's requests.

    def handle_others(
        self, handler: Callable[[ServerRequest], Awaitable[WireModel]] | None
    ) -> None:
        """Register the handler of all methods without one of their own; None removes it."""
        self._requests.handle_others(handler)

    @property
    def open_requests(self) -> tuple[OpenRequest, ...]:
        """The server's requests that are not answered yet, oldest first."""
        return self._requests.open_requests

    # Methods that the `Connection` calls.

    def on_request(self, request: Request, responder: Responder) -> None:
        self._requests.on_request(request, responder)

    def on_request_again(self, request: Request) -> None:
        self._requests.on_request_again(request)

    def on_notification(self, notification: Notification) -> None:
        method, params = notification.method, notification.params
        if method == SETTINGS_UPDATED:
            thread_id = text_at(params, "threadId") or ""
            environments = _environments_in(value_at(params, "threadSettings"))
            if environments and thread_id in self.opened_threads:
                self.opened_threads[thread_id] = environments
        self._router.on_notification(method, params)

    def on_batch_end(self) -> None:
        if self._answer_bound is not None:
            self._answer_bound.reads += 1
        self._router.on_batch_end()
        if self._decoder is not None and self._decoder.last is not None:
            self._decoder.forget()

    def on_closed(self, error: TransportError | None) -> None:
        self._requests.on_closed()
        self._router.on_closed(error)


def _params_of(params: WireModel | Any | None, params_class: str | None) -> EncodedJson | None:
    """Encode ``params``; ``params_class`` is None for a method whose params may be left out."""
    from codex_acp.jsonrpc import EncodedJson

    if params is None:
        # The server wants ``params`` even where the schema says that they are optional.
        return None if params_class is None else EncodedJson(b"{}")
    if type(params) is dict:
        from codex_acp.jsonrpc import encode_json

        try:
            encoded = encode_json(params)
        except TypeError:
            encoded = None  # has other values than JSON: `encode` converts or refuses them
        if encoded and (encoded.find(b"\\ud") < 0 or _is_unicode(params)):
            return encoded
    from codex_acp.wire.codec import encode  # imported here, because the handshake needs no model

    return encode(params)


def _is_unicode(params: dict[str, Any]) -> bool:
    """Return whether no text has an unpaired surrogate: Codex would not answer such a call."""
    import json

    try:
        json.dumps(params, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _environments_in(thread: JsonValue) -> tuple[str, ...]:
    """Return the ids of the environments that a thread, or a thread's settings, list."""
    ids = (text_at(each, "environmentId") for each in list_at(thread, "environments"))
    return tuple(each for each in ids if each is not None)
