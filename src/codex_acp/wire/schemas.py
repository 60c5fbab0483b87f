"""Core schemas of generated definitions: made by their functions, once, when first needed.

Owns how a name becomes a schema and how a class gets its validator and serializer from one.
Knows no word of the vocabulary (`codex_acp.wire.words`) and no protocol.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pydantic_core import SchemaSerializer, SchemaValidator

from codex_acp.wire.base import BaseModel

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
