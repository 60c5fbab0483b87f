"""Python functions as tools that the model may call, and Python types as the shape of its answer.

Owns the schema of a function's arguments, the calls of the function, and the form of its result:
Codex's "dynamic tools", which are experimental. Makes pydantic's schema of an output type as strict
as the Responses API wants it: every object closed, every property required, no defaults, no keyword
beside a reference.
Source: "Structured model outputs" of the OpenAI API, "Supported schemas".
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import anyio
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, from_json, to_json

from codex_acp._json import text_at, value_at
from codex_acp.codex._generated import models
from codex_acp.codex.approvals import callbacks
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.codex.connection.server_requests import sendable
from codex_acp.codex.threads.options import data_url
from codex_acp.errors import MisuseError, must_be_seconds, refuse_unless, several
from codex_acp.wire.codec import problems_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from codex_acp.codex._generated.models import (
        DynamicToolCallOutputContentItem,
        DynamicToolCallResponse,
    )
    from codex_acp.codex._generated.server_requests import ItemToolCall
    from codex_acp.codex.threads.results import RunResult
    from codex_acp.jsonrpc import JsonValue, RequestId


logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that the Responses API accepts for a function."""

MAX_PROBLEMS: Final = 8
"""Wrong arguments that a failure lists."""


class Tool:
    """A function that the model may call, made by `tool`. Threads and clients can share it."""

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> None:
        default_name = getattr(function, "__name__", type(function).__name__)
        self.function = function
        """The function, called with keyword arguments."""
        self.name: str = default_name if name is None else name
        """Name of the tool for the model."""
        if type(self.name) is not str or not _NAME.fullmatch(self.name):
            message = f"{self.name!r} is no name for a tool: letters, digits, _ and -, at most 64"
            raise MisuseError(message)
        if timeout is not None:
            must_be_seconds("timeout", timeout)
        self.timeout = timeout
        """Seconds that a call may take; None for no limit."""
        self.description: str = (
            inspect.getdoc(function) or "" if description is None else description
        )
        """Description for the model."""
        is_text = isinstance(self.description, str)
        refuse_unless(is_text, "a tool's description is a text", self.description)
        self._arguments = _arguments_of(function, self.name)
        try:
            schema = self._arguments.json_schema()
        except PydanticUserError as error:
            raise _no_schema(self.name, error) from error
        self.input_schema: dict[str, Any] = schema
        """The JSON Schema of the arguments, an object."""

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def spec(self) -> JsonValue:
        """Return the ``FunctionDynamicToolSpec`` for ``thread/start``."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }

    async def call(self, arguments: object) -> DynamicToolCallResponse:
        """Call the function and return the result for the model, a failure if the call raises.

        An async function runs on this loop, any other function in a thread of its own.
        """
        named = arguments if isinstance(arguments, dict) else {}
        try:
            bound: dict[str, Any] = self._arguments.validate_python(ArgsKwargs((), named))
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False, include_context=False)
            problems = [
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
                for each in details[:MAX_PROBLEMS]
            ]
            return failure(f"the arguments of {self.name} do not fit: {'; '.join(problems)}")
        with anyio.move_on_after(self.timeout):
            try:
                if callbacks.is_async(self.function):
                    result = await cast("Awaitable[object]", self.function(**bound))
                else:
                    result = await callbacks.call(lambda _: self.function(**bound), None)
                return _response(result)
            except Exception as error:
                logger.warning("the tool %s failed", self.name, exc_info=error)
                return failure(f"{self.name} failed with {type(error).__name__}: {error}")
        return failure(f"{self.name} took longer than {self.timeout} s")


def tool(
    function: Tool | Callable[..., object],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Tool:
    """Make a tool of a function, sync or async.

    The schema of the arguments comes from the annotations (any type that pydantic reads from JSON;
    ``Annotated[int, Field(description=...)]`` describes an argument), the description from the
    docstring. The arguments are validated before the call. The model gets the returned value: a
    string unchanged, an image made with `image`, a list of these, any other value as JSON. The
    model gets a failure if the function raises or takes longer than ``timeout`` seconds; the turn
    continues. After the timeout, a sync function goes on in its thread: nothing can stop it.

    Raises MisuseError if a parameter has no annotation, cannot be given by name, or has a type
    without a JSON Schema.
    """
    if isinstance(function, Tool):
        return function
    refuse_unless(callable(function), "a tool is made of a function", function)
    return Tool(function, name=name, description=description, timeout=timeout)


def _arguments_of(function: Callable[..., object], name: str) -> TypeAdapter[Any]:
    """Return an adapter that reads the arguments into a dict, without a call of the function."""
    # For a callable object, pydantic needs the method ``__call__`` of the object's type.
    method = function if inspect.isroutine(function) else type(function).__call__.__get__(function)
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            message = f"the parameter {parameter} of the tool {name} cannot be given by its name"
            raise MisuseError(message)
        if parameter.annotation is parameter.empty:
            raise MisuseError(f"the parameter {parameter} of the tool {name} has no annotation")

    @functools.wraps(method)  # pydantic reads the signature of `method` through this
    def collect(**arguments: Any) -> dict[str, Any]:
        return arguments

    try:
        return TypeAdapter(cast("Any", collect))
    except NameError as error:
        message = f"an annotation of the tool {name} cannot be resolved: {error}"
        raise MisuseError(message) from error
    except (PydanticUserError, TypeError) as error:
        raise _no_schema(name, error) from error


def _no_schema(name: str, error: Exception) -> MisuseError:
    reason = str(error).split("\n", 1)[0]
    return MisuseError(f"a parameter of the tool {name} has no JSON Schema: {reason}")


def _response(result: object) -> DynamicToolCallResponse:
    if isinstance(result, models.DynamicToolCallResponse):
        return result
    parts: list[object] | tuple[object, ...] = [result]
    if isinstance(result, list | tuple) and any(isinstance(each, _parts()) for each in result):
        parts = result
    content = [_part(each) for each in parts]
    return models.DynamicToolCallResponse(success=True, content_items=content)


def _parts() -> tuple[type, ...]:
    """Return the types whose values a function may return as parts of its result."""
    return (
        models.InputTextDynamicToolCallOutputContentItem,
        models.InputImageDynamicToolCallOutputContentItem,
        models.InputAudioDynamicToolCallOutputContentItem,
        models.UrlImageUserInput,
        models.LocalImageUserInput,
    )


def _part(value: object) -> DynamicToolCallOutputContentItem:
    if isinstance(value, models.LocalImageUserInput):
        value = models.UrlImageUserInput(url=data_url(Path(value.path).read_bytes()))
    if isinstance(value, models.UrlImageUserInput):
        return models.InputImageDynamicToolCallOutputContentItem(image_url=value.url)
    if isinstance(value, _parts()):
        return cast("DynamicToolCallOutputContentItem", value)
    text = value if isinstance(value, str) else to_json(value).decode()
    return models.InputTextDynamicToolCallOutputContentItem(text=text)


def failure(text: str) -> DynamicToolCallResponse:
    """Return the result of a failed call, with a valid text of bounded length for the model."""
    part = models.InputTextDynamicToolCallOutputContentItem(text=sendable(text))
    return models.DynamicToolCallResponse(success=False, content_items=[part])


EVERY_THREAD = None
"""The key of the tools that every thread has."""


class ToolCalls(NotificationSink):
    """The tools of one client, and their running calls."""

    def __init__(self) -> None:
        self._tools: dict[str | None, dict[str, Tool]] = {EVERY_THREAD: {}}
        self._running: dict[tuple[type, RequestId], tuple[asyncio.Task[Any], str]] = {}
        """Type of a request's id (1 is not True) and the id → task of the call, id of its turn."""

    def add(
        self, tools: Iterable[Tool | Callable[..., object]], thread_id: str | None = EVERY_THREAD
    ) -> None:
        """Offer tools. Raises MisuseError for a value that is no tool, or two tools of one name."""
        known = self._tools.get(thread_id, {})
        self._tools[thread_id] = known | _by_name(tools, known)

    def offered(self, more: Iterable[Tool | Callable[..., object]]) -> list[JsonValue]:
        """Return the tools of all threads and ``more``, as JSON. Raises MisuseError like `add`."""
        every = self._tools[EVERY_THREAD]
        return [t.spec() for t in (every | _by_name(more, every)).values()]

    async def handle(self, request: ItemToolCall) -> DynamicToolCallResponse:
        """Run a tool and return its result, a failure for an unknown tool."""
        key, params = (type(request.id), request.id), request.params
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._running[key] = (task, params.turn_id)
        offered = self._tools[EVERY_THREAD] | self._tools.get(params.thread_id, {})
        try:
            if params.namespace is not None or params.tool not in offered:  # ours have none
                return failure(f"this program has no tool {params.tool!r}")
            return await offered[params.tool].call(params.arguments)
        except asyncio.CancelledError:
            if key in self._running:  # `_cancel_calls` removes the key
                raise
            return failure("Codex waits for it no more")
        finally:
            self._running.pop(key, None)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Cancel calls for which Codex does not wait any more. When a turn ends, Codex does not
        always send ``serverRequest/resolved`` for its calls."""
        if method == "serverRequest/resolved":
            request_id = value_at(params, "requestId")  # of any type, perhaps not hashable
            self._cancel_calls([k for k in self._running if k == (type(request_id), request_id)])
        elif method == "turn/completed":
            turn_id = value_at(params, "turn", "id")
            self._cancel_calls([k for k, (_, turn) in self._running.items() if turn == turn_id])
        elif method in ("thread/closed", "thread/deleted"):
            thread_id = text_at(params, "threadId")
            if thread_id is not None:
                self._tools.pop(thread_id, None)

    def _cancel_calls(self, keys: list[tuple[type, RequestId]]) -> None:
        for key in keys:
            self._running.pop(key)[0].cancel()


def _by_name(
    tools: Iterable[Tool | Callable[..., object]], known: dict[str, Tool]
) -> dict[str, Tool]:
    """Return tools by name. Raises MisuseError if two of ``tools`` and ``known`` have one name."""
    new: dict[str, Tool] = {}
    for each in map(tool, several("tools", tools)):
        same_name = new.get(each.name) or known.get(each.name)
        if same_name is not None and same_name.function is not each.function:
            message = f"two tools have the name {each.name!r}; give one of them another name"
            raise MisuseError(message)
        new[each.name] = each
    return new


T = TypeVar("T")

_DROPPED: Final = ("default", "title", "discriminator", "examples")
"""Keywords that do not restrict the answer, or that the model's service refuses."""


class OutputType(Generic[T]):
    """The type of an answer; Codex gets its ``schema``. Raises MisuseError if the type has no JSON
    Schema, or none that can be made strict."""

    def __init__(self, wanted: type[T]) -> None:
        self.name: str = getattr(wanted, "__name__", str(wanted))
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(wanted)
            schema = self._adapter.json_schema()
        except Exception as error:  # pydantic fails in many ways at what is no type
            reason = str(error).split("\n", 1)[0]
            how = "give a pydantic model, a dataclass or a TypedDict"
            raise MisuseError(f"{self.name} cannot be an output type: {reason}; {how}") from error
        self.schema: dict[str, Any] = strict_schema(schema, self.name)

    def read(self, result: RunResult[None]) -> T:
        """Return the text of a completed turn as a value of the type. Raises OutputInvalid."""
        from codex_acp.codex.threads.turn_errors import OutputInvalid

        try:
            return self._adapter.validate_json(result.text)
        except ValidationError as error:
            problems = problems_of(error, value=_json(result.text))
            raise OutputInvalid(self.name, problems, result) from error


def strict_schema(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of a JSON Schema that is as strict as the Responses API wants it. Raises
    MisuseError if the schema's root is no object, or a part of the schema allows any property, as
    a ``dict`` does, or a model with extra fields."""
    definitions = schema.get("$defs", {})
    converter = _StrictConverter(name, definitions)
    root = dict(schema)
    root.pop("$defs", None)
    if "$ref" in root:  # a recursive model: the root must be the object itself
        root = {**definitions[_definition_of(root["$ref"])], **_without(root, "$ref")}
    if root.get("type") != "object":
        message = f"{name} cannot be an output type: an answer is an object, such as a model"
        raise MisuseError(message)
    strict = converter.convert(root, "")
    if definitions:
        strict["$defs"] = {key: converter.convert(part, key) for key, part in definitions.items()}
    return strict


class _StrictConverter:
    """Makes the parts of one schema strict."""

    def __init__(self, name: str, definitions: dict[str, Any]) -> None:
        self._name = name
        self._definitions = definitions
        self._inlined: list[str] = []
        """References that are being inlined, the outermost first."""

    def convert(self, schema: Any, path: str) -> dict[str, Any]:
        """Make a schema strict, with all schemas in it; ``path`` names its place in errors."""
        if schema is True or not _without(schema, "description", *_DROPPED):
            message = f"{self._name} cannot be an output type: {path or 'it'} may be anything"
            raise MisuseError(message)
        part = _without(schema, *_DROPPED)
        if "$ref" in part and len(part) > 1:
            return self._inline(part, path)
        if len(part.get("allOf", ())) == 1:
            (only,) = part.pop("allOf")
            return self.convert({**only, **part}, path)
        if "oneOf" in part:
            part["anyOf"] = part.pop("oneOf")
        for key in ("anyOf", "allOf", "prefixItems"):
            if key in part:
                part[key] = [self.convert(member, path) for member in part[key]]
        if isinstance(part.get("items"), dict):
            part["items"] = self.convert(part["items"], f"{path}[]")
        if part.get("type") == "object":
            self._close_object(part, path)
        return part

    def _inline(self, part: dict[str, Any], path: str) -> dict[str, Any]:
        """Replace a reference that has other keywords beside it by the referenced schema."""
        reference = part["$ref"]
        if reference in self._inlined:  # a recursive reference stays
            return {"$ref": reference}
        self._inlined.append(reference)
        try:
            target = self._definitions[_definition_of(reference)]
            return self.convert({**target, **_without(part, "$ref")}, path)
        finally:
            self._inlined.pop()

    def _close_object(self, part: dict[str, Any], path: str) -> None:
        if part.get("additionalProperties", False) is not False or "patternProperties" in part:
            raise MisuseError(
                f"{self._name} cannot be an output type: {path or 'it'} may have any property; "
                "give it fields, or make it a list of pairs"
            )
        properties = part.get("properties", {})
        part["properties"] = {
            key: self.convert(member, f"{path}.{key}".lstrip("."))
            for key, member in properties.items()
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
