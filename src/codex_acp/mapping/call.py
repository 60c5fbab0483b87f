"""Map the status of an item, define an open tool call, and limit how much of its output is sent.

Apart from `ToolItem`, nothing here depends on the kind of an item.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from codex_acp._json import without_none
from codex_acp._record import NamedTuple, record  # as the standard ones, loaded faster
from codex_acp.codex._generated import models
from codex_acp.mapping.content import TextBlock
from codex_acp.routing.display import inline
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.content import CallContent
    from codex_acp.mapping.events import CallStatus
    from codex_acp.routing.changes import Looks

Phase: TypeAlias = Literal["running", "over", "cut_off"]
"""Stage of an item: it may still change, it has ended, or its turn ended first (``cut_off``)."""
UNFINISHED: Final = "The turn ended before this did."
"""Line of a tool call whose turn ended first."""
_NAMES_SHOWN: Final = 5
"""Names that a title lists; further names are only counted. The locations have all of them."""


class ShownStatus(NamedTuple):
    """The status of a tool call, and a line for a fact that no status expresses."""

    status: CallStatus
    line: str | None = None

    @property
    def content(self) -> list[CallContent]:
        """The line as content of the tool call; empty without a line."""
        return [] if self.line is None else [TextBlock(self.line)]


def known_fields(**fields: object) -> dict[str, object] | None:
    """Return the fields that are not None, as raw input or output; None if there are none."""
    return without_none(fields) or None


def shown_status(status: str | None, phase: Phase) -> ShownStatus:
    """Return the status of a tool call. ``status`` is the status of the item, None if items of this
    type have none. ACP has no status for declined, and v1 none for interrupted: a line says so."""
    if phase == "running":
        return ShownStatus("in_progress")
    if phase == "cut_off":
        return ShownStatus("cancelled", UNFINISHED)
    if status == "failed":
        return ShownStatus("failed")
    if status == "declined":
        return ShownStatus("failed", "Declined: this was not done.")
    if status == "interrupted":
        return ShownStatus("cancelled", "Interrupted before it ended.")
    if status is None or status == "completed":
        return ShownStatus("completed")
    return ShownStatus("failed", f"Codex gives it the status {inline(status)}.")


def first_names(names: Sequence[str]) -> str:
    """Join the first names with commas; count the others."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


# The output of a running tool call: each update shows the end of the output, and the last update
# shows all output that is kept.

TAIL_LIMIT: Final = 64 * 1024
"""Bytes (UTF-8) of the last output that one update shows at most."""
SHORT_TAIL: Final = 2 * 1024
"""Bytes that one update of a longer output shows at least: about 25 lines."""
WHOLE_LIMIT: Final = 1024 * 1024
"""Bytes of the last output that are kept, and shown when the tool call ends."""
INTERVAL: Final = 0.25
"""Seconds between two updates: more than four per second only make a client flicker."""
EARNED_PER_BYTE: Final = 8
"""Bytes that may be sent for each byte of output, because each update repeats the last part."""
FIRST_CREDIT: Final = 64 * 1024
"""Bytes that may be sent at the start: so each update shows all output while this is short."""
OVERHEAD_BYTES: Final = 512
"""Bytes that are charged for an update besides the output: about twice the real number."""
_PIECES_KEPT: Final = 1024
"""Pieces of output that are kept apart; more are joined, because each piece takes memory."""


@record
class Budget:
    """Limit on how many bytes are sent, and how often: output earns credit, updates spend it."""

    credit: int = FIRST_CREDIT
    """Bytes that may be sent."""
    sent_at: float | None = None
    """Time of the last update: seconds of a monotonic clock, as all times here."""

    def earn(self, size: int) -> None:
        """Raise the credit for ``size`` bytes of output."""
        self.credit += EARNED_PER_BYTE * size

    def due_at(self, cost: int, now: float) -> float | None:
        """Return when an update of ``cost`` bytes may be sent; None: not before more output."""
        if self.credit < cost:
            return None
        return now if self.sent_at is None else self.sent_at + INTERVAL

    def spend(self, cost: int, now: float) -> None:
        """Note that an update of ``cost`` bytes was sent."""
        self.credit -= cost
        self.sent_at = now


@record
class RollingOutput:
    """The end of a running tool call's output. Sizes are bytes of UTF-8."""

    size: int = 0
    """Size of all output, kept or not."""
    budget: Budget = field(default_factory=Budget)
    has_unsent: bool = False
    """Whether some output was not sent yet."""
    was_shown: bool = False
    """Whether an update has shown output."""
    _pieces: list[str] = field(default_factory=list)
    _kept_size: int = 0
    """Size of ``_pieces``; up to twice `WHOLE_LIMIT`, so that they are seldom cut."""
    _characters: int = 0
    """Characters of all output, kept or not."""

    def add(self, text: str) -> None:
        """Add output; drop the oldest output if too much is kept."""
        size = size_of_text(text)
        self.size += size
        self._characters += len(text)
        self._kept_size += size
        self._pieces.append(text)
        self.budget.earn(size)
        self.has_unsent = True
        if self._kept_size > 2 * WHOLE_LIMIT or len(self._pieces) > _PIECES_KEPT:
            text = "".join(self._pieces)
            if self._kept_size > 2 * WHOLE_LIMIT:
                text = _last_part(text, WHOLE_LIMIT)
            self._kept_size = size_of_text(text)
            self._pieces = [text]

    def due_at(self, now: float, size_before: int = 0) -> float | None:
        """Return when to send the last output; None: not before more output. ``size_before`` is the
        size of the content that is sent before the output."""
        if not self.has_unsent:
            return None
        return self.budget.due_at(OVERHEAD_BYTES + size_before + min(self.size, SHORT_TAIL), now)

    def take(self, now: float, size_before: int = 0) -> str:
        """Return as much of the last output as the budget allows, and note that it was sent."""
        limit = min(TAIL_LIMIT, self.budget.credit - OVERHEAD_BYTES - size_before)
        text = _last_part("".join(self._pieces), limit)
        self.budget.spend(OVERHEAD_BYTES + size_before + size_of_text(text), now)
        self.has_unsent = False
        self.was_shown = True
        return _with_note(text, self._characters - len(text))

    def tail(self, limit: int) -> str:
        """Return the last ``limit`` bytes of output, with a note about the cut; the budget does not
        limit them."""
        text = _last_part("".join(self._pieces), limit)
        return _with_note(text, self._characters - len(text))


def end_of_output(text: str) -> str:
    """Cut complete output to its last `WHOLE_LIMIT` bytes, with a note about the cut."""
    end = _last_part(text, WHOLE_LIMIT)
    return _with_note(end, len(text) - len(end))


def _with_note(text: str, cut: int) -> str:
    return f"[… {cut:,} earlier characters not shown]\n{text}" if cut else text


def size_of_text(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _last_part(text: str, limit: int) -> str:
    """Return the last ``limit`` bytes of ``text``, from the start of a line unless this would drop
    more than half of these bytes."""
    if size_of_text(text) <= limit:
        return text
    # Cut by characters first, so that only the last ones are encoded.
    raw = text[-limit:].encode("utf-8", "surrogatepass")[-limit:] if limit > 0 else b""
    end = raw.decode("utf-8", "ignore")
    line = end.find("\n") + 1
    return end[line:] if 0 < line <= len(end) // 2 else end


# Items that are tool calls, and an open tool call.

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
    """The item as Codex last reported it; None if only an approval has announced the tool call."""
    content: Sequence[CallContent] = ()
    """Content of the item, without output or progress."""
    output: RollingOutput = field(default_factory=RollingOutput)
    """Output of a command, or lines of progress of an MCP call."""
    pending: bool = False
    """Whether the client shows the call as ``pending``, because of an open approval."""
    announced_input: object = None
    """Raw input of the announcement, if only an approval has announced the tool call."""
    was_asked: bool = False
    """Whether the person was asked about the call: the question may have replaced its content."""
    looks: Looks = field(default_factory=dict)
    """Where the paths of an edit, or the directory of a command, led when the item started."""
    diff_budget: Budget = field(default_factory=Budget)
    """Limit on the diffs that are sent while Codex writes a file change."""
    unsent_diff_bytes: int = 0
    """Bytes of the diffs that were not sent yet; 0 if there are none."""
    above: Sequence[CallContent] = ()
    """Content above the output, shortened, because each update of the output repeats it."""
