"""Define a dialect: the methods, models and handlers of one side for one version of ACP.

Knows the shape of the generated registries, but no single method. The registry of a version loads
when a dialect of that version is made, so a side of one version loads nothing of another. Finds
unstable models and fields, which a stable side may not send (`_generated/v1/unstable.py` has them).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from codex_acp._record import NamedTuple, record
from codex_acp.errors import MisuseError, refuse_unless

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType

    from codex_acp.acp._generated.v2.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        ClientNotificationHandlers,
        ClientRequestHandlers,
        UnstableAgentNotificationHandlers,
        UnstableAgentRequestHandlers,
        UnstableClientNotificationHandlers,
        UnstableClientRequestHandlers,
    )
    from codex_acp.jsonrpc import EncodedJson, JsonValue
    from codex_acp.wire.model import WireModel
    from codex_acp.wire.registry import MethodInfo, ModelRegistry

    QuickAnswer: TypeAlias = Callable[[], Awaitable[EncodedJson]]
    QuickHandler: TypeAlias = Callable[[JsonValue], QuickAnswer | None]
    """Gets raw params; returns the function that answers, or None for an answer of the typed
    handler."""
    ExtensionHandler: TypeAlias = Callable[[JsonValue], Awaitable[JsonValue]]
    RequestHandler: TypeAlias = Callable[[Any], Awaitable[object]]
    NotificationHandler: TypeAlias = Callable[[Any], None]
    V2Handlers: TypeAlias = "AgentHandlers | ClientHandlers"
    SideName: TypeAlias = Literal["agent", "client"]


class AnyHandlers(NamedTuple):
    """Handlers of any side and version. A table of unstable handlers, even an empty one, lets the
    side use the unstable schema. The classes for version 2 begin with these fields, in order."""

    requests: Mapping[str, Any]
    notifications: Mapping[str, Any]
    unstable: Mapping[str, Any] | None = None
    unstable_notifications: Mapping[str, Any] | None = None
    quick: Mapping[str, QuickHandler] | None = None
    extensions: Mapping[str, ExtensionHandler] | None = None


class AgentHandlers(NamedTuple):
    """An agent's handlers of version 2. The handlers of version 1 are arguments of `AgentSide`."""

    requests: AgentRequestHandlers
    notifications: AgentNotificationHandlers
    unstable: UnstableAgentRequestHandlers | None = None
    unstable_notifications: UnstableAgentNotificationHandlers | None = None
    quick: Mapping[str, QuickHandler] | None = None
    extensions: Mapping[str, ExtensionHandler] | None = None


class ClientHandlers(NamedTuple):
    """A client's handlers of version 2. The handlers of version 1 are arguments of `ClientSide`."""

    requests: ClientRequestHandlers
    notifications: ClientNotificationHandlers
    unstable: UnstableClientRequestHandlers | None = None
    unstable_notifications: UnstableClientNotificationHandlers | None = None


@record(frozen=True)
class Dialect:
    """One version of ACP with the handlers of one side."""

    version: int
    models: ModelRegistry
    peer_requests: Mapping[str, MethodInfo]
    """Requests that the peer may send."""
    peer_notifications: Mapping[str, MethodInfo]
    """Notifications that the peer may send."""
    own_methods: Mapping[str, MethodInfo]
    """Requests and notifications that this side may send."""
    requests: Mapping[str, RequestHandler | None]
    notifications: Mapping[str, NotificationHandler | None]
    quick: Mapping[str, QuickHandler]
    extensions: Mapping[str, ExtensionHandler]
    """Handlers of requests that are in no schema, by method."""
    is_stable: bool
    """Whether the side uses the stable schema alone: it sends and reads nothing unstable."""

    def result(self, method: str, result: object) -> Any:
        """Decode the peer's answer as the method's result model. Raises InvalidPayload."""
        model = self.own_methods[method].result
        if model is None:
            return None
        # Some peers answer null where the schema has an object without required fields.
        return self.models.decode(
            model, {} if result is None else result, f"the result of {method}"
        )

    def refuse_unstable(self, method: str, info: MethodInfo, value: object) -> None:
        """Raise MisuseError if a stable side is about to send anything unstable."""
        if not self.is_stable:
            return
        if info.experimental:  # means "unstable" for a method of ACP
            msg = f"{method} is unstable; open the side with `unstable` if the peer has it"
            raise MisuseError(msg)
        found: list[str] = []
        names = _unstable_names(f"codex_acp.acp._generated.v{self.version}")
        _collect_unstable(value, names, found)
        if found:
            raise MisuseError(
                f"{method} was to be sent with {', '.join(dict.fromkeys(found))}, which only the"
                " unstable schema has; open the side with `unstable` if the peer is to get it"
            )


def dialects(
    side: SideName,
    v1: AnyHandlers | Callable[[], AnyHandlers] | None,
    v2: V2Handlers | Callable[[], V2Handlers] | None,
) -> dict[int, Callable[[], Dialect]]:
    """Map each version to a function that returns its dialect. The dialect of given handlers is
    made now; a function that returns handlers is called later. Raises MisuseError."""

    def maker(
        version: int, handlers: AnyHandlers | V2Handlers | Callable[[], AnyHandlers | V2Handlers]
    ) -> Callable[[], Dialect]:
        if isinstance(handlers, tuple):  # a NamedTuple, no function
            made_now = dialect(version, side, AnyHandlers(*handlers))
            return lambda: made_now
        return lambda: dialect(version, side, AnyHandlers(*handlers()))

    given = {version: handlers for version, handlers in ((1, v1), (2, v2)) if handlers is not None}
    return {version: maker(version, handlers) for version, handlers in given.items()}


def handlers_of_v1(
    requests: Mapping[str, Any] | None, notifications: Mapping[str, Any] | None, *others: Any
) -> AnyHandlers | None:
    """Return a side's handlers of version 1, or None for a side without that version. Raises
    MisuseError if only one of the tables is None."""
    if requests is None and notifications is None:
        return None
    if requests is None or notifications is None:
        msg = "version 1 needs the handlers of requests and of notifications, or None for both"
        raise MisuseError(msg)
    return AnyHandlers(requests, notifications, *others)


def dialect(version: int, side: SideName, handlers: AnyHandlers) -> Dialect:
    """Return the dialect of ``version`` with ``handlers``. Raises MisuseError if a table of
    handlers lacks a row or has a row too many, as in a program without type checks."""
    registry: Any = import_module(f"codex_acp.acp._generated.v{version}.methods")
    of_both_sides: Mapping[str, MethodInfo] = registry.PROTOCOL_NOTIFICATIONS
    to_agent = (registry.AGENT_REQUESTS, {**registry.AGENT_NOTIFICATIONS, **of_both_sides})
    to_client = (registry.CLIENT_REQUESTS, {**registry.CLIENT_NOTIFICATIONS, **of_both_sides})
    # The peer sends what goes to this side.
    from_peer, to_peer = (to_agent, to_client) if side == "agent" else (to_client, to_agent)
    peer_requests, peer_notifications = from_peer
    own_requests, own_notifications = to_peer
    is_stable = handlers.unstable is None and handlers.unstable_notifications is None
    unstable_requests = handlers.unstable or {}
    unstable_notifications = handlers.unstable_notifications or {}
    check_rows("request", handlers.requests, peer_requests)
    check_rows("notification", handlers.notifications, peer_notifications)
    check_known("unstable request", unstable_requests, methods_of(peer_requests, unstable=True))
    known = methods_of(peer_notifications, unstable=True)
    check_known("unstable notification", unstable_notifications, known)
    check_known("quick", handlers.quick or {}, peer_requests)
    wrong = [method for method in (handlers.extensions or {}) if not method.startswith("_")]
    if wrong:
        msg = f"a method that is in no schema has to begin with _, unlike {', '.join(wrong)}"
        raise MisuseError(msg)
    if side == "agent" and handlers.requests["initialize"] is None:
        msg = "an agent must handle initialize: without it every other request is refused"
        raise MisuseError(msg)
    return Dialect(
        version=version,
        models=registry.STABLE_MODELS if is_stable else registry.MODELS,
        peer_requests=peer_requests,
        peer_notifications=peer_notifications,
        own_methods={**own_requests, **own_notifications},
        requests={**handlers.requests, **unstable_requests},
        notifications={**handlers.notifications, **unstable_notifications},
        quick=handlers.quick or {},
        extensions=handlers.extensions or {},
        is_stable=is_stable,
    )


def methods_of(methods: Mapping[str, MethodInfo], *, unstable: bool) -> dict[str, MethodInfo]:
    """Return the methods of the stable schema, or the methods that only the unstable schema has."""
    return {method: info for method, info in methods.items() if info.experimental == unstable}


def is_unstable(model: type[WireModel]) -> bool:
    """Return whether only the unstable schema has this model."""
    package = model.__module__.partition(".models.")[0]  # of the model's version of ACP
    return model.__name__ in _unstable_names(package).TYPES


@cache
def _unstable_names(package: str) -> ModuleType:
    """Return the generated module with the names of unstable models (``TYPES``), of unstable fields
    by model (``FIELDS``), and of models that contain any of both (``CONTAINING``)."""
    return import_module(f"{package}.unstable")


def _collect_unstable(value: Any, names: ModuleType, found: list[str]) -> None:
    """Add the unstable models and fields of ``value`` to ``found``. Looks only into models that can
    contain unstable ones, as the generator lists them."""
    name = value.__class__.__name__
    if name in names.TYPES:
        found.append(name)
    elif name in names.CONTAINING:
        fields = names.FIELDS.get(name)
        if fields is not None:
            found += [f"{name}.{field}" for field in fields if field in value.model_fields_set]
        for inner in value.__dict__.values():
            _collect_unstable(inner, names, found)
    elif name in ("list", "tuple"):
        for item in value:
            _collect_unstable(item, names, found)


def check_rows(table: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]) -> None:
    """Raise MisuseError, which names ``table``, unless ``rows`` has a row for each method of the
    stable schema and no other row."""
    stable = methods_of(methods, unstable=False)
    check_known(table, rows, stable)
    missing = [method for method in stable if method not in rows]
    if missing:
        raise MisuseError(f"the table of {table} handlers has no row for {', '.join(missing)}")


def complete_rows(
    table: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]
) -> dict[str, object]:
    """Return ``rows`` with None for each missing method of the stable schema. Raises MisuseError
    for a method that the stable schema lacks."""
    stable = methods_of(methods, unstable=False)
    check_known(table, rows, stable)
    return {**dict.fromkeys(stable), **rows}


def check_known(table: str, rows: Mapping[str, object], methods: Mapping[str, MethodInfo]) -> None:
    """Raise MisuseError if ``rows`` has a row for an unknown method, or a handler that cannot be
    called: nothing awaits the handler of a notification."""
    refuse_unless(isinstance(rows, Mapping), f"the {table} handlers are {{method: function}}", rows)
    unknown = [method for method in rows if method not in methods]
    if unknown:
        msg = f"the table of {table} handlers has rows for unknown methods: {', '.join(unknown)}"
        raise MisuseError(msg)
    for method, handler in rows.items():
        refuse_unless(
            handler is None or callable(handler), f"the handler of {method} is a function", handler
        )
        if "notification" in table and inspect.iscoroutinefunction(handler):
            msg = f"the handler of the notification {method} is a plain function: nothing awaits it"
            raise MisuseError(msg)
