"""Write the lines and questions about a directory that nobody has trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex.threads.opening import git_programs_refusal
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    PermissionOption,
    PermissionQuestion,
    ToolCallChanged,
    announcement,
)
from codex_acp.routing.display import TITLE_LIMIT, code_span, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.codex.threads.opening import GitProgram
    from codex_acp.mapping.events import ToolCallAnnounced

RUN: Final = "run_git_programs"
REFUSE: Final = "refuse_git_programs"


def left_out_line(found: Sequence[tuple[str, Sequence[str]]], root: str) -> str:
    """Return the line about folders that Codex leaves out, and how to change that."""
    what = "; ".join(f"{', '.join(words)} in {visible(folder)}" for folder, words in found)
    return (
        f"This directory is not trusted, so Codex leaves out what it brings: {what}. If you trust "
        'it, set the option "Trust this directory" of this session, or start the agent with '
        f"--trust {visible(root)}"
    )


def linked_line(links: Sequence[tuple[str, str]]) -> str:
    """Say which files of instructions lead out of the directory, and that the model gets them."""
    what = "; ".join(f"{visible(path)} is a link to {visible(target)}" for path, target in links)
    return f"Codex gives the model a file from outside of this directory as instructions: {what}"


def unrestored_line(reason: str) -> str:
    """The sandbox that is configured could not be given to a new session."""
    return (
        "This session is read-only: Codex did not give it the sandbox that you have configured "
        f"({visible(reason)}). Choose a mode to change that."
    )


def programs_question(
    session_id: str, call_id: str, directory: str, programs: Sequence[GitProgram]
) -> tuple[ToolCallAnnounced, PermissionQuestion] | None:
    """Return the tool call and the question whether git may run these; None: too much to be seen.

    The kind is none that a policy permits by itself.
    """
    named = ", ".join(_code(each.value if each.key else each.file) for each in programs)
    title = f"Let git run what {_code(directory)} brings, outside of the sandbox: {named}"
    lines = [
        f"- {_code(each.key)} in {_code(each.file)}: {_code(each.value)}"
        if each.key
        else f"- {_code(each.file)} can name any program: {visible(each.value)}"
        for each in programs
    ]
    if len(title) > TITLE_LIMIT:
        return None
    content = [
        TextBlock(
            "Codex looks at this directory with git, outside of any sandbox. The configuration "
            "of git that came with the directory names programs, which run then, as you:\n\n"
            + "\n".join(lines)
            + "\n\nYou agree to these words. A program that lies in this directory runs as it is "
            "by then: whatever a session may write to it runs, too."
        )
    ]
    brings = [
        {"file": visible(each.file), "key": visible(each.key), "command": visible(each.value)}
        for each in programs
    ]
    raw_input = {"directory": visible(directory), "programs": brings}
    shown = ToolCallChanged(
        id=call_id,
        title=title,
        kind="other",
        status="pending",
        content=content,
        raw_input=raw_input,
    )
    options = (
        PermissionOption(
            RUN,
            "Yes, in this directory, until the agent ends or that configuration changes",
            "allow_always",
        ),
        PermissionOption(REFUSE, "No, do nothing here", "reject_once"),
    )
    return announcement(shown, content), PermissionQuestion(session_id, shown, options)


def programs_refused(directory: str, root: str, programs: Sequence[GitProgram]) -> str:
    """Return why nothing is done there, and how to change that."""
    how = f'set the option "Trust this directory", or start the agent with --trust {visible(root)}'
    return git_programs_refusal(directory, programs, how)


def _code(text: str) -> str:
    return code_span(visible(text) or " ")
