"""``codex-acp-sdk play FILE``: what today's agent would do with the events of `serve --record`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codex_acp.adapter.session.record import UnreadableRecord, as_test, play, read_record

if TYPE_CHECKING:
    from codex_acp.adapter.session.record import Difference

DIFFERENT = 1
"""Exit code where today's effects differ."""

UNREADABLE = 2
"""Exit code for a file that cannot be played."""


def play_file(path: str, session: int | None = None) -> int:
    """Play a record and print where today's effects differ; the exit code.

    With ``session`` print a record of that one alone instead, as a test may keep it.
    """
    try:
        steps = read_record(path)
    except UnreadableRecord as error:
        sys.stderr.write(f"codex-acp-sdk: error: {error}\n")
        return UNREADABLE
    if session is not None:
        if all(step.session != session for step in steps):
            sys.stderr.write(f"codex-acp-sdk: error: {path} has no session {session}\n")
            return UNREADABLE
        sys.stdout.writelines(as_test(steps, session))
        return 0
    played = play(steps)
    for difference in played.differences:
        sys.stdout.writelines(f"{line}\n" for line in _told(difference))
    found = len(played.differences)
    end = f"; of {played.missing} a part is missing" if played.missing else ""
    sys.stdout.write(
        f"{played.events} events of {played.sessions} sessions: {found or 'no'} "
        f"difference{'' if found == 1 else 's'}{end}\n"
    )
    return DIFFERENT if found else 0


def _told(difference: Difference) -> list[str]:
    step = difference.step
    lines = [f"line {step.line}, session {step.session}: {step.event}"]
    lines += [f"  then:  {effect}" for effect in step.effects or ()] or ["  then:  nothing"]
    if isinstance(difference.today, str):
        return [*lines, f"  today: {difference.today}"]
    return lines + ([f"  today: {effect}" for effect in difference.today] or ["  today: nothing"])
