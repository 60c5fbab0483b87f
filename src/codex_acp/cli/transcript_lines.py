"""Read a transcript's lines, also while the file grows, and print each as a row of the terminal.

Owns the limits of reading. After a line that cannot be read, the next lines are read.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, assert_never, get_args

from codex_acp._json import value_at
from codex_acp.cli.terminal import clipped, columns_of, size_of, wants_colours
from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.jsonrpc import LineFramer, TooLong
from codex_acp.routing.display import visible
from codex_acp.transcript import events
from codex_acp.transcript.events import from_json
from codex_acp.transcript.log import utc_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from typing import TextIO

    from codex_acp.transcript.events import Entry

# PURE: a description of an event: words, and from whom to whom it went.

Kind: TypeAlias = Literal["approval", "elicitation", "decline", "prompt", "session", "wire"]
"""Subject of an event."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Party: TypeAlias = Literal["client", "adapter", "codex"]
"""Sender or receiver of an event: a column in the page of ``transcript --html``."""
Tone: TypeAlias = Literal["open", "good", "bad", "halted", "plain"]
"""Colour of an event: a question waits (open), was accepted (good), was called off (halted); an
action or message was refused or failed (bad); none of these (plain)."""
DECIDED: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(
        (
            *get_args(events.ApprovalOutcome), "refused", "declined",
            *get_args(events.ElicitationAction), *get_args(events.ApprovalSettler),
            *get_args(events.ElicitationSettler),
        )
    )
)  # fmt: skip
"""Words for ``--decided``, each once: the outcomes, and who or what decided."""
_OUTCOME_TONES: Final[dict[str, Tone]] = {
    "accepted": "good", "rejected": "bad", "cancelled": "halted",
    "accept": "good", "decline": "bad", "cancel": "halted",
}  # fmt: skip
_AGREEMENTS: Final[dict[events.AgreementKind, str]] = {
    "git_programs": "what git may run", "plan": "the plan",
}  # fmt: skip
_ANSWERED: Final[dict[events.ElicitationAction, str]] = {
    "accept": "answered", "decline": "turned down", "cancel": "called off",
}  # fmt: skip
"""Verbs of an elicitation. An approval has other verbs, because an accepted form allows nothing."""


class Description(NamedTuple):
    kind: Kind
    verb: str
    sender: Party
    receiver: Party
    about: str = ""
    """The action, method or page that the event is about."""
    detail: str = ""
    tone: Tone = "plain"
    decided: tuple[str, ...] = ()
    """The decision and who decided, in words of `DECIDED`; or a stop reason; empty for others."""


def describe(event: events.TranscriptEvent) -> Description:
    match event:
        case events.ApprovalRequested() | events.ApprovalDecided() | events.ApprovalRefused():
            return _describe_approval(event)
        case events.AgreementDecided():  # shown like an approval
            return Description(
                "approval", event.outcome, "client", "adapter",
                about="; ".join((_AGREEMENTS[event.about], *event.subject)),
                detail=f"by {_spaced(event.by)}",
                tone=_OUTCOME_TONES[event.outcome], decided=(event.outcome, event.by),
            )  # fmt: skip
        case events.ElicitationRequested() | events.ElicitationAnswered():
            return _describe_elicitation(event)
        case events.RequestDeclined():
            asked = "after somebody was asked" if event.asked else "nobody was asked"
            case = f" ({event.discriminator})" if event.discriminator else ""  # a mode or a kind
            return Description(
                "decline", "declined", "codex", "adapter", about=f"{event.ref.method}{case}",
                detail=f"{asked}: {event.reason}", tone="bad", decided=("declined",),
            )  # fmt: skip
        case events.PromptStarted():
            return Description("prompt", "started", "client", "codex")
        case events.PromptEnded(stop_reason=None):
            return Description(
                "prompt", "failed", "adapter", "client", detail=event.error or "with an error",
                tone="bad", decided=("error",),
            )  # fmt: skip
        case events.PromptEnded(stop_reason=reason):
            return Description(
                "prompt", "ended", "codex", "client", about=str(reason),
                detail=event.error or "", decided=(str(reason),),
            )  # fmt: skip
        case events.SessionOpened():
            return Description("session", "opened", "client", "codex", about=event.how)
        case events.SessionClosed():
            return Description("session", "closed", "client", "codex", about=event.reason)
        case events.WireMessage():
            parties: tuple[Party, Party] = (event.peer, "adapter")
            if event.direction == "sent":
                parties = ("adapter", event.peer)
            number = "" if event.id is None else f"id {event.id!r}, "
            left_out = "" if event.left_out is None else f", not kept: {event.left_out}"
            detail = f"{number}{event.size} bytes{left_out}"
            tone: Tone = "bad" if event.kind == "error" else "plain"
            return Description("wire", event.kind, *parties, event.method or "", detail, tone)
        case _:
            assert_never(event)


def _describe_approval(
    event: events.ApprovalRequested | events.ApprovalDecided | events.ApprovalRefused,
) -> Description:
    name, subject = event.tool.name, "; ".join(event.subject)
    about = name if subject in ("", name) else f"{name}: {subject}"
    match event:
        case events.ApprovalRequested():
            choices = ", ".join(option.name for option in event.options)
            return Description(
                "approval", "asked", "codex", "client", about, f"choices: {choices}", "open"
            )
        case events.ApprovalDecided():
            chosen = "" if event.option is None else f" ({event.option.name})"
            policy = "" if event.policy is None else f" {event.policy}"
            how = f"by {_spaced(event.by)}{policy}{chosen}; Codex was told: {event.decision}"
            tone, decided = _OUTCOME_TONES[event.outcome], (event.outcome, event.by)
            parties = _parties_of(event.by)
            return Description("approval", event.outcome, *parties, about, how, tone, decided)
        case events.ApprovalRefused():
            return Description(
                "approval", "answer refused", "client", "adapter", about,
                f"{event.code}: {event.reason}", "bad", ("refused", event.code),
            )  # fmt: skip
        case _:
            assert_never(event)


def _describe_elicitation(
    event: events.ElicitationRequested | events.ElicitationAnswered,
) -> Description:
    about = f"{'form' if event.mode == 'form' else 'page'} of {event.server or 'Codex'}"
    fields = ", ".join(event.fields)
    match event:
        case events.ElicitationRequested():
            detail = event.url if event.url is not None else f"fields: {fields or 'none'}"
            return Description("elicitation", "asked", "codex", "client", about, detail, "open")
        case events.ElicitationAnswered():
            how = f"by {_spaced(event.by)}"
            if fields:
                how += f"; fields: {fields}"
            if event.problem is not None:
                how += f"; {event.problem}"
            tone, decided = _OUTCOME_TONES[event.action], (event.action, event.by)
            verb, parties = _ANSWERED[event.action], _parties_of(event.by)
            return Description("elicitation", verb, *parties, about, how, tone, decided)
        case _:
            assert_never(event)


def _parties_of(by: events.ApprovalSettler | events.ElicitationSettler) -> tuple[Party, Party]:
    """Return the sender and the receiver of a decision."""
    match by:
        case "client" | "person" | "turn_cancelled":
            return "client", "codex"
        case "codex_resolved":
            return "codex", "adapter"
        case "policy" | "program" | "invalid_answer" | "turn_ended" | "disconnected" | "superseded":
            return "adapter", "codex"
        case _:
            assert_never(by)


def _spaced(word: str) -> str:
    return word.replace("_", " ")


# PURE: the selection of events that are shown.

_AGO: Final = re.compile(r"(\d{1,9})\s*([smhd])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of events. An event fits if it has one of the words of each filter that is set."""

    sessions: tuple[str, ...] = ()
    """Beginnings of the ids of sessions or threads."""
    kinds: tuple[str, ...] = ()
    """Kinds (``approval``), or types (``approval.refused``)."""
    decided: tuple[str, ...] = ()
    """Words of `DECIDED`."""
    since: str | None = None
    """First time, in the format of the transcript."""
    until: str | None = None
    """Last time."""

    def fits(self, entry: Entry, description: Description, *, wire: bool = False) -> bool:
        """Return whether to show an event. ``wire``: messages of the wire need not fit a kind."""
        ref = entry.event.ref
        ids = filter(None, (ref.session_id, ref.thread_id))
        if self.sessions and not any(id_.startswith(self.sessions) for id_ in ids):
            return False
        if not self._kind_fits(description.kind, entry.event.type, wire=wire):
            return False
        if self.decided and not set(self.decided) & set(description.decided):
            return False
        # The times of a transcript have one format, so they compare as texts.
        if self.since is not None and entry.time < self.since:
            return False
        return self.until is None or entry.time <= self.until

    def _kind_fits(self, kind: Kind, event_type: str, *, wire: bool) -> bool:
        if not self.kinds:  # without a filter, messages of the wire are left out
            return wire or kind != "wire"
        return (wire and kind == "wire") or kind in self.kinds or event_type in self.kinds


def moment(text: str, now: datetime) -> str:
    """Convert a time to the transcript's format. ``text`` is ISO 8601 (UTC without a zone), or
    like ``10m``: ten minutes before ``now`` (s, m, h, d). Raises ValueError."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        try:
            when = now - timedelta(seconds=int(ago[1]) * _UNIT_SECONDS[ago[2]])
        except OverflowError as error:
            raise ValueError(text) from error
    else:
        when = datetime.fromisoformat(text.strip())
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return utc_timestamp(when.timestamp())


LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of the longest line that is read."""
VALUE_LIMIT: Final = 300_000
"""JSON values that a line may have: an empty list takes 2 bytes in the file, and 56 in memory."""
_VALUES: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{,])')
"""Matches a JSON string, or a character that counts as a value: ``[``, ``{``, ``,`` (group 1)."""
CHUNK: Final = 256 * 1024
"""Bytes of one read."""
LOOK_SECONDS: Final = 0.2
"""Time between two reads of a followed file."""
STANDARD_INPUT: Final = "-"
FLEET_TYPES: Final = ("session", "prompt", "update", "question", "end", "left_out")
"""``type`` of the lines in the ``transcript.jsonl`` of a fleet's task, another format."""


class Line(NamedTuple):
    """One line of a transcript."""

    entry: Entry | None
    """The event; None if the line cannot be read."""
    text: str
    """Text of the line in the file; only its beginning if the line is too long."""
    problem: str = ""
    """Why the line cannot be read."""


def read_line(data: bytes | TooLong) -> Line:
    """Decode one line, without its line end. Raises MisuseError for a line of a fleet."""
    if isinstance(data, TooLong):
        head = data.head.decode(errors="replace")
        return Line(None, head, f"it is longer than {data.limit} bytes")
    text = data.decode(errors="backslashreplace")
    if _has_too_many_values(text):
        return Line(None, text, f"it holds more than {VALUE_LIMIT} values")
    try:
        value = json.loads(text)
        if value_at(value, "type") in FLEET_TYPES and "schema_version" not in value:
            raise MisuseError(
                "this is no transcript of the agent but the log of a fleet's task, one JSON object "
                "a line: read it with jq, or its outcome with `codex-acp-sdk fleet show`"
            )
        return Line(from_json(value), text)
    except InvalidPayload as error:
        return Line(None, text, "; ".join(error.problems[:3]))
    except (ValueError, RecursionError):
        return Line(None, text, "it is not JSON")


def _has_too_many_values(text: str) -> bool:
    """Return whether JSON would take much more memory as objects than as text."""
    if sum(map(text.count, "[{,")) <= VALUE_LIMIT:
        return False
    most_matches = 4 * VALUE_LIMIT  # bounds the time, even if most matches are strings
    values = 0
    for number, match in enumerate(islice(_VALUES.finditer(text), most_matches), 1):
        values += match.lastindex is not None
        if values > VALUE_LIMIT or number == most_matches:
            return True
    return False


def read(name: str) -> Iterator[Line]:
    """Yield all lines of a file. The last line may lack its line end. Raises MisuseError."""
    framer = LineFramer(LINE_LIMIT)
    with _open(name) as file:
        while data := _read_chunk(name, file):
            yield from map(read_line, framer.feed(data))
    if (last := framer.finish()) is not None:
        line = read_line(last)
        yield line if line.entry is not None else line._replace(problem="it is not finished")


def follow(name: str) -> Iterator[Line | None]:
    """Yield all lines of a file, then the appended lines; yield None at each end of the file. Only
    the end of standard input or of a pipe ends the iteration. A file that was replaced or cut is
    read from the beginning. Raises MisuseError."""
    while True:
        framer = LineFramer(LINE_LIMIT)
        with _open(name) as file:
            read_bytes = 0
            while not _was_replaced(name, file, read_bytes):
                data = _read_chunk(name, file)
                read_bytes += len(data)
                yield from map(read_line, framer.feed(data))
                if not data:
                    yield None
                    if not _is_regular(file):
                        return
                    time.sleep(LOOK_SECONDS)


@contextmanager
def _open(name: str) -> Iterator[FileIO]:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise _unreadable(name, ValueError("standard input is closed"))
        yield open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
        return
    try:
        file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - closed by the `with`
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    with file:
        yield file


def _read_chunk(name: str, file: FileIO) -> bytes:
    try:
        return file.read(CHUNK) or b""
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError | ValueError) -> MisuseError:
    reason = getattr(error, "strerror", None) or str(error)
    return MisuseError(f"the transcript {name!r} cannot be read: {reason}")


def _is_regular(file: FileIO) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _was_replaced(name: str, file: FileIO, read_bytes: int) -> bool:
    """Return whether ``name`` is another file now, or the file is shorter than was read."""
    if name == STANDARD_INPUT or not _is_regular(file):
        return False
    here = os.fstat(file.fileno())
    try:
        there = Path(name).stat()
    except OSError:
        return False  # during a replacement: the next call finds the new file
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) or there.st_size < read_bytes


# Rows of a terminal.

MAX_TEXT: Final = 2_000
"""Characters of a row, if the output is no terminal with a width."""
WIDE: Final = 110
"""Least columns of a terminal whose rows also show the session, the sender and the receiver."""
MAX_RAW: Final = 10_000
"""Characters of a text that are escaped for a row: more than a row can show."""
_KINDS_SHOWN: Final[dict[Kind, tuple[str, str]]] = {
    "approval": ("\u2b22 APPROVAL", "1;33"), "elicitation": ("\u25d7 ELICITATION", "1;35"),
    "decline": ("\u2298 DECLINED", "1;31"), "prompt": ("\u203a prompt", "34"),
    "session": ("\u25a1 session", "2"), "wire": ("\u00b7 wire", "2"),
}  # fmt: skip
"""Kind → the mark and the name that are shown, and their ANSI style."""
_KIND_WIDTH: Final = max(len(shown) for shown, _ in _KINDS_SHOWN.values())
_VERB_WIDTH: Final = 14
_GAP: Final = "  "
_TONE_STYLES: Final[dict[Tone, str]] = {
    "open": "1", "good": "32", "bad": "31", "halted": "2", "plain": "0",
}  # fmt: skip
_PARTIES: Final = {"client": "client", "adapter": "adapter", "codex": "Codex"}


class Rows:
    """Writes one row for each event to ``out``, cut to the width of a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._styled = wants_colours(out)
        self._encoding = out.encoding or "utf-8"
        self._date = ""
        self._counts: Counter[str] = Counter()
        self.unread: int = 0
        """Number of lines that could not be read."""
        self.left_out: int = 0
        """Number of events that the filters leave out. The caller counts these events."""

    def event(self, entry: Entry, description: Description) -> None:
        """Write one row; before the first row of a day, write the day."""
        date, _, clock = entry.time.removesuffix("Z").partition("T")
        if date != self._date:
            self._date = date
            self._put((f"{date} (UTC)", "2"))
        kind, verb = description.kind, description.verb
        verb_has_kind = verb.startswith(kind)  # not "decline declined"
        self._counts[verb if verb_has_kind else f"{kind} {verb}"] += 1
        shown_kind, kind_style = _KINDS_SHOWN[kind]
        prefix = clock
        if self._columns() >= WIDE:
            shown_id = entry.event.ref.session_id or entry.event.ref.thread_id or "-"
            parties = f"{_PARTIES[description.sender]} > {_PARTIES[description.receiver]}"
            # The end of the id: ids of one day have the same beginning.
            prefix = f"{clock}{_GAP}{visible(shown_id[-8:]):8}{_GAP}{parties:16}"
        text = " ".join(part for part in (description.about, description.detail) if part)
        self._put(
            (prefix + _GAP, "2"),
            (f"{shown_kind:{_KIND_WIDTH}}{_GAP}", kind_style),
            (f"{verb:{_VERB_WIDTH}}{_GAP}", _TONE_STYLES[description.tone]),
            (visible(text[:MAX_RAW]), "0"),
        )

    def unreadable(self, line: Line) -> None:
        """Write a row for a line that is no event."""
        self.unread += 1
        text = f"? a line that cannot be read: {line.problem}: {line.text[:MAX_RAW]}"
        self._put((visible(text), "31"))

    def summary(self) -> str:
        """Return the numbers of events of each kind as a sentence."""
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._counts.items()))
        unread = f"; {self.unread} lines could not be read" if self.unread else ""
        left = f"; {self.left_out} more are left out" if self.left_out else ""
        return f"{sum(self._counts.values())} events: {counts or 'none'}{left}{unread}"

    def _columns(self) -> int:
        return size_of(self._out).columns if self._out.isatty() else MAX_TEXT

    def _put(self, *parts: tuple[str, str]) -> None:
        """Write a row of texts with their styles, cut to the terminal's width."""
        room = max(1, self._columns() - 1)
        row = ""
        for text, style in parts:
            shown = clipped(text, room)
            if shown != text:  # the "…" takes two columns on some terminals
                shown = f"{clipped(text, room - 2)}\u2026" if room > 1 else ""
            room -= sum(map(columns_of, shown))
            shown = shown.encode(self._encoding, "replace").decode(self._encoding)
            row += f"\x1b[{style}m{shown}\x1b[0m" if self._styled and style != "0" else shown
        self._out.write(row.rstrip() + "\n")
