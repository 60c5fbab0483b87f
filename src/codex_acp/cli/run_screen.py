"""What ``codex-acp-sdk run`` shows a person: the agent's text on stdout, all else on stderr.

Owns the layout, and that nothing is written while a question is open. Everything that is not ours
is made visible first: it cannot steer the terminal, nor draw the frame of a question.
Must not know where updates come from, nor what is decided.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
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
from codex_acp.cli.run_frame import Frame
from codex_acp.errors import ErrorReply
from codex_acp.routing.display import prose, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO

    from codex_acp.acp.types import ToolCallContent
    from codex_acp.runtime import PromptResult, Session, ToolCall, Update

__all__ = ["TextOutput", "describe", "quoted"]

DETAIL_LIMIT: Final = 20_000
"""Characters of an error's data; what is cut is stated."""

HELD_LOG: Final = 256 * 1024
"""Characters of the log that are kept for behind an open question: an agent can make it say more
than anybody reads. Its updates are not read meanwhile."""

MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "+", "failed": "!"}


class TextOutput:
    """Writes to ``out`` and ``err`` at once, or when the open question is answered.

    ``guarded`` unless nobody sees ``out`` beside the questions: the agent's text is then written
    without the mark of their frame.
    """

    def __init__(self, out: TextIO, err: TextIO, *, guarded: bool = True) -> None:
        self._out = out
        self._err = err
        self._guarded = guarded
        self.frame = Frame(err)
        self.free = asyncio.Event()
        """Set while no question is open."""
        self.free.set()
        self._held: list[tuple[TextIO, str]] = []
        self._held_log = 0
        self._log_left_out = 0
        self._lock = threading.Lock()  # the log may be written by another thread
        self._message_id: str | None = None
        self._in_text = False
        self._any_text = False
        self._shown: dict[str, tuple[object, object]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """A question is open: nothing but `ask` writes meanwhile, and what would have follows."""
        self._end_text()
        with self._lock:
            self.free.clear()
        try:
            yield
        finally:
            with self._lock:
                self.free.set()
                held, self._held, self._held_log = self._held, [], 0
                for stream, text in held:
                    _put(stream, text)
                if self._log_left_out:
                    _put(self._err, f"[{self._log_left_out} records of the log are left out]\n")
                    self._log_left_out = 0

    def session(self, session: Session) -> None:
        """The session is open."""
        if session.opened.reason is not None:
            self.note(f"a new session, since {visible(session.opened.reason)}")

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
            self.note(f"the agent stopped: {visible(result.stop_reason)}")

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

    def logged(self, text: str) -> None:
        """Lines of the log; they may quote anything."""
        self._end_text()
        with self._lock:
            if not self.free.is_set():
                self._held_log += len(text)
                if self._held_log > HELD_LOG:
                    self._log_left_out += 1
                    return
        self._write(self._err, visible(text, multiline=True))

    def ask(self, text: str) -> None:
        """Text of a question, as its frame has drawn it."""
        _put(self._err, text)

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
        self.note(visible(f"{call.kind or 'tool'}: {title}{status}"))

    def _end_text(self) -> None:
        if self._in_text:
            self._in_text = False
            self._write(self._out, "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        if self._guarded or stream is self._err:
            text = self.frame.without_mark(text)
        with self._lock:
            if self.free.is_set():
                _put(stream, text)
            else:
                self._held.append((stream, text))


def _put(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def describe(call: ToolCall) -> Iterator[str]:
    """All that a person has to see of a tool call before permitting it, line by line as it came."""
    yield f"{call.kind or 'tool call'}: {call.title or call.tool_call_id}"
    for location in call.locations:
        yield f"file: {location.path}"
    if call.raw_input is not None:
        # As JSON: with its escapes, it is one line and hides nothing.
        yield f"input: {json.dumps(call.raw_input, ensure_ascii=False)}"
    for content in call.content:
        yield from _content_lines(content)


def _content_lines(content: ToolCallContent) -> Iterator[str]:
    if isinstance(content, DiffToolCallContent):
        yield f"change of {content.path}:"
        yield from (f"| -{line}" for line in (content.old_text or "").splitlines())
        yield from (f"| +{line}" for line in content.new_text.splitlines())
    elif isinstance(content, ContentToolCallContent):
        block = content.content
        if isinstance(block, TextContentBlock):
            yield from quoted(block.text)
        else:
            yield f"content of type {block.type}"
    else:
        yield f"terminal {content.terminal_id}"


def quoted(text: str) -> Iterator[str]:
    """The lines of somebody's words."""
    return (f"| {line}" for line in text.split("\n"))
