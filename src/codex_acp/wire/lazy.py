"""Make the generated model classes without pydantic's analysis of their annotations.

Pydantic takes 50 ms to import, and spends four fifths of a class's creation on an analysis whose
result the generator knows. Three parts, in this order:

- The base class of all models: pydantic's ``BaseModel``, or, in a process of the adapter,
  `CoreModel`. `CoreModel` has the members of ``BaseModel`` that this library uses.
- The core schemas of generated definitions, each made by its function when it is first needed. From
  its schema a class gets its validator and its serializer.
- The metaclass, which makes a class of a generated module as a bare Python class. The attributes
  that only introspection reads (fields, signature, the full core schema) come from an ordinary
  pydantic class, which is made for them alone. A program's own subclasses are ordinary classes.

The method depends on how pydantic stores its classes, so it is used only with the versions in
`TESTED`. With any other version the models are ordinary pydantic models, which load more slowly.
Plugins of pydantic do not see the generated models. Must not know `codex_acp.wire.words` or a
protocol.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_core import SchemaSerializer, SchemaValidator

from codex_acp._pydantic import is_pydantic_left_out

LEFT_OUT = is_pydantic_left_out()
"""Whether this process does without pydantic, by `codex_acp._pydantic`."""


class CoreModelMeta(type):
    """Metaclass of `CoreModel`, so that ``__class__`` of a model's class can be assigned."""


class CoreModel(metaclass=CoreModelMeta):
    """A model that pydantic-core can fill, with the members of ``BaseModel`` that are used here."""

    __slots__ = (
        "__dict__",
        "__pydantic_extra__",
        "__pydantic_fields_set__",
        "__pydantic_private__",
    )

    if not TYPE_CHECKING:

        @property
        def model_fields_set(self) -> set[str]:
            """Names of the fields that were set."""
            return self.__pydantic_fields_set__

        @property
        def model_extra(self) -> dict[str, Any] | None:
            """Members of the object for which the model has no field."""
            return self.__pydantic_extra__

        def model_copy(self, *, update: dict[str, Any] | None = None) -> Any:
            """Return a shallow copy, with other values in some fields."""
            copied = object.__new__(type(self))
            set_attribute = object.__setattr__
            set_attribute(copied, "__dict__", self.__dict__.copy())
            set_attribute(copied, "__pydantic_extra__", dict(self.__pydantic_extra__ or {}))
            set_attribute(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
            set_attribute(copied, "__pydantic_private__", None)
            for name, value in (update or {}).items():
                setattr(copied, name, value)
            return copied

        def __getattr__(self, name: str) -> Any:
            # pydantic-core reads attributes before it has set ``__pydantic_extra__``.
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
"""The base class's ``model_config``, as pydantic-core spells it."""


class Definitions:
    """The definitions of one generated tree (``codex_acp.codex._generated``), by name."""

    unstable = True
    """Whether the definitions include those of the unstable schema."""

    def __init__(self, tree: str) -> None:
        self._tree = tree
        self._schemas: dict[str, Schema] = {}

    def __call__(self, name: str) -> Schema:
        """Return the schema of a class, union, enum or alias."""
        schema = self._schemas.get(name)
        if schema is None:
            models = import_module(f"{self._tree}.models")
            functions = import_module(f"{self._tree}.schemas.{models.MODULE_OF[name]}")
            schema = getattr(functions, name)(self)
            model = getattr(models, name)
            # The name of an alias differs from the name of its class.
            if getattr(model, "__name__", None) == name and issubclass(model, BaseModel):
                schema = self._class_schema(model, schema)
            self._schemas[name] = schema
        return schema

    def _class_schema(self, cls: type[BaseModel], fields: Fields) -> Schema:
        return complete_class(cls, fields)

    def validator(self, name: str) -> SchemaValidator:
        """Return a new validator of a definition that is no class."""
        return SchemaValidator(cast("Any", self(name)))


Ref: TypeAlias = Definitions
"""Returns the schema of another definition; passed to the generated functions."""


class StableDefinitions(Definitions):
    """The definitions of a tree's stable schema, for the same classes. Unstable parts read like
    parts that no schema knows: a field is kept as an extra one, a member of a union as an unknown
    one. For reading only: a class still makes and writes unstable fields."""

    unstable = False

    def __init__(self, tree: str) -> None:
        super().__init__(tree)
        self._containing: frozenset[str] = import_module(f"{tree}.unstable").CONTAINING
        self._classes: list[type[BaseModel]] = []

    def __call__(self, name: str) -> Schema:
        """Return the schema of a definition, the common one if no part of it is unstable."""
        if name in self._containing:
            return super().__call__(name)
        return definitions(self._tree)(name)

    def _class_schema(self, cls: type[BaseModel], fields: Fields) -> Schema:
        self._classes.append(cls)
        return model_schema(cls, fields)

    def validator(self, name: str) -> SchemaValidator:
        """Return a new validator of any definition."""
        schema = self(name)
        # In place of a complete class's part of the schema, pydantic-core uses the class's own
        # validator, which accepts unstable parts: so the classes are incomplete for a moment.
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
    """Return the one `Definitions` of a tree, or the one of its stable schema."""
    return Definitions(tree) if unstable else StableDefinitions(tree)


def tree_of(module: str) -> str | None:
    """Return the generated tree of a module of models; empty for the module of the base classes."""
    if module == "codex_acp.wire.model":
        return ""
    tree, is_of_models, _ = module.partition(".models.")
    is_ours = tree.startswith("codex_acp.") and "._generated" in tree and is_of_models
    return tree if is_ours else None


@cache
def schema_of(cls: type[BaseModel]) -> Schema:
    """Return the schema of a generated class, which then has its validator and serializer."""
    tree = tree_of(cls.__module__)
    return definitions(tree)(cls.__name__) if tree else complete_class(cls, {})


def model_schema(cls: type, fields: Fields) -> Schema:
    """Return the schema of a class with these fields."""
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


def complete_class(cls: type[BaseModel], fields: Fields) -> Schema:
    """Give a class its validator and serializer, and return its schema. A class gets them before
    the classes that contain it, so that pydantic-core shares them."""
    schema: Any = model_schema(cls, fields)
    if "__pydantic_complete__" not in cls.__dict__:
        cls.__pydantic_validator__ = SchemaValidator(schema, schema["config"])
        cls.__pydantic_serializer__ = SchemaSerializer(schema, schema["config"])
        # Last, because pydantic-core uses the validator and serializer of a complete class.
        cls.__pydantic_complete__ = True
    return cast("Schema", schema)


def is_flat(cls: type[BaseModel]) -> bool:
    """Return whether all fields of a generated class are plain numbers, strings and literals."""
    return all(map(_is_scalar, schema_of(cls)["schema"]["fields"].values()))


def _is_scalar(schema: Schema) -> bool:
    while "schema" in schema:
        schema = schema["schema"]
    return schema["type"] in ("bool", "float", "int", "literal", "str")


if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

TESTED = ("2.12", "2.13", "2.14")
"""The pydantic versions with which `nox -s pydantic` tests the method of this module."""
IS_TESTED = LEFT_OUT or ".".join(import_module("pydantic").VERSION.split(".")[:2]) in TESTED
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
"""Members of a base class that pydantic has made: pydantic would take a sixth of a start."""
_make: Any = type.__new__ if LEFT_OUT else ABCMeta.__new__


class LazyModelMeta(ModelMetaclass):
    """Makes the classes of generated modules, and leaves other classes to pydantic."""

    if not TYPE_CHECKING:

        def __new__(mcs, name, bases, namespace, **kwargs):
            if kwargs or tree_of(namespace["__module__"]) is None:
                return super().__new__(mcs, name, bases, namespace, **kwargs)
            if BaseModel in bases:
                return _make(mcs, name, bases, OF_AN_EMPTY_MODEL | namespace)
            annotations = namespace.get("__annotations__", {})
            annotations.pop("wire_tags", None)  # a class attribute, annotated for type checkers
            # As in pydantic, the class has no attribute for a field.
            defaults = {field: namespace.pop(field) for field in annotations if field in namespace}
            namespace["__pydantic_fields__"] = _FIELDS if annotations else {}
            if not any(base.__base__ is BaseModel for base in bases):
                namespace["__wire_defaults__"] = defaults
            cls = _make(mcs, name, bases, namespace)
            if annotations:
                # So that pydantic alone makes the subclasses that a program derives.
                cls.__class__ = ModelMetaclass
            return cls


def defaults_of(cls: type[BaseModel]) -> dict[str, Any] | None:
    """Return the defaults of a class's fields; None for a class that pydantic made."""
    return cls.__dict__.get("__wire_defaults__")


def make_lazy(base: type[BaseModel], first: type[BaseModel]) -> None:
    """Give the classes below ``base`` attributes that are made when they are first read. ``first``
    is the one class right below ``base``, from which all others derive."""
    config = base.model_config
    for late in (
        _LateAttribute("__pydantic_validator__", None, lambda: adapter_of(first).validator),
        _LateAttribute("__pydantic_serializer__", None, lambda: adapter_of(first).serializer),
        # Pydantic's own, because it has the metadata for a JSON schema.
        _LateAttribute(
            "__pydantic_core_schema__",
            lambda cls: adapter_of(cls).core_schema,
            lambda: adapter_of(first).core_schema,
        ),
        # The handlers that pydantic would find at each field's first assignment.
        _LateAttribute(
            "__pydantic_setattr_handlers__",
            lambda cls: dict.fromkeys(cls.__annotations__, _set_field),
            dict,
        ),
        _LateAttribute("__signature__", _signature, lambda: _signature(first)),
        _LateAttribute("model_config", lambda _: config.copy(), lambda: config),
    ):
        setattr(base, late.name, late)


class _LateAttribute:
    """A class attribute that is made when it is first read, and then replaces this descriptor.
    ``make`` returns the attribute of a generated class; None: `schema_of` sets it. ``of_base``
    returns the attribute of the base classes, on which this descriptor must stay."""

    def __init__(
        self, name: str, make: Callable[[type[BaseModel]], Any] | None, of_base: Callable[[], Any]
    ) -> None:
        self.name = name
        self._make = make
        self._of_base = of_base
        self._first: dict[type[BaseModel], Any] = {}

    def __get__(self, instance: object, owner: type[BaseModel]) -> Any:
        if instance is not None and self.name == "__signature__":
            # As in pydantic, so that a callable instance has the signature of its ``__call__``.
            raise AttributeError(f"{self.name!r} attribute of {owner.__name__!r} is class-only")
        # A subclass that pydantic is still making reads the attribute of its base.
        cls = next((c for c in owner.__mro__ if "__wire_defaults__" in c.__dict__), None)
        if cls is None:
            return self._of_base()
        # The first thread's attribute stays, because it may be in use. No lock: making an
        # attribute may import modules, and another thread's import may wait for the lock.
        if self._make is None:
            schema_of(cls)
        value = cls.__dict__[self.name] if self._make is None else self._make(cls)
        value = self._first.setdefault(cls, value)
        setattr(cls, self.name, value)
        return value


def _ordinary(cls: type[BaseModel]) -> type[BaseModel]:
    """Return the class that pydantic makes from the same annotations and defaults."""
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


_FIELDS = _LateAttribute(
    "__pydantic_fields__", lambda cls: _ordinary(cls).__pydantic_fields__, dict
)


def _set_field(model: BaseModel, name: str, value: object) -> None:
    model.__dict__[name] = value
    model.__pydantic_fields_set__.add(name)


@cache
def adapter_of(tp: Any) -> Any:
    """Return pydantic's adapter of a model class or any other annotation."""
    from pydantic import TypeAdapter

    return TypeAdapter(tp)


def _signature(cls: type[BaseModel]) -> Any:
    ordinary = _ordinary(cls)
    ordinary.model_rebuild(force=True)
    return ordinary.__signature__


def warn_untested() -> None:
    """Log one warning, because this version of pydantic was not tested."""
    import logging

    from pydantic import VERSION

    logging.getLogger(__name__).warning(
        "pydantic %s was not tested with this version of codex-acp-sdk (%s were): it works, but"
        " models load the ordinary, slower way; a newer codex-acp-sdk may know it",
        VERSION,
        ", ".join(TESTED),
    )
