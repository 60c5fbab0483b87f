"""A tool call as it is to be shown, whole, and the two events that can tell of it.

Owns how an item's state becomes a tool call's status. Must not know what kind of item it is.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from codex_acp._record import names_of, record
from codex_acp.codex._generated import models
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import ToolCallAnnounced, ToolCallChanged
from codex_acp.routing.display import inline
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.content import CallContent, Location
    from codex_acp.mapping.events import CallKind, CallStatus, TerminalState
    from codex_acp.routing.changes import Looks

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
        return [] if self.line is None else [TextBlock(self.line)]


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


# The output of a running tool call: its end as it grows, and all of it for the end.

TAIL_LIMIT: Final = 64 * 1024
"""Bytes (UTF-8) of the end of the output that one update shows."""
SHORT_TAIL: Final = 2 * 1024
"""Bytes of it that an update shows at least, if there are as many: some 25 lines."""
WHOLE_LIMIT: Final = 1024 * 1024
"""Bytes of output that are shown at the end, and kept for it."""
INTERVAL: Final = 0.25
"""Seconds between two updates: more than four a second only make a client flicker."""
EARNED_PER_BYTE: Final = 8
"""Bytes that may be sent for each byte of output."""
FIRST_CREDIT: Final = 64 * 1024
"""Bytes that may be sent before: short output is then shown whole at every update."""
UPDATE_COST: Final = 512
"""Bytes that an update takes besides the output; the true size is about half of it."""
_PIECES_KEPT: Final = 1024
"""Pieces that are kept apart; then they are joined, so that tiny ones cost no more than others."""


@record
class Budget:
    """How much may be sent, and how often."""

    credit: int = FIRST_CREDIT
    sent_at: float | None = None

    def earn(self, size: int) -> None:
        """``size`` bytes came."""
        self.credit += EARNED_PER_BYTE * size

    def due_at(self, cost: int, now: float) -> float | None:
        """When an update of ``cost`` bytes may be sent; None: not before more came."""
        if self.credit < cost:
            return None
        return now if self.sent_at is None else self.sent_at + INTERVAL

    def spend(self, cost: int, now: float) -> None:
        """An update of ``cost`` bytes was sent."""
        self.credit -= cost
        self.sent_at = now


@record
class RollingOutput:
    """Output as it comes. Sizes are bytes of UTF-8."""

    size: int = 0
    """All that came."""
    budget: Budget = field(default_factory=Budget)
    waiting: bool = False
    """Whether something came that was not sent."""
    shown: bool = False
    """Whether any of it was sent."""
    _pieces: list[str] = field(default_factory=list)
    _kept: int = 0
    _characters: int = 0

    def add(self, text: str) -> None:
        """More output came."""
        size = size_of_text(text)
        self.size += size
        self._characters += len(text)
        self._kept += size
        self._pieces.append(text)
        self.budget.earn(size)
        self.waiting = True
        if self._kept > 2 * WHOLE_LIMIT or len(self._pieces) > _PIECES_KEPT:
            text = "".join(self._pieces)
            if self._kept > 2 * WHOLE_LIMIT:
                text = _last_part(text, WHOLE_LIMIT)
            self._kept = size_of_text(text)
            self._pieces = [text]

    def due_at(self, now: float, around: int = 0) -> float | None:
        """When the end of the output wants to be sent; None: not before more came.

        ``around`` is the size of what is sent with it.
        """
        if not self.waiting:
            return None
        return self.budget.due_at(UPDATE_COST + around + min(self.size, SHORT_TAIL), now)

    def take(self, now: float, around: int = 0) -> str:
        """The end of the output, as long as may be sent now; it counts as sent."""
        limit = min(TAIL_LIMIT, self.budget.credit - UPDATE_COST - around)
        text = self._end_of(limit)
        self.budget.spend(UPDATE_COST + around + size_of_text(text), now)
        self.waiting = False
        self.shown = True
        return self._with_cut(text)

    def last(self) -> str:
        """The end of the output once more, outside of the budget: for one update only."""
        return self._with_cut(self._end_of(TAIL_LIMIT))

    def whole(self) -> str:
        """All of it, or as much of its end as is shown at all, with a word about the cut."""
        return self._with_cut(self._end_of(WHOLE_LIMIT))

    def _end_of(self, limit: int) -> str:
        found: list[str] = []
        size = 0
        for piece in reversed(self._pieces):
            found.append(piece)
            size += size_of_text(piece)
            if size > limit:
                break
        return _last_part("".join(reversed(found)), limit)

    def _with_cut(self, text: str) -> str:
        return _with_note(text, self._characters - len(text))


def whole_text(text: str) -> str:
    """Output that is known whole, cut to `WHOLE_LIMIT` as `RollingOutput.whole` does."""
    end = _last_part(text, WHOLE_LIMIT)
    return _with_note(end, len(text) - len(end))


def _with_note(text: str, cut: int) -> str:
    return f"[… {cut:,} earlier characters not shown]\n{text}" if cut else text


def size_of_text(text: str) -> int:
    """Bytes of it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _last_part(text: str, limit: int) -> str:
    """The end of ``text`` in ``limit`` bytes; from the beginning of a line if one is near."""
    if size_of_text(text) <= limit:
        return text
    raw = text[-limit:].encode("utf-8", "surrogatepass")[-limit:] if limit > 0 else b""
    end = raw.decode("utf-8", "ignore")
    line = end.find("\n") + 1
    return end[line:] if 0 < line <= len(end) // 2 else end


# Which items are tool calls, and what is remembered of one until its end.

ToolItem: TypeAlias = (
    models.CommandExecutionThreadItem
    | models.FileChangeThreadItem
    | models.McpToolCallThreadItem
    | models.DynamicToolCallThreadItem
    | models.FunctionCallOutputThreadItem
    | models.CollabAgentToolCallThreadItem
    | models.SubAgentActivityThreadItem
    | models.WebSearchThreadItem
    | models.ImageViewThreadItem
    | models.ImageGenerationThreadItem
    | models.FileIdImageGenerationThreadItem
    | models.SleepThreadItem
    | UnknownVariant
)
"""The members of ``ThreadItem`` that are shown as tool calls."""


@record
class OpenCall:
    """A tool call that was announced and has not ended."""

    item: ToolItem | None = None
    """As Codex last reported it; None of a call that only an approval announced."""

    content: Sequence[CallContent] = ()
    """Content of the item, without updates of its run."""

    output: RollingOutput = field(default_factory=RollingOutput)
    """Of a command its output, of an MCP call the lines of its progress."""

    pending: bool = False
    """Whether it was last said to wait for an approval."""

    about: object = None
    """Raw input of the announcement, of a call that only an approval announced."""

    asked: bool = False
    """Whether an approval was asked for, which may have shown other content in place of this."""

    looks: Looks = field(default_factory=dict)
    """How the disk had the files that a change makes or moves, and where a command runs."""

    changes: Budget = field(default_factory=Budget)
    """How often the diffs of a file change that is being written may be sent."""

    changes_cost: int = 0
    """Bytes that the diffs cost which were not sent; 0: there are none."""

    above: Sequence[CallContent] = ()
    """Content above the end of the output, cut; made once, because each update repeats it."""

    above_size: int = 0
    """Bytes of it."""
