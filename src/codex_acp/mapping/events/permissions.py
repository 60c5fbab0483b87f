"""A question whether one action may run, of no version of ACP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp._record import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.events.session_events import ToolCallChanged

OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""Effect of an option, and for how long."""


@record(frozen=True)
class PermissionOption:
    """One thing that a person can choose."""

    option_id: str
    name: str
    kind: OptionKind


@record(frozen=True)
class CommandSubject:
    """The command that a question is about, as it runs, and where."""

    command: str
    cwd: str


@record(frozen=True)
class PermissionQuestion:
    """The question of one approval."""

    session_id: str
    shown: ToolCallChanged
    """The tool call that it is about; stands alone, for a client with no optional capability."""
    options: Sequence[PermissionOption]
    reason: str | None = None
    """Why it is asked, in the words of who asks: Markdown of ours, in which they are code."""
    command: CommandSubject | None = None
    """Of a command's approval, if there is no more to it and all of it can be seen as it is."""
