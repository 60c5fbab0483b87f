"""The lines of a transcript: read from a file, also as they come, and told as rows of a terminal.

Owns the limits of what is read. A line that cannot be read never ends the others.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, assert_never, get_args

from codex_acp.cli.terminal import size_of, wants_colours
from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.jsonrpc.framing import LineFramer, TooLong
from codex_acp.routing.display import visible
from codex_acp.transcript import events
from codex_acp.transcript.events import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from typing import TextIO

    from codex_acp.transcript.events import Entry

MAX_TEXT: Final = 2_000
"""Characters of a row in a pipe, where no terminal's width bounds it."""
WIDE: Final = 110
"""Columns from which a row has room for its session and its way."""
MAX_RAW: Final = 10_000
"""Characters that are looked at for a text of a row: what is longer would not be seen anyway."""
_NAMES: Final[dict[Kind, str]] = {
    "approval": "APPROVAL", "elicitation": "ELICITATION", "decline": "DECLINED",
    "prompt": "prompt", "session": "session", "wire": "wire",
}  # fmt: skip
_WIDTH: Final = max(map(len, _NAMES.values()))
_MARKS: Final[dict[Kind, str]] = {
    "approval": "\u2b22", "elicitation": "\u25d7", "decline": "\u2298",
    "prompt": "\u203a", "session": "\u25a1", "wire": "\u00b7",
}  # fmt: skip
_KIND_STYLES: Final[dict[Kind, str]] = {
    "approval": "1;33", "elicitation": "1;35", "decline": "1;31",
    "prompt": "34", "session": "2", "wire": "2",
}  # fmt: skip
_TONE_STYLES: Final[dict[Tone, str]] = {
    "open": "1", "good": "32", "bad": "31", "halted": "2", "plain": "0",
}  # fmt: skip
_PARTIES: Final = {"client": "client", "adapter": "adapter", "codex": "Codex"}


class Rows:
    """Writes one row for each event to ``out``, cut to its width where it is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._styled = wants_colours(out)
        self._encoding = out.encoding or "utf-8"
        self._date = ""
        self._counts: Counter[str] = Counter()
        self.unread: int = 0
        """Lines that could not be read."""
        self.left_out: int = 0
        """Events that the filters leave out, of which nothing else is shown."""

    def event(self, entry: Entry, told: Told) -> None:
        """Write one row; before the first of a day, the day."""
        date, _, clock = entry.time.removesuffix("Z").partition("T")
        if date != self._date:
            self._date = date
            self._put(self._style(f"{date} (UTC)", "2"))
        name = _NAMES[told.kind]
        said_by_verb = told.verb.startswith(told.kind)  # declined
        self._counts[told.verb if said_by_verb else f"{told.kind} {told.verb}"] += 1
        kind = f"{self._encodable(_MARKS[told.kind])} {name:{_WIDTH}}"
        start = clock
        if self._columns() >= WIDE:
            owner = entry.event.ref.session_id or entry.event.ref.thread_id or "-"
            way = f"{_PARTIES[told.start]} > {_PARTIES[told.end]}"
            start = f"{clock}  {visible(owner[-8:]):8}  {way:16}"  # ids of one day begin alike
        text = " ".join(part for part in (told.about, told.detail) if part)
        room = self._room(len(start) + 2 + len(kind) + 2 + 16)
        shown = self._cut(visible(text[:MAX_RAW]), room)
        self._put(
            f"{self._style(start, '2')}  "
            f"{self._style(kind, _KIND_STYLES[told.kind])}  "
            f"{self._style(f'{told.verb:14}', _TONE_STYLES[told.tone])}  {self._encodable(shown)}"
        )

    def unreadable(self, line: Line) -> None:
        """Write a row for a line that is no event."""
        self.unread += 1
        text = f"? a line that cannot be read: {line.problem}: {line.text[:MAX_RAW]}"
        self._put(self._style(self._encodable(self._cut(visible(text), self._room(0))), "31"))

    def summary(self) -> str:
        """Count the events of each kind, in words."""
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._counts.items()))
        unread = f"; {self.unread} lines could not be read" if self.unread else ""
        left = f"; {self.left_out} more are left out" if self.left_out else ""
        return f"{sum(self._counts.values())} events: {counts or 'none'}{left}{unread}"

    def _room(self, taken: int) -> int:
        """Return the columns for the text; a row of a terminal is one row."""
        return max(20, self._columns() - taken - 1)

    def _columns(self) -> int:
        return size_of(self._out).columns if self._out.isatty() else MAX_TEXT

    def _cut(self, text: str, room: int) -> str:
        return text if len(text) <= room else f"{text[: room - 1]}\u2026"

    def _encodable(self, text: str) -> str:
        return text.encode(self._encoding, "replace").decode(self._encoding)

    def _style(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._styled and style != "0" else text

    def _put(self, row: str) -> None:
        self._out.write(row.rstrip() + "\n")


# PURE: what an event of the transcript says, in words, and between whom.

Kind: TypeAlias = Literal["approval", "elicitation", "decline", "prompt", "session", "wire"]
"""Subject of an event; `Told.kind` of each."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Party: TypeAlias = Literal["client", "adapter", "codex"]
"""A lane of the page."""
Tone: TypeAlias = Literal["open", "good", "bad", "halted", "plain"]
"""How it stands: a question is open, an action may run, it may not, it was called off."""
DECIDED: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(
        (
            *get_args(events.ApprovalOutcome), "refused", "declined",
            *get_args(events.ElicitationAction), *get_args(events.ApprovalSettler),
            *get_args(events.ElicitationSettler),
        )
    )
)  # fmt: skip
"""How something may have been decided, and by what; of the `Told.decided`."""
_OUTCOME_TONES: Final[dict[str, Tone]] = {
    "accepted": "good", "rejected": "bad", "cancelled": "halted",
    "accept": "good", "decline": "bad", "cancel": "halted",
}  # fmt: skip
_ABOUT: Final[dict[events.AgreementKind, str]] = {
    "git_programs": "what git may run", "plan": "the plan",
}  # fmt: skip
_ANSWERED: Final[dict[events.ElicitationAction, str]] = {
    "accept": "answered", "decline": "turned down", "cancel": "called off",
}  # fmt: skip
"""Not the words of an approval: who accepts a form has allowed nothing."""


class Told(NamedTuple):
    """An event in words: ``kind`` and ``verb`` first, then what it is about, then the rest."""

    kind: Kind
    verb: str
    about: str
    detail: str
    start: Party
    end: Party
    tone: Tone = "plain"
    decided: tuple[str, ...] = ()
    """How it was decided, if it was: of `DECIDED`, or a stop reason."""


def tell(event: events.TranscriptEvent) -> Told:
    """Return ``event`` in words."""
    match event:
        case events.ApprovalRequested() | events.ApprovalDecided() | events.ApprovalRefused():
            return _tell_approval(event)
        case events.AgreementDecided():
            about = "; ".join((_ABOUT[event.about], *event.subject))
            return Told(
                "approval", event.outcome, about, f"by {_plain(event.by)}", "client", "adapter",
                _OUTCOME_TONES[event.outcome], (event.outcome, event.by),
            )  # fmt: skip
        case events.ElicitationRequested() | events.ElicitationAnswered():
            return _tell_elicitation(event)
        case events.RequestDeclined():
            asked = "after somebody was asked" if event.asked else "nobody was asked"
            what = f" ({event.discriminator})" if event.discriminator else ""
            return Told(
                "decline", "declined", f"{event.ref.method}{what}", f"{asked}: {event.reason}",
                "codex", "adapter", "bad", ("declined",),
            )  # fmt: skip
        case events.PromptStarted():
            return Told("prompt", "started", "", "", "client", "codex")
        case events.PromptEnded(stop_reason=None):
            error = event.error or "with an error"
            return Told("prompt", "failed", "", error, "adapter", "client", "bad", ("error",))
        case events.PromptEnded(stop_reason=reason):
            text = "" if event.error is None else event.error
            decided = (str(reason),)
            return Told("prompt", "ended", str(reason), text, "codex", "client", "plain", decided)
        case events.SessionOpened():
            return Told("session", "opened", event.how, "", "client", "codex")
        case events.SessionClosed():
            return Told("session", "closed", event.reason, "", "client", "codex")
        case events.WireMessage():
            start: Party = event.peer
            end: Party = "adapter"
            if event.direction == "sent":
                start, end = end, start
            number = "" if event.id is None else f"id {event.id!r}, "
            left_out = "" if event.left_out is None else f", not kept: {event.left_out}"
            detail = f"{number}{event.size} bytes{left_out}"
            tone: Tone = "bad" if event.kind == "error" else "plain"
            return Told("wire", event.kind, event.method or "", detail, start, end, tone)
        case _:
            assert_never(event)


def _tell_approval(
    event: events.ApprovalRequested | events.ApprovalDecided | events.ApprovalRefused,
) -> Told:
    name, subject = event.tool.name, "; ".join(event.subject)
    about = name if subject in ("", name) else f"{name}: {subject}"
    match event:
        case events.ApprovalRequested():
            choices = ", ".join(option.name for option in event.options)
            return Told(
                "approval", "asked", about, f"choices: {choices}", "codex", "client", "open"
            )
        case events.ApprovalDecided():
            chosen = "" if event.option is None else f" ({event.option.name})"
            policy = "" if event.policy is None else f" {event.policy}"
            how = f"by {_plain(event.by)}{policy}{chosen}; Codex was told: {event.decision}"
            tone, decided = _OUTCOME_TONES[event.outcome], (event.outcome, event.by)
            start, end = _settled(event.by)
            return Told("approval", event.outcome, about, how, start, end, tone, decided)
        case events.ApprovalRefused():
            why = f"{event.code}: {event.reason}"
            return Told(
                "approval", "answer refused", about, why, "client", "adapter", "bad",
                ("refused", event.code),
            )  # fmt: skip
        case _:
            assert_never(event)


def _tell_elicitation(event: events.ElicitationRequested | events.ElicitationAnswered) -> Told:
    about = f"{'form' if event.mode == 'form' else 'page'} of {event.server or 'Codex'}"
    fields = ", ".join(event.fields)
    match event:
        case events.ElicitationRequested():
            what = event.url if event.url is not None else f"fields: {fields or 'none'}"
            return Told("elicitation", "asked", about, what, "codex", "client", "open")
        case events.ElicitationAnswered():
            how = f"by {_plain(event.by)}"
            if fields:
                how += f"; fields: {fields}"
            if event.problem is not None:
                how += f"; {event.problem}"
            start, end = _settled(event.by)
            tone, decided = _OUTCOME_TONES[event.action], (event.action, event.by)
            verb = _ANSWERED[event.action]
            return Told("elicitation", verb, about, how, start, end, tone, decided)
        case _:
            assert_never(event)


def _settled(by: events.ApprovalSettler | events.ElicitationSettler) -> tuple[Party, Party]:
    """Return from whom the decision came, and to whom it went."""
    match by:
        case "client" | "person":
            return "client", "codex"
        case "codex_resolved":
            return "codex", "adapter"
        case "turn_cancelled":
            return "client", "codex"
        case "policy" | "program" | "invalid_answer" | "turn_ended" | "disconnected" | "superseded":
            return "adapter", "codex"
        case _:
            assert_never(by)


def _plain(word: str) -> str:
    return word.replace("_", " ")


# PURE: which events of a transcript are shown.

_AGO: Final = re.compile(r"(\d{1,9})\s*([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Selection:
    """An event is shown if it fits every member that is set; of one member, any word will do."""

    sessions: tuple[str, ...] = ()
    """Beginnings of the ids of sessions or threads."""
    kinds: tuple[str, ...] = ()
    """Kinds (``approval``), or types (``approval.refused``)."""
    decided: tuple[str, ...] = ()
    since: str | None = None
    """As the transcript writes a time."""
    until: str | None = None

    def fits(self, entry: Entry, told: Told, *, wire: bool = False) -> bool:
        """Return whether it is shown; of the wire if asked for as a kind, or by ``wire``."""
        ref = entry.event.ref
        if self.sessions and not any(
            owner is not None and owner.startswith(self.sessions)
            for owner in (ref.session_id, ref.thread_id)
        ):
            return False
        if wire and told.kind == "wire":
            pass
        elif self.kinds:
            if told.kind not in self.kinds and entry.event.type not in self.kinds:
                return False
        elif told.kind == "wire":
            return False
        if self.decided and not set(self.decided) & set(told.decided):
            return False
        # The times of a transcript have one form, so they compare as texts.
        if self.since is not None and entry.time < self.since:
            return False
        return self.until is None or entry.time <= self.until


def moment(text: str, now: datetime) -> str:
    """Return a time as the transcript has it: from ISO 8601 (UTC without a zone), or from ``10m``
    (ago; s, m, h, d). Raises ValueError."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        try:
            when = now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        except OverflowError as error:
            raise ValueError(text) from error
    else:
        when = datetime.fromisoformat(text.strip())
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    written = when.astimezone(UTC).isoformat(timespec="milliseconds")
    return written.removesuffix("+00:00") + "Z"


LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a line that is read at all."""
VALUE_LIMIT: Final = 300_000
"""Values of a line that is read at all: an empty list is two bytes there, and 56 in the memory."""
_VALUES: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{,])')
"""A text, or what begins a value or comes before one."""
CHUNK: Final = 256 * 1024
LOOK_SECONDS: Final = 0.2
"""How often a file that is followed is looked at."""
STANDARD_INPUT: Final = "-"


class Line(NamedTuple):
    """One line: ``entry``, or the ``problem`` with it."""

    entry: Entry | None
    text: str
    """As it stands in the file; of a line that is too long its beginning."""
    problem: str = ""


def read_line(data: bytes | TooLong) -> Line:
    """Read one line without its end. Never raises."""
    if isinstance(data, TooLong):
        head = data.head.decode(errors="replace")
        return Line(None, head, f"it is longer than {data.limit} bytes")
    text = data.decode(errors="backslashreplace")
    if _has_too_many_values(text):
        return Line(None, text, f"it holds more than {VALUE_LIMIT} values")
    try:
        return Line(from_json(json.loads(text)), text)
    except InvalidPayload as error:
        return Line(None, text, "; ".join(error.problems[:3]))
    except (ValueError, RecursionError):
        return Line(None, text, "it is not JSON")


def _has_too_many_values(text: str) -> bool:
    """Return whether JSON would take much more memory as objects than as text."""
    if sum(map(text.count, "[{,")) <= VALUE_LIMIT:
        return False
    found = islice(_VALUES.finditer(text), 4 * VALUE_LIMIT)  # that many: hardly a value is a text
    counted = 0
    for number, one in enumerate(found, 1):
        counted += one.lastindex is not None
        if counted > VALUE_LIMIT or number == 4 * VALUE_LIMIT:
            return True
    return False


def read(name: str) -> Iterator[Line]:
    """Yield all lines; an unfinished last one is one that cannot be read, if it cannot.

    Raises MisuseError if the file cannot be read.
    """
    framer = LineFramer(LINE_LIMIT)
    with _opened(name) as file:
        while data := _next(name, file):
            yield from map(read_line, framer.feed(data))
    last = framer.finish()
    if last is not None:
        line = read_line(last)
        yield line if line.entry is not None else line._replace(problem="it is not finished")


def follow(name: str) -> Iterator[Line | None]:
    """Yield all lines, and those that are appended; None when all that is there was given.

    Does not end by itself, but for standard input and pipes. A file that was replaced or cut is
    read from its beginning.
    """
    framer = LineFramer(LINE_LIMIT)
    while True:
        with _opened(name) as file:
            read_bytes = 0
            while not _was_replaced(name, file, read_bytes):
                data = _next(name, file)
                read_bytes += len(data)
                yield from map(read_line, framer.feed(data))
                if not data:
                    yield None
                    if not _is_regular(file):
                        return
                    time.sleep(LOOK_SECONDS)
        framer = LineFramer(LINE_LIMIT)


@contextmanager
def _opened(name: str) -> Iterator[FileIO]:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise _unreadable(name, ValueError("standard input is closed"))
        yield open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
        return
    try:
        file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - closed by whoever uses it
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    with file:
        yield file


def _next(name: str, file: FileIO) -> bytes:
    try:
        return file.read(CHUNK) or b""
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError | ValueError) -> MisuseError:
    reason = getattr(error, "strerror", None) or str(error)
    return MisuseError(f"the transcript {name!r} cannot be read: {reason}")


def _is_regular(file: FileIO) -> bool:
    return Path(f"/dev/fd/{file.fileno()}").is_file()


def _was_replaced(name: str, file: FileIO, read_bytes: int) -> bool:
    """Return whether the name stands for another file now, or the file has lost what was read."""
    if name == STANDARD_INPUT or not _is_regular(file):
        return False
    here = os.fstat(file.fileno())
    try:
        there = Path(name).stat()
    except OSError:
        return False  # between two files: the next look finds the new one
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) or there.st_size < read_bytes
