"""Pieces of a tool call's content: JSON, links, and blocks of MCP and of the Responses API.

Source: ACP page "Content" (its blocks are those of MCP); Codex schema ``McpToolCallResult``,
``DynamicToolCallOutputContentItem``, ``FunctionCallOutputContentItem``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from codex_acp.acp._generated.v1.models import (
    AudioContentBlock,
    BlobResourceContents,
    ContentBlock,
    ContentToolCallContent,
    DiffToolCallContent,
    ImageContentBlock,
    ResourceContentBlock,
    ResourceLinkContentBlock,
    TextContentBlock,
)
from codex_acp.codex._generated.models import (
    AudioUserInput,
    EncryptedContentFunctionCallOutputContentItem,
    FileIdInputAudioFunctionCallOutputContentItem,
    FileIdInputImageFunctionCallOutputContentItem,
    ImageUrlInputImageFunctionCallOutputContentItem,
    InputAudioDynamicToolCallOutputContentItem,
    InputAudioFunctionCallOutputContentItem,
    InputImageDynamicToolCallOutputContentItem,
    InputTextDynamicToolCallOutputContentItem,
    InputTextFunctionCallOutputContentItem,
    UrlImageUserInput,
)
from codex_acp.errors import InvalidPayload
from codex_acp.mapping.prompt.input_blocks import content_block, file_uri
from codex_acp.routing.content import CONTENT_LIMIT, code_content, text_content
from codex_acp.routing.display import shortened, visible
from codex_acp.wire.codec import decode, plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import ToolCallContent
    from codex_acp.codex._generated.models import (
        DynamicToolCallOutputContentItem,
        FunctionCallOutputContentItem,
    )

__all__ = [
    "DATA_LIMIT",
    "block_content",
    "file_link",
    "json_content",
    "link",
    "mcp_content",
    "output_content",
    "size_of",
    "without_data",
]

DATA_LIMIT: Final = 8 * 1024 * 1024
"""Characters of base64 in one block: an image of six megabytes, more than models make."""

_DATA_KEYS: Final = ("data", "blob")
"""Where MCP's blocks and resources hold base64."""

_ORDINARY_TEXT: Final = 1_000
"""Characters below which nobody calls a value of these keys data."""

_MAX_DEPTH: Final = 20
"""Levels that are searched for data; tools nest a handful."""


def block_content(block: ContentBlock) -> ToolCallContent:
    """A block as content of a tool call; base64 beyond `DATA_LIMIT` is named, not sent."""
    data = ""
    if isinstance(block, ImageContentBlock | AudioContentBlock):
        data = block.data
    elif isinstance(block, ResourceContentBlock):
        resource = block.resource
        data = resource.blob if isinstance(resource, BlobResourceContents) else ""
    if len(data) > DATA_LIMIT:
        return text_content(f"[{block.type} of {len(data):,} characters of base64 not shown]")
    return ContentToolCallContent(content=block)


def json_content(value: object, heading: str = "", limit: int = CONTENT_LIMIT) -> ToolCallContent:
    """Any JSON value as a code block of at most ``limit`` characters."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    return code_content(shortened(visible(text, multiline=True), limit), "json", heading)


def link(name: str, uri: str, description: str | None = None) -> ToolCallContent:
    """A link; its name is made visible, its target stays as it is."""
    block = ResourceLinkContentBlock(name=visible(name), uri=uri)
    if description:
        block.description = description
    return ContentToolCallContent(content=block)


def file_link(path: str) -> ToolCallContent:
    """A link to a file, by the last part of its name."""
    return link(path.rstrip("/").rsplit("/", 1)[-1] or path, file_uri(path))


def mcp_content(block: object) -> ToolCallContent:
    """A block of an MCP result: as it is if ACP has it, else as JSON."""
    try:
        return block_content(cast("ContentBlock", decode(cast("Any", ContentBlock), block)))
    except InvalidPayload:
        return json_content(block)


def without_data(value: object, depth: int = 0) -> object:
    """``value`` with long base64 in it replaced by its length: the content carries it already."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [without_data(part, depth + 1) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"[{len(part):,} characters]"
        if key in _DATA_KEYS and isinstance(part, str) and len(part) > _ORDINARY_TEXT
        else without_data(part, depth + 1)
        for key, part in value.items()
    }


def size_of(content: Sequence[ToolCallContent]) -> int:
    """The bytes (UTF-8) of the texts and diffs in it."""
    return sum(len(text.encode("utf-8", "replace")) for part in content for text in _texts(part))


def _texts(part: ToolCallContent) -> Sequence[str]:
    if isinstance(part, DiffToolCallContent):
        return (part.path, part.old_text or "", part.new_text)
    block = part.content if isinstance(part, ContentToolCallContent) else None
    return (block.text,) if isinstance(block, TextContentBlock) else ()


def output_content(
    part: DynamicToolCallOutputContentItem | FunctionCallOutputContentItem,
) -> ToolCallContent:
    """A piece of a tool's output as the model gets it."""
    match part:
        case InputTextDynamicToolCallOutputContentItem() | InputTextFunctionCallOutputContentItem():
            return text_content(part.text)
        case (
            InputImageDynamicToolCallOutputContentItem()
            | ImageUrlInputImageFunctionCallOutputContentItem()
        ):
            return block_content(content_block(UrlImageUserInput(url=part.image_url)))
        case (
            InputAudioDynamicToolCallOutputContentItem() | InputAudioFunctionCallOutputContentItem()
        ):
            return block_content(content_block(AudioUserInput(url=part.audio_url)))
        case FileIdInputImageFunctionCallOutputContentItem():
            return text_content(f"[image {visible(part.file_id)}]")
        case FileIdInputAudioFunctionCallOutputContentItem():
            return text_content(f"[audio {visible(part.file_id)}]")
        case EncryptedContentFunctionCallOutputContentItem():
            return text_content(f"[{len(part.encrypted_content):,} characters, encrypted]")
        case UnknownVariant():
            return json_content(part.wire())
        case _:
            assert_never(part)
