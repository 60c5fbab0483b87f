"""The transcript of one task: what its session said and did, one JSON object a line.

``{"time", "type": "prompt", "text"}``, ``{"type": "update", "update"}`` as ACP's ``session/update``
has it (the pieces of one message joined), ``{"type": "question", "kind", "toolCallId",
"optionId"}`` (of a form the names of its fields, never a value), ``{"type": "end", "reason"}``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, value_at
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    AvailableCommandsUpdateSessionUpdate,
    TextContentBlock,
)
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.runtime import Update

LOG_LIMIT: Final = 16 * 1024 * 1024
"""Characters that are kept; what an agent says beyond that is counted, not kept."""

JOINED: Final = 256 * 1024
"""Characters of one message above which a new line is begun."""


class SessionLog:
    """Takes what happens, in order."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._left_out = 0
        self._pieces: list[str] = []
        self._waiting = 0
        self._chunk: AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate | None = None

    def prompt(self, text: str) -> None:
        """A prompt is sent."""
        self._add("prompt", text=text)

    def update(self, update: Update) -> None:
        """The agent said or did something."""
        if isinstance(update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate):
            content = update.content
            if isinstance(content, TextContentBlock):
                if self._chunk is None or not _goes_on(self._chunk, update):
                    self._flush()
                    self._chunk = update
                self._pieces.append(content.text)
                self._waiting += len(content.text)
                if self._waiting > JOINED:
                    self._flush()
                return
        if not isinstance(update, AvailableCommandsUpdateSessionUpdate):  # said to an editor's menu
            self._add("update", update=plain(update))

    def question(
        self, question: Mapping[str, JsonValue], answer: Mapping[str, JsonValue] | None
    ) -> None:
        """A question was answered; None: it was withdrawn."""
        kind = question.get("kind")
        given = value_at(answer, "answer")
        told: dict[str, object] = {"kind": kind, "withdrawn": answer is None}
        if kind == "permission":
            told["toolCallId"] = value_at(question, "toolCall", "toolCallId")
            told["optionId"] = value_at(answer, "optionId")
        elif isinstance(given, dict):
            told["action"] = given.get("action")
            told["fields"] = sorted(object_at(given, "content"))
        self._add("question", **told)

    def note(self, kind: str, /, **members: object) -> None:
        """Anything else."""
        self._add(kind, **members)

    def data(self) -> bytes:
        """All of it."""
        self._flush()
        if self._left_out:
            self._lines.append(_line("left_out", lines=self._left_out))
            self._left_out = 0
        return "".join(self._lines).encode("utf-8", "replace")

    def _add(self, kind: str, /, **members: object) -> None:
        self._flush()
        self._take(_line(kind, **members))

    def _flush(self) -> None:
        if self._chunk is None:
            return
        update = object_at(plain(self._chunk))
        update["content"] = {**update["content"], "text": "".join(self._pieces)}
        self._chunk, self._pieces, self._waiting = None, [], 0
        self._take(_line("update", update=update))

    def _take(self, line: str) -> None:
        if self._size + len(line) > LOG_LIMIT:
            self._left_out += 1
        else:
            self._size += len(line)
            self._lines.append(line)


def _goes_on(
    before: AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate,
    update: AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate,
) -> bool:
    same_kind = before.session_update == update.session_update
    return same_kind and before.message_id == update.message_id


def _line(kind: str, /, **members: object) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "type": kind, **members}, default=str) + "\n"
