"""The arguments of ``codex-acp-sdk run``, and the exit codes that its help lists."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from codex_acp.cli.directories import add_trust

__all__ = [
    "EXIT_CODES",
    "FAILED",
    "KINDS",
    "RunOptions",
    "USAGE",
    "add_run_arguments",
    "kinds_of",
    "run_options",
]

FAILED: Final = 1
"""The agent could not be started, died, or answered with an error."""

USAGE: Final = 2
"""Arguments that make no sense; the same as the parser's."""

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
"""The kinds of tool calls that ACP has; a test compares them with the schema's."""

DESCRIPTION: Final = """\
Send one prompt to an ACP agent, and show what comes of it: the agent's text on standard output,
everything else on standard error. Permission requests and forms are asked on the terminal; where
there is none they are rejected."""

EPILOG: Final = """\
Ctrl-C cancels the prompt; a second one ends the agent at once.

exit codes: 0 end_turn, 1 the agent failed, 2 usage, 3 refusal, 4 max_tokens,
5 max_turn_requests, 130 cancelled, 143 ended by SIGTERM

with --json, standard output has one JSON object a line, by "type":
  session      sessionId, agent, agentInfo, opened ("new", "load" or "resume"), reason
  update       sessionId, update: as ACP's session/update has it
  permission   sessionId, request, optionId: the option chosen, null if it was rejected
  result       sessionId, stopReason, text
  error        error: its class, message, and code, data or exitCode where there is one
"""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What ``run`` is to do."""

    prompt: str
    agent: str = "codex"
    command: str | None = None
    cwd: str | None = None
    session: str | None = None
    allow: tuple[str, ...] = ()
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    json: bool = False
    trust: tuple[str, ...] = ()
    """Directories that ``codex`` shall trust in this run."""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that may follow ``run``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("prompt", help="the text of the prompt; - reads it from standard input")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--agent", metavar="NAME", help="codex (default) or claude (by npx)")
    which.add_argument(
        "--command", metavar="LINE", help="any agent: its command, split into words as a shell does"
    )
    parser.add_argument("--cwd", metavar="DIR", help="where it works (default: here)")
    add_trust(parser)
    parser.add_argument(
        "--session", metavar="ID", help="go on with an earlier session; a new one if it is gone"
    )
    parser.add_argument(
        "--allow",
        metavar="KINDS",
        action="append",
        default=[],
        type=kinds_of,
        help="permit tool calls of these kinds once each, without asking; e.g. read,search; "
        f"kinds: {', '.join(KINDS)}, or all",
    )
    parser.add_argument("--model", metavar="ID", help="set the session's model first")
    parser.add_argument("--mode", metavar="ID", help="set the session's mode first")
    parser.add_argument("--effort", metavar="ID", help="set the session's thought level first")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line, and no questions"
    )


def run_options(parsed: argparse.Namespace) -> RunOptions:
    """The parsed arguments."""
    return RunOptions(
        prompt=parsed.prompt,
        agent=parsed.agent or "codex",  # a default would not count as given beside --command
        command=parsed.command,
        cwd=parsed.cwd,
        session=parsed.session,
        allow=tuple(kind for kinds in parsed.allow for kind in kinds),
        model=parsed.model,
        mode=parsed.mode,
        effort=parsed.effort,
        json=parsed.json,
        trust=tuple(parsed.trust),
    )


def kinds_of(text: str) -> tuple[str, ...]:
    kinds = tuple(word.strip() for word in text.split(","))
    if kinds == ("all",):
        return KINDS
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        message = f"{', '.join(map(repr, unknown))} is no kind; use {', '.join(KINDS)} or all"
        raise argparse.ArgumentTypeError(message)
    return kinds
