"""The base class of all wire models, and the two classes of values that the schema does not know.

Three states: a field that was not set is absent on the wire, a field set to None is null.
``model_fields_set`` has the fields that were set; only these, and literal tags, are written.
Unknown fields are kept in ``model_extra``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

from codex_acp.wire import lazy
from codex_acp.wire.lazy import BaseModel

if TYPE_CHECKING:
    from pydantic import ConfigDict, GetCoreSchemaHandler
    from pydantic._internal._model_construction import ModelMetaclass
    from pydantic_core import CoreSchema
else:
    ModelMetaclass = lazy.LazyModelMeta if lazy.IS_TESTED else type(BaseModel)


CONFIG: ConfigDict = {
    "extra": "allow",
    "validate_by_name": True,
    "validate_by_alias": True,
    "serialize_by_alias": True,
    "protected_namespaces": (),
    "allow_inf_nan": False,  # 1e400 is decoded as infinity, which would be written as null
}


class ModelBase(BaseModel, metaclass=ModelMetaclass):
    """Base class of all wire models, made by `codex_acp.wire.lazy`."""

    model_config: ClassVar[ConfigDict] = CONFIG

    wire_tags: ClassVar[tuple[str, ...]] = ()
    """Fields with a single possible value, which are written although nobody sets them."""

    if not TYPE_CHECKING:

        def __init__(self, /, **data: Any) -> None:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
            if self.wire_tags:
                self.__pydantic_fields_set__.update(self.wire_tags)

        # As for pydantic's own: Rust then validates nested models without this method.
        __init__.__pydantic_base_init__ = True

        def __getattr__(self, name: str) -> Any:
            # A field that lenient reading has left out has its default.
            defaults = lazy.defaults_of(type(self))
            if defaults is not None:
                if name in defaults:
                    return deepcopy(defaults[name])
            else:
                field = type(self).__pydantic_fields__.get(name)
                if field is not None and not field.is_required():
                    return field.get_default(call_default_factory=True)
            return super().__getattr__(name)


class WireModel(ModelBase):
    """Base of the generated models: snake_case attributes, wire names as aliases."""


if lazy.IS_TESTED:
    lazy.make_lazy(ModelBase, WireModel)
else:
    lazy.warn_untested()


class UnknownValue(str):
    """A string that the schema does not list, where it lists values: from a newer peer."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source, handler
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": cls},
            "schema": {"type": "str"},
        }


class UnknownVariant(WireModel):
    """A member of an open union that the schema does not know. ``model_extra`` has its fields."""

    @property
    def type(self) -> str:
        """The object's ``type``, which known members have, too; empty if it has none."""
        return str((self.model_extra or {}).get("type", ""))

    def wire(self) -> dict[str, Any]:
        """Return the object as it was received."""
        return dict(self.model_extra or {})
