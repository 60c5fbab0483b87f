"""What a person is told of a directory that nobody has trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Sequence


def left_out_line(found: Sequence[tuple[str, Sequence[str]]], root: str) -> str:
    """What of it Codex leaves out (folders, and what each brings), and how to change that."""
    what = "; ".join(f"{', '.join(words)} in {visible(folder)}" for folder, words in found)
    return (
        f"This directory is not trusted, so Codex leaves out what it brings: {what}. If you trust "
        'it, set the option "Trust this directory" of this session, or start the agent with '
        f"--trust {visible(root)}"
    )


def unrestored_line(reason: str) -> str:
    """The sandbox that is configured could not be given to a new session."""
    return (
        "This session is read-only: Codex did not give it the sandbox that you have configured "
        f"({visible(reason)}). Choose a mode to change that."
    )
