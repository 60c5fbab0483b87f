"""How generated model classes are made without pydantic looking at their annotations.

Pydantic spends four fifths of a class's creation on finding out what it needs, which the
generator knows. A class of a generated module is made as a bare Python class; its
validator and serializer come from its generated schema at first use, and what only introspection
reads (fields, signature, the full core schema) from an ordinary pydantic class that is made
behind the scenes. Subclasses that others write are ordinary from the start.

This leans on how pydantic stores what it makes, so it is only done for versions it was tested
with. With any other the models are ordinary pydantic models: they load more slowly. Plugins of
pydantic are told of the models of others, and not of these.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from codex_acp.wire.base import LEFT_OUT, BaseModel
from codex_acp.wire.schemas import schema_of, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

TESTED = ("2.12", "2.13", "2.14")
"""The pydantic versions with which generated classes are made the fast way: `nox -s pydantic`."""


def _is_tested() -> bool:
    if LEFT_OUT:
        return True
    from pydantic import VERSION

    return ".".join(VERSION.split(".")[:2]) in TESTED


IS_TESTED = _is_tested()

OF_AN_EMPTY_MODEL: dict[str, Any] = {
    "__class_vars__": {"wire_tags"},
    "__private_attributes__": {},
    "__pydantic_complete__": True,
    "__pydantic_computed_fields__": {},
    "__pydantic_custom_init__": False,
    "__pydantic_extra_info__": None,
    "__pydantic_fields__": {},
    "__pydantic_generic_metadata__": {"origin": None, "args": (), "parameters": ()},
    "__pydantic_post_init__": None,
}
"""Members that pydantic gives the base class: to let pydantic make it costs a sixth of a start."""


_make: Any = type.__new__ if LEFT_OUT else ABCMeta.__new__


class LazyModelMeta(ModelMetaclass):
    """Makes the classes of generated modules; others it leaves to pydantic."""

    if not TYPE_CHECKING:

        def __new__(mcs, name, bases, namespace, **kwargs):
            if kwargs or tree_of(namespace["__module__"]) is None:
                return super().__new__(mcs, name, bases, namespace, **kwargs)
            if BaseModel in bases:
                return _make(mcs, name, bases, OF_AN_EMPTY_MODEL | namespace)
            annotations = namespace.get("__annotations__", {})
            annotations.pop("wire_tags", None)  # of the class; for type checkers alone
            # As pydantic does: the class has no attribute for a field.
            defaults = {field: namespace.pop(field) for field in annotations if field in namespace}
            namespace["__pydantic_fields__"] = _FIELDS if annotations else {}
            if not any(base.__base__ is BaseModel for base in bases):
                namespace["__wire_defaults__"] = defaults
            cls = _make(mcs, name, bases, namespace)
            if annotations:
                # Subclasses are then pydantic's affair alone, as are those of any other model.
                cls.__class__ = ModelMetaclass
            return cls


def defaults_of(cls: type[BaseModel]) -> dict[str, Any] | None:
    """The defaults of a class's fields; None for a class that pydantic made."""
    return cls.__dict__.get("__wire_defaults__")


def make_lazy(base: type[BaseModel], first: type[BaseModel]) -> None:
    """Have the classes below ``base`` get each attribute when it is needed.

    ``first`` is the one class right below it, the base of all others.
    """
    config = base.model_config
    adapter = cache(lambda: _adapter(first))
    for late in (
        _Late("__pydantic_validator__", _validator, lambda: adapter().validator),
        _Late("__pydantic_serializer__", _serializer, lambda: adapter().serializer),
        _Late("__pydantic_core_schema__", _core_schema, lambda: adapter().core_schema),
        _Late("__pydantic_setattr_handlers__", _setters, dict),
        _Late("__signature__", _signature, lambda: _signature(first)),
        _Late("model_config", lambda _: config.copy(), lambda: config),
    ):
        setattr(base, late.name, late)


class _Late:
    """A class attribute that is made, and put in this one's place, when it is first read.

    ``make`` makes a generated class's; ``of_base`` that of the classes that they all inherit
    from, where nothing may be put.
    """

    def __init__(
        self, name: str, make: Callable[[type[BaseModel]], Any], of_base: Callable[[], Any]
    ) -> None:
        self.name = name
        self._make = make
        self._of_base = of_base
        self._first: dict[type[BaseModel], Any] = {}

    def __get__(self, instance: object, owner: type[BaseModel]) -> Any:
        if instance is not None and self.name == "__signature__":
            # As in pydantic: an instance that can be called has the signature of its call.
            raise AttributeError(f"{self.name!r} attribute of {owner.__name__!r} is class-only")
        # A subclass that pydantic is still making reads what its base has.
        cls = next((c for c in owner.__mro__ if "__wire_defaults__" in c.__dict__), None)
        if cls is None:
            return self._of_base()
        # What another thread was first with stays: it may be in use. No lock: to make something
        # may import, and a thread that imports may wait for what this one holds.
        made = self._first.setdefault(cls, self._make(cls))
        setattr(cls, self.name, made)
        return made


def _ordinary(cls: type[BaseModel]) -> type[BaseModel]:
    """The class as pydantic makes it, from the same annotations and defaults."""
    namespace: dict[str, Any] = {
        name: cls.__dict__[name]
        for name in ("__module__", "__doc__", "wire_tags")
        if name in cls.__dict__
    }
    namespace |= {"__qualname__": cls.__qualname__, "__annotations__": cls.__annotations__}
    defaults = defaults_of(cls)
    bases = (cls,) if defaults is None else cls.__bases__
    namespace |= defaults or {}
    make = cast("Any", LazyModelMeta)
    made: type[BaseModel] = make(cls.__name__, bases, namespace, defer_build=True)
    return made


def _validator(cls: type[BaseModel]) -> Any:
    schema_of(cls)
    return cls.__dict__["__pydantic_validator__"]


def _serializer(cls: type[BaseModel]) -> Any:
    schema_of(cls)
    return cls.__dict__["__pydantic_serializer__"]


def _fields(cls: type[BaseModel]) -> Any:
    return _ordinary(cls).__pydantic_fields__


_FIELDS = _Late("__pydantic_fields__", _fields, dict)


def _setters(cls: type[BaseModel]) -> Any:
    """Return the setters that pydantic would find at each field's first assignment."""
    return dict.fromkeys(cls.__annotations__, _set_field)


def _set_field(model: BaseModel, name: str, value: object) -> None:
    model.__dict__[name] = value
    model.__pydantic_fields_set__.add(name)


def _adapter(cls: type[BaseModel]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def _core_schema(cls: type[BaseModel]) -> Any:
    """With the metadata that a JSON schema is made from."""
    return _adapter(cls).core_schema


def _signature(cls: type[BaseModel]) -> Any:
    ordinary = _ordinary(cls)
    ordinary.model_rebuild(force=True)
    return ordinary.__signature__


def tell_that_untested() -> None:
    """One line in the log, for pydantic is of a version that was not tested."""
    import logging

    from pydantic import VERSION

    logging.getLogger(__name__).warning(
        "pydantic %s was not tested with this version of codex-acp-sdk (%s were): it works, but"
        " models load the ordinary, slower way; a newer codex-acp-sdk may know it",
        VERSION,
        ", ".join(TESTED),
    )
