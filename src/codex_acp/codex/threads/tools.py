"""A Python function as a tool that the model may call (Codex: a dynamic tool, experimental).

Owns the schema of a function's arguments, its call, and what its result is told as. Must not know
the connection.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, to_json

from codex_acp.codex._generated import models
from codex_acp.codex.approvals.callbacks import called, is_async
from codex_acp.codex.connection.server_requests import sendable
from codex_acp.codex.threads.inputs import data_url
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex._generated.models import (
        DynamicToolCallOutputContentItem,
        DynamicToolCallResponse,
    )
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that the Responses API takes for a function."""

MAX_PROBLEMS: Final = 8
"""More than this many wrong arguments help nobody."""


class Tool:
    """A function that the model may call; made by `tool`. A value: threads and clients share it."""

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
    ) -> None:
        given = getattr(function, "__name__", type(function).__name__)
        self.function = function
        """Function that is called, by keywords."""
        self.name: str = given if name is None else name
        """Name that the model calls it by."""
        if not _NAME.fullmatch(self.name):
            message = f"{self.name!r} is no name for a tool: letters, digits, _ and -, at most 64"
            raise MisuseError(message)
        if timeout is not None and not timeout > 0:
            raise MisuseError(f"a timeout must be a positive number of seconds, not {timeout!r}")
        self.timeout = timeout
        """Seconds that a call may take; None for no limit."""
        self.description: str = (
            inspect.getdoc(function) or "" if description is None else description
        )
        """Description that the model reads."""
        self._arguments = _arguments_of(function, self.name)
        self.input_schema: dict[str, Any] = _schema_of(self._arguments, self.name)
        """The JSON Schema of its arguments, an object."""

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def spec(self) -> JsonValue:
        """How ``thread/start`` is told of it: a ``FunctionDynamicToolSpec``."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }

    async def call(self, arguments: object) -> DynamicToolCallResponse:
        """The result of a call for the model. Never raises: what fails is told as a failure.

        An async function runs on this loop, any other one in a thread of its own.
        """
        given = arguments if isinstance(arguments, dict) else {}
        try:
            bound: dict[str, Any] = self._arguments.validate_python(ArgsKwargs((), given))
        except ValidationError as error:
            return failure(f"the arguments of {self.name} do not fit: {_problems(error)}")
        with anyio.move_on_after(self.timeout):
            try:
                return _told(await self._run(bound))
            except Exception as error:
                logger.warning("the tool %s failed", self.name, exc_info=error)
                return failure(f"{self.name} failed with {type(error).__name__}: {error}")
        return failure(f"{self.name} took longer than {self.timeout} s")

    async def _run(self, bound: dict[str, Any]) -> object:
        if is_async(self.function):
            return await cast("Awaitable[object]", self.function(**bound))
        return await called(lambda _: self.function(**bound), None)


def tool(
    function: Tool | Callable[..., object],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Tool:
    """Make a tool of a function, sync or async.

    The schema of the arguments comes from the annotations (anything that pydantic reads from JSON;
    ``Annotated[int, Field(description=...)]`` describes one), the description from the docstring.
    The arguments are validated before the call. What the function returns is told to the model:
    a string as it is, an image made with `image`, a list of such, anything else as JSON. What it
    raises is told as a failure, and so is a call that takes longer than ``timeout`` seconds; the
    turn goes on. A thread that still runs then cannot be stopped, only left.

    Raises MisuseError if a parameter has no annotation, cannot be given by name, or has a type
    without a JSON Schema.
    """
    if isinstance(function, Tool):
        return function
    if not callable(function):
        raise MisuseError(f"a tool is made of a function; {function!r} is none")
    return Tool(function, name=name, description=description, timeout=timeout)


def _arguments_of(function: Callable[..., object], name: str) -> TypeAdapter[Any]:
    """Return an adapter that reads the arguments into a dict; it does not call the function."""
    named = function if inspect.isroutine(function) else type(function).__call__.__get__(function)
    for parameter in inspect.signature(named).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            message = f"the parameter {parameter} of the tool {name} cannot be given by its name"
            raise MisuseError(message)
        if parameter.annotation is parameter.empty:
            raise MisuseError(f"the parameter {parameter} of the tool {name} has no annotation")

    @functools.wraps(named)
    def bound(**arguments: Any) -> dict[str, Any]:
        return arguments

    try:
        return TypeAdapter(cast("Any", bound))
    except NameError as error:
        message = f"an annotation of the tool {name} cannot be resolved: {error}"
        raise MisuseError(message) from error
    except (PydanticUserError, TypeError) as error:
        raise _no_schema(name, error) from error


def _schema_of(arguments: TypeAdapter[Any], name: str) -> dict[str, Any]:
    try:
        return arguments.json_schema()
    except PydanticUserError as error:
        raise _no_schema(name, error) from error


def _no_schema(name: str, error: Exception) -> MisuseError:
    reason = str(error).split("\n", 1)[0]
    return MisuseError(f"a parameter of the tool {name} has no JSON Schema: {reason}")


def _told(result: object) -> DynamicToolCallResponse:
    if isinstance(result, models.DynamicToolCallResponse):
        return result
    several = isinstance(result, list | tuple) and any(isinstance(r, _parts()) for r in result)
    content = [_part(r) for r in (cast("list[object]", result) if several else [result])]
    return models.DynamicToolCallResponse(success=True, content_items=content)


def _parts() -> tuple[type, ...]:
    """Return the types that are a part of a result by themselves."""
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


def _problems(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, d['loc']))}: {d['msg']}" for d in details[:MAX_PROBLEMS])


def failure(text: str) -> DynamicToolCallResponse:
    """The result of a call that did not work out; the model reads the text."""
    part = models.InputTextDynamicToolCallOutputContentItem(text=sendable(text))
    return models.DynamicToolCallResponse(success=False, content_items=[part])
