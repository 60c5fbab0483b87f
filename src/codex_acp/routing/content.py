"""PURE: text as content of a tool call, whole or with a word about what was cut.

Shared by what an approval shows and by what the mapping shows of an item.
"""

from __future__ import annotations

from typing import Final

from codex_acp.mapping.events.content import TextBlock
from codex_acp.routing.display import fenced, shortened, visible

CONTENT_LIMIT: Final = 1_000_000
"""Characters of one piece of content; more would only freeze the client."""


def text_content(text: str) -> TextBlock:
    """Markdown of ours as one piece of content; what others wrote in it is code, and complete."""
    return TextBlock(text)


def code_content(
    text: str, language: str = "", heading: str = "", limit: int = CONTENT_LIMIT
) -> TextBlock:
    """Show a foreign text as one code block, made visible, below ``heading``, which is ours.

    At most ``limit`` characters of it; a cut is said in the block.
    """
    head = f"{heading}\n" if heading else ""
    return text_content(head + fenced(shortened(visible(text, multiline=True), limit), language))
