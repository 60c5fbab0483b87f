"""Serve one peer on one connection: the base of the agent's side and the client's side of ACP.

Owns the tasks of the peer's requests, their cancellation, and the one answer to each request, with
the codes and messages of errors. Must not know which methods a side has, what they mean, or what a
session is.

All messages take effect in the order of arrival. In that order the event loop gets the first step
of a request's handler, the handler of a notification, and the wake-up of a caller who waits for a
response. So a ``session/cancel`` finds the prompt that was sent before. When an update follows the
answer to ``session/new``, the caller already knows the session's id.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from codex_acp._record import NamedTuple, record  # as the standard ones, loaded faster
from codex_acp.errors import CodexAcpError, InvalidPayload, MisuseError, RpcError, TransportError
from codex_acp.jsonrpc import (
    AGENT_LOST,
    DEFAULT_LINE_LIMIT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    EncodedJson,
    JsonValue,
    encode_json,
)
from codex_acp.transport.connection import Connection, Direction
from codex_acp.transport.shielding import awaited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.acp.dialects import Dialect, RequestHandler
    from codex_acp.jsonrpc import Notification, Request, RequestId
    from codex_acp.transport.connection import Responder
    from codex_acp.transport.link import Link
    from codex_acp.wire.model import WireModel

    InvalidNotificationCallback: TypeAlias = Callable[[Notification, InvalidPayload], None]


logger = logging.getLogger(__name__)

CANCEL_REQUEST: Final = "$/cancel_request"
"""Notification with which either side gives up a request of its own."""


def acp_connection(
    link: Link,
    *,
    name: str,
    line_limit: int = DEFAULT_LINE_LIMIT,
    on_line: Callable[[Direction, bytes], None] | None = None,
) -> Connection:
    """Return a connection with ACP's conventions. ``name`` stands for the peer in logs and errors.

    ``line_limit`` is in bytes; ``on_line`` is called with each line received and sent.
    """
    return Connection(
        link,
        name=name,
        version=True,  # messages carry "jsonrpc": "2.0"
        line_limit=line_limit,
        cancel_method=CANCEL_REQUEST,
        on_line=on_line,
    )


def stdio() -> Link:
    """Return the link of an agent to the process that started it. Text that is printed afterwards
    goes to stderr."""
    from codex_acp.transport.stdio import StdioLink, claim_stdout

    return StdioLink(stdout_fd=claim_stdout())


@record(eq=False)
class _OpenRequest:
    """A request of the peer whose handler has not ended."""

    responder: Responder
    run: Callable[[], object]
    """Calls the handler, which may be async or not."""
    cancelled: bool = False
    task: asyncio.Task[object] | None = None
    """The task that calls `run`; None until it has begun."""

    def cancel(self) -> None:
        """Cancel the handler; a second call does nothing, so the handler can clean up."""
        if not self.cancelled and self.task is not None:
            self.task.cancel()
        self.cancelled = True


class Side:
    """One side of ACP; `AgentSide` and `ClientSide` are the two.

    A context manager that starts the connection and, at the end, closes it: handlers that still
    run are cancelled, their requests answered -32800, and calls in flight raise TransportError.

    ``dialects`` has a function that makes the `Dialect` of a version, for each version of ACP that
    the side has handlers for. ``initialize`` decides which version the connection uses.

    ``Dialect.quick`` maps a method to a function that answers before the models are loaded, in a
    process just started. The function gets the raw params. It returns an async function that
    returns the result as JSON. For some params it returns None: then the typed handler, which gets
    a model, answers. Order, cancellation and errors are the same for quick and typed handlers.
    """

    def __init__(
        self,
        connection: Connection,
        dialects: Mapping[int, Callable[[], Dialect]],
        on_invalid_notification: InvalidNotificationCallback | None,
    ) -> None:
        if not dialects:
            raise MisuseError("a side needs handlers of one version of ACP at least")
        self.connection = connection
        """The JSON-RPC connection to the peer."""
        self._dialects = dialects
        self._dialect: Dialect | None = None
        self._version: int | None = None
        self._on_invalid_notification = on_invalid_notification
        # By type and id: 1 and 1.0 are equal in Python, but are two ids.
        self._open: dict[tuple[type, RequestId], _OpenRequest] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._stack = AsyncExitStack()
        self._leaving = False
        self._failure: TransportError | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection.name!r})"

    async def run(self) -> None:
        """Serve until the peer disconnects or `aclose` is called, then close the connection. Raises
        TransportError."""
        async with self:
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    async def wait_closed(self) -> None:
        """Wait until the connection has ended and all earlier messages were delivered."""
        if self._tasks is None:
            raise MisuseError("the connection was not started; use `async with` or run()")
        await self._ended.wait()

    async def aclose(self) -> None:
        """Close the connection: `run` returns, calls in flight raise TransportError."""
        self._leave()
        await self.connection.aclose()

    async def drain(self) -> None:
        """Wait until the peer has taken most of the bytes that were sent. Raises TransportError."""
        await self.connection.drain()

    @property
    def writing_paused(self) -> bool:
        """Whether the peer is slower than this side; `drain` waits until the peer has caught up."""
        return self.connection.outbox.paused

    @property
    def next_request_id(self) -> int:
        """The id of this side's next request: a caller can log the request before it sends it."""
        return self.connection.outgoing.next_id

    @property
    def version(self) -> int | None:
        """The version of ACP that the two sides speak; None before ``initialize``."""
        return self._version

    @property
    def closed(self) -> bool:
        """Whether messages can no longer travel."""
        return self.connection.closed

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise MisuseError("a side of a connection can be started only once")
        self._loop = self.connection.loop()
        self._ended = asyncio.Event()
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.push_async_callback(self.connection.aclose)
        self._stack.callback(self._leave)
        self.connection.start(self)
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool | None:
        try:
            return await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            # The task group wraps the error of the body; the caller should see the error itself.
            for each in group.exceptions:
                if isinstance(each, ProgramExit):
                    raise each.error from None
            if len(group.exceptions) == 1 and group.exceptions[0] is error:
                return False
            raise

    # Called by the connection.

    def on_request(self, request: Request, responder: Responder) -> None:
        """Check the request, and put its handler in a task of its own."""
        assert self._tasks is not None
        try:
            run = self._call_for(request)
        except RpcError as refusal:
            answer_rpc_error(responder, refusal)
            return
        entry = _OpenRequest(responder, run)
        self._open[(type(request.id), request.id)] = entry
        self._tasks.create_task(self._serve(entry), name=f"acp {request.method}")

    def on_request_again(self, request: Request) -> None:
        """Never called: the connection refuses a second request with the id of an open one."""

    def on_notification(self, notification: Notification) -> None:
        """Queue the notification after all earlier messages."""
        self._loop.call_soon(self._handle_notification, notification)

    def on_batch_end(self) -> None:
        """Do nothing at the end of a read: a side handles each message by itself."""

    def on_closed(self, error: TransportError | None) -> None:
        """Cancel the handlers; the cancellations take effect after all earlier messages."""
        self._failure = error
        for entry in self._open.values():
            entry.cancel()
        self._ended.set()

    # Called by the generated methods (``acp/_generated/v1/calls.py``) and by `v2_calls`.

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        """Send a request of version 1; see `call_as`."""
        return await self.call_as(1, method, params)

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        """Send a notification of version 1; see `notify_as`."""
        self.notify_as(1, method, params)

    async def call_as(self, version: int, method: str, params: WireModel | Any | None) -> Any:
        """Send a request; return its result as a model.

        Raises as `Connection.call` (ErrorReply, LineTooLong, TransportError), InvalidPayload for a
        result that does not fit, MisuseError for an unstable method or a version that the
        connection does not speak.
        """
        dialect = self._dialect_for(version)
        dialect.refuse_unstable(method, dialect.own_methods[method], params)
        return dialect.result(method, await self.connection.call(method, _encoded(params)))

    def notify_as(self, version: int, method: str, params: WireModel | Any | None) -> None:
        """Send a notification, unless the connection is closed. Raises MisuseError as `call_as`."""
        dialect = self._dialect_for(version)
        dialect.refuse_unstable(method, dialect.own_methods[method], params)
        self.connection.notify(method, _encoded(params))

    def _dialect_for(self, version: int) -> Dialect:
        if version not in self._dialects:
            raise MisuseError(f"this side was given no handlers for version {version} of ACP")
        if self._version not in (None, version):
            msg = f"the connection speaks version {self._version} of ACP, not {version}"
            raise MisuseError(msg)
        return self._load_dialect(version)

    def _load_dialect(self, version: int) -> Dialect:
        """Return the dialect of ``version``; make it unless it is the dialect in use."""
        if self._dialect is None or self._dialect.version != version:
            self._dialect = self._dialects[version]()
        return self._dialect

    @property
    def _current_dialect(self) -> Dialect:
        """Return the dialect in use; before ``initialize``, the dialect of the lowest version."""
        return self._dialect or self._load_dialect(self._version or min(self._dialects))

    # Requests of the peer.

    def _call_for(self, request: Request) -> Callable[[], Awaitable[object]]:
        """Return the call that answers the request. Raises RpcError if the method has no handler,
        or the params do not fit."""
        method, dialect = request.method, self._current_dialect
        extension = dialect.extensions.get(method)
        if extension is not None:

            async def extend() -> object:
                return _EncodedResult(encode_json(await awaited(extension(request.params))))

            return extend
        handler = dialect.requests.get(method)
        if handler is None:
            message = f"the method {method} is not offered"
            raise RpcError(METHOD_NOT_FOUND, message, {"method": method})
        quick = dialect.quick.get(method)
        run = None if quick is None else quick(request.params)
        if run is not None:

            async def answer_quickly() -> object:
                return _EncodedResult(await run())

            return answer_quickly
        return self._typed_call(handler, dialect.peer_requests[method].params, request)

    def _typed_call(
        self, handler: RequestHandler, model_name: str | None, request: Request
    ) -> Callable[[], Awaitable[object]]:
        """Bind ``handler`` to the params as a model. Raises RpcError if they do not fit."""
        if model_name is None:
            return partial(handler, None)
        params = {} if request.params is None else request.params
        try:
            models = self._current_dialect.models
            return partial(handler, models.decode_request(model_name, params, request.method))
        except InvalidPayload as error:
            self.connection.warn(logger, "sent invalid params: %s", error)
            data: JsonValue = {"problems": list(error.problems)}
            raise RpcError(INVALID_PARAMS, f"invalid params: {error}", data) from None

    async def _serve(self, entry: _OpenRequest) -> None:
        """Run the handler of a request, and answer with its result or its error."""
        responder = entry.responder
        method = responder.method
        _SERVED.set(responder)
        entry.task = asyncio.current_task()
        if entry.cancelled and entry.task is not None:
            # Cancelled before it started: the handler still runs up to its first await.
            entry.task.cancel()
        try:
            result = await awaited(entry.run())
            dialect = self._current_dialect
            if method not in dialect.extensions:  # no schema has these; encoded JSON passes
                dialect.refuse_unstable(method, dialect.peer_requests[method], result)
            answer_result(responder, result)
        except Exception as error:  # noqa: BLE001 - logged and answered by the next line
            answer_failure(responder, error, was_cancelled=entry.cancelled)
        except asyncio.CancelledError:
            # Do not re-raise: a CancelledError that comes from inside the handler (it awaited a
            # task that was cancelled elsewhere) would end the task group and the connection.
            answer_rpc_error(responder, cancelled_error(method))
        except BaseException as error:
            answer_rpc_error(responder, cancelled_error(method, f"ended by {error!r}"))
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise ProgramExit(error) from error
            raise
        finally:
            key = (type(responder.id), responder.id)
            if self._open.get(key) is entry:  # else the peer used the id again, after the answer
                del self._open[key]

    def _leave(self) -> None:
        """Answer all open requests while answers can still be sent: this side is closing."""
        self._leaving = True
        why = "was cancelled: the connection is being closed"
        for entry in self._open.values():
            answer_rpc_error(entry.responder, cancelled_error(entry.responder.method, why))

    # Notifications of the peer.

    def _handle_notification(self, notification: Notification) -> None:
        """Decode a notification and call its handler; ``$/cancel_request`` cancels a request."""
        if self._leaving:
            return
        method = notification.method
        handler = self._current_dialect.notifications.get(method)
        if handler is None and method != CANCEL_REQUEST:
            logger.debug("the notification %s is not handled and was ignored", method)
            return
        model = self._current_dialect.peer_notifications[method].params
        # Read absent params as an empty object: then the error names the missing fields.
        raw_params = {} if notification.params is None else notification.params
        params: Any = None
        try:
            if model is not None:
                params = self._current_dialect.models.decode(model, raw_params, method)
        except InvalidPayload as error:
            self.connection.warn(logger, "sent an invalid notification: %s", error)
            if self._on_invalid_notification is not None:
                try:
                    self._on_invalid_notification(notification, error)
                except Exception:
                    logger.exception("the callback for invalid notifications failed")
            return
        if method == CANCEL_REQUEST:
            request_id = params.request_id
            entry = self._open.get((type(request_id), request_id))
            if entry is None:
                logger.debug("the request %r, to be cancelled, is not open", request_id)
            else:
                entry.cancel()
        if handler is not None:
            try:
                handler(params)
            except Exception:
                logger.exception("the handler of %s failed", method)


class ProgramExit(Exception):
    """A handler ended with ``error``, a SystemExit or KeyboardInterrupt: the side closes, then
    raises ``error``. In a task, asyncio would stop the loop at once, and print a traceback."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _encoded(params: WireModel | Any | None) -> EncodedJson:
    from codex_acp.wire.codec import encode  # here: requests may be answered before models load

    return encode({} if params is None else params)


class _EncodedResult(NamedTuple):
    """A result that is JSON already, and is sent unchanged. A class of its own, so that bytes from
    a typed handler remain an error."""

    json: EncodedJson


def answer_result(responder: Responder, result: object) -> None:
    """Answer with a handler's result. Raises if the result is no model or cannot be encoded."""
    if responder.settled:
        return
    if isinstance(result, _EncodedResult):
        responder.result(result.json)
        return
    from codex_acp.wire.codec import encode  # here: an answer may be given before models load
    from codex_acp.wire.model import WireModel

    if not isinstance(result, WireModel):
        msg = f"the handler returned {type(result).__name__} where a result model is needed"
        raise TypeError(msg)
    responder.result(encode(result))


def answer_rpc_error(responder: Responder, error: RpcError) -> None:
    """Answer with an error, unless the request is settled. Control characters in the message of the
    error are written as codes."""
    if not responder.settled:
        if not error.message.isprintable():
            from codex_acp._glyphs import plain_text  # here: seldom needed

            error = RpcError(error.code, plain_text(error.message), error.data)
        responder.rpc_error(error)


def answer_failure(responder: Responder, error: Exception, *, was_cancelled: bool) -> None:
    """Answer the request of a handler that raised ``error``. If the peer has cancelled the request,
    ACP allows only -32800 or an RpcError of the handler."""
    # Expected, so no warning: the connection ended, or the peer cancelled the request.
    failed = failure(responder.method, error, expected=responder.settled or was_cancelled)
    if was_cancelled and failed is not error:
        failed = cancelled_error(responder.method)
    answer_rpc_error(responder, failed)


def failure(method: str, error: Exception, *, expected: bool = False) -> RpcError:
    """Return an RpcError of a handler unchanged; log any other exception, and return -32603 with a
    description. An ``expected`` error of this package is logged as debugging."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, CodexAcpError):
        what = str(error)
        level = logging.DEBUG if expected else logging.WARNING
        logger.log(level, "the handler of %s failed: %s", method, what)
    else:
        what = f"{type(error).__name__}: {error}"
        logger.error("the handler of %s failed", method, exc_info=error)
    # A handler can lose only the connection to the program that does the agent's work.
    data = {"reason": AGENT_LOST} if isinstance(error, TransportError) else None
    return RpcError(INTERNAL_ERROR, f"{method} failed: {what}", data)


def cancelled_error(method: str, why: str = "was cancelled") -> RpcError:
    """Return the error for a request whose handler was cancelled, by the peer or this side."""
    return RpcError(REQUEST_CANCELLED, f"{method} {why}")


_SERVED: ContextVar[Responder] = ContextVar("_SERVED")
"""The responder of the request that the current task handles."""


def served_request_id() -> RequestId:
    """Return the id of the request that is served. Raises MisuseError outside of a handler."""
    return _served_responder().id


def served_answer() -> Callable[[EncodedJson], None]:
    """Return a function that answers the served request at once. Raises as `served_request_id`."""
    responder = _served_responder()

    def answer(result: EncodedJson) -> None:
        if not responder.settled:
            responder.result(result)

    return answer


def _served_responder() -> Responder:
    try:
        return _SERVED.get()
    except LookupError:
        raise MisuseError("no request of the peer is being answered here") from None
