"""Make classes like dataclasses and named tuples, at a fraction of their cost, for every start.

``@dataclass`` compiles six functions for each class. A record compiles only ``__init__``, when the
first object is made; all records share the other functions. Measured before a session is open: 118
classes take 4 ms as records, 100 ms as dataclasses. typing's named tuples compile a function and
each annotation; 57 of them, for a first prompt, took 18 ms.
"""

from __future__ import annotations

from _thread import RLock
from collections import _tuplegetter  # type: ignore[attr-defined] # as namedtuple does
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@overload
def record(cls: type[T]) -> type[T]: ...
@overload
def record(
    *, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def record(
    cls: type[T] | None = None, *, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> Any:
    """Make a class like ``@dataclass(slots=True)``, with ``__init__``, ``==`` and a repr.

    The class must have no base. A default is a value, or ``field(default_factory=…)``. A frozen
    record can be hashed. The functions of `dataclasses` accept a record; `replace` here is faster.
    """
    if cls is None:
        return lambda cls: _record_of(cls, frozen=frozen, kw_only=kw_only, eq=eq)
    return _record_of(cls, frozen=frozen, kw_only=kw_only, eq=eq)


def names_of(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a record."""
    names: tuple[str, ...] = cls.__dict__["__slots__"]
    return names


def replace(value: T, **changes: Any) -> T:
    """Return a copy with other values in some fields."""
    make: Any = type(value)
    copy: T = make(**{name: getattr(value, name) for name in make.__slots__} | changes)
    return copy


def _record_of(cls: type[T], *, frozen: bool, kw_only: bool, eq: bool) -> type[T]:
    """Make the class anew, with ``__slots__``, and members that are made at their first use."""
    namespace = dict(cls.__dict__)
    annotations = namespace.get("__annotations__", {})
    names = tuple(annotations)
    defaults = {name: namespace.pop(name) for name in names if name in namespace}
    for descriptor in ("__dict__", "__weakref__"):
        namespace.pop(descriptor, None)
    # ``dataclass`` changes the class and cannot run twice, so its result is cached.
    as_dataclass = cache(lambda: vars(dataclass(frozen=frozen, kw_only=kw_only, eq=eq)(cls)))
    namespace |= {
        "__slots__": names,
        "__match_args__": names,
        "__init__": _LazyMember(
            lambda: _init(annotations, defaults, frozen=frozen, kw_only=kw_only)
        ),
        "__dataclass_fields__": _LazyMember(lambda: as_dataclass()["__dataclass_fields__"]),
        "__dataclass_params__": _LazyMember(lambda: as_dataclass()["__dataclass_params__"]),
        "__repr__": _repr,
        "__replace__": replace,
    }
    if eq:
        namespace |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
    if frozen:
        namespace |= {"__setattr__": _refuse, "__delattr__": _refuse, "__setstate__": _restore}
    make: Any = type(cls)
    made: type[T] = make(cls.__name__, (), namespace)
    return made


_MAKING: Final = RLock()
"""Lock of the thread that makes a member of a class."""


class _LazyMember:
    """A member of a class that is made at its first use; most are never used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        with _MAKING:
            if vars(self._owner)[self._name] is self:
                setattr(self._owner, self._name, self._make())
        made = vars(self._owner)[self._name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _init(
    annotations: dict[str, Any], defaults: dict[str, Any], *, frozen: bool, kw_only: bool
) -> object:
    """Write the source of ``__init__`` and compile it."""
    namespace: dict[str, Any] = {"_set": object.__setattr__}
    params, steps = ["self", "*"] if kw_only else ["self"], []
    for name in annotations:
        default = defaults.get(name, MISSING)
        value = name
        if isinstance(default, Field):  # a record's field has a ``default_factory``
            namespace[f"_{name}_factory"] = default.default_factory
            value = f"_{name}_factory() if {name} is _absent else {name}"
            namespace["_absent"] = MISSING
            params.append(f"{name}=_absent")
        elif default is MISSING:
            params.append(name)
        else:
            namespace[f"_{name}_default"] = default
            params.append(f"{name}=_{name}_default")
        steps.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    exec(f"def __init__({', '.join(params)}):\n  " + "\n  ".join(steps or ["pass"]), namespace)
    init = namespace["__init__"]
    init.__annotations__ = {**annotations, "return": None}
    return cast("object", init)


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
    raise FrozenInstanceError(f"cannot change {name!r}: a {type(self).__name__} is frozen")


def _restore(self: Any, state: tuple[None, dict[str, Any]]) -> None:
    """Restore the fields of a frozen object that was copied or unpickled."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - passed on
else:

    class _TupleMeta(type):
        """Makes ordinary classes: `isinstance` is slower for a class with a metaclass."""

        def __new__(cls, name, _bases, namespace):
            names = tuple(namespace.get("__annotations__", ()))
            defaults = {each: namespace.pop(each) for each in names if each in namespace}
            getters = {each: _tuplegetter(index, None) for index, each in enumerate(names)}
            members = {
                "__slots__": (),
                "__match_args__": names,
                "__new__": _LazyMember(lambda: staticmethod(_new(name, names, defaults))),
                "_fields": names,
                "_field_defaults": defaults,
            }
            return type(name, (tuple,), _METHODS | namespace | getters | members)

    NamedTuple = type.__new__(_TupleMeta, "NamedTuple", (), {})
    """A base like typing's, for classes that are not generic."""

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _replaced(self, **changes):
        return type(self)(**self._asdict() | changes)

    def _shown(self):
        members = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({members})"

    _METHODS = {
        "_make": classmethod(lambda cls, values: cls(*values)),
        "_asdict": _asdict,
        "_replace": _replaced,
        "__replace__": _replaced,
        "__getnewargs__": lambda self: self[:],
        "__repr__": _shown,
    }

    def _new(name, names, defaults):
        """Compile ``__new__`` of the named tuple ``name``."""
        args = ", ".join(names)
        made = eval(f"lambda _cls, {args}: _make(_cls, ({args},))", {"_make": tuple.__new__})
        made.__name__, made.__qualname__ = "__new__", f"{name}.__new__"
        made.__defaults__ = tuple(defaults.values())
        return made
