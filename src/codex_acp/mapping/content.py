"""Blocks of content, and what a tool call can show besides them, of no version of ACP.

A block is what MCP and both versions of ACP have alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never

from codex_acp._json import text_at
from codex_acp._record import record

if TYPE_CHECKING:
    from collections.abc import Sequence

FileOperation: TypeAlias = Literal["add", "delete", "modify", "move"]
"""Change of a file; ``move`` may change its text, too."""


@record
class TextBlock:
    """Text; of a tool call Markdown of ours, in which others' words are code."""

    text: str


@record
class ImageBlock:
    """An image in base64; ``uri`` says where it came from."""

    data: str
    mime_type: str
    uri: str | None = None


@record
class AudioBlock:
    """A recording in base64."""

    data: str
    mime_type: str


@record
class LinkBlock:
    """A link to a resource."""

    name: str
    uri: str
    description: str | None = None
    title: str | None = None


@record
class TextResource:
    """A resource with its text."""

    uri: str
    text: str
    mime_type: str | None = None


@record
class BlobResource:
    """A resource with its bytes in base64."""

    uri: str
    blob: str
    mime_type: str | None = None


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | LinkBlock | TextResource | BlobResource
"""A piece of content: of a prompt, a message, or a tool call."""


@record
class FileDiff:
    """The change of one file, as far as it is known."""

    path: str
    """Where the file is afterwards; of a deleted one where it was."""
    operation: FileOperation
    before: str | None = None
    """The whole text before; None if it is not known, or there was none (``add``)."""
    after: str | None = None
    """The whole text after; None if it is not known, or there is none (``delete``)."""
    patch: str | None = None
    """The hunks of a unified diff, without file headers; None of a whole file, or if unknown."""
    moved_from: str | None = None
    """The old path of a ``move``."""
    text: TextBlock | None = None
    """Written out, where neither whole texts nor hunks are known."""


@record
class TerminalContent:
    """The output of a command, in a terminal that the agent tells of."""

    terminal_id: str


CallContent: TypeAlias = Block | FileDiff | TerminalContent
"""Content of a tool call."""


@record
class Location:
    """A file that a tool call is about; lines count from 1."""

    path: str
    line: int | None = None


def block_of_json(value: object) -> Block | None:
    """Read a block as MCP and both versions of ACP write it; None for one that is not known or
    lacks what it needs. What is not shown (annotations, icons, sizes) is not kept.
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


def write_block(models: Any, block: Block) -> Any:
    """Write a block with the classes of ``models``, those of one version; the rest is left out."""
    match block:
        case TextBlock():
            return models.TextContentBlock(text=block.text)
        case ImageBlock():
            return models.ImageContentBlock(data=block.data, mime_type=block.mime_type)
        case AudioBlock():
            return models.AudioContentBlock(data=block.data, mime_type=block.mime_type)
        case LinkBlock():
            link = models.ResourceLinkContentBlock(name=block.name, uri=block.uri)
            if block.title is not None:
                link.title = block.title
            if block.description is not None:
                link.description = block.description
            return link
        case TextResource():
            resource = models.TextResourceContents(uri=block.uri, text=block.text)
        case BlobResource():
            resource = models.BlobResourceContents(uri=block.uri, blob=block.blob)
        case _:
            assert_never(block)
    if block.mime_type is not None:
        resource.mime_type = block.mime_type
    return models.ResourceContentBlock(resource=resource)


def write_locations(models: Any, locations: Sequence[Location]) -> list[Any]:
    """Write the files that a tool call is about with the classes of ``models``."""
    written = []
    for location in locations:
        written.append(models.ToolCallLocation(path=location.path))
        if location.line is not None:
            written[-1].line = location.line
    return written
