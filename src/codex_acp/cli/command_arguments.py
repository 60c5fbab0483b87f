"""Define the arguments of ``run``, ``chat``, ``fleet`` and ``doctor``, and their exit codes."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.cli.arguments import add_codex, add_flag, add_trust, parser_of, positive
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.runtime import AgentSpec

EXIT_NOBODY_ASKED: Final = 6
"""Exit code after ``end_turn`` if a permission was rejected because nobody could be asked."""
EXIT_CODES: Final = {
    "end_turn": 0,
    "refusal": 3,
    "max_tokens": 4,
    "max_turn_requests": 5,
    "cancelled": 130,
}
"""Stop reason → exit code."""
KINDS: Final = (
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other",
)  # fmt: skip
"""The kinds of tool calls in ACP; a test compares the list with the schema's."""
RUN_DESCRIPTION: Final = """\
Send one prompt to an ACP agent. The agent's text goes to standard output,
everything else to standard error. Permission requests and forms appear on the
terminal; without a terminal they are rejected."""
RUN_EPILOG: Final = """\
Ctrl-C cancels the prompt; a second one ends the agent at once.

exit codes: 0 end_turn, 1 the agent failed, 2 usage, 3 refusal, 4 max_tokens,
5 max_turn_requests, 6 end_turn, but a permission was rejected because
nobody could be asked, 129 ended by SIGHUP, 130 cancelled, 143 ended by SIGTERM

with --json, standard output has one JSON object a line, by "type":
  session      sessionId, agent, agentInfo, reason, opened ("new", "load" or
               "resume")
  update       sessionId, update: the update of ACP's session/update
  permission   sessionId, request, optionId: the chosen option, null for a
               rejection
  result       sessionId, stopReason, text
  error        error: its class, message, and code, data or exitCode if any
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Options of the commands that use an agent: which agent, and how."""

    agent: str = "codex"
    command: str | None = None
    connect: str | None = None
    """URL of an agent that accepts network clients."""
    token_file: str | None = None
    cwd: str | None = None
    allow: Sequence[str] = ()
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    verbose: bool = False
    codex: str | None = None
    """Path of the Codex binary that the agent ``codex`` runs."""
    trust: Sequence[str] = ()
    """Directories that the agent ``codex`` trusts in this run."""

    @property
    def is_ours(self) -> bool:
        """Return whether the agent is this package's own, run as a child process."""
        return self.command is None and self.connect is None and self.agent == "codex"

    def spec(self) -> AgentSpec:
        """Return the spec of the agent. Raises MisuseError for options that do not go together."""
        from codex_acp.runtime.agent_spec import BUILT_IN, AgentSpec

        if self.connect is None and self.token_file is not None:
            raise MisuseError("--token-file is for --connect")
        if self.connect is None and self.cwd is not None and not Path(self.cwd).is_dir():
            raise MisuseError(f"--cwd: {self.cwd!r} is no directory")
        if not self.is_ours and (self.trust or self.codex is not None):
            option = "--trust" if self.trust else "--codex"
            raise MisuseError(f"{option} is for the agent codex; give another agent its own option")
        if self.connect is not None:
            from codex_acp.transcript.given_values import secrets_in
            from codex_acp.transcript.secrets import remember_secrets

            remember_secrets(secrets_in(self.connect))
            return AgentSpec.remote(self.connect, remote_token(self.token_file))
        if self.command is not None:
            return AgentSpec.parse(self.command)
        if self.agent not in BUILT_IN:
            known = ", ".join(sorted(BUILT_IN))
            msg = f"there is no agent {self.agent!r}; known are {known}, any other has --command"
            raise MisuseError(msg)
        if self.trust or self.codex is not None:
            words = [] if self.codex is None else ["--codex", self.codex]
            for trusted in self.trust:
                words += ["--trust", trusted]
            return AgentSpec.codex(*words)
        return BUILT_IN[self.agent]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(AgentOptions):
    prompt: str
    session: str | None = None
    json: bool = False


def run_parser() -> argparse.ArgumentParser:
    parser = parser_of("run", description=RUN_DESCRIPTION, epilog=RUN_EPILOG)
    parser.add_argument(
        "prompt", type=prompt_text, help="the text of the prompt; - reads it from standard input"
    )
    add_agent_arguments(parser)
    parser.add_argument(
        "--session", metavar="ID", help="continue a session; open a new one if it is gone"
    )
    add_flag(parser, "--json", "JSON objects, one per line, no questions")
    add_codex(parser)
    return parser


def prompt_text(argument: str) -> str:
    """Decode an argument as UTF-8 in any locale."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError("it is not UTF-8") from None


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--agent", metavar="NAME", default=argparse.SUPPRESS,  # `AgentOptions` has the default
        help="codex (default) or claude (by npx)",
    )  # fmt: skip
    which.add_argument(
        "--command", metavar="LINE", help="any agent: its command, split into words as a shell does"
    )
    which.add_argument(
        "--connect", metavar="URL", help="an agent at a ws://, wss://, http:// or https:// URL"
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="the token for --connect (or the environment variable CODEX_ACP_TOKEN)",
    )
    parser.add_argument("--cwd", metavar="DIR", help="where the agent works (default: here)")
    add_trust(parser)
    add_allow(parser)
    parser.add_argument("--model", metavar="ID", help="set the session's model first")
    parser.add_argument("--mode", metavar="ID", help="set the session's mode first")
    parser.add_argument("--effort", metavar="ID", help="set the session's thought level first")
    add_flag(parser, "--verbose", "show whole outputs, thoughts, and inputs as JSON")


def add_allow(parser: argparse.ArgumentParser) -> None:
    """Add ``--allow KINDS``, which may be repeated."""
    parser.add_argument(
        "--allow", metavar="KINDS", action="extend", default=[], type=_parse_kinds,
        help="permit tool calls of these kinds once each, without asking; e.g. read,search; "
        f"kinds: {', '.join(KINDS)}, or all",
    )  # fmt: skip


def _parse_kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(word.strip() for word in text.split(","))
    if kinds == ("all",):
        return KINDS
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        message = f"{', '.join(map(repr, unknown))} is no kind; use {', '.join(KINDS)} or all"
        raise argparse.ArgumentTypeError(message)
    return kinds


def remote_token(file: str | None) -> str | None:
    """Return the token from ``file``, or from the environment variable if ``file`` is None. Always
    remove the variable, and mask the token in logs and output. Raises MisuseError."""
    from codex_acp.cli.process import take_token
    from codex_acp.transcript.secrets import remember_secrets

    token = take_token()
    if file is not None:
        try:
            lines = Path(file).read_text("utf-8", "replace").splitlines()
        except (OSError, ValueError) as error:  # ValueError: the path has a NUL
            why = getattr(error, "strerror", None) or error
            raise MisuseError(f"the token file {file!r} cannot be read: {why}") from error
        rows = map(str.split, lines)
        words = next((words for words in rows if words and not words[0].startswith("#")), [])
        if not words:
            raise MisuseError(f"the token file {file!r} has no token")
        # A line is TOKEN, NAME TOKEN or NAME TOKEN TIME, as in the server's token file.
        token = words[0] if len(words) == 1 else words[1]
    if not token:
        return None
    remember_secrets([token])
    return token


CHAT_DESCRIPTION: Final = """\
Talk with an ACP agent in the terminal, prompt by prompt. The agent's
permission requests and forms appear there, too."""
CHAT_EPILOG: Final = """\
Ctrl-C cancels the prompt, a second one ends agent and chat at once. At the
input line Ctrl-C clears the line, twice leaves; Ctrl-D leaves. Alt-Enter
begins a new line. /help lists the commands, which Tab completes. Only you can
read the history of your input, $XDG_STATE_HOME/codex-acp-sdk/history (or below
~/.local/state).

exit codes: 0 you left, 1 the agent failed, 2 usage,
129 ended by SIGHUP, 130 ended by Ctrl-C, 143 ended by SIGTERM
"""
CHOOSE: Final = ""
"""Value of ``--resume`` without an id: the person chooses a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions(AgentOptions):
    prompt: str | None = None
    """The first prompt."""
    resume: str | None = None
    """Id of the session to resume; `CHOOSE`: the person chooses one."""
    last: bool = False
    """Whether to resume the latest session of the directory."""
    list: bool = False
    """Whether only to list the sessions."""


def chat_parser() -> argparse.ArgumentParser:
    parser = parser_of("chat", description=CHAT_DESCRIPTION, epilog=CHAT_EPILOG)
    parser.add_argument(
        "prompt", nargs="?", type=prompt_text, help="the first prompt; chat asks for more"
    )
    add_agent_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume", metavar="ID", nargs="?", const=CHOOSE,
        help="continue an earlier session; without an id, you choose the session",
    )  # fmt: skip
    add_flag(which, "--last", "continue the latest session of this directory")
    add_flag(which, "--list", "list the sessions of this directory, and exit")
    add_codex(parser)
    return parser


EXIT_TASKS_LEFT: Final = 3
"""Exit code: a budget stopped the fleet; ``--resume`` runs the tasks that are left."""
FLEET_DESCRIPTION: Final = """\
Run many tasks, each by an agent of its own, and keep their outcomes."""
FLEET_EPILOG: Final = """\
A line of TASKS is an object: id, prompt (a text or a list), cwd or repository
with revision, and optional keys: agent or command, model, mode, effort,
options, policy, output (a JSON Schema), time_limit, max_tokens. Paths start at
the current directory.

Ctrl-C ends the running tasks; `--resume` continues them in their sessions.

exit codes: 0 all completed (also without what a policy did not allow), 1 a task
failed, 2 usage, 3 stopped with tasks left, 130 Ctrl-C, 143 ended by SIGTERM

with --json, standard output has one object a line: {"type": "result", "id",
"status", "reason", "message", "text", "output", "usage", "sessionId",
"attempts", "path", ...} for each outcome, and
{"type": "stopped", "reason", "left"} if the fleet was stopped
"""


def fleet_parser() -> argparse.ArgumentParser:
    parser = parser_of("fleet", description=FLEET_DESCRIPTION)
    commands = parser.add_subparsers(
        dest="action", required=True, metavar="run|show", help="see their own help"
    )
    run = commands.add_parser(
        "run",
        help="run the tasks of a file",
        description=FLEET_DESCRIPTION,
        epilog=FLEET_EPILOG,
        allow_abbrev=False,
    )
    run.add_argument("tasks", metavar="TASKS", help="the file with a task on each line")
    run.add_argument("--out", metavar="DIR", required=True, help="the directory for the outcomes")
    add_flag(run, "--resume", "run only the tasks that have no outcome in DIR")
    add_flag(run, "--retry-failed", "with --resume: also run the failed tasks again")
    add_flag(run, "--skip-broken", "skip lines that are no valid tasks")
    add_flag(run, "--json", "JSON objects, one per line, no questions")
    _add_limits(run)
    _add_engine(run)
    run.add_argument(
        "--policy", choices=("deny_all", "ask"), default="deny_all",
        help="reject permission requests (default), or ask on the terminal",
    )  # fmt: skip
    add_allow(run)
    show = commands.add_parser(
        "show", help="print the outcomes", description="Print the outcomes of the tasks in DIR."
    )
    show.add_argument("out", metavar="DIR", help="an output directory")
    add_flag(show, "--json", "one JSON object per line")
    return parser


def _add_engine(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="run the tasks here or on Ray"
    )
    run.add_argument(
        "--address", metavar="ADDR", help="address of a Ray cluster: auto or ray://HOST:PORT"
    )
    run.add_argument(
        "--num-cpus", metavar="X", type=_parse_amount, default=1.0,
        help="CPUs that Ray reserves for each worker",
    )  # fmt: skip
    run.add_argument(
        "--memory", metavar="BYTES", type=positive,
        help="bytes of memory that Ray reserves for each worker",
    )  # fmt: skip
    run.add_argument(
        "--resource", dest="resources", metavar="NAME=X", action="append", default=[],
        type=_parse_resource,
        help="a resource of the cluster that a Ray worker needs; may be repeated",
    )  # fmt: skip


def _add_limits(run: argparse.ArgumentParser) -> None:
    run.add_argument("--concurrency", metavar="N", type=positive, help="how many tasks run at once")
    run.add_argument(
        "--max-tokens", metavar="N", type=positive, help="stop the fleet when all tasks used N"
    )
    run.add_argument(
        "--time-limit", metavar="S", type=_parse_seconds,
        help="stop the fleet after this many seconds",
    )  # fmt: skip
    run.add_argument(
        "--task-time-limit", metavar="S", type=_parse_seconds,
        help="end a task without a time_limit after this many seconds (default: 3600)",
    )  # fmt: skip
    run.add_argument(
        "--attempts", metavar="N", type=positive, default=3,
        help="try a task at most N times if its model is overloaded or its agent or worker is lost "
        "(default: 3)",
    )  # fmt: skip


def _parse_amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not math.isfinite(number) or number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return number


def _parse_seconds(text: str) -> float:
    number = _parse_amount(text)
    if not number:
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return number


def _parse_resource(text: str) -> tuple[str, float]:
    name, equals, amount = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=X")
    return name, _parse_amount(amount)


DOCTOR_DESCRIPTION: Final = (
    "Check Python, the Codex binary, its home, configuration, login, sandbox and MCP servers, and "
    "print advice for each problem. The doctor asks Codex in a copy of its home, writes nothing to "
    "yours, and prints no secret. It starts the configured MCP servers, as each session does. "
    "Every check has a time limit, and all together have a minute."
)
DOCTOR_EPILOG: Final = (
    "exit codes: 0 no problem (warnings allowed), 1 a problem, 2 usage, 130 Ctrl-C"
)


def doctor_parser() -> argparse.ArgumentParser:
    from codex_acp.cli.editors import EDITORS

    parser = parser_of("doctor", description=DOCTOR_DESCRIPTION, epilog=DOCTOR_EPILOG)
    add_flag(
        parser,
        "--turn",
        "run a whole prompt turn too: the real Codex, a scripted model on this machine and a "
        "throw-away home; no account, no cost",
    )
    parser.add_argument(
        "--editor", metavar="NAME", choices=tuple(EDITORS),
        help="print the settings to paste into an editor, and check nothing unless --turn or "
        f"--json is given: {', '.join(EDITORS)}",
    )  # fmt: skip
    add_flag(parser, "--json", "print one JSON object for programs")
    add_codex(parser)
    return parser
