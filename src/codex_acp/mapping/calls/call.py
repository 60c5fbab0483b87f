"""A tool call as it is to be shown, whole, and the two events that can tell of it.

Owns how an item's state becomes a tool call's status. Must not know what kind of item it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from codex_acp._record import names_of, record
from codex_acp.mapping.events.session_events import ToolCallAnnounced, ToolCallChanged
from codex_acp.routing.content import text_content
from codex_acp.routing.display import inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.events.content import CallContent, Location
    from codex_acp.mapping.events.session_events import CallKind, CallStatus, TerminalState

Phase: TypeAlias = Literal["running", "over", "cut_off"]
"""Where an item stands: it may still change, it will not, or its turn ended before it did."""

UNFINISHED: Final = "The turn ended before this did."
"""Said of a tool call that has no end of its own."""

_NAMES_SHOWN: Final = 5
"""Names that a title lists; the rest is counted, and every one stands in the locations."""

_NAME_LIMIT: Final = 500
"""Characters of one of them: the longest name of a file has 255."""


class Ending(NamedTuple):
    """The status of a tool call, and the line that says what the status cannot."""

    status: CallStatus
    line: str | None = None

    @property
    def content(self) -> list[CallContent]:
        """The line as content; nothing if there is none."""
        return [] if self.line is None else [text_content(self.line)]


@record(frozen=True, kw_only=True)
class Call:
    """A tool call with everything it shows."""

    id: str
    title: str
    """Markdown of ours, one line; what others wrote in it is code."""
    kind: CallKind
    status: CallStatus
    raw_input: object
    raw_output: object = None
    """Structured part of the result; its text stands in the content, once."""
    content: Sequence[CallContent] = ()
    locations: Sequence[Location] = ()
    name: str | None = None
    """The tool's name for programs, where Codex gives one."""


def as_tool_call(
    call: Call, terminal: TerminalState | None = None, *, stoppable: bool | None = None
) -> ToolCallAnnounced:
    """The first that a client hears of it."""
    return ToolCallAnnounced(**_fields(call, terminal, stoppable))


def as_update(
    call: Call,
    terminal: TerminalState | None = None,
    *,
    with_status: bool = True,
    with_content: bool = True,
    stoppable: bool | None = None,
) -> ToolCallChanged:
    """All of it anew, whatever a permission request has patched."""
    fields = _fields(call, terminal, stoppable)
    if not with_status:
        del fields["status"]
    if not with_content:
        del fields["content"]
    return ToolCallChanged(**fields)


def _fields(call: Call, terminal: TerminalState | None, stoppable: bool | None) -> dict[str, Any]:
    fields = {name: getattr(call, name) for name in names_of(Call)}
    return {**fields, "terminal": terminal, "stoppable": stoppable}


def structured(**fields: object) -> dict[str, object] | None:
    """Raw input or output of the fields that are known; None if none is."""
    return {name: value for name, value in fields.items() if value is not None} or None


def ending(status: str | None, phase: Phase) -> Ending:
    """The tool call's status for an item's own ``status``; None if its type has none.

    No status says that it was declined, and v1 has none for what was interrupted: a line does.
    """
    if phase == "running":
        return Ending("in_progress")
    if phase == "cut_off":
        return Ending("cancelled", UNFINISHED)
    if status == "failed":
        return Ending("failed")
    if status == "declined":
        return Ending("failed", "Declined: this was not done.")
    if status == "interrupted":
        return Ending("cancelled", "Interrupted before it ended.")
    if status is None or status == "completed":
        return Ending("completed")
    return Ending("failed", f"Codex gives it the status {inline(status)}.")


def named(verb: str, names: Sequence[str], plural: str) -> str:
    """``Edit a.py``, ``Edit 3 files: a.py, b.py, c.py``; ``names`` are others' words."""
    listed = cut_off_list([inline(name, _NAME_LIMIT) for name in names])
    if len(names) == 1:
        return f"{verb} {listed}"
    return f"{verb} {len(names)} {plural}: {listed}" if names else f"{verb} {plural}"


def cut_off_list(shown: Sequence[str]) -> str:
    """Return the first few of names with commas; the rest is counted."""
    more = len(shown) - _NAMES_SHOWN
    return ", ".join(shown[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
