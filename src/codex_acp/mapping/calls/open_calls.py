"""Which items are tool calls, and what is remembered of one until its end."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from codex_acp._record import record
from codex_acp.codex._generated import models
from codex_acp.mapping.calls.output import Budget, RollingOutput
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.events.content import CallContent
    from codex_acp.routing.changes import Looks

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
