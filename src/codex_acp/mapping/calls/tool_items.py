"""Which items are tool calls. The other members of ``ThreadItem`` are told in words."""

from __future__ import annotations

from typing import TypeAlias

from codex_acp.codex._generated.models import (
    CollabAgentToolCallThreadItem,
    CommandExecutionThreadItem,
    DynamicToolCallThreadItem,
    FileChangeThreadItem,
    FileIdImageGenerationThreadItem,
    FunctionCallOutputThreadItem,
    ImageGenerationThreadItem,
    ImageViewThreadItem,
    McpToolCallThreadItem,
    SleepThreadItem,
    SubAgentActivityThreadItem,
    WebSearchThreadItem,
)
from codex_acp.wire.model import UnknownVariant

ToolItem: TypeAlias = (
    CommandExecutionThreadItem
    | FileChangeThreadItem
    | McpToolCallThreadItem
    | DynamicToolCallThreadItem
    | FunctionCallOutputThreadItem
    | CollabAgentToolCallThreadItem
    | SubAgentActivityThreadItem
    | WebSearchThreadItem
    | ImageViewThreadItem
    | ImageGenerationThreadItem
    | FileIdImageGenerationThreadItem
    | SleepThreadItem
    | UnknownVariant
)
"""The members of ``ThreadItem`` that are shown as tool calls."""
