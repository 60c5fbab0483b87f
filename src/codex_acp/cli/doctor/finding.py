"""Writes the finding of a check, as a line for people and as JSON for programs.

Owns that no secret and nothing that could steer a terminal is in it. PURE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from codex_acp.routing.display import visible
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.jsonrpc.message import JsonValue

Level: TypeAlias = Literal["ok", "warning", "problem"]

REPORT_VERSION: Final = 1
"""Of the JSON; raised when a member gets another meaning or goes. New checks do not raise it."""

MAX_TEXT: Final = 500
"""Characters of what others say."""


class Finding(NamedTuple):
    """``check`` names what was looked at, ``text`` says how it is, ``advice`` what to do."""

    check: str
    level: Level
    text: str
    advice: str | None = None


def problem(check: str, text: str, advice: str) -> Finding:
    """Something does not work."""
    return Finding(check, "problem", text, advice)


def warning(check: str, text: str, advice: str) -> Finding:
    """Something works, and somebody should know about it; or it could not be looked at."""
    return Finding(check, "warning", text, advice)


def said(text: str) -> str:
    """Return a foreign text as a line: without secrets, all of it visible, not too long."""
    line = visible(" ".join(scrub(text).split()))
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}\u2026"


def as_json(findings: Iterable[Finding], editor: dict[str, JsonValue] | None) -> JsonValue:
    """The report; ``editor`` is null if none was named."""
    listed = list(findings)
    checks: list[JsonValue] = [
        {
            "check": one.check,
            "level": one.level,
            "text": said(one.text),
            "advice": None if one.advice is None else said(one.advice),
        }
        for one in listed
    ]
    return {
        "version": REPORT_VERSION,
        "problems": sum(one.level == "problem" for one in listed),
        "warnings": sum(one.level == "warning" for one in listed),
        "checks": checks,
        "editor": editor,
    }
