"""One JSON-RPC peer on one link: the pump between bytes and a handler.

Owns order, correlation, closing, and that each request of the peer gets one answer. From bytes to
handler there is one synchronous path: no task switch and no queue. Must not know any method, nor
whether the peer is a client or a server.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, assert_never, cast

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
from codex_acp.jsonrpc.correlation import MAX_OPEN_REQUESTS, IncomingRequests, OutgoingCalls, Stray
from codex_acp.jsonrpc.framing import DEFAULT_LINE_LIMIT, HEAD_BYTES, LineFramer, TooLong, read_head
from codex_acp.jsonrpc.message import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    OVERLOADED,
    PARSE_ERROR,
    EncodedJson,
    ErrorResponse,
    JsonValue,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    decode,
    encode_error,
    encode_json,
    encode_notification,
    encode_request,
    encode_result,
)
from codex_acp.transport.json_decoding import default_loads, fast_loads
from codex_acp.transport.outbox import Outbox, delivery_of
from codex_acp.transport.shielding import running_loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.transport.link import Link

    Late: TypeAlias = Callable[[JsonValue], None] | None
    OnOutcome: TypeAlias = Callable[["Outcome"], None]
    """Called once with what became of a request, never before the call that sent it returns."""


logger = logging.getLogger(__name__)

_NOT_STARTED = "the connection was not started; call start() first"

Direction: TypeAlias = Literal["received", "sent"]
"""Which way a tapped line went."""

Outcome: TypeAlias = Response | PeerError | TransportError
"""The reply to a request, or why there is none."""


class Handler(Protocol):
    """Receives the peer's messages. All methods are synchronous and must not block."""

    def on_request(self, request: Request, responder: Responder) -> None:
        """Answer through ``responder``, now or later; exactly once."""

    def on_request_again(self, request: Request) -> None:
        """Note that an open request came again, with ``peer_resends``; its one answer is enough."""

    def on_notification(self, notification: Notification) -> None:
        """Take a notification."""

    def on_batch_end(self) -> None:
        """All messages of one read were delivered."""

    def on_closed(self, error: TransportError | None) -> None:
        """Nothing more will come, said once; None if the peer or this side ended it cleanly."""


class Responder:
    """Answers one request, once, now or later, on the event loop's thread. `result` and `error`
    return whether the connection took the answer: not if it is closed, or settled before
    (logged)."""

    __slots__ = ("_connection", "_version", "id", "method", "settled")

    def __init__(
        self, connection: Connection, request_id: RequestId, method: str, *, version: bool
    ) -> None:
        self._connection = connection
        self._version = version
        self.settled: bool = False
        """Whether an answer was given."""
        self.id: RequestId = request_id
        """The request's id, as the peer wrote it."""
        self.method: str = method
        """The request's method."""

    def result(self, result: EncodedJson) -> bool:
        return self._settle(encode_result(self.id, result, version=self._version))

    def error(self, code: int, message: str, data: JsonValue = None) -> bool:
        """Answer with an error. Raises as `encode_json` if ``data`` is not JSON."""
        return self._settle(encode_error(self.id, code, message, data, version=self._version))

    def rpc_error(self, error: RpcError) -> bool:
        """Answer with the error that a handler chose; data that is not JSON is left out."""
        try:
            return self.error(error.code, error.message, cast("JsonValue", error.data))
        except (TypeError, ValueError, RecursionError):
            logger.warning("the data of the error for %s is not JSON", self.method)
            return self.error(error.code, str(error.message))

    def _settle(self, line: bytes) -> bool:
        if self.settled:
            logger.warning("a second answer to %s (id %r) was dropped", self.method, self.id)
            return False
        self.settled = True
        return self._connection.send_answer(self.id, line)


TOLD_ONE_BY_ONE = 10
"""Complaints of one kind; of more only the hundredth, thousandth and so on is logged."""


class Complaints:
    """Logs what is wrong with what one peer sends, in few lines however often it comes."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def warn(self, log: logging.Logger, text: str, *args: object) -> None:
        """Log a warning; ``text``, with its ``%s``, is the kind by which it is counted."""
        count = self._counts[text] = self._counts.get(text, 0) + 1
        if count <= TOLD_ONE_BY_ONE:
            log.warning(text, *args)
        elif str(count).rstrip("0") == "1":
            log.warning(text + " [%d of this kind by now]", *args, count)


class Connection:
    """A JSON-RPC connection, symmetric: both sides may call, notify and be asked.

    ``name`` stands for the peer in logs and errors. ``version`` says whether sent messages carry
    ``"jsonrpc":"2.0"``. ``line_limit`` is in bytes. ``cancel_method`` is the notification sent
    when a call is given up. ``peer_resends`` is for a peer that may send a request again while it
    is still open, with the same id (Codex, after ``thread/resume``): the handler is told, and
    nothing is answered, since an error would be taken as the answer to the first. ``on_line`` sees
    each line, and never raises.
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
        self.complaints: Complaints = Complaints()
        self._version = version
        self._loads: Callable[[bytes], object] | None = None
        """Decoder of lines, once the faster one is loaded."""
        self._peer_resends = peer_resends
        self.on_line = on_line
        self._framer = LineFramer(line_limit)
        self.outbox: Outbox = Outbox(link)
        """Messages to be written; knows whether the peer is slower than this side."""
        self._outgoing: OutgoingCalls[tuple[str, OnOutcome]]
        self._outgoing = OutgoingCalls(cancel_method)
        self._incoming = IncomingRequests()
        self._handler: Handler | None = None
        self.why_closed: TransportError | None = None
        """Error that calls raise on a closed connection; None while it is open."""

    @property
    def closed(self) -> bool:
        """Whether messages can no longer travel."""
        return self.why_closed is not None

    @property
    def next_call_id(self) -> int:
        """The id that the next `call` will have, for a record that is made before it is sent."""
        return self._outgoing.next_id

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop. Raises MisuseError below trio; a process is then ended first."""
        try:
            return running_loop()
        except MisuseError:
            from codex_acp.transport.child import ChildProcess

            if isinstance(self._link, ChildProcess):
                self._link.kill_tree()
            raise

    def start(self, handler: Handler) -> None:
        """Begin to deliver to ``handler``, never before this returns. Raises MisuseError."""
        loop = self.loop()
        if self._handler is not None:
            raise MisuseError("a connection can be started only once")
        self._handler = handler
        self.outbox.delivery = delivery_of(loop)
        self._link.start(self)

    async def call(
        self, method: str, params: EncodedJson | None, *, written: bool = False, late: Late = None
    ) -> JsonValue:
        """Send a request and wait for its result.

        ``written``: this very line is on the link already, put there before `start`; only for
        the first call. ``late`` is called with a result that comes when the call was cancelled.

        Raises ErrorReply if the peer answers with an error, InvalidPayload if its answer is not
        a valid response, LineTooLong if it is above the limit, TransportError if the connection
        is or gets closed. When cancelled, a late answer is dropped, the id is not used again,
        and the peer is told if it has a method for that.
        """
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def settled(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)
            elif late is not None and isinstance(outcome, Response):
                late(outcome.result)  # it was cancelled, perhaps in this very iteration

        request_id = self.post(method, params, settled, written=written)
        try:
            outcome = await future
        except asyncio.CancelledError:
            self.abandon(request_id, keep=late is not None)
            if late and not future.cancelled() and isinstance(got := future.result(), Response):
                late(got.result)  # it came in this very iteration
            raise
        if isinstance(outcome, Response):
            return outcome.result
        # One TransportError is shared by all calls it fails: their traces must not pile up.
        raise outcome.with_traceback(None)

    def post(
        self,
        method: str,
        params: EncodedJson | None,
        on_outcome: OnOutcome,
        *,
        written: bool = False,
    ) -> int:
        """Send a request at once and return its id. ``on_outcome`` is called where the reply stands
        among the peer's other messages, or at the close; what it raises is logged. Raises
        TransportError."""
        self._must_be_open()
        request_id = self._outgoing.open((method, on_outcome))
        line = encode_request(request_id, method, params, version=self._version)
        if not written:
            self.send(line)
        elif self.on_line is not None:
            self.on_line("sent", line)
        return request_id

    def abandon(self, request_id: int, *, keep: bool = False) -> None:
        """Wait no longer for a reply. Unless it is to be kept for ``on_outcome``, the peer is
        told."""
        told = self._outgoing.abandon(request_id, keep=keep)
        if told is not None:
            self.notify(told.method, encode_json(told.params))

    def notify(self, method: str, params: EncodedJson | None) -> bool:
        """Send a notification; False if the connection is closed."""
        if self._handler is None and self.why_closed is None:
            raise MisuseError(_NOT_STARTED)
        return self.send(encode_notification(method, params, version=self._version))

    def send(self, line: bytes, add: Callable[[bytes], None] | None = None) -> bool:
        """Send a line that is encoded, with its end; False if the connection is closed."""
        if self.why_closed is not None:
            return False
        if self.outbox.held is not None:
            self.outbox.release()
        if self.on_line is not None:
            self.on_line("sent", line)
        (add or self.outbox.add)(line)
        return True

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was written. Raises TransportError."""
        self._must_be_open()
        await self.outbox.drain()

    def pause_reading(self) -> None:
        """Read no more from the link; what was read already is still delivered."""
        self.outbox.want_messages(False)

    def resume_reading(self) -> None:
        self.outbox.want_messages(True)

    async def aclose(self) -> None:
        """Send what is waiting, fail what is in flight, and close the link; bounded by the link."""
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
        """Send an answer. Nothing here can fail before the line is added."""
        self._incoming.settle(request_id)
        return self.send(line, self.outbox.add_answer)

    def _must_be_open(self) -> None:
        if self.why_closed is not None:
            raise self.why_closed.with_traceback(None)
        if self._handler is None:
            raise MisuseError(_NOT_STARTED)

    def _deliver(self, lines: list[bytes | TooLong]) -> None:
        handler = self._handler
        if handler is None or not lines:
            return
        loads = self._loads or default_loads()
        if loads is fast_loads:
            self._loads = loads
        for line in lines:
            if self.why_closed is not None:
                return
            if isinstance(line, bytes):
                if self.on_line is not None:
                    self.on_line("received", line)
                message = decode(line, loads)
                # The one kind that comes by the thousand takes the shortest way.
                if type(message) is Notification:
                    try:
                        handler.on_notification(message)
                    except Exception:
                        logger.exception("the handler of %s failed", message.method)
                elif type(message) is Malformed and message.code == PARSE_ERROR:
                    self.complaints.warn(
                        logger, "%s sent a line that is %s", self.name, message.reason
                    )
                    self._refuse_unread(line, message.code, message)
                else:
                    self._dispatch(handler, message)
            else:
                self.complaints.warn(
                    logger, "%s sent a line above the limit of %d bytes", self.name, line.limit
                )
                self._refuse_unread(line.head, INVALID_REQUEST, LineTooLong(line.limit))
        if self.why_closed is None:
            try:
                handler.on_batch_end()
            except Exception:
                logger.exception("the end of a batch from %s was not handled", self.name)

    def _dispatch(
        self,
        handler: Handler,
        message: Request | Notification | Response | ErrorResponse | Malformed,
    ) -> None:
        match message:
            case Request():
                self._handle_request(handler, message)
            case Response(id=request_id) | ErrorResponse(id=int() | str() as request_id):
                self._settle(request_id, message)
            case ErrorResponse(error=error):
                text = "%s could not read a message: %s (%d)"
                self.complaints.warn(logger, text, self.name, error.message, error.code)
            case Malformed(id=request_id, reason=reason):
                text = "%s sent a malformed message: %s"
                self.complaints.warn(logger, text, self.name, reason)
                if message.answerable:
                    self._send_error(request_id, message.code, reason)
                elif request_id is not None:
                    # It was meant as an answer: better a failed call than one that waits for ever.
                    self._settle(request_id, message)
            case Notification():
                handler.on_notification(message)
            case _:
                assert_never(message)

    def _handle_request(self, handler: Handler, request: Request) -> None:
        if len(self._incoming) >= MAX_OPEN_REQUESTS and not self._peer_resends:
            too_many = f"{MAX_OPEN_REQUESTS} requests are open; wait for their answers"
            self._send_error(request.id, OVERLOADED, too_many)
            return
        open_method = self._incoming.open(request.id, request.method)
        if open_method is not None and self._peer_resends:
            try:
                handler.on_request_again(request)
            except Exception:
                logger.exception("the repetition of %s was not handled", request.method)
            return
        if open_method is not None:
            self.complaints.warn(
                logger, "%s reused the id %r of an open request", self.name, request.id
            )
            self._send_error(request.id, INVALID_REQUEST, "a request with this id is still open")
            return
        responder = Responder(self, request.id, request.method, version=self._version)
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

    def _refuse_unread(self, line: bytes, code: int, why: LineTooLong | Malformed) -> None:
        """Nobody shall wait for ever for what is in the line: neither a call nor the peer."""
        reason = why.reason if isinstance(why, Malformed) else str(why)
        whose = read_head(line[:HEAD_BYTES])
        if whose is None:
            self._send_error(None, code, reason)
        elif whose.kind == "answer":
            self._settle(whose.id, why)
        elif self._incoming.open(whose.id, "") is None:  # else it would answer the one before
            self._incoming.settle(whose.id)
            self._send_error(whose.id, code, reason)

    def _send_error(self, request_id: RequestId | None, code: int, message: str) -> None:
        line = encode_error(request_id, code, message, version=self._version)
        self.send(line, self.outbox.add_answer)

    def _settle(
        self, request_id: RequestId, message: Response | ErrorResponse | Malformed | LineTooLong
    ) -> None:
        found = self._outgoing.settle(request_id)
        if isinstance(found, Stray):
            if found is Stray.UNKNOWN:
                self.complaints.warn(
                    logger, "%s answered id %r, which is not open", self.name, request_id
                )
            return
        method, on_outcome = found
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
        """Close once; what was sent before this goes to the link, which may still take it."""
        if self.why_closed is not None:
            return
        self.outbox.flush()
        self.why_closed = why
        self.outbox.close(why)
        self._incoming.close()
        for _method, on_outcome in self._outgoing.close():
            self._report(on_outcome, why)
        if self._handler is not None:
            try:
                self._handler.on_closed(error)
            except Exception:
                logger.exception("the close of %s was not handled", self.name)
