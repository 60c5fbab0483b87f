"""Connect a handler with one JSON-RPC peer: turn the bytes of a link into messages, and back.

Keeps the order of messages, finds the request of each reply, and answers each request of the peer
once. From bytes to handler there is one synchronous path: no task switch and no queue. Must not
know any method, nor whether the peer is a client or a server.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, assert_never, cast

from codex_acp.errors import (
    ConnectionClosed,
    ErrorReply,
    InvalidPayload,
    LineTooLong,
    MisuseError,
    PeerError,
    RpcError,
    TransportError,
)
from codex_acp.jsonrpc import (
    DEFAULT_LINE_LIMIT,
    HEAD_BYTES,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    OVERLOADED,
    PARSE_ERROR,
    EncodedJson,
    ErrorResponse,
    JsonValue,
    LineFramer,
    Malformed,
    Notification,
    OutgoingCalls,
    Request,
    RequestId,
    Response,
    TooLong,
    decode,
    encode_error,
    encode_json,
    encode_notification,
    encode_request,
    encode_result,
    read_head,
)
from codex_acp.transport.json_decoding import default_loads
from codex_acp.transport.outbox import Outbox, delivery_of
from codex_acp.transport.shielding import running_loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.transport.link import Link

    OnOutcome: TypeAlias = Callable[["Outcome"], None]
    """Called once with the outcome of a request, after `Connection.post` has returned."""


logger = logging.getLogger(__name__)

MAX_OPEN_REQUESTS: Final = 4096
"""Requests of one peer that may be open at once: even a short request takes kilobytes."""

Direction: TypeAlias = Literal["received", "sent"]
"""Direction of a line that ``on_line`` gets."""

Outcome: TypeAlias = Response | PeerError | TransportError
"""The result of a request, or the error that took its place."""


class Handler(Protocol):
    """Receives the peer's messages. No method may block."""

    def on_request(self, request: Request, responder: Responder) -> None:
        """Answer through ``responder``, now or later; exactly once."""

    def on_request_again(self, request: Request) -> None:
        """Note that an open request came again (``peer_resends``); it needs no second answer."""

    def on_notification(self, notification: Notification) -> None:
        """Handle a notification."""

    def on_batch_end(self) -> None:
        """Handle the end of one read, after all its messages were delivered."""

    def on_closed(self, error: TransportError | None) -> None:
        """Handle the end of the connection, once. ``error`` is None if a side closed cleanly."""


class Responder:
    """Answers one request, once, now or later, on the event loop's thread.

    `result` and `error` return False if the connection is closed, or the request was answered
    before (logged).
    """

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self.settled: bool = False
        self.id: RequestId = request.id
        self.method: str = request.method

    def result(self, result: EncodedJson) -> bool:
        return self._answer(encode_result(self.id, result, version=self._connection.version))

    def error(self, code: int, message: str, data: JsonValue = None) -> bool:
        """Answer with an error. Raises what `encode_json` raises if ``data`` is not JSON."""
        version = self._connection.version
        return self._answer(encode_error(self.id, code, message, data, version=version))

    def rpc_error(self, error: RpcError) -> bool:
        """Answer with an error that a handler raised; leave out data that is not JSON."""
        try:
            return self.error(error.code, error.message, cast("JsonValue", error.data))
        except (TypeError, ValueError, RecursionError):
            logger.warning("the data of the error for %s is not JSON", self.method)
            return self.error(error.code, str(error.message))

    def _answer(self, line: bytes) -> bool:
        if self.settled:
            logger.warning("a second answer to %s (id %r) was dropped", self.method, self.id)
            return False
        self.settled = True
        return self._connection.send_answer(self.id, line)


LOGGED_ONE_BY_ONE = 10
"""Warnings of one kind that are all logged; then only the hundredth, thousandth and so on."""


class Complaints:
    """Logs faults of one peer's messages, in few lines even if a fault comes often."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def warn(self, log: logging.Logger, text: str, *args: object) -> None:
        """Log a warning; warnings with the same ``text``, before formatting, count as one kind."""
        count = self._counts[text] = self._counts.get(text, 0) + 1
        if count <= LOGGED_ONE_BY_ONE:
            log.warning(text, *args)
        elif str(count).rstrip("0") == "1":  # 100, 1000, ...
            log.warning(text + " [%d of this kind by now]", *args, count)


class Connection:
    """A JSON-RPC connection, symmetric: both sides may send requests and notifications.

    ``name`` names the peer in logs and errors. ``version``: sent messages contain
    ``"jsonrpc":"2.0"``. ``line_limit`` is in bytes. ``cancel_method`` is the notification that is
    sent when a call is given up. ``peer_resends``: the peer may repeat an open request with the
    same id (Codex does, after ``thread/resume``). The repetition goes to the handler and is not
    answered, because the peer would take an error for the answer to the first. ``on_line`` gets
    each line, and must not raise.
    """

    def __init__(
        self,
        link: Link,
        *,
        name: str,
        version: bool,
        line_limit: int = DEFAULT_LINE_LIMIT,
        cancel_method: str | None = None,
        peer_resends: bool = False,
        on_line: Callable[[Direction, bytes], None] | None = None,
    ) -> None:
        self._link = link
        self.name = name
        """Name of the peer in logs and errors."""
        self._complaints = Complaints()
        self.version: bool = version
        self._peer_resends = peer_resends
        self.on_line = on_line
        self.loads: Callable[[bytes], object] | None = None
        """Decodes a line; None: `default_loads`."""
        self._framer = LineFramer(line_limit)
        self.outbox: Outbox = Outbox(link)
        self._cancel_method = cancel_method
        self.outgoing: OutgoingCalls[tuple[str, OnOutcome]] = OutgoingCalls()
        """Open calls of this side, each with its method and the function for its outcome."""
        self._incoming: set[tuple[type, RequestId]] = set()
        """Type and id of each open request of the peer."""
        self._handler: Handler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that started the connection."""
        self.why_closed: TransportError | None = None
        """Error that calls raise on a closed connection; None while it is open."""

    @property
    def closed(self) -> bool:
        return self.why_closed is not None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop. Kills a child process and raises MisuseError if none runs."""
        try:
            return running_loop()
        except MisuseError:
            from codex_acp.transport.child import ChildProcess

            if isinstance(self._link, ChildProcess):
                self._link.kill_tree()
            raise

    def start(self, handler: Handler) -> None:
        """Deliver messages to ``handler``, but none before this returns. Raises MisuseError."""
        loop = self.loop()
        if self._handler is not None:
            raise MisuseError("a connection can be started only once")
        self._handler = handler
        self._loop = loop
        self.outbox.delivery = delivery_of(loop)
        self._link.start(self)

    async def call(
        self,
        method: str,
        params: EncodedJson | None,
        *,
        written: bool = False,
        late: Callable[[JsonValue], None] | None = None,
    ) -> JsonValue:
        """Send a request and wait for its result.

        ``written``: the request was written to the link before `start`; only for the first call.
        ``late`` is called with a result that comes after the call was cancelled.

        Raises ErrorReply for an answer that is an error, InvalidPayload for an invalid answer, and
        LineTooLong for one above ``line_limit``. Raises TransportError if the connection is closed
        before the answer. If the call is cancelled, the peer gets ``cancel_method``, unless
        ``late`` waits for the result. The id is not used again.
        """
        self._must_be_on_its_loop()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def on_outcome(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)
            elif late is not None and isinstance(outcome, Response):
                late(outcome.result)

        request_id = self.post(method, params, on_outcome, written=written)
        try:
            outcome = await future
        except asyncio.CancelledError:
            self.abandon(request_id, keep=late is not None)
            if late is not None and not future.cancelled():  # the reply came just before the cancel
                outcome = future.result()
                if isinstance(outcome, Response):
                    late(outcome.result)
            raise
        if isinstance(outcome, Response):
            return outcome.result
        # All calls that fail together share one TransportError, whose traceback must not grow.
        raise outcome.with_traceback(None)

    def post(
        self,
        method: str,
        params: EncodedJson | None,
        on_outcome: OnOutcome,
        *,
        written: bool = False,
    ) -> int:
        """Send a request at once and return its id. ``on_outcome`` is called when the reply comes,
        in the order of the peer's messages, or at the close; its exceptions are logged. Raises
        TransportError."""
        self._must_be_open()
        request_id = self.outgoing.open((method, on_outcome))
        line = encode_request(request_id, method, params, version=self.version)
        if not written:
            self.send(line)
        elif self.on_line is not None:
            self.on_line("sent", line)
        return request_id

    def abandon(self, request_id: int, *, keep: bool = False) -> None:
        """Stop waiting for a reply. With ``keep``, ``on_outcome`` still gets a late reply; else the
        peer gets ``cancel_method``."""
        was_open = self.outgoing.abandon(request_id, keep=keep)
        if was_open and not keep and self._cancel_method is not None:
            self.notify(self._cancel_method, encode_json({"requestId": request_id}))

    def notify(self, method: str, params: EncodedJson | None) -> bool:
        """Send a notification; False if the connection is closed."""
        if self.why_closed is None:
            self._must_be_started()
        return self.send(encode_notification(method, params, version=self.version))

    def send(self, line: bytes, add: Callable[[bytes], None] | None = None) -> bool:
        """Send an encoded line with its line break; return False if the connection is closed.
        ``add`` puts the line into the outbox, by default `Outbox.add`."""
        if self.why_closed is not None:
            return False
        if asyncio._get_running_loop() is not self._loop:  # each delta comes here
            self._must_be_on_its_loop()
        if self.outbox.held is not None:
            self.outbox.release()
        if self.on_line is not None:
            self.on_line("sent", line)
        (add or self.outbox.add)(line)
        return True

    def _must_be_on_its_loop(self) -> None:
        """Raise MisuseError on another thread or event loop: nothing there would be written."""
        if self._loop is not None and asyncio._get_running_loop() is not self._loop:
            msg = "a connection belongs to the event loop that it was started in"
            raise MisuseError(f"{msg}; from a thread use its call_soon_threadsafe")

    def warn(self, log: logging.Logger, text: str, *args: object) -> None:
        """Log a warning with `Complaints.warn`. ``text`` follows the name of the peer."""
        self._complaints.warn(log, f"%s {text}", self.name, *args)

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was written. Raises TransportError."""
        self._must_be_open()
        await self.outbox.drain()

    def pause_reading(self) -> None:
        """Read no more from the link; messages that were read already are still delivered."""
        self.outbox.want_messages(False)

    def resume_reading(self) -> None:
        self.outbox.want_messages(True)

    async def aclose(self) -> None:
        """Send the waiting messages, fail the open calls, and close the link, in bounded time."""
        self._close(None, ConnectionClosed(f"the connection to {self.name} was closed here"))
        await self._link.aclose()

    def data_received(self, data: bytes) -> None:
        self.outbox.delivery.run(self._deliver, self._framer.feed(data))

    def link_closed(self, error: TransportError | None) -> None:
        last = self._framer.finish()
        if last is not None and error is None:
            self._deliver([last])
        self._close(error, error or ConnectionClosed(f"{self.name} closed the connection"))

    def pause_writing(self) -> None:
        self.outbox.paused = True

    def resume_writing(self) -> None:
        self.outbox.resume()

    def send_answer(self, request_id: RequestId, line: bytes) -> bool:
        """Settle a request of the peer, and send its answer."""
        self._incoming.discard((type(request_id), request_id))
        return self.send(line, self.outbox.add_answer)

    def _must_be_open(self) -> None:
        if self.why_closed is not None:
            raise self.why_closed.with_traceback(None)
        self._must_be_started()

    def _must_be_started(self) -> None:
        if self._handler is None:
            raise MisuseError("the connection was not started; call start() first")

    def _deliver(self, lines: list[bytes | TooLong]) -> None:
        handler = self._handler
        if handler is None or not lines:
            return
        loads = self.loads or default_loads()
        for line in lines:
            if self.why_closed is not None:
                return
            if isinstance(line, bytes):
                if self.on_line is not None:
                    self.on_line("received", line)
                message = decode(line, loads)
                # Notifications come by the thousand, so they take the shortest way.
                if isinstance(message, Notification):
                    try:
                        handler.on_notification(message)
                    except Exception:
                        logger.exception("the handler of %s failed", message.method)
                elif isinstance(message, Malformed) and message.code == PARSE_ERROR:
                    self.warn(logger, "sent a line that is %s", message.reason)
                    self._refuse_unread(line, message.code, message)
                else:
                    self._dispatch(handler, message)
            else:
                self.warn(logger, "sent a line above the limit of %d bytes", line.limit)
                self._refuse_unread(line.head, INVALID_REQUEST, LineTooLong(line.limit))
        if self.why_closed is None:
            try:
                handler.on_batch_end()
            except Exception:
                logger.exception("the end of a batch from %s was not handled", self.name)

    def _dispatch(
        self, handler: Handler, message: Request | Response | ErrorResponse | Malformed
    ) -> None:
        match message:
            case Request():
                self._handle_request(handler, message)
            case Response(id=request_id) | ErrorResponse(id=int() | str() as request_id):
                self._settle_call(request_id, message)
            case ErrorResponse(error=error):
                self.warn(logger, "could not read a message: %s (%d)", error.message, error.code)
            case Malformed(id=request_id, reason=reason):
                self.warn(logger, "sent a malformed message: %s", reason)
                if message.answerable:
                    self._send_error(request_id, message.code, reason)
                elif request_id is not None:
                    # The message was meant as an answer: fail the call, which would wait for ever.
                    self._settle_call(request_id, message)
            case _:
                assert_never(message)

    def _handle_request(self, handler: Handler, request: Request) -> None:
        if len(self._incoming) >= MAX_OPEN_REQUESTS and not self._peer_resends:
            too_many = f"{MAX_OPEN_REQUESTS} requests are open; wait for their answers"
            self._send_error(request.id, OVERLOADED, too_many)
            return
        key = (type(request.id), request.id)
        if key in self._incoming and self._peer_resends:
            try:
                handler.on_request_again(request)
            except Exception:
                logger.exception("the repetition of %s was not handled", request.method)
            return
        if key in self._incoming:
            self.warn(logger, "reused the id %r of an open request", request.id)
            self._send_error(request.id, INVALID_REQUEST, "a request with this id is still open")
            return
        self._incoming.add(key)
        responder = Responder(self, request)
        try:
            handler.on_request(request, responder)
        except Exception as error:
            if responder.settled:
                logger.exception("the handler of %s failed after its answer", request.method)
            elif isinstance(error, RpcError):
                responder.rpc_error(error)
            else:
                logger.exception("the handler of %s failed", request.method)
                responder.error(INTERNAL_ERROR, f"{type(error).__name__}: {error}")

    def _refuse_unread(self, line: bytes, code: int, fault: LineTooLong | Malformed) -> None:
        """Fail the call or request of an unreadable line, so that neither side waits for ever."""
        reason = fault.reason if isinstance(fault, Malformed) else str(fault)
        head = read_head(line[:HEAD_BYTES])
        if head is None:
            self._send_error(None, code, reason)
        elif head.kind == "answer":
            self._settle_call(head.id, fault)
        elif (type(head.id), head.id) not in self._incoming:
            self._send_error(head.id, code, reason)

    def _send_error(self, request_id: RequestId | None, code: int, message: str) -> None:
        line = encode_error(request_id, code, message, version=self.version)
        self.send(line, self.outbox.add_answer)

    def _settle_call(
        self, request_id: RequestId, message: Response | ErrorResponse | Malformed | LineTooLong
    ) -> None:
        try:
            call = self.outgoing.settle(request_id)
        except KeyError:
            self.warn(logger, "answered id %r, which is not open", request_id)
            return
        if call is None:  # abandoned
            return
        method, on_outcome = call
        match message:
            case Response() | LineTooLong():
                self._report(on_outcome, message)
            case ErrorResponse(error=error):
                reply = ErrorReply(method, error.code, error.message, error.data)
                self._report(on_outcome, reply)
            case Malformed(reason=reason):
                self._report(on_outcome, InvalidPayload(f"the answer to {method}", (reason,)))
            case _:
                assert_never(message)

    def _report(self, on_outcome: OnOutcome, outcome: Outcome) -> None:
        try:
            on_outcome(outcome)
        except Exception:
            logger.exception("a reply of %s was not handled", self.name)

    def _close(self, error: TransportError | None, why: TransportError) -> None:
        """Close once. First flush the outbox: the link may still take messages. ``why`` is the
        error of all open and later calls."""
        if self.why_closed is not None:
            return
        self.outbox.flush()
        self.why_closed = why
        self.outbox.close(why)
        self._incoming.clear()
        for _method, on_outcome in self.outgoing.close():
            self._report(on_outcome, why)
        if self._handler is not None:
            try:
                self._handler.on_closed(error)
            except Exception:
                logger.exception("the close of %s was not handled", self.name)
