"""Write blocks and the content of tool calls as ACP v2 does, and read the open parts of requests.

A member of an open union that is unknown is refused, as v2 says. The change of one file becomes a
patch in git's own format, where paths are absolute, without git's ``a/`` and ``b/``.
Sources: schema of v2, its ``DiffPatchFormat``; git's "Generating patch text with -p".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from codex_acp.acp._generated.v2 import models
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
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.content import (
    AudioBlock,
    BlobResource,
    FileDiff,
    ImageBlock,
    LinkBlock,
    TerminalContent,
    TextBlock,
    TextResource,
    block_of_json,
)
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v2.models import (
        ContentBlock,
        DiffChange,
        ResumeSessionRequest,
        SetSessionConfigOptionRequest,
        ToolCallContent,
    )
    from codex_acp.mapping.content import Block, CallContent, Location


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


_PLAIN_NAME: Final = re.compile(r'[^\x00-\x1f\x7f"\\]+')
"""Names that git writes without quotation marks."""

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


def git_patch(diff: FileDiff) -> str | None:
    """The patch; None if its hunks are not known, or it has none and the file stays where it is."""
    old, new = _quoted(diff.moved_from or diff.path), _quoted(diff.path)
    head = f"diff --git {old} {new}\n"
    match diff.operation:
        case "add":
            return f"{head}new file mode 100644\n{_whole(diff, '/dev/null', new)}"
        case "delete":
            return f"{head}deleted file mode 100644\n{_whole(diff, old, '/dev/null')}"
        case "modify" if diff.patch is None and diff.after is not None:
            return f"{head}{_whole(diff, old, new)}"
        case "modify" | "move":
            moved = "" if diff.moved_from is None else f"rename from {old}\nrename to {new}\n"
            if not diff.patch:
                return f"{head}{moved}" if moved else None
            end = "" if diff.patch.endswith("\n") else "\n"
            return f"{head}{moved}--- {old}\n+++ {new}\n{diff.patch}{end}"
        case _:
            assert_never(diff.operation)


def _whole(diff: FileDiff, old: str, new: str) -> str:
    """Return the one hunk that has all of both texts; nothing if both are empty."""
    before, after = _lines("-", diff.before or ""), _lines("+", diff.after or "")
    if not (before or after):
        return ""
    head = f"--- {old}\n+++ {new}\n@@ -{_span(before)} +{_span(after)} @@\n"
    return f"{head}{''.join(before)}{''.join(after)}"


def _quoted(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    shown = "".join(c if c.isprintable() else _octal(c) for c in escaped)
    return f'"{shown}"'


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))


def _lines(sign: str, text: str) -> list[str]:
    """Each line of a whole file behind its sign; only ``\\n`` ends one."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [f"{sign}{part}\n" for part in parts]
    return [*lines, f"{sign}{last}\n", _NO_NEWLINE] if last else lines


def _span(lines: list[str]) -> str:
    if not lines:
        return "0,0"
    count = len(lines) - (lines[-1] == _NO_NEWLINE)
    return "1" if count == 1 else f"1,{count}"


def blocks_of(prompt: Sequence[ContentBlock]) -> list[Block]:
    """The blocks of a prompt. Raises RpcError -32602 for one of a type that is not known."""
    blocks: list[Block] = []
    for number, given in enumerate(prompt):
        written = cast("dict[str, Any]", plain(given))
        block = block_of_json(written)
        if block is None:
            kind = written.get("type")
            message = f"prompt.{number}: this agent takes no content of the type {kind!r}"
            raise RpcError(INVALID_PARAMS, message)
        blocks.append(block)
    return blocks


def wants_history(request: ResumeSessionRequest) -> bool:
    """Whether the history is to be replayed. Raises RpcError -32602 for another place to begin."""
    if request.replay_from is None:
        return False
    if isinstance(request.replay_from, models.StartReplayFrom):
        return True
    kind = request.replay_from.wire().get("type")
    message = f"replayFrom: this agent replays from the start only, not from {kind!r}"
    raise RpcError(INVALID_PARAMS, message)


def option_and_value(request: SetSessionConfigOptionRequest) -> tuple[str, str, str | bool]:
    """The session, the option, and the value. Raises RpcError -32602 for another type of those."""
    if isinstance(
        request,
        models.IdSetSessionConfigOptionRequest | models.BooleanSetSessionConfigOptionRequest,
    ):
        return request.session_id, request.config_id, request.value
    kind = request.wire().get("type")
    raise RpcError(INVALID_PARAMS, f"type: there are no values of the type {kind!r}")
