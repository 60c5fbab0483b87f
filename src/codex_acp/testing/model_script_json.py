"""The JSON form of a model script, for the demo, for benchmarks and for scripts kept as files.

Owns the spelling of that form and nothing else. A script is ``{"responses": [...]}``; a
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
from typing import TYPE_CHECKING, TypeVar, cast

from codex_acp.errors import MisuseError
from codex_acp.testing import model_steps, model_tools
from codex_acp.testing.model_script import ModelResponse, ModelScript, When

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.testing.model_steps import Step

__all__ = ["script_from_json"]

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


def script_from_json(text: str | bytes) -> ModelScript:
    """Read a script. Raises MisuseError that names the response and the step at fault."""
    try:
        document = json.loads(text)
    except ValueError as error:
        message = f"the model script is not JSON: {error}"
        raise MisuseError(message) from error
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
        message = f"{where} has unknown members: {', '.join(sorted(unknown))}"
        raise MisuseError(message)
    condition: When | None = None
    if "when" in fields:
        try:
            condition = When(**_member(raw, "when", dict, where))
        except TypeError as error:
            message = f"{where}.when: {error}"
            raise MisuseError(message) from error
    return ModelResponse(*steps, when=condition, repeat=fields.get("repeat") is True)


def _step(raw: object, where: str) -> Step:
    kind = _member(raw, "type", str, where)
    constructor = _CONSTRUCTORS.get(kind)
    if constructor is None:
        message = f"{where}: {kind!r} is no step; one of {', '.join(_CONSTRUCTORS)}"
        raise MisuseError(message)
    fields = {key: value for key, value in cast("dict[str, object]", raw).items() if key != "type"}
    name = _POSITIONAL.get(kind)
    positional = _member(raw, name, list, where) if name else []
    if name:
        del fields[name]
    try:
        return constructor(*positional, **fields)
    except (TypeError, ValueError) as error:
        message = f"{where}: {error}"
        raise MisuseError(message) from error


def _member(raw: object, name: str, kind: type[_T], where: str) -> _T:
    value = raw.get(name) if isinstance(raw, dict) else None
    if not isinstance(value, kind):
        message = f"{where} must be an object with the {kind.__name__} {name!r}"
        raise MisuseError(message)
    return value
