"""The base class of all models: pydantic's, or `CoreModel` in a process of the adapter.

Pydantic takes 50 ms to import. Models are read and written by pydantic-core, for which generated
classes bring their schemas, so the adapter can do without the rest of pydantic. `CoreModel` has the
members of ``BaseModel`` that this library uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from codex_acp._pydantic import is_left_out

LEFT_OUT = is_left_out()
"""Whether this process does without pydantic, see `codex_acp._pydantic`."""


class CoreModelMeta(type):
    """Metaclass of `CoreModel`, so that ``__class__`` of a model's class can be assigned."""


class CoreModel(metaclass=CoreModelMeta):
    """A model that pydantic-core can fill: it has the members of ``BaseModel`` for that."""

    __slots__ = (
        "__dict__",
        "__pydantic_extra__",
        "__pydantic_fields_set__",
        "__pydantic_private__",
    )

    if not TYPE_CHECKING:

        @property
        def model_fields_set(self) -> set[str]:
            """Return the names of the fields that were set."""
            return self.__pydantic_fields_set__

        @property
        def model_extra(self) -> dict[str, Any] | None:
            """Return the members for which the model has no field."""
            return self.__pydantic_extra__

        def model_copy(self, *, update: dict[str, Any] | None = None) -> Any:
            """Return a shallow copy, with other values in some fields."""
            copied = object.__new__(type(self))
            put = object.__setattr__
            put(copied, "__dict__", self.__dict__.copy())
            put(copied, "__pydantic_extra__", dict(self.__pydantic_extra__ or {}))
            put(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
            put(copied, "__pydantic_private__", None)
            for name, value in (update or {}).items():
                setattr(copied, name, value)
            return copied

        def __getattr__(self, name: str) -> Any:
            # pydantic-core asks before it has filled the model: then there are no extra members.
            extra = {} if name == "__pydantic_extra__" else self.__pydantic_extra__ or {}
            if name in extra:
                return extra[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __setattr__(self, name: str, value: object) -> None:
            if name in type(self).__annotations__:
                self.__dict__[name] = value
                self.__pydantic_fields_set__.add(name)
            else:
                self.__pydantic_extra__[name] = value

        def __eq__(self, other: object) -> bool:
            if not isinstance(other, CoreModel):
                return NotImplemented
            return (
                type(other) is type(self)
                and other.__dict__ == self.__dict__
                and (other.__pydantic_extra__ or {}) == (self.__pydantic_extra__ or {})
            )

        __hash__ = None

        def __repr__(self) -> str:
            return f"{type(self).__name__}({self._members(', ')})"

        def __str__(self) -> str:
            return self._members(" ")

        def _members(self, between: str) -> str:
            members = {**self.__dict__, **(self.__pydantic_extra__ or {})}
            return between.join(f"{name}={value!r}" for name, value in members.items())


if TYPE_CHECKING:
    import pydantic

    BaseModel = pydantic.BaseModel
else:
    BaseModel = CoreModel if LEFT_OUT else import_module("pydantic").BaseModel
