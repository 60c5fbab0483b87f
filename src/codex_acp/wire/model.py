"""The base of all wire models, and the two shapes that keep what the schema does not know.

Three states: a field that was not set is absent on the wire, a field set to None is null.
``model_fields_set`` tells which; only fields that were set are written. Literal tags are always
written. Unknown fields are kept, in ``model_extra``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

from codex_acp.wire import lazy
from codex_acp.wire.lazy import BaseModel

if TYPE_CHECKING:
    from pydantic import ConfigDict, GetCoreSchemaHandler
    from pydantic_core import CoreSchema

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = lazy.LazyModelMeta if lazy.IS_TESTED else type(BaseModel)


CONFIG: ConfigDict = {
    "extra": "allow",
    "validate_by_name": True,
    "validate_by_alias": True,
    "serialize_by_alias": True,
    "protected_namespaces": (),
    "allow_inf_nan": False,  # 1e400 reads as an infinity, and would be written as null
}


class ModelBase(BaseModel, metaclass=ModelMetaclass):
    """Base class of all wire models; `codex_acp.wire.lazy` makes it."""

    model_config: ClassVar[ConfigDict] = CONFIG

    wire_tags: ClassVar[tuple[str, ...]] = ()
    """Attributes that can hold one value only; written although nobody sets them."""

    if not TYPE_CHECKING:

        def __init__(self, /, **data: Any) -> None:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
            if self.wire_tags:
                self.__pydantic_fields_set__.update(self.wire_tags)

        # Nested models are then validated without calling this from Rust, as pydantic's own is.
        __init__.__pydantic_base_init__ = True

        def __getattr__(self, name: str) -> Any:
            # A value that a lenient read left out reads as the field's default.
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
    lazy.tell_that_untested()


class UnknownValue(str):
    """A string where the schema lists values and this is none of them: a newer peer's."""

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
    """A member of an open union that the schema does not know; all of it is in ``model_extra``."""

    @property
    def type(self) -> str:
        """Its ``type``, as the members that are known have one; empty if it has none."""
        return str((self.model_extra or {}).get("type", ""))

    def wire(self) -> dict[str, Any]:
        """The object as it was received."""
        return dict(self.model_extra or {})
