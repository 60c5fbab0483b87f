"""The arguments of ``codex-acp-sdk transcript``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import fill
from typing import TYPE_CHECKING, Final, get_args

from codex_acp.cli.transcript_view.terminal import DECIDED, KINDS, Selection, moment
from codex_acp.transcript.events import TranscriptEvent

if TYPE_CHECKING:
    from collections.abc import Callable

DESCRIPTION: Final = """\
Show a transcript: what was asked, how it was decided and by whom, and what was
declined. An agent writes one with `codex-acp-sdk --transcript FILE`; with
--transcript-wire it holds every message of both protocols too. Filters of one
kind add up (any of them), of different kinds all must fit."""

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

exit codes: 0, 1 where a line could not be read, 2 usage, 130 Ctrl-C
"""


@dataclass(frozen=True, slots=True)
class TranscriptOptions:
    """Options of ``transcript``."""

    file: str
    selection: Selection
    follow: bool = False
    json: bool = False
    html: str | None = None


def add_transcript_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that may follow ``transcript``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", metavar="FILE", help="the transcript; - for standard input")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-f", "--follow", action="store_true", help="go on with what is appended, until Ctrl-C"
    )
    how.add_argument(
        "--html",
        metavar="OUT",
        help="write a page that needs nothing else, to be opened in a browser",
    )
    parser.add_argument(
        "--session", metavar="ID", action="append", default=[],
        help="only what belongs to this session or thread; the beginning of its id is enough",
    )  # fmt: skip
    parser.add_argument(
        "--kind", metavar="KINDS", action="extend", default=[],
        type=_words((*KINDS, *TYPES), "kind"), help="only these kinds, e.g. approval,decline",
    )  # fmt: skip
    parser.add_argument(
        "--decided", metavar="HOW", action="extend", default=[], type=_words(DECIDED, "decision"),
        help="only what was decided like this, or by this, e.g. rejected,policy",
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="TIME", type=_moment,
        help="only from then on: 2026-01-31T12:00, or 10m for ten minutes ago (s, m, h, d)",
    )  # fmt: skip
    parser.add_argument("--until", metavar="TIME", type=_moment, help="only until then")
    parser.add_argument(
        "--json", action="store_true", help="the lines themselves, for other programs"
    )


def transcript_options(parsed: argparse.Namespace) -> TranscriptOptions:
    """The parsed arguments."""
    selection = Selection(
        sessions=tuple(parsed.session),
        kinds=tuple(parsed.kind),
        decided=tuple(parsed.decided),
        since=parsed.since,
        until=parsed.until,
    )
    return TranscriptOptions(
        parsed.file, selection, follow=parsed.follow, json=parsed.json, html=parsed.html
    )


def _words(known: tuple[str, ...], what: str) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",")]
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is no {what}; use {', '.join(known)}")
        return words

    return read


def _moment(text: str) -> str:
    try:
        return moment(text, datetime.now(UTC))
    except (ValueError, OverflowError):
        message = f"{text!r} is no time; use 2026-01-31T12:00 or 10m"
        raise argparse.ArgumentTypeError(message) from None
