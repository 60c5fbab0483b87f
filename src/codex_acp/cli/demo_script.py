"""What the scripted model of ``codex-acp-sdk demo`` says, and what the client must receive.

Pure data. Must not know how it travels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.testing import Reasoning, Text, exec_command

if TYPE_CHECKING:
    from codex_acp.testing import Step

__all__ = ["COMMAND", "EXPECTED_MESSAGES", "PROMPT", "SCRIPT", "WORKSPACE_FILES"]

PROMPT: Final = "What is in this directory?"

COMMAND: Final = "ls -1"
"""Harmless, and run by Codex itself in its read-only sandbox."""

WORKSPACE_FILES: Final = {
    "hello.py": 'print("hello")\n',
    "notes.md": "# Notes\n\nMade by codex-acp-sdk demo.\n",
}
"""File name → content, put into the throw-away workspace before the turn."""

DELTA_PAUSE: Final = 0.06
"""Seconds between two deltas: about the pace of a real model, so that streaming is visible."""


def _words(text: str) -> Text:
    """The text, a delta a word."""
    return Text(
        *(f"{word} " for word in text.split()[:-1]), text.rsplit(maxsplit=1)[-1], pause=DELTA_PAUSE
    )


_FIRST: Final = _words("I will list the files of the workspace first.")

_LAST: Final = _words(
    "There are two files: hello.py, a program of one line, and notes.md, some notes. "
    "Every word of this came from a scripted model, through the Codex app-server and the "
    "adapter, one update at a time."
)

SCRIPT: Final[tuple[tuple[Step, ...], ...]] = (
    (
        Reasoning("The person wants to know ", "what is here; ls tells.", pause=DELTA_PAUSE),
        _FIRST,
        exec_command(COMMAND),
    ),
    (_LAST,),
)
"""Two responses: the second answers the request that carries the command's output."""

EXPECTED_MESSAGES: Final = tuple("".join(message.deltas) for message in (_FIRST, _LAST))
"""The text of each message that the client must receive, in order."""
