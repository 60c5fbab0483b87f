"""Requests of the app-server: each is read, given to its handler, and answered exactly once.

Owns the tasks of the handlers and every way in which a request can be refused. Must not know the
subject of a request. Loads the models with the first request: to connect needs no models.

`UnknownParts` counts what an app-server of another version sends and the schema does not have:
fields, values, methods. Models keep these parts, and each kind is logged once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, cast

from codex_acp._record import NamedTuple
from codex_acp.codex._generated.methods import MODELS, SERVER_REQUESTS
from codex_acp.codex._generated.version import SCHEMA_VERSION
from codex_acp.codex.connection.notification_router import thread_of
from codex_acp.errors import InvalidPayload, MisuseError, RpcError
from codex_acp.jsonrpc import INVALID_PARAMS, JsonValue, Request, RequestId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.codex._generated.server_requests import RequestHandlers, ServerRequest
    from codex_acp.transport.connection import Responder
    from codex_acp.wire.model import WireModel


logger = logging.getLogger(__name__)

HANDLER_FAILED: Final = -32000
"""Code of the error for a handler that raised, if the method has no negative reply."""

MAX_REASON_LENGTH: Final = 2000
"""Characters of a reason, which may quote an exception and reach the model."""

END_OF_HANDLERS_SECONDS: Final = 2.0
"""Seconds that `ServerRequests.aclose` waits for cancelled handlers; a stuck one is logged."""


class RefusedRequest(NamedTuple):
    """A server request that was refused although no handler refused it."""

    id: RequestId
    method: str
    params: JsonValue
    """The params unchanged: malformed params are a reason to refuse."""
    reason: str


def report_refused(
    on_refused: Callable[[RefusedRequest], None] | None, request: RefusedRequest
) -> None:
    """Call ``on_refused``, if there is one, and log the exception that it raises."""
    if on_refused is not None:
        try:
            on_refused(request)
        except Exception:
            logger.exception("on_refused failed at %s", request.method)


class OpenRequest(NamedTuple):
    """A server request that is not answered yet."""

    id: RequestId
    method: str
    thread_id: str | None
    """The thread that asks, if the params name it."""


def as_text(requests: tuple[OpenRequest, ...]) -> str:
    """Return the methods and ids of the requests for a message."""
    return ", ".join(f"{r.method} (id {r.id!r})" for r in requests) or "none"


class ServerRequests:
    """Runs the handler of each request in a task; ``on_refused`` gets the refused requests."""

    def __init__(
        self, on_refused: Callable[[RefusedRequest], None] | None, unknown: UnknownParts
    ) -> None:
        self.peer_version = "of unknown version"
        """The app-server's version for warnings; the connection sets it after the handshake."""
        self._on_refused = on_refused
        self._unknown = unknown
        self._handlers: dict[str, Callable[[Any], Awaitable[object]]] = {}
        self._fallback: Callable[[ServerRequest], Awaitable[WireModel]] | None = None
        self._pending: dict[asyncio.Task[None], tuple[Request, Responder]] = {}
        """Task of each running handler → its request."""
        self._closing = False
        self._connection_ended = False
        """Whether no reply can be sent any more."""

    def handle(self, handlers: RequestHandlers) -> None:
        """Register handlers in place of earlier ones. Raises MisuseError for an unknown method."""
        rows = cast("Mapping[str, Callable[[Any], Awaitable[object]]]", handlers)
        unknown = sorted(set(rows) - set(SERVER_REQUESTS))
        if unknown:
            raise MisuseError(f"schema {SCHEMA_VERSION} has no server request {', '.join(unknown)}")
        self._handlers.update(rows)

    def handle_others(
        self, handler: Callable[[ServerRequest], Awaitable[WireModel]] | None
    ) -> None:
        """Register the handler of all methods without one of their own; None removes it."""
        self._fallback = handler

    def on_request(self, request: Request, responder: Responder) -> None:
        """Start the handler of a request, or refuse it at once."""
        info = SERVER_REQUESTS.get(request.method)
        if info is None or info.params is None:  # each method of the schema has params
            count_kind(self._unknown.counts, f"request {request.method[:MAX_NAME]}")
            reason = (
                f"{request.method} is not known to codex-acp-sdk: it knows the schema of Codex "
                f"{SCHEMA_VERSION}, and the app-server is {self.peer_version}"
            )
            self._refuse(request, responder, reason)
            return
        try:
            params = MODELS.decode_request(
                info.params, {} if request.params is None else request.params, request.method
            )
        except InvalidPayload as error:
            self._refuse(
                request, responder, f"codex-acp-sdk cannot read it: {error}", INVALID_PARAMS
            )
            return
        self._unknown.examine(params)
        from codex_acp.codex._generated.server_requests import REQUEST_CLASSES

        typed = REQUEST_CLASSES[request.method](request.id, params)
        handler = self._handlers.get(request.method, self._fallback)
        if self._closing or handler is None:
            if self._closing:
                reason = "the client is closing"
            elif request.method.endswith("Approval"):
                reason = "no policy and no handler was given, so all is denied; `policy=` allows"
            else:
                reason = "no handler is registered for it"
            self._refuse(request, responder, f"{request.method} was declined: {reason}")
            return
        task = asyncio.get_running_loop().create_task(
            self._run(handler, typed, request, responder), name=f"codex {request.method}"
        )
        self._pending[task] = (request, responder)
        task.add_done_callback(self._on_handler_end)

    def on_request_again(self, request: Request) -> None:
        """Handle a request with the id of a request whose handler runs (docs/contract.md, 3.7).
        Codex sends an open request again after ``thread/resume``: ignore the second. If the two
        differ, Codex could apply an answer to the wrong request: refuse this id."""
        from codex_acp.wire.codec import same_json

        for task, (pending, responder) in list(self._pending.items()):
            if type(pending.id) is not type(request.id) or pending.id != request.id:
                continue
            if pending.method == request.method and same_json(pending.params, request.params):
                logger.info("%s came again while it is open", request.method)
                return
            reason = f"{pending.method} was declined: Codex used its id for another request"
            self._refuse(pending, responder, reason, HANDLER_FAILED)
            task.cancel()
            return

    @property
    def open_requests(self) -> tuple[OpenRequest, ...]:
        """The requests whose handlers run and that have no reply yet, oldest first."""
        return tuple(
            OpenRequest(request.id, request.method, thread_of(request.params))
            for request, responder in self._pending.values()
            if not responder.settled
        )

    def refuse_pending(self, reason: str) -> None:
        """Refuse every request whose handler still runs, and all later requests."""
        self._closing = True
        for request, responder in self._pending.values():
            self._refuse(request, responder, f"{request.method} was declined: {reason}")

    def on_closed(self) -> list[asyncio.Task[None]]:
        """Cancel the handlers, because the connection has ended: no reply can be sent. Return
        their tasks, without the current one."""
        self._closing = self._connection_ended = True
        current = asyncio.current_task()
        tasks = [task for task in self._pending if task is not current]
        for task in tasks:
            task.cancel()
        return tasks

    async def aclose(self) -> None:
        """Cancel the handlers and wait for them, at most `END_OF_HANDLERS_SECONDS`."""
        if tasks := self.on_closed():
            _done, stuck = await asyncio.wait(tasks, timeout=END_OF_HANDLERS_SECONDS)
            for task in stuck:
                logger.warning("the handler of %s does not end; it is left", task.get_name())

    async def _run(
        self,
        handler: Callable[[Any], Awaitable[object]],
        typed: ServerRequest,
        request: Request,
        responder: Responder,
    ) -> None:
        from codex_acp.wire.codec import encode

        try:
            result = await handler(typed)
            name = SERVER_REQUESTS[request.method].result
            model = None if name is None else MODELS.resolve(name)
            if model is None or not isinstance(result, model):
                got = type(result).__name__
                raise TypeError(f"a handler of {request.method} must return {name}, not {got}")
            encoded = encode(result)
        except RpcError as error:
            if not responder.settled:
                responder.rpc_error(error)
        except Exception as error:  # noqa: BLE001 - logged and answered by the next lines
            text = f"{type(error).__name__}: {error}"
            reason = f"{request.method} was declined: its handler failed with {text}"
            self._refuse(request, responder, reason, HANDLER_FAILED, error)
        else:
            if not responder.settled:
                responder.result(encoded)

    def _on_handler_end(self, task: asyncio.Task[None]) -> None:
        """Refuse the request if it has no reply: a task may be cancelled before `_run` begins."""
        request, responder = self._pending.pop(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("answering %s failed", request.method, exc_info=task.exception())
        reason = f"{request.method} was declined: its handler was cancelled"
        self._refuse(request, responder, reason, HANDLER_FAILED)

    def _refuse(
        self,
        request: Request,
        responder: Responder,
        reason: str,
        code: int | None = None,
        error: Exception | None = None,
    ) -> None:
        """Send the method's negative reply, or an error (with ``code`` if given) if the method has
        no negative reply. Do nothing if the request has a reply."""
        if responder.settled or self._connection_ended:
            return
        from codex_acp.codex.approvals.refusals import refusal
        from codex_acp.wire.codec import encode

        reason = sendable(reason)
        logger.warning("refused %s (id %r): %s", request.method, request.id, reason, exc_info=error)
        refused = RefusedRequest(request.id, request.method, request.params, reason)
        report_refused(self._on_refused, refused)
        reply = refusal(request.method, request.params, reason)
        if isinstance(reply, RpcError):
            responder.error(reply.code if code is None else code, reply.message)
        else:
            responder.result(encode(reply))


def sendable(reason: str) -> str:
    """Return the reason as valid Unicode of bounded length, so that every reply can be sent."""
    if len(reason) > MAX_REASON_LENGTH:
        reason = f"{reason[:MAX_REASON_LENGTH]}… ({len(reason)} characters in all)"
    return reason.encode("utf-8", "replace").decode()


MAX_KINDS: Final = 256
"""Kinds that are counted separately: the peer chooses the names, and could send any number."""

OTHER_KINDS: Final = "(others)"
"""Kind under which all kinds above `MAX_KINDS` are counted."""

MAX_PARTS: Final = 5000
"""Values of one message that are examined: a thread's whole history may be one message."""

MAX_NAME: Final = 80
"""Characters of a name that the peer chose."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types whose values have no parts and are never unknown."""

_TAGS: Final = ("type", "mode", "kind")
"""Fields in which the members of a union usually have their tag."""

_flat: dict[type, bool] = {}
"""Model class → whether all its fields have plain types: then only extra fields are unknown."""


def count_kind(counts: Counter[str], kind: str) -> bool:
    """Count one more of ``kind``, or of `OTHER_KINDS` if `MAX_KINDS` kinds are counted already.
    Return whether the count was 0."""
    if kind not in counts and len(counts) >= MAX_KINDS:
        kind = OTHER_KINDS
    counts[kind] += 1
    return counts[kind] == 1


class UnknownParts:
    """Counts of the unknown parts of one connection's messages, by kind.

    Examples of kinds: ``field Thread.newThing``, ``value Turn.status 'asleep'``, ``member
    ItemStartedNotification.item 'hologram'``, ``request vault/open``.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Kind → count."""

    def examine(self, model: Any) -> None:
        """Count the unknown parts of a decoded message; cheap for a flat model."""
        cls = type(model)
        flat = _flat.get(cls)
        if flat is None:
            from codex_acp.wire.lazy import is_flat
            from codex_acp.wire.model import WireModel

            flat = _flat[cls] = issubclass(cls, WireModel) and is_flat(cls)
        if flat:
            if model.__pydantic_extra__:
                self._count_extra_fields(model)
            return
        self._walk(model)

    def _count_extra_fields(self, model: Any) -> None:
        for name in model.__pydantic_extra__:
            self._note(f"field {type(model).__name__}.{name[:MAX_NAME]}")

    def _walk(self, root: Any) -> None:
        """Count the unknown parts of all values in ``root``, `MAX_PARTS` values at most."""
        from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

        todo: list[tuple[Any, str]] = [(root, type(root).__name__)]
        examined = 0
        while todo and examined < MAX_PARTS:
            value, where = todo.pop()
            examined += 1
            if isinstance(value, UnknownVariant):
                wire = value.wire()
                tag = next((wire[key] for key in _TAGS if isinstance(wire.get(key), str)), None)
                name = next(iter(wire), "empty") if tag is None else tag
                self._note(f"member {where} {name[:MAX_NAME]!r}", logging.WARNING)
            elif isinstance(value, WireModel):
                if value.__pydantic_extra__:
                    self._count_extra_fields(value)
                name = type(value).__name__
                todo += [
                    (inner, f"{name}.{field}")
                    for field, inner in value.__dict__.items()
                    if type(inner) not in _PLAIN
                ]
            elif isinstance(value, UnknownValue):
                self._note(f"value {where} {value[:MAX_NAME]!r}")
            elif isinstance(value, list | dict):
                parts = value.values() if isinstance(value, dict) else value
                todo += [(inner, where) for inner in parts if type(inner) not in _PLAIN]

    def _note(self, kind: str, level: int = logging.INFO) -> None:
        if count_kind(self.counts, kind):
            text = "the app-server sent what schema %s does not know: %s; it is kept as it came"
            logger.log(level, text, SCHEMA_VERSION, kind)
