"""Pieces of a tool call's content: JSON, links, and blocks of MCP and of the Responses API.

Source: ACP page "Content" (its blocks are those of MCP); Codex schema ``McpToolCallResult``,
``DynamicToolCallOutputContentItem``, ``FunctionCallOutputContentItem``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.output import whole_text
from codex_acp.mapping.events.content import (
    AudioBlock,
    BlobResource,
    FileDiff,
    ImageBlock,
    LinkBlock,
    TextBlock,
    TextResource,
    block_of_json,
)
from codex_acp.mapping.prompt.input_blocks import content_block, file_uri
from codex_acp.routing.content import CONTENT_LIMIT, code_content, text_content
from codex_acp.routing.display import fenced, inline, prose, shortened
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.events.content import Block, CallContent

DATA_LIMIT: Final = 8 * 1024 * 1024
"""Characters of base64 in one block: an image of six megabytes, more than models make."""

_NAME_LIMIT: Final = 500
"""Characters of a link's words, and of its host."""

_UNSAFE_IN_URI: Final = re.compile(r"[^\w:/?#@!$&'*+,;=.~%-]+", re.ASCII)
"""Characters that RFC 3986 forbids in a URI, or that would end it in Markdown."""

_DATA_KEYS: Final = ("data", "blob")
"""Where MCP's blocks and resources hold base64."""

_ORDINARY_TEXT: Final = 1_000
"""Characters below which nobody calls a value of these keys data."""

_MAX_DEPTH: Final = 20
"""Levels that are searched for data; tools nest a handful."""


def block_content(block: Block) -> Block:
    """A block as content of a tool call; base64 beyond `DATA_LIMIT` is named, not sent."""
    match block:
        case ImageBlock(data=data):
            name = "image"
        case AudioBlock(data=data):
            name = "audio"
        case BlobResource(blob=data):
            name = "resource"
        case TextBlock() | LinkBlock() | TextResource():
            return block
        case _:
            assert_never(block)
    if len(data) > DATA_LIMIT:
        return text_content(f"[{name} of {len(data):,} characters of base64 not shown]")
    return block


def json_content(value: object, heading: str = "", limit: int = CONTENT_LIMIT) -> TextBlock:
    """Any JSON value as a code block of at most ``limit`` characters."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    return code_content(text, "json", heading, limit)


def output_block(output: str) -> TextBlock:
    """The end of what a command, a tool or a server wrote, as a code block.

    Emoji and what scripts need stay as they are: nobody decides by it.
    """
    return text_content(fenced(whole_text(prose(output.replace("\r\n", "\n")))))


def link(name: str, uri: str, description: str | None = None) -> Block:
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
    return LinkBlock(told, uri, inline(description) if description else None)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def file_link(path: str) -> Block:
    """A link to a file, by the last part of its name."""
    return link(path.rstrip("/").rsplit("/", 1)[-1] or path, file_uri(path))


def mcp_content(value: object) -> Block:
    """A block of an MCP result: its text as code, data and links as such, all else as JSON."""
    block = block_of_json(plain(value))
    return json_content(value) if block is None else _shown(block)


def _shown(block: Block) -> Block:
    """Made anew of what is shown: nothing else that a server put beside it is passed on."""
    match block:
        case TextBlock():
            return output_block(block.text)
        case ImageBlock():
            return block_content(ImageBlock(block.data, block.mime_type))
        case AudioBlock():
            return block_content(block)
        case LinkBlock():
            return link(block.title or block.name, block.uri, block.description)
        case BlobResource():
            uri = _UNSAFE_IN_URI.sub(_escaped, block.uri)
            return block_content(BlobResource(uri, block.blob, block.mime_type))
        case TextResource():
            text = shortened(block.text, CONTENT_LIMIT).replace("\r\n", "\n")
            return text_content(f"{inline(block.uri)}\n{fenced(prose(text))}")
        case _:
            assert_never(block)


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


def size_of(content: Sequence[CallContent]) -> int:
    """The bytes (UTF-8) of the texts and diffs in it."""
    return sum(len(text.encode("utf-8", "replace")) for part in content for text in _texts(part))


def _texts(part: CallContent) -> Sequence[str]:
    if isinstance(part, TextBlock):
        return (part.text,)
    if not isinstance(part, FileDiff):
        return ()
    if part.text is not None:
        return (part.text.text,)
    known = part.before is not None or part.after is not None
    return (part.path, part.before or "", part.after or "", "" if known else part.patch or "")


def output_content(
    part: models.DynamicToolCallOutputContentItem | models.FunctionCallOutputContentItem,
) -> Block:
    """A piece of a tool's output as the model gets it."""
    match part:
        case (
            models.InputTextDynamicToolCallOutputContentItem()
            | models.InputTextFunctionCallOutputContentItem()
        ):
            return output_block(part.text)
        case (
            models.InputImageDynamicToolCallOutputContentItem()
            | models.ImageUrlInputImageFunctionCallOutputContentItem()
        ):
            return _shown(content_block(models.UrlImageUserInput(url=part.image_url)))
        case (
            models.InputAudioDynamicToolCallOutputContentItem()
            | models.InputAudioFunctionCallOutputContentItem()
        ):
            return _shown(content_block(models.AudioUserInput(url=part.audio_url)))
        case models.FileIdInputImageFunctionCallOutputContentItem():
            return text_content(f"[image {inline(part.file_id)}]")
        case models.FileIdInputAudioFunctionCallOutputContentItem():
            return text_content(f"[audio {inline(part.file_id)}]")
        case models.EncryptedContentFunctionCallOutputContentItem():
            return text_content(f"[{len(part.encrypted_content):,} characters, encrypted]")
        case UnknownVariant():
            return json_content(part.wire())
        case _:
            assert_never(part)
