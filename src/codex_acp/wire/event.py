"""The base of generated events: a notification's method and its params, as one value.

Light on purpose: a protocol has a hundred of them, and a program gets thousands a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class Event:
    """A frozen value with ``params``; each class has its ``method``. Matches, compares, prints."""

    __slots__ = ("params",)
    __match_args__: ClassVar[tuple[str, ...]] = ("params", "method")

    if not TYPE_CHECKING:

        def __init__(self, params: Any, method: str | None = None) -> None:
            _set_params(self, params)
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
    """An event whose method the schema does not know, or whose params do not fit it."""

    __slots__ = ("method", "problem")
    __match_args__: ClassVar[tuple[str, ...]] = ("params", "method", "problem")

    if TYPE_CHECKING:
        params: Any
        method: str
        problem: str | None = None
        """Misfit of the payload, for a method that the schema knows; None: it fits."""
    else:

        def __init__(self, params: Any, method: str, problem: str | None = None) -> None:
            _set_params(self, params)
            _set_method(self, method)
            _set_problem(self, problem)


if not TYPE_CHECKING:
    _set_params = Event.params.__set__
    _set_method = UnknownEvent.method.__set__
    _set_problem = UnknownEvent.problem.__set__
