"""Small classes for what is loaded at every start: as dataclasses, at a sixth of their cost.

A dataclass compiles six functions of its own; one of these compiles its ``__init__``, which is
what its speed rests on, and shares the rest.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@overload
def record(cls: type[T]) -> type[T]: ...
@overload
def record(*, frozen: bool = False, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def record(cls: type[T] | None = None, *, frozen: bool = False, kw_only: bool = False) -> Any:
    """As ``@dataclass(slots=True)``: an ``__init__`` of the annotated fields, ``==`` and a repr.

    For classes without a base. A default is a value, or a factory as ``field`` takes it; what is
    frozen can be hashed. Of what `dataclasses` has for a dataclass there is `replace`.
    """
    if cls is None:
        return lambda made: _made(made, frozen=frozen, kw_only=kw_only)
    return _made(cls, frozen=frozen, kw_only=kw_only)


def names_of(cls: type) -> tuple[str, ...]:
    """The names of its fields."""
    names: tuple[str, ...] = cls.__dict__["__slots__"]
    return names


def replace(value: T, **changes: Any) -> T:
    """A copy with other values in some fields."""
    make: Any = type(value)
    copy: T = make(**{name: getattr(value, name) for name in make.__slots__} | changes)
    return copy


def _made(cls: type[T], *, frozen: bool, kw_only: bool) -> type[T]:
    namespace = dict(cls.__dict__)
    names = tuple(namespace["__annotations__"])
    known: dict[str, Any] = {"_set": object.__setattr__}
    params, steps = ["self", "*"] if kw_only else ["self"], []
    for name in names:
        default = namespace.pop(name, MISSING)
        value = name
        if isinstance(default, Field):
            known[f"_{name}_made"] = default.default_factory
            value = f"_{name}_made() if {name} is _absent else {name}"
            default = known["_absent"] = MISSING
            params.append(f"{name}=_absent")
        elif default is MISSING:
            params.append(name)
        else:
            known[f"_{name}_default"] = default
            params.append(f"{name}=_{name}_default")
        steps.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    exec(f"def __init__({', '.join(params)}):\n  " + "\n  ".join(steps), known)
    for left_over in ("__dict__", "__weakref__"):
        namespace.pop(left_over, None)
    namespace |= {"__init__": known["__init__"], "__slots__": names, "__match_args__": names}
    namespace |= {"__eq__": _equal, "__repr__": _repr, "__hash__": _hash if frozen else None}
    if frozen:
        namespace |= {"__setattr__": _refuse, "__delattr__": _refuse}
    make: Any = type(cls)
    made: type[T] = make(cls.__name__, (), namespace)
    return made


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__slots__)


def _equal(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    members = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({members})"


def _refuse(self: Any, name: str, *_: object) -> None:
    raise AttributeError(f"cannot change {name!r}: a {type(self).__name__} is frozen")
