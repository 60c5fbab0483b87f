"""Show the updates of a prompt to a person: the agent's text on stdout, all else on stderr.

Owns the layout, and holds output back while a question is open. In the agent's texts, control
characters and the bar that marks a question are shown as codes. Must not know where updates come
from, nor how questions are decided.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import re
import select
import stat
import struct
import termios
import threading
import time
from collections import deque
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

from codex_acp.acp import types
from codex_acp.cli.terminal import (
    TICK_SECONDS,
    Frame,
    Line,
    LiveRows,
    Style,
    clipped,
    rows_of,
    size_of,
    styled,
    wrapped,
)
from codex_acp.cli.tool_calls import changed_files, describe_outcome, exit_code_of, title_of
from codex_acp.errors import CodexAcpError, ErrorReply, ProcessExited
from codex_acp.jsonrpc import (
    AGENT_LOST,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
)
from codex_acp.routing.display import shortened, visible, visible_controls
from codex_acp.runtime import AgentStartError, AuthenticationRequired
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

    from codex_acp.cli.markdown import MarkdownText
    from codex_acp.runtime import Permission, PromptResult, Session, ToolCall, Update

# Kinds of streams: a terminal, a file, or a pipe to another program.

SHOWN_SECONDS: Final = 0.1
"""Time for the reader of a pipe, such as ``tee``, to show the text that it has read."""
MAX_POLLS: Final = 200
"""Most checks by `until_seen` whether all was read, `SHOWN_SECONDS` / 10 apart."""


def open_output(stream: TextIO | None) -> TextIO:
    """Return ``stream``, or ``/dev/null`` if this process was started without ``stream``."""
    if stream is not None:
        try:
            flags = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL)
        except (AttributeError, OSError, ValueError):  # no file at all, as in tests
            return stream
        # A stream that was missing at the start is read-only: `cli.process` has opened it so.
        if flags & os.O_ACCMODE != os.O_RDONLY:
            return stream
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123


def is_terminal(stream: TextIO | None) -> bool:
    with suppress(AttributeError, ValueError):  # the stream is missing or closed
        return stream is not None and stream.isatty()
    return False


def is_file(stream: TextIO) -> bool:
    """Return whether ``stream`` writes to a file: its text is not on the questions' screen."""
    return stat.S_ISREG(_mode(stream))


def is_pipe(stream: TextIO) -> bool:
    """Return whether ``stream`` writes to another program, which may show the text at any time."""
    return stat.S_ISFIFO(_mode(stream)) or stat.S_ISSOCK(_mode(stream))


def _unread(stream: TextIO) -> int:
    """Return the bytes in a pipe that its reader has not read."""
    with suppress(OSError, ValueError):
        answer = fcntl.ioctl(stream.fileno(), termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", answer)[0])
    return 0


def _mode(stream: TextIO) -> int:
    with suppress(AttributeError, OSError, ValueError):
        return os.fstat(stream.fileno()).st_mode
    return 0


# Writing, which never blocks an event loop.

output_failed: bool = False
"""Whether output could not be written. Then the command has reported the error."""

_unwritten: Final[deque[tuple[int, memoryview]]] = deque()
"""Descriptors of full pipes and terminals, each with the bytes that are still to be written."""
_unwritten_lock: Final = threading.Lock()


def put(stream: TextIO, text: str) -> None:
    """Write as much of ``text`` as ``stream`` takes at once. A later `write_rest` writes the rest,
    because a blocked event loop handles no signal. Raises CodexAcpError, or BrokenPipeError if the
    reader has left."""
    encoding = stream.encoding or "utf-8"
    data = text.encode(encoding, "backslashreplace")
    with _dropping_on_error():
        stream.flush()
        try:
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError):  # no file at all, as in tests
            stream.write(data.decode(encoding))
            return
        with _unwritten_lock:
            _unwritten.append((descriptor, memoryview(data)))
        write_rest(wait=_may_wait())


def write_rest(*, wait: bool = False) -> bool:
    """Write what the streams take at once, or all if ``wait``; return whether all is written."""
    with _unwritten_lock:
        while _unwritten:
            descriptor, data = _unwritten[0]
            room = select.poll()
            room.register(descriptor, select.POLLOUT)
            if not room.poll(None if wait else 0):  # None: without a time limit
                return False
            written = os.write(descriptor, data[: select.PIPE_BUF])  # more could block
            _unwritten[0] = descriptor, data[written:]
            if written == len(data):
                _unwritten.popleft()
    return True


async def until_written() -> None:
    """Wait until all output is written. Raises as `put` does."""
    with _dropping_on_error():
        while not write_rest():  # noqa: ASYNC110 - a pipe raises no event
            await asyncio.sleep(SHOWN_SECONDS / 10)


def drop_rest() -> None:
    """Drop unwritten output."""
    with _unwritten_lock:
        _unwritten.clear()


def _may_wait() -> bool:
    """Return whether `put` may block: in the main thread, without a running event loop."""
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


@contextmanager
def _dropping_on_error() -> Iterator[None]:
    """Drop the unwritten output and raise CodexAcpError if writing fails within the block."""
    try:
        yield
    except BrokenPipeError:  # no error: the reader wants no more
        _unwritten.clear()
        raise
    except OSError as error:
        global output_failed  # noqa: PLW0603 - `cli.main` reads it at the end
        output_failed = True
        _unwritten.clear()
        msg = f"what is shown cannot be written: {error.strerror or error}"
        raise CodexAcpError(msg) from error


# The output of ``run``, ``chat`` and ``demo`` for a person.

HELD_LOG: Final = 256 * 1024
"""Characters of the log that are held back during a question; further records are only counted."""
HELD_TEXT: Final = 4 * 1024 * 1024
"""Characters of output held back during a question, above which reading of updates pauses. Enough
for the rest of a turn that runs on while a form is open."""
UNWRITTEN_LOG: Final = 1000
"""Unwritten texts, above which further records of the log are only counted."""
MOST_RUNNING: Final = 10
"""Most tool calls that are named at the end of a prompt because they still run."""
LISTED_INDENT: Final = 23
"""Columns before the description in a list: for two spaces, a name of 20 columns and a space."""
SPINNER: Final = "-\\|/"
"""Characters that the live line begins with, in turn."""
PLAN_MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "+", "failed": "!"}
ENDED: Final[dict[str, tuple[str, Style]]] = {"completed": ("+", "green"), "failed": ("!", "red")}
"""Status of a tool call that has ended → its mark and style."""


class TextOutput:
    """Writes to ``out`` and ``err``; while a question is open, holds the output back.

    ``beside_questions``: ``out`` may be seen beside the questions, so replace the questions' mark
    in the agent's text. ``verbose``: show whole outputs, thoughts and raw input. ``live``: show a
    live line (a terminal's last line, which says what runs), unless ``out`` is a pipe.
    ``markdown``: lay out the agent's text, if there is a live line.

    `say`, `note`, `list_entry` and `write_line` end the agent's message and write to ``err``;
    `write_line` and `write_log` escape their text. `write_now` writes during a question, too.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        beside_questions: bool = True,
        verbose: bool = False,
        live: bool = True,
        markdown: bool = False,
    ) -> None:
        self._out = out
        self._err = err
        self._beside_questions = beside_questions
        self.verbose = verbose
        self.frame: Frame = Frame(err)
        """Draws questions, shows their mark in other text as a code, and knows if ``err`` has
        colours."""
        self.no_question: asyncio.Event = asyncio.Event()
        """Set while no question is open."""
        self.no_question.set()
        self._open_questions = 0
        """Number of open questions."""
        self._held: list[tuple[TextIO, str]] = []
        """Output that is held back."""
        self._held_log = 0
        """Characters of the log that came during a question, also of records left out."""
        self._held_text = 0
        """Characters in `_held`."""
        self._log_left_out = 0
        """Number of records of the log that were left out, and not counted in a note yet."""
        self._lock = threading.RLock()  # the log may be written by another thread
        # A program behind a pipe, such as ``tee``, could write into the live line.
        self._has_live = live and LiveRows.possible(err) and not is_pipe(out)
        self._live = LiveRows(err, self._put_live)
        self._working = ""
        """Words of the live line; empty outside of `working`."""
        self._live_words = ""
        """Words of the live line that were drawn last."""
        self._live_since = 0.0
        """Time at which `_live_words` were drawn first."""
        self._running: dict[str, ToolCall] = {}
        """Tool calls that have not ended, by id."""
        self._has_markdown = markdown and self._has_live
        self._markdown: MarkdownText | None = None
        self._cancelling = False
        self._ended_after_cancel: dict[str, ToolCall] = {}
        """Tool calls that ended after the cancel, by id; more updates of them may arrive."""
        self._message_id: str | None = None
        """Id of the agent's last message."""
        self._message_is_open = False
        """Whether a message of the agent is being written."""
        self._had_message = False
        """Whether a message of the agent was written: the next one begins after an empty line."""
        self._line_is_open = False
        """Whether the written text ends within a line."""
        self._plan: list[str] = []
        """Lines of the plan that was shown last."""
        self._ended: set[str] = set()
        """Ids of the tool calls that have ended."""
        self._rejected: set[str] = set()
        """Ids of the tool calls whose permission was rejected."""

    @contextmanager
    def holding_back(self) -> Iterator[None]:
        """Hold back output, except that of `write_now`, within the block; write it afterwards."""
        self._end_message()
        with self._lock:
            self._live.hide()
            self._open_questions += 1
            self.no_question.clear()
        try:
            yield
        finally:
            with self._lock:
                self._open_questions -= 1
                if not self._open_questions:
                    self.no_question.set()
                    held, self._held = self._held, []
                    self._held_log = self._held_text = 0
                    for stream, text in held:
                        put(stream, text)
                    put(self._err, self._left_out_note())

    @contextmanager
    def working(self, words: str) -> Iterator[None]:
        """Show a live line with ``words`` within the block."""
        self._working = words
        try:
            with self.showing(self._live_line) if self._has_live else nullcontext():
                yield
        except BaseException:
            self._running.clear()  # no further update of these calls arrives
            raise
        finally:
            self._working, self._cancelling = "", False
            ended, self._ended_after_cancel = self._ended_after_cancel, {}
            for call in ended.values():
                self._show_ended(call, cancelled=True)

    @contextmanager
    def showing(self, rows: Callable[[int], Sequence[str]]) -> Iterator[None]:
        """Show live rows below other output within the block, while no question is open. ``rows``
        is called as by `LiveRows.start`. Only for an ``err`` that `LiveRows.possible` accepts."""

        def allowed_rows(columns: int) -> Sequence[str]:
            with suppress(OSError):  # other writes report a lost terminal
                if self.no_question.is_set() and write_rest():
                    return rows(columns)
            return ()

        self._live.start(allowed_rows)
        try:
            yield
        finally:
            with self._lock:
                self._live.stop()

    def write_session(self, session: Session) -> None:
        """Say why a new session was opened in place of an earlier one."""
        if session.opened.reason is not None:
            self.note(f"a new session, since {visible(session.opened.reason)}")

    def write_update(self, update: Update, calls: Mapping[str, ToolCall]) -> None:
        """Show the parts of an update that a person wants to see."""
        if isinstance(update, types.AgentMessageChunkSessionUpdate):
            self._write_message(update)
        elif isinstance(update, types.AgentThoughtChunkSessionUpdate):
            if self.verbose and isinstance(update.content, types.TextContentBlock):
                self.write_line(Line(update.content.text.strip(), "  ", "dim"))
        elif isinstance(update, types.ToolCallSessionUpdate | types.ToolCallUpdateSessionUpdate):
            self._show_call(calls[update.tool_call_id])
        elif isinstance(update, types.PlanSessionUpdate):
            plan = [
                f"[{PLAN_MARKS.get(entry.status, ' ')}] {entry.content}" for entry in update.entries
            ]
            if plan != self._plan:  # an agent may send a plan again
                self._plan = plan
                for entry in plan:
                    self.note(f"plan {visible(entry)}")
        elif isinstance(update, types.NoticeSessionUpdate):
            self.note(f"{visible(str(update.severity))}: {visible(update.title)}", "yellow")

    def note_cancel(self) -> None:
        """Note that the prompt was cancelled: calls that end now are shown when the prompt ends."""
        self._cancelling = True

    def note_rejected(self, call_id: str) -> None:
        """Mark a tool call as rejected: its outcome is not shown."""
        self._rejected.add(call_id)

    def write_result(self, result: PromptResult) -> None:
        """Show what still runs, the changed files, and a stop reason that is not ``end_turn``."""
        self._end_message()
        running = list(self._running.values())
        for call in running[:MOST_RUNNING]:
            self.write_line(Line(f"{title_of(call)} (has not ended)", "> "))
        if len(running) > MOST_RUNNING:
            self.note(f"and {len(running) - MOST_RUNNING} more that have not ended")
        self._running.clear()
        changed = list(changed_files(result.tool_calls))
        if changed:
            files = "1 file" if len(changed) == 1 else f"{len(changed)} files"
            self.note(f"{files} changed:", "bold")
        for path, added, removed, change in changed:
            more = f" ({change})" if change else ""
            self.write_line(Line(f"{path} +{added} -{removed}{more}", "  "))
        if result.stop_reason != "end_turn":
            self.note(f"the agent stopped: {visible(result.stop_reason)}", "yellow")

    def write_error(self, sentence: str) -> None:
        self._end_message()
        shown = f"error: {visible(sentence, multiline=True)}"
        rows = [row for line in shown.split("\n") for row in rows_of(line, self._err)]
        rows[0] = self._styled("error:", "red") + rows[0].removeprefix("error:")
        self.say("\n".join(rows))

    def note(self, text: str, style: Style = "dim") -> None:
        """Write a note in brackets, broken between words; ``text`` has no control characters."""
        for row in rows_of(f"[{text}]", self._err):
            self.say(self._styled(row, style))

    def list_entry(self, name: str, words: str) -> None:
        """Write a line of a list: a name and its description, both without control characters."""
        if self._err.isatty() and size_of(self._err).columns < 2 * LISTED_INDENT:
            self.say(f"  {name}")
            rows = rows_of(f"    {words}", self._err, indent=4)
        else:
            rows = rows_of(f"  {name:20} {words}", self._err, indent=LISTED_INDENT)
        for row in rows:
            self.say(row)

    def write_line(self, line: Line, mark_style: Style = "") -> None:
        """Write an agent's text, broken between words for a terminal. ``mark_style`` is for the
        prefix of the line."""
        sign = line.prefix.rstrip(" ")
        prefix = self._styled(sign, mark_style) + line.prefix[len(sign) :]
        # Replace the mark of questions before wrapping, because the code of the mark is wider.
        rows = [self.frame.without_mark(visible(text)) for text in line.text.split("\n")]
        further_prefix = prefix
        if self._err.isatty():
            room = max(1, size_of(self._err).columns - len(line.prefix))
            rows = [row for text in rows for row in wrapped(text, room)]
            further_prefix = " " * len(line.prefix)
        for number, row in enumerate(rows):
            self.say(f"{further_prefix if number else prefix}{self._styled(row, line.style)}")

    def say(self, text: str) -> None:
        """Write a line of this program to ``err``; ``text`` may have styles, and is not escaped."""
        self._end_message()
        self._write(self._err, f"{text}\n")

    def print(self, stream: TextIO, text: str) -> None:
        """Write a line of this program to ``stream``; ``text`` is not escaped."""
        self._write(stream, f"{text}\n")

    def write_log(self, text: str) -> None:
        """Write a record of the log, which may contain an agent's text."""
        self._end_message()
        with self._lock:
            if not self.no_question.is_set():
                self._held_log += len(text)
            if self._held_log > HELD_LOG or len(_unwritten) > UNWRITTEN_LOG:
                self._log_left_out += 1
                return
            text = self._left_out_note() + visible(text, multiline=True)
        self._write(self._err, text)

    def _left_out_note(self) -> str:
        """Return a line about the records left out since the last call; empty if none were."""
        number, self._log_left_out = self._log_left_out, 0
        return f"[{number} records of the log are left out]\n" if number else ""

    async def until_seen(self) -> None:
        """Wait until all output is written. Then give the reader of ``out``, such as ``tee``, a
        limited time to show the text, which must not appear within a question."""
        await until_written()
        if self._beside_questions and is_pipe(self._out):
            for _ in range(MAX_POLLS):
                if not _unread(self._out):
                    break
                await asyncio.sleep(SHOWN_SECONDS / 10)
            await asyncio.sleep(SHOWN_SECONDS)

    async def until_room(self) -> None:
        """Wait until all output is written; if much is held back, until no question is open."""
        await asyncio.sleep(0)  # Ctrl-C is handled between updates that arrived together
        await until_written()
        if self._held_text > HELD_TEXT:
            await self.no_question.wait()

    def write_now(self, text: str) -> None:
        """Write text of this program, such as a question, while other output is held back."""
        put(self._err, text)

    def _write_message(self, update: types.AgentMessageChunkSessionUpdate) -> None:
        content = update.content
        if not isinstance(content, types.TextContentBlock):
            self.note(f"the agent sent content of type {visible(content.type)}")
            return
        continues = self._message_is_open and update.message_id == self._message_id
        if self._had_message and not continues:
            self._end_message()
            self._write(self._out, "\n")
        self._message_id = update.message_id
        self._message_is_open = self._had_message = True
        shown = visible_controls(content.text)
        if self._has_markdown:
            if self._markdown is None:
                from codex_acp.cli.markdown import MarkdownText

                self._markdown = MarkdownText()
            columns = size_of(self._out).columns
            shown = self._markdown.add(shown, columns, coloured=self.frame.coloured)
        if shown:
            self._line_is_open = not shown.endswith("\n")
            self._write(self._out, shown)

    def _show_call(self, call: ToolCall) -> None:
        """Show a call that has ended and, without a live line, a call that begins."""
        call_id, ended = call.tool_call_id, call.status in ENDED
        if not ended:
            if call_id not in self._running and call_id not in self._ended:
                if self._has_live:
                    self._end_message()
                else:
                    self.write_line(Line(title_of(call), "> "))
            self._running[call_id] = call  # also if the agent says that an ended call runs again
            return
        self._running.pop(call_id, None)
        # A call that ended after the cancel is shown when the prompt ends, as it ended last. Any
        # other call is shown when it first ends.
        if call_id in self._ended_after_cancel:
            self._ended_after_cancel[call_id] = call
        if call_id in self._ended:
            return
        self._ended.add(call_id)
        if self._cancelling:
            self._ended_after_cancel[call_id] = call
        else:
            self._show_ended(call)

    def _show_ended(self, call: ToolCall, *, cancelled: bool = False) -> None:
        mark, style = ENDED[str(call.status)]
        call_id, code = call.tool_call_id, exit_code_of(call)
        was_rejected = call.status == "failed" and call_id in self._rejected
        title = title_of(call)
        if was_rejected:
            title += " (rejected)"
        elif code is not None and code > 0:
            title += f" (exit code {code})"
        elif cancelled and call.status == "failed":
            title += " (cancelled)"
        self.write_line(Line(title, f"{mark} "), style)
        if was_rejected:
            return
        for line in describe_outcome(call, verbose=self.verbose):
            self.write_line(line)

    def _live_line(self, columns: int) -> Sequence[str]:
        """Return the live line with the seconds since its words changed. There is no line while a
        message is written as plain text."""
        if self._message_is_open and not self._has_markdown:
            return ()
        words = self._words_of_live_line()
        now = time.monotonic()
        if words != self._live_words:
            self._live_words, self._live_since = words, now
        seconds = int(now - self._live_since)
        took = f" {seconds}s" if seconds else ""
        shown = f"{SPINNER[int(now / TICK_SECONDS) % len(SPINNER)]} {words}"
        room = max(1, columns - len(took))
        return [self._styled(clipped(shown, room) + took, "dim")]

    def _words_of_live_line(self) -> str:
        if self._message_is_open and self._markdown is not None:
            newest_words = self._markdown.tail  # of a block that is not complete, so not shown yet
            return self.frame.without_mark(visible(newest_words)) or self._working
        running = list(self._running.values())
        if not running:
            return self._working
        more = f" and {len(running) - 1} more" if len(running) > 1 else ""
        return self.frame.without_mark(visible(title_of(running[0]))) + more

    def _put_live(self, text: str) -> None:
        with self._lock, suppress(OSError, CodexAcpError):  # other writes report a lost terminal
            put(self._err, text)

    def _styled(self, text: str, style: Style) -> str:
        return styled(text, style) if self.frame.coloured else text

    def _end_message(self) -> None:
        if not self._message_is_open:
            return
        self._message_is_open = False
        if self._markdown is not None:
            message, self._markdown = self._markdown, None
            columns = size_of(self._out).columns
            shown = message.rest(columns, coloured=self.frame.coloured)
            if shown:
                self._line_is_open = False  # `rest` returns whole rows
            self._write(self._out, shown)
        if self._line_is_open:
            self._write(self._out, "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        """Write text, or hold it back while a question is open."""
        if self._beside_questions or stream is self._err:
            text = self.frame.without_mark(text)
        with self._lock:
            if self.no_question.is_set():
                self._live.hide()
                put(stream, text)
            else:
                self._held.append((stream, text))
                self._held_text += len(text)


# The output of ``codex-acp-sdk run --json``.


class JsonOutput:
    """Writes one JSON object a line to ``out``."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._session_id: str | None = None

    def write_session(self, session: Session) -> None:
        self._session_id = session.session_id
        self._write_object(
            "session", sessionId=session.session_id, agent=session.agent,
            agentInfo=session.agent_info, opened=session.opened.how,
            reason=session.opened.reason,
        )  # fmt: skip

    def write_update(self, update: Update, _calls: Mapping[str, ToolCall]) -> None:
        self._write_object("update", sessionId=self._session_id, update=update)

    def write_permission(
        self, permission: Permission, chosen: str | None, policy: str | None
    ) -> None:
        """Write the answer to a permission request; ``policy`` None: nobody could be asked."""
        self._write_object(
            "permission", sessionId=permission.session_id, request=permission.request,
            optionId=chosen, by="nobody" if policy is None else "policy", policy=policy,
        )  # fmt: skip

    def write_result(self, result: PromptResult) -> None:
        self._write_object(
            "result", sessionId=self._session_id, stopReason=result.stop_reason, text=result.text
        )

    def write_error(self, error: Exception) -> None:
        detail: dict[str, object] = {"class": type(error).__name__, "message": str(error)}
        cause = error.__cause__ if isinstance(error, AgentStartError) else error
        if isinstance(cause, ErrorReply):
            detail |= {"code": cause.code, "data": cause.data}
        elif isinstance(cause, ProcessExited):
            detail |= {"exitCode": cause.returncode, "stderr": cause.stderr_tail}
        self._write_object("error", error=detail)

    def _write_object(self, kind: str, **members: object) -> None:
        # `plain` also makes null of Infinity, which is no JSON.
        put(self._out, json.dumps(plain({"type": kind, **members})) + "\n")


# PURE: an error as one sentence for a person, with a next step that only this command knows.

LOG_IN: Final = "codex-acp-sdk login"
"""The command that logs in to the agent of this package."""
LOOK_AT_ITS_LOG: Final = "; with CODEX_ACP_LOG=INFO you see what it writes to its standard error"
"""Added to an error of an agent that does not say why it failed."""
DETAIL_LIMIT: Final = 2_000
"""Characters of an error's data that are shown."""
MESSAGE_LIMIT: Final = 2_000
"""Characters of an error's message, above which it is not compared with the data."""
MOST_VALUES: Final = 50
"""Most values in an error's data that are compared with the message."""
_DATA_FOR_PROGRAMS: Final = (INVALID_PARAMS, INVALID_REQUEST, RESOURCE_NOT_FOUND)
"""Codes of errors whose message this package's agent repeats in the data, for programs."""
_HINTS: Final = (
    (
        "session/list names those that there are",
        "`codex-acp-sdk chat --list` names those of a directory",
    ),
    (", or go on with a copy (session/fork)", ""),
)
"""Next steps for a client, in `adapter.sessions.opening_errors` → next steps for a person."""
_TEXT_KEYS: Final = ("message", "details", "detail", "error", "reason")
"""Keys of an error's data under which agents put a sentence."""


def describe_error(error: Exception, agent: str, *, ours: bool = False) -> str:
    """Describe an error; ``ours``: the agent is this package's."""
    if isinstance(error, AuthenticationRequired):
        if ours:
            return f"Codex is not logged in; run `{LOG_IN}`, then try again"
        ways = ", ".join(method.name for method in error.methods)
        offers = f" (it offers: {ways})" if ways else ""
        return f"{agent} needs a login first: log in with its own command{offers}"
    if isinstance(error, ErrorReply):
        text = error.message.strip() or "an error without words"
        if ours and error.code in _DATA_FOR_PROGRAMS:
            for for_clients, for_person in _HINTS:
                text = text.replace(for_clients, for_person)
            return text
        # The reason `AGENT_LOST` is a word for programs.
        detail = "" if error.data == {"reason": AGENT_LOST} else _text_of(error.data)
        # Without data, ``detail`` is empty, and so a part of any message.
        has_detail = detail in text or _repeats(text, error.data)
        if not has_detail and text in detail:
            text = detail
        elif not has_detail:
            text = f"{text}: {shortened(detail, DETAIL_LIMIT)}"
        if ours:
            return text
        has_no_reason = error.code == INTERNAL_ERROR and not error.data
        return f"{agent}: {text}{LOOK_AT_ITS_LOG if has_no_reason else ''}"
    return str(error)


def _repeats(message: str, data: object) -> bool:
    """Return whether a short message has each of a few values of ``data`` as whole words."""
    values = [str(value) for value in itertools.islice(_values(data), MOST_VALUES + 1)]
    return (
        len(message) <= MESSAGE_LIMIT
        and len(values) <= MOST_VALUES
        and all(value in message for value in values)  # before a large value becomes a pattern
        and all(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) for value in values)
    )


def _values(data: object) -> Iterator[object]:
    """Yield the values in JSON that are no object and no list."""
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _values(value)
    else:
        yield data


def _text_of(data: object) -> str:
    """Return the sentence in an error's data, or else the data as JSON; empty without data."""
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, dict):
        for name in _TEXT_KEYS:
            if isinstance(data.get(name), str):
                return str(data[name]).strip()
    return "" if data in (None, {}, []) else json.dumps(data, default=str)
