"""A script for the scripted model: which responses there are and which request gets which.

Pure data and selection; sends nothing. As JSON, for the demo, for benchmarks and for scripts kept
as files: a script is ``{"responses": [...]}``; a
response is ``{"steps": [...], "when": {...}, "repeat": true}`` where only ``steps`` is
required and ``when`` has the fields of :class:`~codex_acp.testing.When`; a step is an object
whose ``type`` names it and whose other members are its fields::

    {"type": "text", "deltas": ["Hel", "lo"], "pause": 0.05}   {"type": "words", "count": 20000}
    {"type": "reasoning", "deltas": ["Hm."]}                   {"type": "usage", "input_tokens": 9}
    {"type": "tool_call", "name": "f", "arguments": {}}        {"type": "delay", "seconds": 0.5}
    {"type": "custom_tool_call", "name": "f", "input": "x"}    {"type": "gate", "name": "go"}
    {"type": "exec_command", "cmd": "ls"}                      {"type": "fail", "status": 500}
    {"type": "apply_patch", "patch": "*** Begin Patch..."}     {"type": "disconnect"}
    {"type": "add_file", "path": "a", "content": "b"}          {"type": "incomplete"}
    {"type": "update_plan", "plan": [["Look", "pending"]]}     {"type": "failed", "code": "..."}
    {"type": "mcp_call", "server": "notes", "tool": "read", "arguments": {}}
    {"type": "request_user_input", "questions": [...]}
    {"type": "request_permissions", "reason": "...", "network": true}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from codex_acp._json import value_at
from codex_acp.errors import MisuseError
from codex_acp.testing import model_steps, model_tools
from codex_acp.testing.model_steps import Disconnect, Fail, Failed, Incomplete, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    from codex_acp.testing.model_request import ModelRequest

Condition: TypeAlias = "Callable[[ModelRequest], bool]"
"""Whether a response is meant for a request. Must be quick and must not raise."""


@dataclass(frozen=True, slots=True)
class When:
    """A :data:`Condition` as data: true if every field that is set holds.

    ``user_text`` is looked for in the newest user message, ``tool_output`` is the id of a call
    that has been answered, ``no_tool_output`` of one that has not, ``tool`` a tool on offer,
    ``model`` the model's slug, ``anywhere`` a text in any user message.
    """

    user_text: str | None = None
    anywhere: str | None = None
    tool_output: str | None = None
    no_tool_output: str | None = None
    tool: str | None = None
    model: str | None = None

    def __call__(self, request: ModelRequest) -> bool:
        """Whether ``request`` meets every condition."""
        return (
            (self.user_text is None or self.user_text in request.last_user_text)
            and (self.anywhere is None or any(self.anywhere in t for t in request.user_texts))
            and (self.tool_output is None or self.tool_output in request.tool_outputs)
            and (self.no_tool_output is None or self.no_tool_output not in request.tool_outputs)
            and (self.tool is None or self.tool in request.tool_names)
            and (self.model is None or self.model == request.model)
        )


_ENDS = (Disconnect, Incomplete, Failed)


@dataclass(frozen=True, slots=True, init=False)
class ModelResponse:
    """Response to one ``POST /v1/responses``: its steps, in order.

    ``when`` restricts it to the requests it holds for; ``repeat`` lets it be used any number
    of times. Raises :class:`~codex_acp.errors.MisuseError` for an order that cannot be sent.
    """

    steps: tuple[Step, ...]
    when: Condition | None
    repeat: bool

    def __init__(self, *steps: Step, when: Condition | None = None, repeat: bool = False) -> None:
        if any(isinstance(step, Fail) for step in steps) and len(steps) != 1:
            raise MisuseError("Fail replaces the whole stream: make it the only step")
        for step in steps[:-1]:
            if isinstance(step, _ENDS):
                raise MisuseError(f"{type(step).__name__} ends the stream: make it the last step")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "when", when)
        object.__setattr__(self, "repeat", repeat)


@dataclass(frozen=True, slots=True, init=False)
class ModelScript:
    """Responses in the order in which they are used.

    A request gets the first unused response whose ``when`` holds for it; if there is none, the
    first unused response that has no ``when``; if there is none, an error that says so.
    """

    responses: tuple[ModelResponse, ...]

    def __init__(self, *responses: ModelResponse) -> None:
        object.__setattr__(self, "responses", responses)

    @classmethod
    def from_json(cls, text: str | bytes) -> ModelScript:
        """Read a script from JSON text, in the form that this module's docstring shows.

        Raises MisuseError that names the response and the step at fault.
        """
        return _script_from_json(text)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> ModelScript:
        """Read a script from a JSON file."""
        from pathlib import Path

        return cls.from_json(Path(path).read_bytes())

    def choose(self, request: ModelRequest, used: frozenset[int] | set[int]) -> int | None:
        """The index of the response for ``request``, or None if the script has none left for it.

        ``used`` holds the indexes of the responses given out before.
        """
        fallback: int | None = None
        for index, response in enumerate(self.responses):
            if index in used and not response.repeat:
                continue
            if response.when is not None:
                if response.when(request):
                    return index
            elif fallback is None:
                fallback = index
        return fallback


ScriptLike: TypeAlias = "ModelScript | Iterable[ModelResponse | Iterable[Step]]"
"""A script, or simply a list of responses, each of them also as a list of steps."""


def as_script(script: ScriptLike) -> ModelScript:
    """The script that ``script`` stands for."""
    if isinstance(script, ModelScript):
        return script
    return ModelScript(
        *(item if isinstance(item, ModelResponse) else ModelResponse(*item) for item in script)
    )


# The JSON form.

_T = TypeVar("_T")

_CONSTRUCTORS: Mapping[str, Callable[..., Step]] = {
    "text": model_steps.Text,
    "reasoning": model_steps.Reasoning,
    "words": model_steps.words,
    "tool_call": model_steps.ToolCall,
    "custom_tool_call": model_steps.CustomToolCall,
    "usage": model_steps.Usage,
    "delay": model_steps.Delay,
    "gate": model_steps.Gate,
    "fail": model_steps.Fail,
    "disconnect": model_steps.Disconnect,
    "incomplete": model_steps.Incomplete,
    "failed": model_steps.Failed,
    "exec_command": model_tools.exec_command,
    "write_stdin": model_tools.write_stdin,
    "apply_patch": model_tools.apply_patch,
    "add_file": model_tools.add_file,
    "update_plan": model_tools.update_plan,
    "view_image": model_tools.view_image,
    "request_user_input": model_tools.request_user_input,
    "request_permissions": model_tools.request_permissions,
    "mcp_call": model_tools.mcp_call,
}

_POSITIONAL = {
    "text": "deltas",
    "reasoning": "deltas",
    "update_plan": "plan",
    "request_user_input": "questions",
}
"""Steps whose constructor takes a list as its positional arguments, and the JSON name of it."""


def _script_from_json(text: str | bytes) -> ModelScript:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise MisuseError(f"the model script is not JSON: {error}") from error
    responses = _member(document, "responses", list, "the model script")
    return ModelScript(
        *(_response(raw, f"responses[{index}]") for index, raw in enumerate(responses))
    )


def _response(raw: object, where: str) -> ModelResponse:
    steps = [
        _step(step, f"{where}.steps[{index}]")
        for index, step in enumerate(_member(raw, "steps", list, where))
    ]
    fields = cast("dict[str, object]", raw)
    unknown = fields.keys() - {"steps", "when", "repeat"}
    if unknown:
        raise MisuseError(f"{where} has unknown members: {', '.join(sorted(unknown))}")
    condition: When | None = None
    if "when" in fields:
        try:
            condition = When(**_member(raw, "when", dict, where))
        except TypeError as error:
            raise MisuseError(f"{where}.when: {error}") from error
    return ModelResponse(*steps, when=condition, repeat=fields.get("repeat") is True)


def _step(raw: object, where: str) -> Step:
    kind = _member(raw, "type", str, where)
    constructor = _CONSTRUCTORS.get(kind)
    if constructor is None:
        raise MisuseError(f"{where}: {kind!r} is no step; one of {', '.join(_CONSTRUCTORS)}")
    fields = {key: value for key, value in cast("dict[str, object]", raw).items() if key != "type"}
    name = _POSITIONAL.get(kind)
    positional = _member(raw, name, list, where) if name else []
    if name:
        del fields[name]
    try:
        return constructor(*positional, **fields)
    except (TypeError, ValueError) as error:
        raise MisuseError(f"{where}: {error}") from error


def _member(raw: object, name: str, kind: type[_T], where: str) -> _T:
    value = value_at(raw, name)
    if not isinstance(value, kind):
        raise MisuseError(f"{where} must be an object with the {kind.__name__} {name!r}")
    return value
