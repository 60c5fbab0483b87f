"""PURE: text as content of a tool call, whole or with a word about what was cut.

Shared by what an approval shows and by what the mapping shows of an item.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codex_acp.acp._generated.v1.models import ContentToolCallContent, TextContentBlock
from codex_acp.routing.display import shortened

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import ToolCallContent

__all__ = ["CONTENT_LIMIT", "TITLE_LIMIT", "code_content", "fenced", "text_content"]

TITLE_LIMIT: Final = 4_000
"""Characters of a title: every real command is far below it, and a longer one says it was cut."""

CONTENT_LIMIT: Final = 1_000_000
"""Characters of one piece of content; more would only freeze the client."""

_FENCE: Final = re.compile(r"`{3,}")


def text_content(text: str) -> ToolCallContent:
    """``text`` as one piece of content; what is beyond the limit is cut, and that is said."""
    return ContentToolCallContent(content=TextContentBlock(text=shortened(text, CONTENT_LIMIT)))


def code_content(text: str, language: str = "", heading: str = "") -> ToolCallContent:
    """``text`` as one code block below the lines of ``heading``; a cut is said in the block."""
    block = fenced(shortened(text, CONTENT_LIMIT), language)
    head = f"{shortened(heading, TITLE_LIMIT)}\n" if heading else ""
    return ContentToolCallContent(content=TextContentBlock(text=head + block))


def fenced(text: str, language: str = "") -> str:
    """``text`` as a Markdown code block that it cannot end by itself.

    ACP lets a client show text as Markdown, which would run lines together and eat signs of
    program output and of patches.
    """
    runs = _FENCE.findall(text) if "```" in text else []
    longest = max(map(len, runs), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"
