"""The arguments of ``codex-acp-sdk chat``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from codex_acp.cli.run_arguments import AgentOptions, add_agent_arguments, prompt_text

DESCRIPTION: Final = """\
Talk with an ACP agent in the terminal, prompt by prompt. Its permission
requests and forms are asked there, too."""

EPILOG: Final = """\
Ctrl-C cancels what the agent does, a second one ends it at once. At the prompt
Ctrl-C forgets the line, twice leaves; Ctrl-D leaves. Alt-Enter begins a new
line. /help lists the commands, which Tab completes. What was typed is kept for
the user alone in $XDG_STATE_HOME/codex-acp-sdk/history (~/.local/state where
that is not set).

exit codes: 0 left by the person, 1 the agent failed, 2 usage,
129 ended by SIGHUP, 130 ended by Ctrl-C, 143 ended by SIGTERM
"""

CHOOSE: Final = ""
"""Value of ``--resume`` without an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions(AgentOptions):
    """Options of ``chat``."""

    prompt: str | None = None
    """The first prompt."""
    resume: str | None = None
    """The session to go on with; empty: the person chooses one."""
    last: bool = False
    """Whether to go on with the session that was used last."""
    list: bool = False
    """Only list the sessions."""


def add_chat_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that may follow ``chat``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "prompt", nargs="?", type=prompt_text, help="the first prompt; more are asked for"
    )
    add_agent_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume",
        metavar="ID",
        nargs="?",
        const=CHOOSE,
        help="go on with an earlier session; without an id, with one that you choose",
    )
    which.add_argument(
        "--last", action="store_true", help="go on with the latest session of this directory"
    )
    which.add_argument(
        "--list", action="store_true", help="list the sessions of this directory, and exit"
    )
