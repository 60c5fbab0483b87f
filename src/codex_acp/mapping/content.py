"""Define the content of messages and tool calls, independent of the version of ACP.

A block has the fields that MCP and both versions of ACP have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never

from codex_acp._json import text_at, value_at
from codex_acp._record import record  # as `dataclass`, loaded faster
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.wire.model import WireModel

FileOperation: TypeAlias = Literal["add", "delete", "modify", "move"]
"""Change of a file; ``move`` may change its text, too."""


@record
class TextBlock:
    """Text. In a tool call it is Markdown, with untrusted text in code spans or code blocks."""

    text: str


@record
class ImageBlock:
    """An image in base64; ``uri`` is its source."""

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
    """Path after the change; before the change if the file is deleted."""
    operation: FileOperation
    before: str | None = None
    """The whole text before; None if not known, or for ``add``."""
    after: str | None = None
    """The whole text after; None if not known, or for ``delete``."""
    patch: str | None = None
    """The hunks of a unified diff, without file headers; None if not known, or if ``before`` and
    ``after`` have the whole text."""
    moved_from: str | None = None
    """The old path of a ``move``."""
    text: TextBlock | None = None
    """Description of the change if neither whole texts nor hunks are known."""


@record
class TerminalContent:
    """The output of a command in a terminal of the agent."""

    terminal_id: str


CallContent: TypeAlias = Block | FileDiff | TerminalContent
"""Content of a tool call."""


@record
class Location:
    """A file that a tool call is about; ``line`` counts from 1."""

    path: str
    line: int | None = None


def block_of_json(value: object) -> Block | None:
    """Read a block of MCP or ACP; return None for an unknown type, or without a required field.
    Annotations, icons and sizes are dropped: they are never shown."""
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


def blocks_of(prompt: Sequence[WireModel]) -> list[Block]:
    """Read the blocks of a prompt. Raises RpcError -32602 for a block of an unknown type, which
    only version 2 of ACP lets through."""
    from codex_acp.wire.codec import plain  # late: a session opens without pydantic-core

    blocks: list[Block] = []
    for number, given in enumerate(prompt):
        wire = plain(given)
        block = block_of_json(wire)
        if block is None:
            kind = value_at(wire, "type")
            message = f"prompt.{number}: this agent takes no content of the type {kind!r}"
            raise RpcError(INVALID_PARAMS, message)
        blocks.append(block)
    return blocks


def write_block(models: Any, block: Block) -> Any:
    """Make a block with the classes of ``models``, the models of one version of ACP."""
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
    """Make locations with the classes of ``models``."""
    written = []
    for location in locations:
        written.append(models.ToolCallLocation(path=location.path))
        if location.line is not None:
            written[-1].line = location.line
    return written
