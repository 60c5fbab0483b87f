"""PURE: define the script of the scripted model, and choose the response of each request.

As JSON, a script is ``{"responses": [...]}``. A response is ``{"steps": [...], "when": {...},
"repeat": true}``: only ``steps`` is required, ``when`` has the fields of
:class:`~codex_acp.testing.When`. A step is an object with a ``type`` and fields::

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

from codex_acp._json import value_at, without_none
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike


def _text_of(content: object) -> str:
    """Return the text of a message's or an output's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "".join(part for part in parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request ``POST /v1/responses``; ``number`` counts from 0 in the order of arrival."""

    number: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    """The HTTP headers, with names in lower case."""

    @property
    def items(self) -> tuple[Mapping[str, object], ...]:
        """The conversation so far: the objects of ``input``."""
        raw = self.body.get("input")
        if not isinstance(raw, Sequence):
            return ()
        return tuple(item for item in raw if isinstance(item, Mapping))

    @property
    def model(self) -> str:
        """Name of the requested model, or an empty string."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def user_texts(self) -> tuple[str, ...]:
        """Texts of all messages with the role ``user``, oldest first.

        The first messages are Codex's own context: instructions and environment.
        """
        return tuple(
            _text_of(item.get("content"))
            for item in self.items
            if item.get("role") == "user" and item.get("type", "message") == "message"
        )

    @property
    def last_user_text(self) -> str:
        """Text of the last message of the user, or an empty string."""
        texts = self.user_texts
        return texts[-1] if texts else ""

    @property
    def tool_outputs(self) -> dict[str, str]:
        """Return the texts of the tools' outputs by ``call_id``, oldest first."""
        outputs: dict[str, str] = {}
        for item in self.items:
            kind, call_id = item.get("type"), item.get("call_id")
            if isinstance(kind, str) and kind.endswith("_output") and isinstance(call_id, str):
                outputs[call_id] = _text_of(item.get("output"))
        return outputs

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the offered tools; the type of a built-in tool without a name."""
        raw = self.body.get("tools")
        if not isinstance(raw, Sequence):
            return ()
        names = (tool.get("name", tool.get("type")) for tool in raw if isinstance(tool, Mapping))
        return tuple(name for name in names if isinstance(name, str))


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """One assistant message, streamed as ``deltas`` with ``pause`` seconds between two."""

    deltas: tuple[str, ...]
    pause: float

    def __init__(self, *deltas: str, pause: float = 0.0) -> None:
        object.__setattr__(self, "deltas", deltas)
        object.__setattr__(self, "pause", pause)


@dataclass(frozen=True, slots=True, init=False)
class Reasoning:
    """One reasoning item; its summary is streamed as ``deltas``, ``pause`` seconds apart."""

    deltas: tuple[str, ...]
    pause: float

    def __init__(self, *deltas: str, pause: float = 0.0) -> None:
        object.__setattr__(self, "deltas", deltas)
        object.__setattr__(self, "pause", pause)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function call. MCP tools have the ``namespace`` ``mcp__<server>``.

    Without ``call_id``, the model makes an id that no other step has.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    namespace: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CustomToolCall:
    """A call of a tool whose ``input`` is text and not JSON, like ``apply_patch``."""

    name: str
    input: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts that the response reports at its end."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Send the earlier steps, then wait ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gate:
    """Send the earlier steps, then wait until ``ScriptedModel.open(name)`` is called."""

    name: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an HTTP error instead of a stream; the only step of its response.

    A mapping as ``body`` is sent as JSON. Codex shows the body of status 400, but not of 500.
    """

    status: int = 500
    body: str | Mapping[str, object] = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without an end event; the last step of its response."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """End with ``response.incomplete``; the last step of its response."""

    reason: str = "max_output_tokens"


@dataclass(frozen=True, slots=True)
class Failed:
    """End with ``response.failed``; the last step of its response.

    Codex handles the codes ``context_length_exceeded``, ``insufficient_quota``,
    ``usage_not_included``, ``rate_limit_exceeded``, ``invalid_prompt`` and ``server_is_overloaded``
    each in its own way.
    """

    code: str = "server_error"
    message: str = "The scripted model failed."


Step: TypeAlias = (
    Text
    | Reasoning
    | ToolCall
    | CustomToolCall
    | Usage
    | Delay
    | Gate
    | Fail
    | Disconnect
    | Incomplete
    | Failed
)
"""One step of a response."""


def words(count: int, *, pause: float = 0.0) -> Text:
    """Make a message of ``count`` different deltas of three words each, for benchmarks."""
    return Text(*(f"word {index} flows " for index in range(count)), pause=pause)


def exec_command(
    cmd: str,
    *,
    justification: str | None = None,
    workdir: str | None = None,
    yield_time_ms: int | None = None,
    tty: bool | None = None,
    call_id: str | None = None,
) -> ToolCall:
    """Run a shell command in the sandbox.

    With a ``justification``, the command asks to leave the sandbox: Codex requests an approval
    under the policy ``on-request``.
    """
    arguments: dict[str, object] = {"cmd": cmd}
    if justification is not None:
        arguments["sandbox_permissions"] = "require_escalated"
        arguments["justification"] = justification
    arguments |= without_none({"workdir": workdir, "yield_time_ms": yield_time_ms, "tty": tty})
    return ToolCall("exec_command", arguments, call_id=call_id)


def write_stdin(
    session_id: int,
    chars: str = "",
    *,
    yield_time_ms: int | None = None,
    call_id: str | None = None,
) -> ToolCall:
    """Write ``chars`` to a running command; without ``chars``, only poll the command's output."""
    arguments = {"session_id": session_id, "chars": chars, "yield_time_ms": yield_time_ms}
    return ToolCall("write_stdin", without_none(arguments), call_id=call_id)


def apply_patch(patch: str, *, call_id: str | None = None) -> CustomToolCall:
    """Change files. ``patch`` begins with ``*** Begin Patch`` and ends with ``*** End Patch``."""
    return CustomToolCall("apply_patch", patch, call_id=call_id)


def add_file(path: str, content: str, *, call_id: str | None = None) -> CustomToolCall:
    """Add a file with :func:`apply_patch`; ``path`` is relative to the working directory."""
    added = "".join(f"+{line}\n" for line in content.splitlines())
    return apply_patch(
        f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n", call_id=call_id
    )


def update_plan(
    *steps: tuple[str, Literal["pending", "in_progress", "completed"]],
    explanation: str | None = None,
    call_id: str | None = None,
) -> ToolCall:
    """Set the plan; each step is its text and its status."""
    plan = [{"step": step, "status": status} for step, status in steps]
    arguments = without_none({"plan": plan, "explanation": explanation})
    return ToolCall("update_plan", arguments, call_id=call_id)


def view_image(path: str, *, call_id: str | None = None) -> ToolCall:
    """Look at an image file."""
    return ToolCall("view_image", {"path": path}, call_id=call_id)


def request_user_input(*questions: Mapping[str, object], call_id: str | None = None) -> ToolCall:
    """Ask the user. Needs the feature ``default_mode_request_user_input``.

    A question has ``id``, ``header``, ``question`` and ``options`` (``[{label, description}]``).
    """
    return ToolCall("request_user_input", {"questions": list(questions)}, call_id=call_id)


def request_permissions(
    reason: str, *, network: bool = False, write: Sequence[str] = (), call_id: str | None = None
) -> ToolCall:
    """Request network access, or writing to directories.

    Needs the feature ``request_permissions_tool``.
    """
    permissions: dict[str, object] = {}
    if network:
        permissions["network"] = {"enabled": True}
    if write:
        permissions["file_system"] = {"write": list(write)}
    arguments = {"reason": reason, "permissions": permissions}
    return ToolCall("request_permissions", arguments, call_id=call_id)


def mcp_call(
    server: str,
    tool: str,
    arguments: Mapping[str, object] | None = None,
    *,
    call_id: str | None = None,
) -> ToolCall:
    """Call ``tool`` of the MCP server that the configuration calls ``server``."""
    return ToolCall(tool, dict(arguments or {}), namespace=f"mcp__{server}", call_id=call_id)


Condition: TypeAlias = "Callable[[ModelRequest], bool]"
"""Returns whether a response is for a request. Must be quick, and must not raise."""


@dataclass(frozen=True, slots=True)
class When:
    """A :data:`Condition` as data, true if the request meets all fields that are set."""

    user_text: str | None = None
    """Text in the last user message."""
    anywhere: str | None = None
    """Text in any user message."""
    tool_output: str | None = None
    """Id of a call that has an output."""
    no_tool_output: str | None = None
    """Id of a call that has no output."""
    tool: str | None = None
    """Name of an offered tool."""
    model: str | None = None
    """Name of the requested model."""

    def __call__(self, request: ModelRequest) -> bool:
        """Return whether the request meets all fields that are set."""
        return (
            (self.user_text is None or self.user_text in request.last_user_text)
            and (self.anywhere is None or any(self.anywhere in t for t in request.user_texts))
            and (self.tool_output is None or self.tool_output in request.tool_outputs)
            and (self.no_tool_output is None or self.no_tool_output not in request.tool_outputs)
            and (self.tool is None or self.tool in request.tool_names)
            and (self.model is None or self.model == request.model)
        )


_LAST_STEPS = (Disconnect, Incomplete, Failed)


@dataclass(frozen=True, slots=True, init=False)
class ModelResponse:
    """Response to one ``POST /v1/responses``: its steps, in order.

    ``when`` restricts the response to some requests. With ``repeat``, the response is used any
    number of times. Raises :class:`~codex_acp.errors.MisuseError` for a wrong order of steps.
    """

    steps: tuple[Step, ...]
    when: Condition | None
    repeat: bool

    def __init__(self, *steps: Step, when: Condition | None = None, repeat: bool = False) -> None:
        if any(isinstance(step, Fail) for step in steps) and len(steps) != 1:
            raise MisuseError("Fail replaces the whole stream: make it the only step")
        for step in steps[:-1]:
            if isinstance(step, _LAST_STEPS):
                raise MisuseError(f"{type(step).__name__} ends the stream: make it the last step")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "when", when)
        object.__setattr__(self, "repeat", repeat)


@dataclass(frozen=True, slots=True, init=False)
class ModelScript:
    """The responses of a model.

    A request gets the first unused response whose ``when`` is true for the request, else the first
    unused response without a ``when``, else an error.
    """

    responses: tuple[ModelResponse, ...]

    def __init__(self, *responses: ModelResponse) -> None:
        object.__setattr__(self, "responses", responses)

    @classmethod
    def from_json(cls, text: str | bytes) -> ModelScript:
        """Read a script from JSON, in the format of this module's docstring.

        Raises MisuseError that names the invalid response and step.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise MisuseError(f"the model script is not JSON: {error}") from error
        responses = _member(document, "responses", list, "the model script")
        return cls(*(_parse_response(raw, f"responses[{i}]") for i, raw in enumerate(responses)))

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> ModelScript:
        """Read a script from a JSON file."""
        from pathlib import Path

        return cls.from_json(Path(path).read_bytes())

    def choose(self, request: ModelRequest, used: frozenset[int] | set[int]) -> int | None:
        """Return the index of the response for ``request``, or None if none is left.

        ``used`` has the indexes of the responses that were sent before.
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
"""A script, or a list of responses, each of which may be a list of steps."""


def as_script(script: ScriptLike) -> ModelScript:
    """Return ``script``, or a script with the responses ``script``."""
    if isinstance(script, ModelScript):
        return script
    return ModelScript(
        *(item if isinstance(item, ModelResponse) else ModelResponse(*item) for item in script)
    )


# The JSON form.

_T = TypeVar("_T")
_CONSTRUCTORS: Mapping[str, Callable[..., Step]] = {
    "text": Text,
    "reasoning": Reasoning,
    "words": words,
    "tool_call": ToolCall,
    "custom_tool_call": CustomToolCall,
    "usage": Usage,
    "delay": Delay,
    "gate": Gate,
    "fail": Fail,
    "disconnect": Disconnect,
    "incomplete": Incomplete,
    "failed": Failed,
    "exec_command": exec_command,
    "write_stdin": write_stdin,
    "apply_patch": apply_patch,
    "add_file": add_file,
    "update_plan": update_plan,
    "view_image": view_image,
    "request_user_input": request_user_input,
    "request_permissions": request_permissions,
    "mcp_call": mcp_call,
}
_POSITIONAL = {
    "text": "deltas",
    "reasoning": "deltas",
    "update_plan": "plan",
    "request_user_input": "questions",
}
"""Type of a step whose constructor takes a list as positional arguments → the list's JSON name."""


def _parse_response(raw: object, where: str) -> ModelResponse:
    steps = [
        _parse_step(step, f"{where}.steps[{index}]")
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


def _parse_step(raw: object, where: str) -> Step:
    kind = _member(raw, "type", str, where)
    constructor = _CONSTRUCTORS.get(kind)
    if constructor is None:
        raise MisuseError(f"{where}: {kind!r} is no step; one of {', '.join(_CONSTRUCTORS)}")
    fields = {key: value for key, value in cast("dict[str, object]", raw).items() if key != "type"}
    positional: list[object] = []
    if name := _POSITIONAL.get(kind):
        positional = _member(raw, name, list, where)
        del fields[name]
    try:
        return constructor(*positional, **fields)
    except (TypeError, ValueError) as error:
        raise MisuseError(f"{where}: {error}") from error


def _member(raw: object, name: str, kind: type[_T], where: str) -> _T:
    """Return a checked member. ``where`` is the place of ``raw`` in the script, for errors."""
    value = value_at(raw, name)
    if not isinstance(value, kind):
        raise MisuseError(f"{where} must be an object with the {kind.__name__} {name!r}")
    return value
