"""Run the commands ``version``, ``login`` and ``play``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from codex_acp._version import __version__
from codex_acp.acp._generated.version import SCHEMA_PACKAGE as ACP_PACKAGE
from codex_acp.acp._generated.version import SCHEMA_VERSION as ACP_VERSION
from codex_acp.codex._generated.version import SCHEMA_PACKAGE as CODEX_PACKAGE
from codex_acp.codex._generated.version import SCHEMA_VERSION as CODEX_VERSION
from codex_acp.codex.connection.handshake import check_version
from codex_acp.codex.connection.launch import CODEX_PATH_VARIABLE, codex_version, find_codex
from codex_acp.errors import CodexNotFound, CodexTooOld, LaunchError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from codex_acp.adapter.session.record import Difference

UNUSABLE = 1
"""Exit code if the binary is no Codex or too old, or a named binary is missing."""
_SOURCES = {
    "argument": "named by --codex",
    "CODEX_PATH": "named by CODEX_PATH",
    "wheel": "from the wheel openai-codex-cli-bin",
    "PATH": "found on PATH",
}
"""Source of a binary → its description."""


def print_versions(options: Namespace) -> int:
    """Print four lines; return the exit code: 0 also without Codex, unless a binary is named."""
    code = 0
    try:
        binary = " at ".join(version_and_place(options.codex))
    except LaunchError as error:
        binary = str(error)
        is_named = options.codex is not None or os.environ.get(CODEX_PATH_VARIABLE)
        if is_named or not isinstance(error, CodexNotFound):
            code = UNUSABLE
    sys.stdout.write(
        f"codex-acp-sdk {__version__}\n"
        f"Codex schema  {CODEX_VERSION} ({CODEX_PACKAGE.replace(':', ' ', 1)})\n"
        f"ACP schema    v1 and v2 ({ACP_PACKAGE.replace(':', ' ', 1)} {ACP_VERSION})\n"
        f"Codex binary  {binary}\n"
    )
    return code


def version_and_place(codex: str | None = None) -> tuple[str, str]:
    """Return the version of the Codex binary, and the path with the source. Raises LaunchError."""
    binary = find_codex(codex)
    version = codex_version(binary.path)
    where = f"{binary.path} ({_SOURCES[binary.source]})"
    try:
        check_version(version)
    except CodexTooOld as error:
        raise LaunchError(f"{where}: {error}") from error
    return version, where


def login(codex: str | None, arguments: Sequence[str]) -> int:
    """Replace this process by ``codex login ARGUMENTS``. Return only a failure's exit code."""
    try:
        binary = find_codex(codex)
        os.execv(binary.path, [binary.path, "login", *arguments])
    except (LaunchError, OSError) as error:
        from codex_acp.cli.terminal import FAILED, print_error

        return print_error("login", error, FAILED)


DIFFERENT = 1
"""Exit code if the effects of this version differ from the record."""


def play_file(options: Namespace) -> int:
    """Play a record, and print where this version decides differently. With ``--session``, only
    print the record of that session. Return the exit code."""
    from codex_acp.adapter.session.record import UnreadableRecord, as_test, play, read_record
    from codex_acp.cli.terminal import print_error

    path, session = options.file, options.session
    try:
        if session is not None:
            sessions = {step.session for step in read_record(path)}
            if session not in sessions:
                last = max(sessions, default=0)
                return print_error("play", f"{path} has no session {session}; the last is {last}")
            sys.stdout.writelines(as_test(read_record(path), session))
            return 0
        played = play(read_record(path))
    except UnreadableRecord as error:
        return print_error("play", error)
    for difference in played.differences:
        sys.stdout.writelines(f"{line}\n" for line in _difference_lines(difference))
    found = len(played.differences)
    end = f"; of {played.missing} a part is missing" if played.missing else ""
    sys.stdout.write(
        f"{played.events} events of {played.sessions} sessions: {found or 'no'} "
        f"difference{'' if found == 1 else 's'}{end}\n"
    )
    return DIFFERENT if found else 0


def _difference_lines(difference: Difference) -> list[str]:
    """Return the event, its recorded effects, and its effects today."""
    step, today = difference.step, difference.today  # an exception is a text
    effects_today = (today,) if isinstance(today, str) else today
    return [
        f"line {step.line}, session {step.session}: {step.event}",
        *(f"  then:  {effect}" for effect in step.effects or ("nothing",)),
        *(f"  today: {effect}" for effect in effects_today or ("nothing",)),
    ]
