"""The classes in generated tables of methods: method infos, registries and events.

A registry resolves the name of a model when it is first used. An event is the method and params of
a notification. Event classes are light, because a protocol has a hundred of them, and a program
gets thousands of events a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, dataclass_transform

from codex_acp._record import NamedTuple
from codex_acp.errors import IncompleteTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_VALUES: Final = 50_000
"""Values in the params of a request: the largest form that a person is asked has fewer, and models
of this many take half a second."""


def require_rows(table: str, rows: Iterable[str], methods: Iterable[str]) -> None:
    """Compare a table's keys with a registry's methods. Raises IncompleteTable with the rows."""
    present, needed = set(rows), set(methods)
    problems = [f"add a row for {method!r}" for method in sorted(needed - present)]
    problems += [
        f"remove the row for {method!r}, which the schema does not have"
        for method in sorted(present - needed)
    ]
    if problems:
        raise IncompleteTable(table, tuple(problems))


class MethodInfo(NamedTuple):
    """One JSON-RPC method, with the names of its params and result models; None: it has none."""

    params: str | None
    result: str | None = None
    experimental: bool = False
    """Whether it needs the experimental capability (Codex) or the unstable schema (ACP)."""


class ModelRegistry:
    """Models of one protocol by name; importing a registry imports no model. With ``unstable``
    False, parts that only the unstable schema has are read like unknown parts, except with an
    untested version of pydantic."""

    def __init__(self, module: str, *, unstable: bool = True) -> None:
        self._module = module
        self._unstable = unstable
        self._decoders: dict[str, Callable[[object], Any]] = {}

    def resolve(self, name: str) -> Any:
        """Return a model class, or the annotation of a union. Raises AttributeError if unknown."""
        return getattr(import_module(self._module), name)

    def decoder(self, name: str) -> Callable[[object], Any]:
        """Return a function that decodes a wire value as ``name`` or raises ValidationError."""
        try:
            return self._decoders[name]
        except KeyError:
            from codex_acp.wire.codec import decoder, validator_of
            from codex_acp.wire.lazy import IS_TESTED, definitions

            model = self.resolve(name)
            if not IS_TESTED or (self._unstable and isinstance(model, type)):
                validator = validator_of(model)
            else:  # a union, or a class as the stable schema has it
                tree = self._module.removesuffix(".models")
                validator = definitions(tree, unstable=self._unstable).validator(name)
            function = self._decoders[name] = decoder(validator)
            return function

    def decode(self, name: str, value: object, what: str) -> Any:
        """Decode ``value`` as ``name``. Raises InvalidPayload, which names ``what`` and fields."""
        try:
            return self.decoder(name)(value)
        except ValueError as error:  # the base class of ValidationError, which loads slowly
            from pydantic_core import ValidationError

            from codex_acp.errors import InvalidPayload
            from codex_acp.wire.codec import problems_of

            if not isinstance(error, ValidationError):
                raise
            raise InvalidPayload(what, problems_of(error, value)) from None

    def decode_request(self, name: str, value: object, what: str) -> Any:
        """Decode the params of a request, whose author may be a stranger; raise InvalidPayload at
        once for more than `MAX_VALUES` values: models are much slower than JSON."""
        if _has_too_many_values(value):
            from codex_acp.errors import InvalidPayload

            raise InvalidPayload(what, (f"it has more than {MAX_VALUES} values",))
        return self.decode(name, value, what)


def _has_too_many_values(value: object) -> bool:
    values, seen = [value], 0
    while values and seen <= MAX_VALUES:
        seen += 1
        value = values.pop()
        if isinstance(value, dict | list):
            values += value.values() if isinstance(value, dict) else value
    return seen > MAX_VALUES


@dataclass_transform(frozen_default=True)
class Event:
    """A notification with its ``params``; each class has its ``method``. Frozen and comparable."""

    __slots__ = ("params",)
    __match_args__: ClassVar[tuple[str, ...]] = ("params", "method")

    if not TYPE_CHECKING:

        def __init__(self, params: Any, method: str | None = None) -> None:
            object.__setattr__(self, "params", params)
            if method is not None and method != self.method:
                msg = f"the method of a {type(self).__name__} is {self.method!r}, not {method!r}"
                raise ValueError(msg)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to {name!r}: a {type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    __hash__: ClassVar[None] = None  # type: ignore[assignment] # params are models, which can be changed

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({members})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)


class UnknownEvent(Event):
    """An event with a method that the schema does not know, or with invalid params."""

    __slots__ = ("method", "problem")
    __match_args__: ClassVar[tuple[str, ...]] = ("params", "method", "problem")

    if TYPE_CHECKING:
        params: Any
        method: str
        problem: str | None = None
        """Problem of the params of a known method; None for an unknown method."""
    else:

        def __init__(self, params: Any, method: str, problem: str | None = None) -> None:
            object.__setattr__(self, "params", params)
            object.__setattr__(self, "method", method)
            object.__setattr__(self, "problem", problem)
