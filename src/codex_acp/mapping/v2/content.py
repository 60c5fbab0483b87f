"""Blocks and the content of tool calls, as ACP v2 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v2.models import (
    AddDiffChange,
    AudioContentBlock,
    BlobResourceContents,
    ContentToolCallContent,
    DeleteDiffChange,
    DiffPatch,
    DiffToolCallContent,
    ImageContentBlock,
    ModifyDiffChange,
    MoveDiffChange,
    ResourceContentBlock,
    ResourceLinkContentBlock,
    TerminalToolCallContent,
    TextContentBlock,
    TextResourceContents,
    ToolCallLocation,
)
from codex_acp.mapping.events.content import (
    AudioBlock,
    BlobResource,
    FileDiff,
    ImageBlock,
    LinkBlock,
    TerminalContent,
    TextBlock,
    TextResource,
)
from codex_acp.mapping.v2.git_patch import git_patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v2.models import ContentBlock, DiffChange, ToolCallContent
    from codex_acp.mapping.events.content import Block, CallContent, Location


def content_of(content: Sequence[CallContent]) -> list[ToolCallContent]:
    """Return the content of a tool call."""
    return [_written(part) for part in content]


def locations_of(locations: Sequence[Location]) -> list[ToolCallLocation]:
    """The files that a tool call is about."""
    found = []
    for place in locations:
        location = ToolCallLocation(path=place.path)
        if place.line is not None:
            location.line = place.line
        found.append(location)
    return found


def block_of(block: Block) -> ContentBlock:
    """A block; what is not known of it is left out."""
    match block:
        case TextBlock():
            return TextContentBlock(text=block.text)
        case ImageBlock():
            image = ImageContentBlock(data=block.data, mime_type=block.mime_type)
            if block.uri is not None:
                image.uri = block.uri
            return image
        case AudioBlock():
            return AudioContentBlock(data=block.data, mime_type=block.mime_type)
        case LinkBlock():
            link = ResourceLinkContentBlock(name=block.name, uri=block.uri)
            if block.title is not None:
                link.title = block.title
            if block.description is not None:
                link.description = block.description
            return link
        case TextResource() | BlobResource():
            return ResourceContentBlock(resource=_resource(block))
        case _:
            assert_never(block)


def _resource(block: TextResource | BlobResource) -> TextResourceContents | BlobResourceContents:
    resource: TextResourceContents | BlobResourceContents
    if isinstance(block, TextResource):
        resource = TextResourceContents(uri=block.uri, text=block.text)
    else:
        resource = BlobResourceContents(uri=block.uri, blob=block.blob)
    if block.mime_type is not None:
        resource.mime_type = block.mime_type
    return resource


def _written(part: CallContent) -> ToolCallContent:
    match part:
        case FileDiff():
            diff = DiffToolCallContent(changes=[_change(part)])
            patch = git_patch(part)
            if patch is not None:
                diff.patch = DiffPatch(format="git_patch", text=patch)
            return diff
        case TerminalContent():
            return TerminalToolCallContent(terminal_id=part.terminal_id)
        case TextBlock() | ImageBlock() | AudioBlock() | LinkBlock():
            return ContentToolCallContent(content=block_of(part))
        case TextResource() | BlobResource():
            return ContentToolCallContent(content=block_of(part))
        case _:
            assert_never(part)


def _change(diff: FileDiff) -> DiffChange:
    match diff.operation:
        case "add":
            return AddDiffChange(path=diff.path)
        case "delete":
            return DeleteDiffChange(path=diff.path)
        case "modify":
            return ModifyDiffChange(path=diff.path)
        case "move":
            return MoveDiffChange(old_path=diff.moved_from or diff.path, path=diff.path)
        case _:
            assert_never(diff.operation)
