"""Write the notices and the question about a directory that is not trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex.threads.opening import git_programs_refusal
from codex_acp.mapping import events
from codex_acp.mapping.content import TextBlock
from codex_acp.routing.display import TITLE_LIMIT, code_span, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.codex.threads.opening import GitProgram

RUN: Final = "run_git_programs"
REFUSE: Final = "refuse_git_programs"


def left_out_line(found: Sequence[tuple[str, Sequence[str]]], root: str) -> str:
    """Return the notice that Codex ignores the configuration in folders, and how to change that.
    ``found``: folder → kinds of configuration in it. ``root`` is the directory to trust."""
    what = "; ".join(f"{', '.join(words)} in {visible(folder)}" for folder, words in found)
    return (
        f"This directory is not trusted, so Codex leaves out what it brings: {what}. If you trust "
        'it, set the option "Trust this directory" of this session, or start the agent with '
        f"--trust {visible(root)}"
    )


def linked_line(links: Sequence[tuple[str, str]]) -> str:
    """Return the notice that links make files outside of the directory the model's instructions."""
    what = "; ".join(f"{visible(path)} is a link to {visible(target)}" for path, target in links)
    return f"Codex gives the model a file from outside of this directory as instructions: {what}"


def unrestored_line(reason: str) -> str:
    """Return the notice that Codex did not give a new session the configured sandbox."""
    return (
        "This session is read-only: Codex did not give it the sandbox that you have configured "
        f"({visible(reason)}). Choose a mode to change that."
    )


def programs_question(
    session_id: str, call_id: str, directory: str, programs: Sequence[GitProgram]
) -> tuple[events.ToolCallAnnounced, events.PermissionQuestion] | None:
    """Return the tool call and the question whether git may run ``programs``; None if the title
    would be too long. The kind is ``other``, which no policy permits by itself."""
    # A program without a key stands for a whole file, which can name any program.
    names = ", ".join(_code(program.value if program.key else program.file) for program in programs)
    title = f"Let git run what {_code(directory)} brings, outside of the sandbox: {names}"
    if len(title) > TITLE_LIMIT:
        return None
    lines = [
        f"- {_code(program.key)} in {_code(program.file)}: {_code(program.value)}"
        if program.key
        else f"- {_code(program.file)} can name any program: {visible(program.value)}"
        for program in programs
    ]
    # The person agrees to the listed names and commands, not to the content of the programs' files,
    # which may change later.
    content = [
        TextBlock(
            "Codex looks at this directory with git, outside of any sandbox. The configuration "
            "of git that came with the directory names programs, which run then, as you:\n\n"
            + "\n".join(lines)
            + "\n\nYou agree to these words. A program that lies in this directory runs as it is "
            "by then: whatever a session may write to it runs, too."
        )
    ]
    shown_programs = [
        {"file": visible(p.file), "key": visible(p.key), "command": visible(p.value)}
        for p in programs
    ]
    raw_input = {"directory": visible(directory), "programs": shown_programs}
    shown = events.ToolCallChanged(
        id=call_id,
        title=title,
        kind="other",
        status="pending",
        content=content,
        raw_input=raw_input,
    )
    options = (
        events.PermissionOption(
            RUN,
            "Yes, in this directory, until the agent ends or that configuration changes",
            "allow_always",
        ),
        events.PermissionOption(REFUSE, "No, do nothing here", "reject_once"),
    )
    question = events.PermissionQuestion(session_id, shown, options)
    return events.announcement(shown, content), question


def programs_refused(directory: str, root: str, programs: Sequence[GitProgram]) -> str:
    """Return the error of a session that is refused in ``directory``, and how to change that."""
    how = f'set the option "Trust this directory", or start the agent with --trust {visible(root)}'
    return git_programs_refusal(directory, programs, how)


def _code(text: str) -> str:
    return code_span(visible(text) or " ")
