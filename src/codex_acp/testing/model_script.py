"""A script for the scripted model: which responses there are and which request gets which.

Pure data and selection; sends nothing. The JSON form is read in ``model_script_json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from codex_acp.errors import MisuseError
from codex_acp.testing.model_steps import Disconnect, Fail, Failed, Incomplete, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike

    from codex_acp.testing.model_request import ModelRequest

__all__ = ["Condition", "When", "ModelResponse", "ModelScript", "ScriptLike", "as_script"]

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
    """What one ``POST /v1/responses`` gets: its steps, in order.

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
                message = f"{type(step).__name__} ends the stream: make it the last step"
                raise MisuseError(message)
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
        """Read a script from JSON text, see :mod:`codex_acp.testing.model_script_json`."""
        from codex_acp.testing.model_script_json import script_from_json

        return script_from_json(text)

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
