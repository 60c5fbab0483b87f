"""Make the generated model classes without pydantic looking at their annotations.

Pydantic takes 50 ms to import, and spends four fifths of a class's creation on finding out what it
needs, which the generator knows. Three parts, in this order:

- the base class of all models: pydantic's, or `CoreModel` in a process of the adapter, which has
  the members of ``BaseModel`` that this library uses;
- the core schemas of generated definitions, each made by its function once, when first needed, and
  the validator and serializer that a class gets from one;
- the metaclass, which makes a class of a generated module as a bare Python class. What only
  introspection reads (fields, signature, the full core schema) comes from an ordinary pydantic
  class that is made behind the scenes. Subclasses that others write are ordinary from the start.

This leans on how pydantic stores what it makes, so it is only done for versions it was tested
with. With any other the models are ordinary pydantic models: they load more slowly. Plugins of
pydantic are told of the models of others, and not of these. Knows no word of the vocabulary
(`codex_acp.wire.words`) and no protocol.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pydantic_core import SchemaSerializer, SchemaValidator

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


if TYPE_CHECKING:

    class Ref(Protocol):
        """Gives the schema of another definition of the same tree."""

        @property
        def unstable(self) -> bool:
            """Whether what only the unstable schema has is there."""

        def __call__(self, name: str) -> Schema:
            """The schema of a class, union, enum or alias."""


Schema: TypeAlias = dict[str, Any]
"""Schema from which pydantic-core builds a validator and a serializer."""

Fields: TypeAlias = dict[str, Schema]
"""Attribute → the schema of one field of a class."""

CONFIG: dict[str, bool | str] = {
    "allow_inf_nan": False,
    "extra_fields_behavior": "allow",
    "serialize_by_alias": True,
    "validate_by_alias": True,
    "validate_by_name": True,
}
"""The base class's ``model_config``, in pydantic-core's words."""


class Definitions:
    """The definitions of one generated tree (``codex_acp.codex._generated``), by name."""

    unstable = True

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._schemas: dict[str, Schema] = {}

    def __call__(self, name: str) -> Schema:
        """The schema of a class, union, enum or alias."""
        found = self._schemas.get(name)
        if found is None:
            models = import_module(f"{self._tree}.models")
            words = import_module(f"{self._tree}.schemas.{models.MODULE_OF[name]}")
            found = getattr(words, name)(self)
            model = getattr(models, name)
            if getattr(model, "__name__", None) == name and issubclass(model, BaseModel):
                found = self._of_class(model, found)
            self._schemas[name] = found
        return found

    def _of_class(self, cls: type[BaseModel], fields: Fields) -> Schema:
        return completed(cls, fields)

    def validator(self, name: str) -> SchemaValidator:
        """A new validator of a definition that is no class."""
        return SchemaValidator(cast("Any", self(name)))


class StableDefinitions(Definitions):
    """A tree as its stable schema has it; the classes are the same.

    What is unstable reads as what no schema knows: a field is kept among the extra ones, a member
    of a union is an unknown one. For reading only: a class makes and writes all that it has.
    """

    unstable = False

    def __init__(self, tree: str) -> None:
        super().__init__(tree)
        self._containing: frozenset[str] = import_module(f"{tree}.unstable").CONTAINING
        self._classes: list[type[BaseModel]] = []

    def __call__(self, name: str) -> Schema:
        """The schema of a definition; where nothing in it is unstable, the one that all share."""
        if name in self._containing:
            return super().__call__(name)
        return definitions(self._tree)(name)

    def _of_class(self, cls: type[BaseModel], fields: Fields) -> Schema:
        self._classes.append(cls)
        return model_schema(cls, fields)

    def validator(self, name: str) -> SchemaValidator:
        """A new validator of any definition."""
        schema = self(name)
        # Not with the classes' own validators, which know all: pydantic-core takes those of classes
        # that are complete. Whoever makes another one meanwhile makes it whole, as it is here.
        complete = [c for c in self._classes if c.__dict__.get("__pydantic_complete__")]
        for cls in complete:
            cls.__pydantic_complete__ = False
        try:
            return SchemaValidator(cast("Any", schema))
        finally:
            for cls in complete:
                cls.__pydantic_complete__ = True


@cache
def definitions(tree: str, *, unstable: bool = True) -> Definitions:
    """The one `Definitions` of a tree, or the one of its stable part."""
    return Definitions(tree) if unstable else StableDefinitions(tree)


def tree_of(module: str) -> str | None:
    """The generated tree of a module of models; empty for the base classes' own module."""
    if module == "codex_acp.wire.model":
        return ""
    tree, is_of_models, _ = module.partition(".models.")
    is_ours = tree.startswith("codex_acp.") and "._generated" in tree and is_of_models
    return tree if is_ours else None


@cache
def schema_of(cls: type[BaseModel]) -> Schema:
    """The schema of a class that the generated way makes; gives it what it validates with."""
    tree = tree_of(cls.__module__)
    return definitions(tree)(cls.__name__) if tree else completed(cls, {})


def model_schema(cls: type, fields: Fields) -> Schema:
    """The schema of a class with these fields."""
    name = cls.__name__
    return {
        "type": "model",
        "cls": cls,
        "schema": {
            "type": "model-fields",
            "fields": fields,
            "model_name": name,
            "computed_fields": [],
        },
        "custom_init": False,
        "root_model": False,
        "config": {"title": name, **CONFIG},
    }


def completed(cls: type[BaseModel], fields: Fields) -> Schema:
    """The class's schema; gives the class its validator and its serializer.

    Each class gets its own before any that embeds it: pydantic-core then shares them.
    """
    schema: Any = model_schema(cls, fields)
    if "__pydantic_complete__" not in cls.__dict__:
        cls.__pydantic_validator__ = SchemaValidator(schema, schema["config"])
        cls.__pydantic_serializer__ = SchemaSerializer(schema, schema["config"])
        # Last, for pydantic-core takes a complete class's validator and serializer as they are.
        cls.__pydantic_complete__ = True
    return cast("Schema", schema)


def is_flat(cls: type[BaseModel]) -> bool:
    """Whether no field of a generated class can hold a model, a list, a map or an unknown value."""
    return all(map(_is_scalar, schema_of(cls)["schema"]["fields"].values()))


def _is_scalar(schema: Schema) -> bool:
    while "schema" in schema:
        schema = schema["schema"]
    return schema["type"] in ("bool", "float", "int", "literal", "str")


if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

TESTED = ("2.12", "2.13", "2.14")
"""The pydantic versions with which generated classes are made the fast way: `nox -s pydantic`."""


IS_TESTED = LEFT_OUT or (
    ".".join(import_module("pydantic").VERSION.split(".")[:2]) in TESTED  # as it is imported
)

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
        _Late("__pydantic_validator__", None, lambda: adapter().validator),
        _Late("__pydantic_serializer__", None, lambda: adapter().serializer),
        # With the metadata that a JSON schema is made from.
        _Late(
            "__pydantic_core_schema__",
            lambda cls: _adapter(cls).core_schema,
            lambda: adapter().core_schema,
        ),
        # Those that pydantic would find at each field's first assignment.
        _Late(
            "__pydantic_setattr_handlers__",
            lambda cls: dict.fromkeys(cls.__annotations__, _set_field),
            dict,
        ),
        _Late("__signature__", _signature, lambda: _signature(first)),
        _Late("model_config", lambda _: config.copy(), lambda: config),
    ):
        setattr(base, late.name, late)


class _Late:
    """A class attribute that is made, and put in this one's place, when it is first read.

    ``make`` makes a generated class's, None: its schema does; ``of_base`` that of the classes that
    they all inherit from, where nothing may be put.
    """

    def __init__(
        self, name: str, make: Callable[[type[BaseModel]], Any] | None, of_base: Callable[[], Any]
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
        if self._make is None:
            schema_of(cls)
        made = cls.__dict__[self.name] if self._make is None else self._make(cls)
        made = self._first.setdefault(cls, made)
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


_FIELDS = _Late("__pydantic_fields__", lambda cls: _ordinary(cls).__pydantic_fields__, dict)


def _set_field(model: BaseModel, name: str, value: object) -> None:
    model.__dict__[name] = value
    model.__pydantic_fields_set__.add(name)


def _adapter(cls: type[BaseModel]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


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
