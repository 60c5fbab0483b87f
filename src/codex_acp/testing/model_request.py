"""One request that the scripted model received, with the readings that tests want of it.

Owns how the Responses API lays out its ``input``; knows nothing of scripts or of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def _text_of(content: object) -> str:
    """The text of a message's or an output's content: a string, or a list of text parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "".join(part for part in parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A ``POST /v1/responses``; ``number`` counts from 0 in the order of arrival."""

    number: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    """The HTTP headers, with their names in lower case."""

    @property
    def items(self) -> tuple[Mapping[str, object], ...]:
        """The conversation so far: the objects of ``input``."""
        raw = self.body.get("input")
        if not isinstance(raw, Sequence):
            return ()
        return tuple(item for item in raw if isinstance(item, Mapping))

    @property
    def model(self) -> str:
        """The slug of the model that is asked for, or an empty string."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def user_texts(self) -> tuple[str, ...]:
        """The text of every message of the user, oldest first.

        The first ones are Codex's own context (instructions, environment).
        """
        return tuple(_text_of(item.get("content")) for item in self.items if _is_user(item))

    @property
    def last_user_text(self) -> str:
        """The text of the newest message of the user, or an empty string."""
        texts = self.user_texts
        return texts[-1] if texts else ""

    @property
    def tool_outputs(self) -> dict[str, str]:
        """Return the tools' answers so far: the output's text by ``call_id``, oldest first."""
        outputs: dict[str, str] = {}
        for item in self.items:
            kind, call_id = item.get("type"), item.get("call_id")
            if isinstance(kind, str) and kind.endswith("_output") and isinstance(call_id, str):
                outputs[call_id] = _text_of(item.get("output"))
        return outputs

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools on offer; a built-in tool without a name counts by its type."""
        raw = self.body.get("tools")
        if not isinstance(raw, Sequence):
            return ()
        named = (tool.get("name", tool.get("type")) for tool in raw if isinstance(tool, Mapping))
        return tuple(name for name in named if isinstance(name, str))


def _is_user(item: Mapping[str, object]) -> bool:
    return item.get("role") == "user" and item.get("type", "message") == "message"
