"""A command as a tool call: what ran, its output, its exit code.

Source: Codex schema ``CommandExecutionThreadItem``; ACP page "Tool calls". For a client that shows
terminals of the agent the content is one, whose id is the tool call's; for all others it is text.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.call import UNFINISHED, Call, Ending, Phase, ending, named, structured
from codex_acp.mapping.events.content import CallContent, Location, TerminalContent
from codex_acp.mapping.events.session_events import (
    CallKind,
    Severity,
    TerminalExit,
    TerminalState,
    tool_call_id,
)
from codex_acp.mapping.prompt.content_blocks import output_block
from codex_acp.routing.changes import real_paths
from codex_acp.routing.content import CONTENT_LIMIT, code_content, text_content
from codex_acp.routing.display import TITLE_LIMIT, inline, listed, visible
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.routing.changes import Looks

_IN_A_SHELL: Final = re.compile(r"(?:/[\w./+-]*/)?(?:ba|da|fi|k|z)?sh -(?:l|i|li)?c ", re.ASCII)
"""How a command begins that Codex runs in a shell."""

_UNQUOTED_LIMIT: Final = 16 * 1024
"""Characters; `shlex` needs a second and a half for a megabyte."""


def command_call(
    item: models.CommandExecutionThreadItem,
    phase: Phase,
    looks: Looks,
    *,
    terminal: bool = False,
    streamed: str | None = None,
) -> Call:
    """The tool call of a command. ``looks``: how the disk has where it runs, if it was looked at.

    ``streamed`` stands in for the output of an item that has none; ``terminal``: the client shows
    the output in a terminal of its own.
    """
    whole = item.aggregated_output
    output = streamed if whole is None else whole
    end = _ending(item, phase)
    content = command_content(item, terminal=terminal)
    if output and not terminal:
        content.append(output_block(output))
    if phase != "running":
        content += [] if terminal else _exit_line(item)
        content += end.content
    return Call(
        id=tool_call_id(item.id),
        title=_wording(item) or _shown(script_of(item.command)),
        kind=_kind(item.command_actions),
        status=end.status,
        content=content,
        locations=[Location(path) for path in _paths(item)],
        raw_input={
            "command": item.command,
            "cwd": item.cwd,
            "source": item.source,
            **_real_cwd(item, looks),
        },
        raw_output=structured(exitCode=item.exit_code, durationMs=item.duration_ms),
    )


def command_content(
    item: models.CommandExecutionThreadItem, *, terminal: bool = False, limit: int = CONTENT_LIMIT
) -> list[CallContent]:
    """Return the content before the output: the command, unless the title is just that.

    At most ``limit`` characters of it.
    """
    if terminal:
        return [TerminalContent(tool_call_id(item.id))]
    script = script_of(item.command)
    if _wording(item) is None and visible(script) == script and len(script) <= TITLE_LIMIT:
        return []
    return [code_content(script, "sh", limit=limit)]


def script_of(command: str) -> str:
    """The command without the shell that Codex starts for it (``/bin/bash -lc '…'``)."""
    found = _IN_A_SHELL.match(command)
    if found is None:
        return command
    quoted = command[found.end() :]
    inner = quoted[1:-1]
    if len(quoted) > 1 and quoted[0] == quoted[-1] == "'" and "'" not in inner:
        return inner if inner.strip() else command
    if len(quoted) > _UNQUOTED_LIMIT:
        return command
    try:
        words = shlex.split(quoted)
    except ValueError:
        return command
    return words[0] if len(words) == 1 and words[0].strip() else command


def terminal_state(
    item: models.CommandExecutionThreadItem,
    *,
    begins: bool = False,
    output: str | None = None,
    ended: bool = False,
) -> TerminalState | None:
    """Return the change of the command's terminal, which has the tool call's id; None: none.

    With an output, also an empty one, where it ``begins`` a client has none of before.
    """
    if not (begins or output or ended):
        return None
    return TerminalState(
        tool_call_id(item.id),
        cwd=item.cwd if begins else None,
        command=visible(item.command, multiline=True) if begins else None,
        output=output if begins else output or None,
        exit=TerminalExit(item.exit_code) if ended else None,
    )


def runs_on(item: models.CommandExecutionThreadItem) -> str:
    """That the command goes on although its turn has ended, and what can be done about it."""
    process = inline(item.process_id or "")
    return f"Runs on in the background. `/ps` lists what does, `/stop {process}` ends it."


def ended_in_background(item: models.CommandExecutionThreadItem) -> tuple[str, Severity, str]:
    """That it has ended: a title, how much it matters, and the command."""
    how = "" if item.exit_code is None else f" with exit code {item.exit_code}"
    return f"A command in the background has ended{how}", "info", script_of(item.command)


def _real_cwd(item: models.CommandExecutionThreadItem, looks: Looks) -> dict[str, object]:
    places = real_paths({item.cwd: looks[item.cwd]}) if item.cwd in looks else {}
    return {"realPaths": places} if places else {}


def _ending(item: models.CommandExecutionThreadItem, phase: Phase) -> Ending:
    end = ending(item.status, phase)
    if end.line != UNFINISHED:
        return end
    # Codex lets the process of an interrupted command live on.
    process = "" if item.process_id is None else f" (process {inline(item.process_id)})"
    return Ending(
        end.status, f"{UNFINISHED} Its process may still run as a background terminal{process}."
    )


def _exit_line(item: models.CommandExecutionThreadItem) -> list[CallContent]:
    return [] if item.exit_code is None else [text_content(f"Exit code: {item.exit_code}")]


def _shown(script: str) -> str:
    return inline(script) or "(no command given)"


def _kind(actions: Sequence[models.CommandAction]) -> CallKind:
    if actions and all(isinstance(action, models.ReadCommandAction) for action in actions):
        return "read"
    if actions and all(
        isinstance(action, models.SearchCommandAction | models.ListFilesCommandAction)
        for action in actions
    ):
        return "search"
    return "execute"


def _wording(item: models.CommandExecutionThreadItem) -> str | None:
    """Return a command's work in words, if it only reads or only searches."""
    actions = item.command_actions
    if _kind(actions) == "execute":
        return None
    reads = [action.name for action in actions if isinstance(action, models.ReadCommandAction)]
    if reads:
        return named("Read", list(dict.fromkeys(reads)), "files")
    return listed(list(dict.fromkeys(_searched(action) for action in actions)))


def _searched(action: models.CommandAction) -> str:
    where = getattr(action, "path", None)
    place = f" in {inline(where)}" if where else ""
    if isinstance(action, models.SearchCommandAction):
        what = f" for {inline(action.query)}" if action.query else ""
        return f"Search{what}{place}"
    return f"List files{place}"


def _paths(item: models.CommandExecutionThreadItem) -> list[str]:
    """Absolute paths that the command reads or searches."""
    paths: list[str] = []
    for action in item.command_actions:
        if isinstance(action, models.UnknownCommandAction | UnknownVariant) or not action.path:
            continue
        path = action.path
        paths.append(path if path.startswith("/") else f"{item.cwd.rstrip('/')}/{path}")
    return list(dict.fromkeys(paths))
