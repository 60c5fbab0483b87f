"""Pieces of a tool call's content: JSON, links, and blocks of MCP and of the Responses API.

Source: ACP page "Content" (its blocks are those of MCP); Codex schema ``McpToolCallResult``,
``DynamicToolCallOutputContentItem``, ``FunctionCallOutputContentItem``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.acp._generated.v1.methods import MODELS
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
    TextResourceContents,
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
from codex_acp.mapping.calls.output import whole_text
from codex_acp.mapping.prompt.input_blocks import content_block, file_uri
from codex_acp.routing.content import CONTENT_LIMIT, code_content, text_content
from codex_acp.routing.display import fenced, inline, prose, shortened
from codex_acp.wire.codec import plain
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
    "output_block",
    "output_content",
    "size_of",
    "without_data",
]

DATA_LIMIT: Final = 8 * 1024 * 1024
"""Characters of base64 in one block: an image of six megabytes, more than models make."""

_NAME_LIMIT: Final = 500
"""Characters of a link's words, and of its host."""

_UNSAFE_IN_URI: Final = re.compile(r"[^\w:/?#@!$&'*+,;=.~%-]+", re.ASCII)
"""What RFC 3986 does not have in a URI, and what would end it in Markdown."""

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
    return code_content(text, "json", heading, limit)


def output_block(output: str) -> ToolCallContent:
    """The end of what a command, a tool or a server wrote, as a code block.

    Emoji and what scripts need stay as they are: nobody decides by it.
    """
    return text_content(fenced(whole_text(prose(output.replace("\r\n", "\n")))))


def link(name: str, uri: str, description: str | None = None) -> ToolCallContent:
    """A link whose words are others', as those of its target: with the host it leads to.

    What a client could not open, or had better not, is no link.
    """
    shown, uri = inline(name, _NAME_LIMIT), _UNSAFE_IN_URI.sub(_escaped, uri)
    scheme, _, rest = uri.partition(":")
    host = ""
    if scheme.lower() in ("http", "https"):
        host = re.split(r"[/?#]", rest.lstrip("/"))[0].rpartition("@")[2]
    elif scheme.lower() != "file":
        words = "\n".join(filter(None, (name, uri, description)))
        return code_content(words, heading="Resource:")
    told = f"{shown} ({inline(host, _NAME_LIMIT)})" if host and name != uri else shown
    block = ResourceLinkContentBlock(name=told, uri=uri)
    if description:
        block.description = inline(description)
    return ContentToolCallContent(content=block)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def file_link(path: str) -> ToolCallContent:
    """A link to a file, by the last part of its name."""
    return link(path.rstrip("/").rsplit("/", 1)[-1] or path, file_uri(path))


def mcp_content(block: object) -> ToolCallContent:
    """A block of an MCP result: its text as code, data and links as such, all else as JSON."""
    try:
        return _shown(MODELS.decode("ContentBlock", block, "a content block"))
    except InvalidPayload:
        return json_content(block)


def _shown(block: ContentBlock) -> ToolCallContent:
    """Made anew of what is shown: nothing else that a server put beside it is passed on."""
    match block:
        case TextContentBlock():
            return output_block(block.text)
        case ImageContentBlock():
            return block_content(ImageContentBlock(data=block.data, mime_type=block.mime_type))
        case AudioContentBlock():
            return block_content(AudioContentBlock(data=block.data, mime_type=block.mime_type))
        case ResourceLinkContentBlock():
            return link(block.title or block.name, block.uri, block.description)
        case ResourceContentBlock():
            return _resource(block.resource)
        case _:
            assert_never(block)


def _resource(resource: TextResourceContents | BlobResourceContents) -> ToolCallContent:
    if isinstance(resource, BlobResourceContents):
        uri = _UNSAFE_IN_URI.sub(_escaped, resource.uri)
        bytes_of = BlobResourceContents(uri=uri, blob=resource.blob)
        if resource.mime_type is not None:
            bytes_of.mime_type = resource.mime_type
        return block_content(ResourceContentBlock(resource=bytes_of))
    text = shortened(resource.text, CONTENT_LIMIT).replace("\r\n", "\n")
    return text_content(f"{inline(resource.uri)}\n{fenced(prose(text))}")


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
            return output_block(part.text)
        case (
            InputImageDynamicToolCallOutputContentItem()
            | ImageUrlInputImageFunctionCallOutputContentItem()
        ):
            return _shown(content_block(UrlImageUserInput(url=part.image_url)))
        case (
            InputAudioDynamicToolCallOutputContentItem() | InputAudioFunctionCallOutputContentItem()
        ):
            return _shown(content_block(AudioUserInput(url=part.audio_url)))
        case FileIdInputImageFunctionCallOutputContentItem():
            return text_content(f"[image {inline(part.file_id)}]")
        case FileIdInputAudioFunctionCallOutputContentItem():
            return text_content(f"[audio {inline(part.file_id)}]")
        case EncryptedContentFunctionCallOutputContentItem():
            return text_content(f"[{len(part.encrypted_content):,} characters, encrypted]")
        case UnknownVariant():
            return json_content(part.wire())
        case _:
            assert_never(part)
