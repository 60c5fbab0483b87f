"""What ``codex-acp-sdk run`` shows a person: the agent's text on stdout, all else on stderr.

Owns the layout. Everything that is not ours is made visible first: it cannot steer the terminal.
Must not know where updates come from, nor what is decided.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    ContentToolCallContent,
    DiffToolCallContent,
    NoticeSessionUpdate,
    PlanSessionUpdate,
    TextContentBlock,
    ToolCallSessionUpdate,
    ToolCallUpdateSessionUpdate,
)
from codex_acp.errors import ErrorReply
from codex_acp.routing.display import prose, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from codex_acp.acp.types import ToolCallContent
    from codex_acp.runtime import PromptResult, Session, ToolCall, Update

__all__ = ["TextOutput", "describe"]

DETAIL_LIMIT: Final = 20_000
"""Characters of one detail of a question; what is cut is stated."""

MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "+", "failed": "!"}


class TextOutput:
    """Writes to ``out`` and ``err`` at once."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._message_id: str | None = None
        self._in_text = False
        self._any_text = False
        self._shown: dict[str, tuple[object, object]] = {}

    def session(self, session: Session) -> None:
        """The session is open."""
        if session.opened.reason is not None:
            self.note(f"a new session, since {session.opened.reason}")

    def update(self, update: Update, calls: Mapping[str, ToolCall]) -> None:
        """Show what a person wants to see of an update."""
        if isinstance(update, AgentMessageChunkSessionUpdate):
            self._text(update)
        elif isinstance(update, ToolCallSessionUpdate | ToolCallUpdateSessionUpdate):
            self._tool_call(calls[update.tool_call_id])
        elif isinstance(update, PlanSessionUpdate):
            for entry in update.entries:
                self.note(f"plan [{MARKS.get(entry.status, ' ')}] {visible(entry.content)}")
        elif isinstance(update, NoticeSessionUpdate):
            self.note(f"{visible(str(update.severity))}: {visible(update.title)}")

    def permission(self, question: str, chosen: str | None) -> None:
        """A permission request was answered."""
        self.note(f"{question}: {'rejected' if chosen is None else chosen}")

    def result(self, session: Session, result: PromptResult) -> None:
        """The prompt has ended."""
        del session
        self._end_text()
        if result.stop_reason != "end_turn":
            self.note(f"the agent stopped: {result.stop_reason}")

    def error(self, error: Exception) -> None:
        """It went wrong."""
        self._end_text()
        text = str(error)
        if isinstance(error, ErrorReply) and error.data is not None:
            # Some agents say nothing but "internal error" in the message.
            text += "\n" + shortened(json.dumps(error.data, default=str), DETAIL_LIMIT)
        self._write(self._err, f"codex-acp-sdk run: error: {visible(text, multiline=True)}\n")

    def note(self, text: str) -> None:
        """A line of ours; ``text`` is safe already."""
        self._end_text()
        self._write(self._err, f"[{text}]\n")

    def ask(self, text: str) -> None:
        """Text for a person who is to answer; safe already, and without an end of line."""
        self._end_text()
        self._write(self._err, text)

    def _text(self, update: AgentMessageChunkSessionUpdate) -> None:
        content = update.content
        if not isinstance(content, TextContentBlock):
            self.note(f"the agent sent content of type {visible(content.type)}")
            return
        if self._any_text and (not self._in_text or update.message_id != self._message_id):
            self._end_text()
            self._write(self._out, "\n")
        self._message_id = update.message_id
        self._in_text = self._any_text = True
        self._write(self._out, prose(content.text))

    def _tool_call(self, call: ToolCall) -> None:
        """Only what is new of it: agents repeat themselves."""
        shown = (call.title, call.status)
        if self._shown.get(call.tool_call_id) == shown:
            return
        self._shown[call.tool_call_id] = shown
        status = f" - {call.status}" if call.status else ""
        title = shortened(call.title or call.tool_call_id, 500)
        self.note(f"{call.kind or 'tool'}: {visible(title)}{status}")

    def _end_text(self) -> None:
        if self._in_text:
            self._in_text = False
            self._write(self._out, "\n")

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def describe(call: ToolCall) -> str:
    """All that a person has to see of a tool call before permitting it, over several lines."""
    lines = [f"{call.kind or 'tool call'}: {visible(call.title or call.tool_call_id)}"]
    lines += [f"file: {visible(location.path)}" for location in call.locations]
    if call.raw_input is not None:
        # As JSON: with its escapes, it is one line and hides nothing.
        text = json.dumps(call.raw_input, ensure_ascii=False)
        lines.append(f"input: {visible(shortened(text, DETAIL_LIMIT))}")
    for content in call.content:
        lines += _content_lines(content)
    return "\n".join(f"  {line}" for line in lines)


def _content_lines(content: ToolCallContent) -> list[str]:
    if isinstance(content, DiffToolCallContent):
        old = (content.old_text or "").splitlines()
        lines = [f"change of {visible(content.path)}:"]
        changes = [f"-{line}" for line in old]
        changes += [f"+{line}" for line in content.new_text.splitlines()]
        return lines + _quoted("\n".join(changes))
    if isinstance(content, ContentToolCallContent):
        block = content.content
        if isinstance(block, TextContentBlock):
            return _quoted(block.text)
        return [f"content of type {visible(block.type)}"]
    return [f"terminal {visible(content.terminal_id)}"]


def _quoted(text: str) -> list[str]:
    shown = visible(shortened(text, DETAIL_LIMIT), multiline=True)
    return [f"| {line}" for line in shown.split("\n")]
