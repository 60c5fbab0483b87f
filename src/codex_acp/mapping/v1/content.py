"""Write blocks and the content of tool calls as ACP v1 does, and how a prompt has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1 import models
from codex_acp.acp._generated.v1.models import PromptResponse
from codex_acp.mapping.agent import META_KEY
from codex_acp.mapping.content import (
    AudioBlock,
    BlobResource,
    FileDiff,
    ImageBlock,
    LinkBlock,
    TerminalContent,
    TextBlock,
    TextResource,
)
from codex_acp.routing.changes import parse_hunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.content import Block, CallContent, Location
    from codex_acp.mapping.events import PromptStop


def content_of(content: Sequence[CallContent]) -> list[models.ToolCallContent]:
    """Return the content of a tool call."""
    return [written for part in content for written in _written(part)]


def locations_of(locations: Sequence[Location]) -> list[models.ToolCallLocation]:
    """The files that a tool call is about."""
    return [
        models.ToolCallLocation(path=place.path)
        if place.line is None
        else models.ToolCallLocation(path=place.path, line=place.line)
        for place in locations
    ]


def block_of(block: Block) -> models.ContentBlock:
    """A block; what is not known of it is left out."""
    match block:
        case TextBlock():
            return models.TextContentBlock(text=block.text)
        case ImageBlock():
            return models.ImageContentBlock(data=block.data, mime_type=block.mime_type)
        case AudioBlock():
            return models.AudioContentBlock(data=block.data, mime_type=block.mime_type)
        case LinkBlock():
            return _link(block)
        case TextResource():
            text = models.TextResourceContents(uri=block.uri, text=block.text)
            if block.mime_type is not None:
                text.mime_type = block.mime_type
            return models.ResourceContentBlock(resource=text)
        case BlobResource():
            blob = models.BlobResourceContents(uri=block.uri, blob=block.blob)
            if block.mime_type is not None:
                blob.mime_type = block.mime_type
            return models.ResourceContentBlock(resource=blob)
        case _:
            assert_never(block)


def blocks_of(prompt: Sequence[models.ContentBlock]) -> list[Block]:
    """The blocks of a prompt; what is not for the model or the person is left out."""
    return [_read(block) for block in prompt]


def _read(block: models.ContentBlock) -> Block:
    match block:
        case models.TextContentBlock():
            return TextBlock(block.text)
        case models.ImageContentBlock():
            return ImageBlock(block.data, block.mime_type, block.uri)
        case models.AudioContentBlock():
            return AudioBlock(block.data, block.mime_type)
        case models.ResourceLinkContentBlock():
            return LinkBlock(block.name, block.uri, block.description, block.title)
        case models.ResourceContentBlock():
            resource = block.resource
            if isinstance(resource, models.TextResourceContents):
                return TextResource(resource.uri, resource.text, resource.mime_type)
            return BlobResource(resource.uri, resource.blob, resource.mime_type)
        case _:
            assert_never(block)


def _link(block: LinkBlock) -> models.ContentBlock:
    link = models.ResourceLinkContentBlock(name=block.name, uri=block.uri)
    if block.title is not None:
        link.title = block.title
    if block.description is not None:
        link.description = block.description
    return link


def _written(part: CallContent) -> Iterator[models.ToolCallContent]:
    match part:
        case FileDiff():
            yield from _diff(part)
        case TerminalContent():
            yield models.TerminalToolCallContent(terminal_id=part.terminal_id)
        case TextBlock() | ImageBlock() | AudioBlock() | LinkBlock():
            yield models.ContentToolCallContent(content=block_of(part))
        case TextResource() | BlobResource():
            yield models.ContentToolCallContent(content=block_of(part))
        case _:
            assert_never(part)


def _diff(diff: FileDiff) -> Iterator[models.ToolCallContent]:
    """Whole texts; else each hunk as a diff of its own, or the patch written out."""
    before, after = diff.before, diff.after
    match diff.operation:
        case "add":
            yield models.DiffToolCallContent(path=diff.path, old_text=None, new_text=after or "")
        case "delete":
            yield models.DiffToolCallContent(path=diff.path, old_text=before, new_text="")
        case "modify" | "move":
            if after is not None and (before is not None or diff.patch is None):
                old = before or ""  # None would say that there was no file
                yield models.DiffToolCallContent(path=diff.path, old_text=old, new_text=after)
            elif diff.text is not None:
                yield models.ContentToolCallContent(content=block_of(diff.text))
            else:
                for hunk in parse_hunks(diff.patch or "") or ():
                    yield models.DiffToolCallContent(
                        path=diff.path, old_text="".join(hunk.old), new_text="".join(hunk.new)
                    )
        case _:
            assert_never(diff.operation)


def prompt_response(stop: PromptStop, usage: Mapping[str, JsonValue] | None) -> PromptResponse:
    """The answer; ``usage`` is of the unstable schema, and so stands in ``_meta``."""
    response = PromptResponse(stop_reason=stop.reason)
    if usage is not None:
        response.meta = {META_KEY: {"usage": usage}}
    return response
