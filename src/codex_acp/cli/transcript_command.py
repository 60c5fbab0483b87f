"""Show a transcript as rows or as a page of HTML: ``codex-acp-sdk transcript``.

Owns the links of the page: from an answer to the question, and from an event to the messages of the
wire that caused the event.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import os
import stat
import sys
from bisect import bisect_left
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from math import isfinite
from pathlib import Path
from string import Template
from textwrap import fill
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from codex_acp._json import list_at, text_at
from codex_acp.cli.arguments import add_flag, parser_of
from codex_acp.cli.terminal import FAILED, print_error, rows_of
from codex_acp.cli.transcript_lines import (
    DECIDED,
    KINDS,
    Line,
    Rows,
    Selection,
    describe,
    follow,
    moment,
    read,
)
from codex_acp.errors import MisuseError
from codex_acp.routing.display import visible
from codex_acp.transcript import events
from codex_acp.transcript.events import TranscriptEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from codex_acp.cli.transcript_lines import Description
    from codex_acp.jsonrpc import JsonValue

DESCRIPTION: Final = """\
Show a transcript: the questions, the decisions and who decided, and the
declines. An agent writes a transcript with `codex-acp-sdk --transcript FILE`;
with --transcript-wire it also has every message of both protocols. An event
must match one value of each filter."""
TYPES: Final = tuple(event.type for event in get_args(TranscriptEvent))
DECIDED_LISTED: Final = fill(
    ", ".join(DECIDED), width=79, initial_indent="decided:  ", subsequent_indent=" " * 10
)
EPILOG: Final = f"""\
kinds:    {", ".join(KINDS)};
          or one type, for example approval.refused
{DECIDED_LISTED}

examples:
  codex-acp-sdk transcript log.jsonl --kind approval,decline
  codex-acp-sdk transcript log.jsonl --decided rejected --since 2h
  codex-acp-sdk transcript log.jsonl -f --kind wire,approval
  codex-acp-sdk transcript log.jsonl --html page.html

exit codes: 0, 1 if a line could not be read, 2 usage, 130 Ctrl-C
"""


def transcript_parser() -> argparse.ArgumentParser:
    parser = parser_of("transcript", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("file", metavar="FILE", help="the transcript; - for standard input")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-f", "--follow", action="store_true", help="print new lines of the file, until Ctrl-C"
    )
    how.add_argument("--html", metavar="OUT", help="write one self-contained page for a browser")
    parser.add_argument(
        "--session", metavar="ID", action="append", default=[],
        help="only events of this session or thread; the beginning of its id is enough",
    )  # fmt: skip
    parser.add_argument(
        "--kind", metavar="KINDS", action="extend", default=[],
        type=_list_of((*KINDS, *TYPES), "kind"), help="only these kinds, e.g. approval,decline",
    )  # fmt: skip
    parser.add_argument(
        "--decided", metavar="HOW", action="extend", default=[], type=_list_of(DECIDED, "decision"),
        help="only this decision, or this decider, e.g. rejected,policy",
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="TIME", type=_parse_moment,
        help="only from TIME on: 2026-01-31T12:00, or 10m for ten minutes ago (s, m, h, d)",
    )  # fmt: skip
    parser.add_argument("--until", metavar="TIME", type=_parse_moment, help="only until TIME")
    add_flag(parser, "--json", "print the lines unchanged, for other programs")
    return parser


def _list_of(known: tuple[str, ...], what: str) -> Callable[[str], list[str]]:
    """Return a parser of known words with commas between them."""

    def parse(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",")]
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is no {what}; use {', '.join(known)}")
        return words

    return parse


def _parse_moment(text: str) -> str:
    try:
        return moment(text, datetime.now(UTC))
    except (ValueError, OverflowError):
        message = f"{text!r} is no time; use 2026-01-31T12:00 or 10m"
        raise argparse.ArgumentTypeError(message) from None


MAX_ROW_TEXT: Final = 400
"""Characters of a text in a row; the details show more."""
MAX_TEXT: Final = 20_000
"""Characters of a text in the details of a row."""
MAX_LINE: Final = 600_000
"""Characters of a row's details; in longer details, texts are cut to `MAX_SHORT_TEXT`."""
MAX_SHORT_TEXT: Final = 300
Row: TypeAlias = "dict[str, JsonValue]"
"""Data of one row, for the script of the page."""


@dataclass(slots=True)
class PageData:
    rows: list[Row] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """The JSON of each row's line in the transcript."""
    unread: int = 0
    """Number of lines that could not be read."""


def page_data(lines: Iterable[Line], selection: Selection) -> PageData:
    """Return the data of the events that fit the selection, and of lines that cannot be read.
    Messages of the wire need not fit the selection's kinds."""
    data = PageData()
    links = _Links()
    for line in lines:
        if line.entry is None:
            data.unread += 1
            data.rows.append({
                "t": None, "kind": "unread", "verb": "unreadable", "about": line.problem,
                "detail": _cut(line.text, MAX_ROW_TEXT), "from": "adapter", "to": "adapter",
                "tone": "bad", "session": None,
            })  # fmt: skip
            data.details.append(_detail_json({"line": line.text}, len(line.text)))
            continue
        description = describe(line.entry.event)
        if not selection.fits(line.entry, description, wire=True):
            continue
        links.add(len(data.rows), line.entry.event)
        data.rows.append(_row(line.entry, description))
        data.details.append(_detail_json(json.loads(line.text), len(line.text)))
    links.join(data.rows)
    return data


def _row(entry: events.Entry, description: Description) -> Row:
    event = entry.event
    row: Row = {
        "t": _milliseconds(entry.time), "kind": description.kind, "verb": description.verb,
        "about": _cut(description.about, MAX_ROW_TEXT),
        "detail": _cut(description.detail, MAX_ROW_TEXT),
        "from": description.sender, "to": description.receiver, "tone": description.tone,
        "session": event.ref.session_id or event.ref.thread_id,
    }  # fmt: skip
    if (title := _title_of(event)) is not None:
        row["title"] = _cut(title, MAX_ROW_TEXT)
    return row


def _title_of(event: events.TranscriptEvent) -> str | None:
    """Return a title for a message of the wire, from its params; None for other events."""
    if not isinstance(event, events.WireMessage) or event.message is None:
        return None
    params = event.message.get("params")
    if event.kind != "request":
        return text_at(params, "item", "type") or text_at(params, "update", "sessionUpdate")
    if event.peer == "codex":
        questions = [text_at(question, "question") for question in list_at(params, "questions")]
        return " ".join(filter(None, questions)) or text_at(params, "message") or None
    return text_at(params, "toolCall", "title") or None


def _milliseconds(time: str) -> int | None:
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None  # a valid format but no valid date: February 31


class _Links:
    """Links rows by ids. An id may be used again: the nearest row in the file counts."""

    def __init__(self) -> None:
        self._events: list[tuple[int, events.TranscriptEvent]] = []
        """Row and event of all events but messages of the wire."""
        self._open_requests: dict[Hashable, int] = {}
        """Rows of requests of the wire without an answer, by peer, connection, id and direction."""
        self._requests: defaultdict[Hashable, list[int]] = defaultdict(list)
        """Rows of requests of the wire, by peer, method and id, and by peer, method and session."""
        self._answers: dict[int, int] = {}
        """Row of a request of the wire → row of its answer."""

    def add(self, index: int, event: events.TranscriptEvent) -> None:
        """Add the event of the row ``index``, in the order of the file."""
        if not isinstance(event, events.WireMessage):
            self._events.append((index, event))
            return
        message_id = (event.peer, event.connection, _id_key(event.id))
        if event.kind == "request":
            self._open_requests[*message_id, event.direction] = index
            self._requests[event.peer, event.method, _id_key(event.id)].append(index)
            self._requests[event.peer, event.method, event.ref.session_id].append(index)
        elif event.kind in ("response", "error"):
            request_direction = "sent" if event.direction == "received" else "received"
            request = self._open_requests.pop((*message_id, request_direction), None)
            if request is not None:
                self._answers[request] = index
                if event.ref.session_id is not None:  # only the answer names a new session
                    self._requests[event.peer, event.method, event.ref.session_id].append(request)

    def join(self, rows: list[Row]) -> None:
        """Add to the rows: ``pair`` (row of the answer or the question), ``took`` (milliseconds
        from question to answer), ``wire`` (rows of the messages), ``title`` (of a message)."""
        questions: dict[Hashable, int] = {}
        for index, event in self._events:
            ref = event.ref
            if isinstance(ref, events.RequestRef):
                key: Hashable = (ref.generation, ref.method, _id_key(ref.codex_request_id))
                if isinstance(event, events.ApprovalRequested | events.ElicitationRequested):
                    questions[key] = index
                elif key in questions:
                    _pair(rows, questions[key], index)
            elif isinstance(event, events.PromptStarted):
                questions["prompt", ref.session_id] = index
            elif isinstance(event, events.PromptEnded):
                started = questions.pop(("prompt", ref.session_id), None)
                if started is not None:
                    _pair(rows, started, index)
            wire: set[int] = set()
            for request in self._wire_requests_of(index, event):
                wire |= {request, self._answers.get(request, request)}
                if (title := rows[request].get("title")) is not None:
                    rows[index]["title"] = title
            if wire:
                rows[index]["wire"] = [*sorted(wire)]
        for request, answer in self._answers.items():
            _pair(rows, request, answer)

    def _wire_requests_of(self, index: int, event: events.TranscriptEvent) -> Iterable[int]:
        """Yield the rows of the wire's requests that caused an event."""
        ref = event.ref
        if isinstance(ref, events.RequestRef):
            yield from self._nearest(("codex", ref.method, _id_key(ref.codex_request_id)), index)
            for method in ("session/request_permission", "elicitation/create"):
                if ref.acp_request_id is not None:
                    yield from self._nearest(("client", method, _id_key(ref.acp_request_id)), index)
        elif isinstance(event, events.PromptStarted | events.PromptEnded):
            yield from self._nearest(("client", "session/prompt", ref.session_id), index)
        elif isinstance(event, events.SessionOpened):
            yield from self._nearest(("client", f"session/{event.how}", ref.session_id), index)

    def _nearest(self, key: Hashable, index: int) -> Iterable[int]:
        """Yield the row of the request ``key`` that is nearest to the row ``index``, if any."""
        requests = self._requests.get(key, [])
        at = bisect_left(requests, index)
        if neighbours := requests[max(0, at - 1) : at + 1]:
            yield min(neighbours, key=lambda other: abs(other - index))


def _pair(rows: list[Row], question: int, answer: int) -> None:
    """Link the rows of a question and of an answer. A question keeps its first answer."""
    rows[question].setdefault("pair", answer)
    rows[answer]["pair"] = question
    began, ended = rows[question]["t"], rows[answer]["t"]
    if isinstance(began, int) and isinstance(ended, int):
        rows[answer]["took"] = ended - began


def _id_key(request_id: object) -> Hashable:
    """Return a key that has the type of the id: 0 is not "0"."""
    if isinstance(request_id, str | int):
        return type(request_id).__name__, request_id
    return None


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\u2026 [{len(text) - limit} more]"


def _detail_json(value: JsonValue, size: int) -> str:
    """Return JSON in one line of ASCII, long texts cut; ``size``: length of the original line."""
    if size <= MAX_TEXT:
        with suppress(ValueError, RecursionError):  # NaN and infinity: see `_cut_texts`
            return json.dumps(value, separators=(",", ":"), allow_nan=False)
    try:
        for limit in (MAX_TEXT, MAX_SHORT_TEXT):
            text = json.dumps(_cut_texts(value, limit), separators=(",", ":"))
            if len(text) <= MAX_LINE:
                return text
    except RecursionError:
        return json.dumps({"line": "[too deep to be shown]"})
    return json.dumps({"line": _cut(text, MAX_LINE)})


def _cut_texts(value: JsonValue, limit: int) -> JsonValue:
    if isinstance(value, str):
        return _cut(value, limit)
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no NaN and no infinity, although Python reads them
    if isinstance(value, list):
        return [_cut_texts(item, limit) for item in value]
    if isinstance(value, dict):
        return {_cut(key, limit): _cut_texts(item, limit) for key, item in value.items()}
    return value


# The page: one file of HTML, which loads nothing and runs only its own script.

SCRIPTS: Final = ("text.js", "timeline.js", "detail.js", "page.js")
"""Files that are joined to one script, in this order."""
STANDARD_OUTPUT: Final = "-"


def page_text(name: str, data: PageData) -> str:
    """Return the HTML of the page; ``name`` is the transcript's path."""
    style = _page_file("page.css")
    script = "(() => {\n'use strict';\n" + "\n".join(map(_page_file, SCRIPTS)) + "})();\n"
    return Template(_page_file("page.html")).substitute(
        policy=(
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        title=html.escape(visible(Path(name).name or name)),
        style=style,
        script=script,
        rows=_escaped(json.dumps(data.rows, separators=(",", ":"))),
        details=_escaped("\n".join(data.details)),
    )


def write_page(out: str, text: str) -> None:
    """Write the page to the file ``out`` (private if new) or to stdout. Raises MisuseError."""
    if out == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    path = Path(out)
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_text(text, encoding="utf-8")
            return
        # Write a draft and rename it, so that a browser never reads half a page.
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
                stream.write(text)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MisuseError(f"the page {out!r} cannot be written: {reason}") from error


def _page_file(name: str) -> str:
    return (files("codex_acp.cli") / "transcript_page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _escaped(text: str) -> str:
    """Escape JSON for a script element: the values stay, without markup."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def transcript(options: argparse.Namespace) -> int:
    """Show the transcript, or write its page; return the exit code."""
    selection = Selection(
        sessions=tuple(options.session), kinds=tuple(options.kind), decided=tuple(options.decided),
        since=options.since, until=options.until,
    )  # fmt: skip
    try:
        if options.html is not None:
            with suppress(OSError, ValueError):
                if Path(options.html).samefile(options.file):
                    why = "would take the place of the transcript; name another file"
                    raise MisuseError(f"the page {options.html!r} {why}")
            data = page_data(read(options.file), selection)
            write_page(options.html, page_text(options.file, data))
            unread = f"; {data.unread} lines could not be read" if data.unread else ""
            sys.stderr.write(f"{len(data.rows) - data.unread} events in {options.html}{unread}\n")
            return FAILED if data.unread else 0
        lines = follow(options.file) if options.follow else read(options.file)
        return _show(lines, selection, as_json=options.json)
    except MisuseError as error:
        return print_error("transcript", error)


def _show(lines: Iterable[Line | None], selection: Selection, *, as_json: bool) -> int:
    """Print the events that fit the selection; return the exit code."""
    rows = Rows(sys.stdout)
    for line in lines:
        if line is None:  # the end of the file for now
            sys.stdout.flush()
        elif line.entry is None:
            if as_json:
                rows.unread += 1
            else:
                rows.unreadable(line)
        else:
            description = describe(line.entry.event)
            if not selection.fits(line.entry, description):
                rows.left_out += 1
                continue
            if as_json:
                sys.stdout.write(line.text + "\n")
            else:
                rows.event(line.entry, description)
    sys.stdout.flush()
    if not as_json:
        sys.stderr.write("\n".join(rows_of(rows.summary(), sys.stderr)) + "\n")
    elif rows.unread:
        sys.stderr.write(f"{rows.unread} lines could not be read\n")
    return FAILED if rows.unread else 0
