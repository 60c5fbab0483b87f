"""Decode wire values to models and encode models, with errors that name the field.

Also compare JSON values by the rules of JSON, and hash them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import PydanticSerializationError, SchemaSerializer, ValidationError

from codex_acp._lazy import sha256_hex
from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.jsonrpc import EncodedJson, encode_json
from codex_acp.wire.lazy import BaseModel, adapter_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_core import ErrorDetails, SchemaValidator


T = TypeVar("T")
MAX_PROBLEMS = 8
"""Wrong fields that an error names: the first ones show the cause."""
MAX_ERRORS = 1000
"""Errors of pydantic that are looked at: each takes kilobytes of Python objects."""
_ANY = SchemaSerializer({"type": "any"})
# The first call imports for 10 ms: now, in the thread that loads modules ahead, no answer waits.
_ANY.to_json(None)


def validator_of(tp: Any) -> SchemaValidator:
    """Return the pydantic-core validator of a model class or any other annotation, made once."""
    if isinstance(tp, type) and issubclass(tp, BaseModel):
        return tp.__pydantic_validator__  # type: ignore[return-value] # pydantic's PluggableSchemaValidator has its methods
    validator: SchemaValidator = adapter_of(tp).validator
    return validator


def decoder(validator: SchemaValidator) -> Callable[[object], Any]:
    """Return a function that decodes one wire value. It raises pydantic's ValidationError."""
    return partial(validator.validate_python, strict=True, by_alias=True, by_name=False)


def decode(tp: type[T], value: object, what: str = "") -> T:
    """Decode parsed JSON as ``tp``. Raises InvalidPayload, which names ``what`` and the fields."""
    try:
        result: T = decoder(validator_of(tp))(value)
    except ValidationError as error:
        name = what or getattr(tp, "__name__", str(tp))
        raise InvalidPayload(name, problems_of(error, value)) from None
    return result


def encode(value: object) -> EncodedJson:
    """Encode a model (the fields that were set) or plain data. Raises MisuseError if not JSON."""
    try:
        if isinstance(value, BaseModel):
            serializer = value.__pydantic_serializer__
            # `serialize_as_any`: to try the members of a union would take three times as long.
            return EncodedJson(
                serializer.to_json(value, exclude_unset=True, by_alias=True, serialize_as_any=True)
            )
        return EncodedJson(_ANY.to_json(value, exclude_unset=True, by_alias=True))
    except PydanticSerializationError as error:
        raise _not_sendable(error) from error


def _not_sendable(error: PydanticSerializationError) -> MisuseError:
    if "surrogates not allowed" in str(error):
        return MisuseError(
            "a text, for example the name of a file, is not Unicode, and cannot be sent"
        )
    return MisuseError(f"this cannot be sent as JSON: {error}")


def encode_any_text(value: object) -> EncodedJson:
    """Encode as `encode`, with ``?`` for each character that UTF-8 does not have."""
    try:
        return encode(value)
    except MisuseError:
        # Only `json.dumps` keeps surrogates; `encode_json` writes infinities as null before it.
        data = _ANY.to_python(value, exclude_unset=True, by_alias=True, serialize_as_any=True)
        text = json.dumps(json.loads(encode_json(data)), separators=(",", ":"), ensure_ascii=False)
        return EncodedJson(text.encode(errors="replace"))


def plain(value: object) -> Any:
    """Return models, also in lists, as plain JSON data: the value that `encode` would write. Raises
    MisuseError if that is not JSON."""
    try:
        return _ANY.to_python(
            value, mode="json", exclude_unset=True, by_alias=True, serialize_as_any=True
        )
    except PydanticSerializationError as error:
        raise _not_sendable(error) from error


def problems_of(error: ValidationError, value: object) -> tuple[str, ...]:
    """Return ``field.path: problem`` for each error, without pydantic's links or the field's value.
    Its path also names union members; a part is a field if it exists in ``value``, which was
    decoded, or is missing."""
    if error.error_count() > MAX_ERRORS:
        return (f"{error.error_count()} problems",)
    details = error.errors(include_url=False, include_input=False, include_context=False)
    problems = list(dict.fromkeys(_problem(detail, value) for detail in details))
    more = len(problems) - MAX_PROBLEMS
    return (*problems[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else ()))


def _problem(detail: ErrorDetails, value: object) -> str:
    path: list[str] = []
    missing = detail["loc"][-1:] if detail["type"] == "missing" else ()
    for part in detail["loc"]:
        in_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if in_list or (isinstance(value, dict) and part in value):
            value = value[part]  # type: ignore[index] # a list or a dict with this part
        elif part not in missing:
            continue  # the name of a union member, not a field
        path.append(str(part))
    return f"{'.'.join(path) or 'value'}: {detail['msg']}"


def digest(value: object) -> str:
    """Return the SHA-256, in hex, of canonical JSON: sorted keys, no spaces, no needless escapes.
    Raises TypeError or ValueError if ``value`` is not JSON; NaN is not."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return sha256_hex(text.encode("utf-8", "surrogatepass"))


def same_json(left: object, right: object) -> bool:
    """Return whether two values are equal as JSON: true is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return left == right
