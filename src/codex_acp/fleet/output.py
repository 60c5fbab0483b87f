"""Check the last answer of a task against a Python type or a JSON Schema, at the driver.

ACP has no field for a schema, so the prompt tells it to the agent. The answer is checked here, at
the driver, because a worker does not have the type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp.errors import InvalidPayload, MisuseError

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

OutputType: TypeAlias = "type[Any] | Mapping[str, Any]"
"""A type that pydantic knows, or a JSON Schema."""

MAX_PROBLEMS: Final = 5
"""Problems of one answer that are reported to the agent."""

_FENCED: Final = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL)
"""An answer in a code fence: models write one although the prompt asks them not to."""


class OutputCheck:
    """Checks answers against a type or a schema. Raises MisuseError if that cannot be checked."""

    def __init__(self, wanted: OutputType) -> None:
        self._adapter: Any = None
        self._validator: Any = None
        if isinstance(wanted, Mapping):
            self.schema: Mapping[str, JsonValue] = dict(wanted)
            self._validator = _validator(self.schema)
            return
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

        try:
            self._adapter = TypeAdapter(wanted)
            self.schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            first = str(error).split("\n", 1)[0]
            name = getattr(wanted, "__name__", wanted)
            raise MisuseError(f"{name} cannot be an output type: {first}") from error

    def check(self, text: str) -> tuple[JsonValue, list[str]]:
        """Return the answer as plain JSON, and its problems."""
        fenced = _FENCED.fullmatch(text)
        try:
            value: JsonValue = json.loads(fenced[1] if fenced else text)
        except (ValueError, RecursionError) as error:
            return None, [f"it is not JSON: {error}"]
        if self._adapter is None:
            found = sorted(self._validator.iter_errors(value), key=lambda e: list(map(str, e.path)))
            problems = [f"{e.json_path}: {e.message}"[:300] for e in found[:MAX_PROBLEMS]]
            return value, problems
        from pydantic import ValidationError

        from codex_acp.wire.codec import problems_of

        try:
            read = self._adapter.validate_json(fenced[1] if fenced else text)
        except ValidationError as error:
            return None, list(problems_of(error, value))[:MAX_PROBLEMS]
        return self._adapter.dump_python(read, mode="json", by_alias=True), []

    def read(self, output: JsonValue) -> object:
        """Return plain JSON as a value of the type; with a JSON Schema, unchanged."""
        if self._adapter is None:
            return output
        return self._adapter.validate_json(json.dumps(output))


def _validator(schema: Mapping[str, JsonValue]) -> Any:
    try:
        from jsonschema import SchemaError
        from jsonschema.validators import validator_for
    except ImportError:
        msg = "a JSON Schema as output needs more: pip install 'codex-acp-sdk[fleet]'"
        raise MisuseError(msg) from None
    cls = validator_for(schema)
    try:
        cls.check_schema(dict(schema))
    except SchemaError as error:
        raise MisuseError(f"the output is no JSON Schema: {error.message}") from None
    return cls(schema)


def checked_answer(
    check: OutputCheck | None, question: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the reply to a worker that asks the driver to check a text."""
    text = question.get("text")
    if check is None or not isinstance(text, str):
        return {"problems": ["nothing was wanted"]}
    try:
        output, problems = check.check(text)
    except (InvalidPayload, RecursionError) as error:
        return {"problems": [str(error)]}
    return {"output": output, "problems": list(problems)}
