"""Structured output: a Python type as the JSON Schema that a model's answer must have.

Owns making pydantic's schema strict, as the Responses API wants it: every object closed, every
property required, no defaults, no keyword beside a reference. Source: "Structured model outputs"
of the OpenAI API, "Supported schemas".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import from_json

from codex_acp.errors import MisuseError
from codex_acp.wire.codec import problems_of

if TYPE_CHECKING:
    from codex_acp.codex.threads.results import RunResult

T = TypeVar("T")

_DROPPED: Final = ("default", "title", "discriminator", "examples")
"""Keywords that say nothing about the answer, or that the model's service refuses."""


class OutputType(Generic[T]):
    """A type that answers are read as; its ``schema`` is what Codex gets.

    Raises MisuseError if the type has no JSON Schema, or one that no answer can be held to.
    """

    def __init__(self, wanted: type[T]) -> None:
        self.name: str = getattr(wanted, "__name__", str(wanted))
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(wanted)
            schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            reason = str(error).split("\n", 1)[0]
            raise MisuseError(f"{self.name} cannot be an output type: {reason}") from error
        self.schema: dict[str, Any] = strict_schema(schema, self.name)

    def read(self, result: RunResult[None]) -> T:
        """The text of a completed turn as the type. Raises OutputInvalid."""
        from codex_acp.codex.threads.turn_errors import OutputInvalid

        try:
            return self._adapter.validate_json(result.text)
        except ValidationError as error:
            problems = problems_of(error, _json(result.text))
            raise OutputInvalid(self.name, problems, result) from error


def strict_schema(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """A JSON Schema as strict as the Responses API wants it; the one that was given stays as it is.

    Raises MisuseError if its root is no object, or a part can have any property: a ``dict``, or
    a model that allows extra fields.
    """
    definitions = schema.get("$defs", {})
    strict = _Strict(name, definitions)
    root = dict(schema)
    root.pop("$defs", None)
    if "$ref" in root:  # a recursive model: the root must be the object itself
        root = {**definitions[_definition_of(root["$ref"])], **_without(root, "$ref")}
    if root.get("type") != "object":
        message = f"{name} cannot be an output type: an answer is an object, such as a model"
        raise MisuseError(message)
    made = strict.of(root, "")
    if definitions:
        made["$defs"] = {key: strict.of(part, key) for key, part in definitions.items()}
    return made


class _Strict:
    def __init__(self, name: str, definitions: dict[str, Any]) -> None:
        self._name = name
        self._definitions = definitions
        self._inlined: list[str] = []

    def of(self, given: Any, path: str) -> dict[str, Any]:
        """One schema and all below it."""
        if given is True or not _without(given, "description", *_DROPPED):
            message = f"{self._name} cannot be an output type: {path or 'it'} may be anything"
            raise MisuseError(message)
        part = _without(given, *_DROPPED)
        if "$ref" in part and len(part) > 1:
            return self._inline(part, path)
        if len(part.get("allOf", ())) == 1:
            (only,) = part.pop("allOf")
            return self.of({**only, **part}, path)
        if "oneOf" in part:
            part["anyOf"] = part.pop("oneOf")
        for key in ("anyOf", "allOf", "prefixItems"):
            if key in part:
                part[key] = [self.of(member, path) for member in part[key]]
        if isinstance(part.get("items"), dict):
            part["items"] = self.of(part["items"], f"{path}[]")
        if part.get("type") == "object":
            self._close(part, path)
        return part

    def _inline(self, part: dict[str, Any], path: str) -> dict[str, Any]:
        """A reference may have no keyword beside it: put what it refers to in its place."""
        reference = part["$ref"]
        if reference in self._inlined:  # recursive: the reference must stay
            return {"$ref": reference}
        self._inlined.append(reference)
        try:
            target = self._definitions[_definition_of(reference)]
            return self.of({**target, **_without(part, "$ref")}, path)
        finally:
            self._inlined.pop()

    def _close(self, part: dict[str, Any], path: str) -> None:
        if part.get("additionalProperties", False) is not False or "patternProperties" in part:
            raise MisuseError(
                f"{self._name} cannot be an output type: {path or 'it'} may have any property; "
                "give it fields, or make it a list of pairs"
            )
        properties = part.get("properties", {})
        part["properties"] = {
            key: self.of(member, f"{path}.{key}".lstrip(".")) for key, member in properties.items()
        }
        part["required"] = list(properties)
        part["additionalProperties"] = False


def _json(text: str) -> object:
    try:
        return from_json(text)
    except ValueError:
        return None


def _definition_of(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _without(part: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}
