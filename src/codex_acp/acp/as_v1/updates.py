"""PURE: the updates of one session of version 2, in order, as those of version 1.

A message that is given as a whole becomes the pieces that are new in it. What version 1 lacks is
an `UnknownVariant`: the state of the session, terminals, and kinds that are not known here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp._last_ones import LastOnes
from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp.as_v1.tool_calls import ToolCalls
from codex_acp.acp.as_v1.values import command, config_option, each, fitting, plan
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Update: TypeAlias = v1.SessionUpdate | UnknownVariant

Json = dict[str, Any]

MESSAGES: Final = 64
"""Messages of a session of which is remembered what was said: the last ones may still change."""

_WHOLE: Final = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}


class _Said:
    """The text of a message, of which only is kept what tells it from another."""

    __slots__ = ("_hash", "length", "name")

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        """The id under which it goes on: another one, where what was said of it was replaced."""
        self._hash = sha256()
        self.length = 0
        self.add(text)

    def __bool__(self) -> bool:
        return self.length > 0

    def add(self, text: str) -> None:
        """It goes on."""
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self.length += len(text)

    def begins(self, text: str) -> bool:
        """Whether ``text`` begins with it."""
        begin = text[: self.length].encode("utf-8", "surrogatepass")
        return sha256(begin).digest() == self._hash.digest()


class Updates:
    """Translates the updates of one session. ``calls`` are its tool calls, to which permission
    requests refer."""

    def __init__(self) -> None:
        self.calls: ToolCalls = ToolCalls()
        self._said: LastOnes[str, _Said] = LastOnes(MESSAGES)
        self._replaced = 0
        self._makers: dict[str, Callable[[Json], list[Json] | None]] = {
            "tool_call_update": lambda update: [self.calls.updated(update), *self.calls.late()],
            "tool_call_content_chunk": self.calls.appended,
            "terminal_update": self.calls.terminal,
            "terminal_output_chunk": self.calls.terminal,
            "plan_update": _plan,
            "available_commands_update": _commands,
            "config_option_update": _options,
        }

    def translated(self, update: v2.SessionUpdate) -> list[Update]:
        """Return an update as version 1 has it: none, one or several updates."""
        if (
            isinstance(
                update, v2.AgentMessageChunkSessionUpdate | v2.AgentThoughtChunkSessionUpdate
            )
            and isinstance(update.content, v2.TextContentBlock)
            and update.content.model_fields_set <= {"type", "text"}
        ):
            return [self._text(update, update.content.text)]
        wire = plain(update)
        assert isinstance(wire, dict)
        made = self._translated(wire)
        if made is None:
            rest = self.calls.untold() if wire.get("state") == "idle" else []
            late = (fitting("SessionUpdate", each) for each in rest)
            return [*(each for each in late if each), UnknownVariant.model_validate(wire)]
        known = [fitting("SessionUpdate", each) for each in made]
        found: list[Update] = [each for each in known if each is not None]
        if wire["sessionUpdate"].startswith("terminal_"):
            return [UnknownVariant.model_validate(wire), *found]
        return found if found or not made else [UnknownVariant.model_validate(wire)]

    def _translated(self, update: Json) -> list[Json] | None:
        """None: version 1 has nothing like it."""
        kind: str = update["sessionUpdate"]
        if kind in ("state_update", "plan_removed"):
            return None
        if kind in _WHOLE:
            return self._message(update, _WHOLE[kind])
        if kind in _WHOLE.values():
            update = {**update, "messageId": self._note(update["messageId"], [update["content"]])}
        make = self._makers.get(kind)
        return [update] if make is None else make(update)

    def _text(
        self,
        update: v2.AgentMessageChunkSessionUpdate | v2.AgentThoughtChunkSessionUpdate,
        text: str,
    ) -> Update:
        """The one kind of which there are thousands."""
        name = self._note(update.message_id, [{"type": "text", "text": text}])
        content = v1.TextContentBlock(text=text)
        if isinstance(update, v2.AgentMessageChunkSessionUpdate):
            return v1.AgentMessageChunkSessionUpdate(content=content, message_id=name)
        return v1.AgentThoughtChunkSessionUpdate(content=content, message_id=name)

    def _message(self, update: Json, kind: str) -> list[Json]:
        """Return chunks with the new part of a message that version 2 sends as a whole."""
        message_id, content = update["messageId"], update.get("content") or []
        said = self._said.get(message_id)
        text = _text_of(content)
        if said and said.begins(text):
            rest = text[said.length :]
            content = [{"type": "text", "text": rest}] if rest else []
            name = self._note(message_id, content)
        elif said and content:
            # Version 1 cannot take back what was said: the new text is a message of its own.
            self._replaced += 1
            name = f"{message_id}#{self._replaced}"
            self._said[message_id] = _Said(name, text)
        else:
            name = self._note(message_id, content)
        return [{"sessionUpdate": kind, "messageId": name, "content": c} for c in content]

    def _note(self, message_id: str, content: Sequence[Json]) -> str:
        """Remember more content of a message, and return the message's id in version 1."""
        said = self._said.setdefault(message_id, _Said(message_id))
        said.add(_text_of(content))
        return said.name


def _plan(update: Json) -> list[Json] | None:
    entries = plan(update.get("plan"))
    return None if entries is None else [{"sessionUpdate": "plan", "entries": entries}]


def _commands(update: Json) -> list[Json]:
    return [{**update, "availableCommands": each(command, update["availableCommands"])}]


def _options(update: Json) -> list[Json]:
    return [{**update, "configOptions": each(config_option, update["configOptions"])}]


def _text_of(content: Sequence[Json]) -> str:
    return "".join(str(block["text"]) for block in content if block.get("type") == "text")
