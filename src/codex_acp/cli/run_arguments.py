"""The arguments of ``codex-acp-sdk run`` and ``chat``, and the exit codes that their help lists."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.cli.argument_values import add_trust
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from codex_acp.runtime import AgentSpec

NOBODY_ASKED: Final = 6
"""The prompt ended as it should, but a permission was rejected because nobody could be asked."""

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
Send one prompt to an ACP agent, and show what comes of it: the agent's text on
standard output, everything else on standard error. Permission requests and
forms are asked on the terminal; where there is none they are rejected."""

EPILOG: Final = """\
Ctrl-C cancels the prompt; a second one ends the agent at once.

exit codes: 0 end_turn, 1 the agent failed, 2 usage, 3 refusal, 4 max_tokens,
5 max_turn_requests, 6 end_turn, but something was rejected because
nobody could be asked, 129 ended by SIGHUP, 130 cancelled, 143 ended by SIGTERM

with --json, standard output has one JSON object a line, by "type":
  session      sessionId, agent, agentInfo, reason, opened ("new", "load" or
               "resume")
  update       sessionId, update: as ACP's session/update has it
  permission   sessionId, request, optionId: the option chosen, null if it was
               rejected
  result       sessionId, stopReason, text
  error        error: its class, message, and code, data or exitCode where there
               is one
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Which agent is used, and how."""

    agent: str = "codex"
    command: str | None = None
    connect: str | None = None
    """The URL of one that listens."""
    token_file: str | None = None
    cwd: str | None = None
    allow: tuple[str, ...] = ()
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    verbose: bool = False
    codex: str | None = None
    """The binary that the agent ``codex`` shall run."""
    trust: tuple[str, ...] = ()
    """Directories that ``codex`` shall trust in this run."""

    @property
    def is_ours(self) -> bool:
        """Whether it is the agent of this package."""
        return self.command is None and self.connect is None and self.agent == "codex"

    def spec(self) -> AgentSpec:
        """How it is started. Raises MisuseError for what cannot be meant."""
        from codex_acp.errors import MisuseError
        from codex_acp.runtime.agent_spec import BUILT_IN, AgentSpec

        if self.connect is None and self.token_file is not None:
            msg = "--token-file is for --connect"
        elif self.connect is None and self.cwd is not None and not Path(self.cwd).is_dir():
            msg = f"{self.cwd!r} is no directory"
        elif self.trust and not self.is_ours:
            msg = "--trust is for the agent codex; give another agent its own option"
        elif self.codex is not None and not self.is_ours:
            msg = "--codex is for the agent codex; give another agent its own option"
        elif self.connect is not None:
            from codex_acp.transcript.given_values import secrets_in
            from codex_acp.transcript.secrets import remember_secrets

            remember_secrets(secrets_in(self.connect))
            return AgentSpec.remote(self.connect, remote_token(self.token_file))
        elif self.command is not None:
            return AgentSpec.parse(self.command)
        elif self.agent not in BUILT_IN:
            msg = f"there is no agent {self.agent!r}; known are {', '.join(sorted(BUILT_IN))}"
        elif self.trust or self.codex is not None:
            binary = () if self.codex is None else ("--codex", self.codex)
            return AgentSpec.codex(
                *binary, *(word for each in self.trust for word in ("--trust", each))
            )
        else:
            return BUILT_IN[self.agent]
        raise MisuseError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(AgentOptions):
    """Options of ``run``."""

    prompt: str
    session: str | None = None
    json: bool = False


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that may follow ``run``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "prompt", type=prompt_text, help="the text of the prompt; - reads it from standard input"
    )
    add_agent_arguments(parser)
    parser.add_argument(
        "--session", metavar="ID", help="go on with an earlier session; a new one if it is gone"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line, and no questions"
    )


def prompt_text(argument: str) -> str:
    """An argument as text, whatever this process takes for the encoding of its arguments."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError:
        message = "it is not UTF-8"
        raise argparse.ArgumentTypeError(message) from None


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `AgentOptions`."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--agent", metavar="NAME", help="codex (default) or claude (by npx)")
    which.add_argument(
        "--command", metavar="LINE", help="any agent: its command, split into words as a shell does"
    )
    which.add_argument(
        "--connect", metavar="URL", help="one that listens, at ws://, wss://, http:// or https://"
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="the token for --connect (or the environment variable CODEX_ACP_TOKEN)",
    )
    parser.add_argument("--cwd", metavar="DIR", help="where it works (default: here)")
    add_trust(parser)
    add_allow(parser)
    parser.add_argument("--model", metavar="ID", help="set the session's model first")
    parser.add_argument("--mode", metavar="ID", help="set the session's mode first")
    parser.add_argument("--effort", metavar="ID", help="set the session's thought level first")
    parser.add_argument(
        "--verbose", action="store_true", help="show outputs whole, thoughts, and inputs as JSON"
    )


def add_allow(parser: argparse.ArgumentParser) -> None:
    """``--allow KINDS``, as often as needed."""
    parser.add_argument(
        "--allow",
        metavar="KINDS",
        action="extend",
        default=[],
        type=_kinds,
        help="permit tool calls of these kinds once each, without asking; e.g. read,search; "
        f"kinds: {', '.join(KINDS)}, or all",
    )


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(word.strip() for word in text.split(","))
    if kinds == ("all",):
        return KINDS
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        message = f"{', '.join(map(repr, unknown))} is no kind; use {', '.join(KINDS)} or all"
        raise argparse.ArgumentTypeError(message)
    return kinds


def remote_token(file: str | None) -> str | None:
    """The token of the file's first line, with or without a name; None if there is no token.

    Taken out of the environment, which agents and their commands inherit. Raises MisuseError.
    """
    from codex_acp.cli.own_secrets import take_token

    found = take_token()
    if file is None:
        return _told(found) if found else None
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise MisuseError(f"the token file {file!r} cannot be read: {why}") from error
    words = next((line.split() for line in lines if line.strip() and line[0] != "#"), [])
    if not words:
        raise MisuseError(f"the token file {file!r} has no token")
    return _told(words[0] if len(words) == 1 else words[1])


def _told(token: str) -> str:
    """It is taken out of what the other side says of it."""
    from codex_acp.transcript.secrets import remember_secrets

    remember_secrets([token])
    return token
