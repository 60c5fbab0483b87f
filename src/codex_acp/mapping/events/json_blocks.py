"""Blocks as MCP and both versions of ACP write them, read from JSON."""

from __future__ import annotations

from typing import TypeAlias

from codex_acp._json import text_at
from codex_acp.mapping.events.content import (
    AudioBlock,
    BlobResource,
    ImageBlock,
    LinkBlock,
    TextBlock,
    TextResource,
)

_Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | LinkBlock | TextResource | BlobResource


def block_of_json(value: object) -> _Block | None:
    """The block; None for a type that is not known, and for one that lacks what it needs.

    What is not shown (annotations, icons, sizes) is not kept.
    """
    match value:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return ImageBlock(data, mime_type, text_at(value, "uri"))
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            return AudioBlock(data, mime_type)
        case {"type": "resource_link", "name": str(name), "uri": str(uri)}:
            return LinkBlock(name, uri, text_at(value, "description"), text_at(value, "title"))
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)} as resource}:
            return TextResource(uri, text, text_at(resource, "mimeType"))
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)} as resource}:
            return BlobResource(uri, blob, text_at(resource, "mimeType"))
    return None
