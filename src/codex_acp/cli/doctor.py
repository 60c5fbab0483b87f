"""Run the checks of ``codex-acp-sdk doctor``, each with a time limit, and print a report."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_regular
from codex_acp.cli.arguments import PROGRAM
from codex_acp.cli.doctor_checks import (
    CHECK_SECONDS,
    MAX_CONFIG,
    TURN_SECONDS,
    WHOLE_SECONDS,
    Deadline,
    Finding,
    Home,
    HomeCopy,
    TooSlow,
    as_json,
    check_codex,
    check_home,
    check_python,
    check_syntax,
    check_turn,
    codex_findings,
    collect_answers,
    login_findings,
    problem,
    run_program,
    safe_line,
    toml_of,
    values_in,
    warning,
    within,
)
from codex_acp.cli.editors import settings_for
from codex_acp.cli.terminal import FAILED, SIGNALLED, EndSignals, rows_of, wants_colours
from codex_acp.codex.connection.thread_peers import writers
from codex_acp.transcript.given_values import secrets_in, secrets_of_environment
from codex_acp.transcript.secrets import remember_secrets

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

LOGIN_SECONDS: Final = 20.0
"""Time limit of ``codex login status``."""
MARKS: Final = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}
STYLES: Final = {"ok": "32", "warning": "33", "problem": "1;31"}
"""ANSI styles of the marks."""
_MARK_WIDTH: Final = max(map(len, MARKS.values()))


def doctor(options: Namespace) -> int:
    """Run all checks and print the report; return the exit code."""
    editor = None if options.editor is None else settings_for(options.editor, _command(PROGRAM))
    if editor is not None and not (options.json or options.turn):
        print(f"{editor['title']}, in {editor['place']}:\n", file=sys.stderr)
        print(editor["settings"])
        return 0
    findings: list[Finding] = []
    remember_secrets(secrets_of_environment(os.environ))
    with EndSignals() as ended:
        try:
            for finding in _findings(options):
                findings.append(finding)
                if not options.json:
                    _print_finding(finding)
        except KeyboardInterrupt:
            return SIGNALLED + ended.number
    problems = sum(finding.level == "problem" for finding in findings)
    if options.json:
        print(json.dumps(as_json(findings, editor), indent=2))
    else:
        warnings = sum(finding.level == "warning" for finding in findings)
        print(f"\n{_counted(problems, 'problem')}, {_counted(warnings, 'warning')}")
        if editor is not None:
            print(f"\n{editor['title']}, in {editor['place']}:\n\n{editor['settings']}")
    return FAILED if problems else 0


class _Checks:
    """Runs checks until the deadline of all checks; keeps results that later checks need."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.codex: str | None = None
        """Path of the Codex binary; None if no binary can be used."""
        self.home = Home(None, None, readable=False, broken=True)

    def run(self, check: str, find: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
        """Yield the findings of ``find``, or a finding that ``find`` failed or no time is left."""
        if not self.deadline.at_most(1):
            text = f"it was not looked at: all checks together have {self.deadline.seconds:g} s"
            yield warning(check, text, "mend what is above first")
            return
        try:
            yield from find()
        except Exception as error:  # noqa: BLE001 - the report shows any error
            text = f"looking failed: {type(error).__name__}: {error}"
            yield problem(check, text, "see the other lines; if they are all well, report this one")


def _findings(options: Namespace) -> Iterator[Finding]:
    """Run the checks; yield their findings in the report's order."""
    checks = _Checks(Deadline(WHOLE_SECONDS + (TURN_SECONDS if options.turn else 0)))
    yield from checks.run("python", check_python)
    yield from checks.run("command", _check_command)
    try:
        tempfile.TemporaryFile().close()
    except OSError as error:
        text = f"no temporary file can be made: {error.strerror or error}"
        yield problem("temporary", text, "make room, or set TMPDIR to a directory of yours")
    else:
        yield from checks.run("codex", lambda: _run_codex_check(options.codex, checks))
    yield from checks.run("codex_home", lambda: _run_home_check(checks))
    yield from checks.run("sessions", lambda: _run_sessions_check(checks))
    codex = checks.codex
    if codex is None:
        yield from check_syntax(checks.home.config)
        text = "configuration, login, sandbox and MCP servers were not looked at"
        yield warning("start", text, "mend what is above first")
        return
    yield from checks.run("start", lambda: _ask_codex(codex, checks))
    if options.turn:
        yield from checks.run("turn", lambda: [asyncio.run(check_turn(codex, checks.deadline))])


def _run_codex_check(named: str | None, checks: _Checks) -> Iterator[Finding]:
    finding, checks.codex = check_codex(named, checks.deadline)
    yield finding


def _run_home_check(checks: _Checks) -> Iterator[Finding]:
    seconds = checks.deadline.at_most(CHECK_SECONDS)
    try:
        findings, checks.home = within(seconds, check_home)
    except TooSlow:
        text = f"Codex's home gave no answer for {seconds:.3g} s"
        yield problem("codex_home", text, "see whether its disk is there, or set CODEX_HOME")
    else:
        yield from findings


def _run_sessions_check(checks: _Checks) -> Iterator[Finding]:
    """Yield a finding for each open session, with the one process that can write the session."""
    home = checks.home.path
    if home is None or not checks.home.readable:
        return
    try:
        open_sessions = within(checks.deadline.at_most(CHECK_SECONDS), lambda: writers(home))
    except FileNotFoundError:  # no Codex that locks its sessions has run with this home
        return
    for writer in open_sessions:
        text = f"session {writer.thread_id} is open in {writer}"
        if writer.stopped is not None:
            advice = f"let it go on (kill -CONT {writer.stopped}), or end it"
            yield warning("sessions", text, advice)
        else:
            yield Finding("sessions", "ok", text)


def _ask_codex(codex: str, checks: _Checks) -> Iterator[Finding]:
    home, deadline = checks.home, checks.deadline
    values, settings = values_in(home.config), toml_of(home.config)
    remember_secrets(secrets_in(settings))
    with HomeCopy(home.path if home.readable else None) as copy:
        seconds = deadline.at_most(CHECK_SECONDS)
        try:
            within(seconds, copy.copy_files)
        except TooSlow:
            text = f"the files of Codex's home could not be read within {seconds:.3g} s"
            yield problem("config", text, "see whether their disk is there, or set CODEX_HOME")
            return
        store = settings.get("cli_auth_credentials_store")
        login = _run_login_check(codex, home, copy, deadline, store)
        answers = asyncio.run(collect_answers(codex, copy, deadline))
        for finding in codex_findings(answers, values, os.environ, login):
            yield finding._replace(text=copy.with_real_paths(finding.text))


def _run_login_check(
    codex: str, home: Home, copy: HomeCopy, deadline: Deadline, store: object
) -> list[Finding]:
    """Have Codex check a copy of the login, without a network: Codex must not renew the copy.
    ``store``: the configured place of the login."""
    if home.broken:
        text = "it was not looked at: Codex's home cannot be used"
        return [warning("login", text, "mend what is above first")]
    target = copy.codex_home / "auth.json"
    seconds = deadline.at_most(LOGIN_SECONDS)
    try:
        if home.path is not None and home.readable:
            source = home.path / "auth.json"
            if source.exists():
                content = within(CHECK_SECONDS, lambda: read_regular(source, MAX_CONFIG))
                file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(file, "wb") as stream:  # noqa: PTH123 - a descriptor
                    stream.write(content)
        argv = [codex, "login", "status"]
        status, output = run_program(argv, copy.offline_env, str(copy.workspace), seconds)
    except FileNotFoundError as error:
        return [warning("login", f"it was not looked at: {error.strerror}", "look again")]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        text = f"auth.json cannot be read: {reason}"
        return [problem("login", text, "give it back to yourself, or log in again")]
    except TooSlow:
        text = f"`codex login status` did not end within {seconds:.3g} s"
        return [warning("login", text, "run it in a terminal to see why")]
    finally:
        target.unlink(missing_ok=True)
    return login_findings(status, output, store)


def _check_command() -> Iterator[Finding]:
    found = shutil.which(PROGRAM)
    if found is not None:
        yield Finding("command", "ok", f"{PROGRAM} is found at {found}")
        return
    text = f"{PROGRAM} is not on PATH, so an editor does not find it by its name"
    yield warning("command", text, f"name it in full: {shlex.join(_command(PROGRAM))}")


def _command(program: str) -> list[str]:
    """Return the command that starts ``program`` from any directory."""
    beside = Path(sys.executable).with_name(program)
    if beside.is_file():
        return [str(beside)]
    found = shutil.which(program)
    return [found] if found else [sys.executable, "-P", "-m", "codex_acp"]


def _print_finding(finding: Finding) -> None:
    style = STYLES[finding.level] if wants_colours(sys.stdout) else None
    mark = f"{MARKS[finding.level]:{_MARK_WIDTH}}"
    text = f"{mark}  {finding.check}: {safe_line(finding.text)}"
    lines = rows_of(text, sys.stdout, indent=_MARK_WIDTH + 2)
    if style is not None:
        lines[0] = f"\x1b[{style}m{mark}\x1b[0m{lines[0][len(mark) :]}"
    if finding.level != "ok" and finding.advice is not None:
        advice = f"{'':{_MARK_WIDTH}}  -> {safe_line(finding.advice)}"
        lines += rows_of(advice, sys.stdout, indent=_MARK_WIDTH + 5)
    print("\n".join(lines), flush=True)


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
