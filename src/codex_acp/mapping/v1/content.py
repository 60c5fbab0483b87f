"""Write the blocks, the content of tool calls and the end of a prompt for ACP v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1 import models
from codex_acp.acp._generated.v1.models import PromptResponse
from codex_acp.mapping import content as blocks
from codex_acp.mapping.agent import META_KEY
from codex_acp.routing.changes import parse_hunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import PromptStop


def block_of(block: blocks.Block) -> models.ContentBlock:
    """Write a block."""
    written: models.ContentBlock = blocks.write_block(models, block)
    return written


def content_of(content: Sequence[blocks.CallContent]) -> list[models.ToolCallContent]:
    """Write the content of a tool call."""
    written: list[models.ToolCallContent] = []
    for part in content:
        if isinstance(part, blocks.FileDiff):
            written += _diff(part)
        elif isinstance(part, blocks.TerminalContent):
            written.append(models.TerminalToolCallContent(terminal_id=part.terminal_id))
        else:
            written.append(models.ContentToolCallContent(content=block_of(part)))
    return written


def _diff(diff: blocks.FileDiff) -> Iterator[models.ToolCallContent]:
    """Yield one diff if both texts of the file are known, else a diff for each hunk, or a text."""
    before, after = diff.before, diff.after
    match diff.operation:
        case "add":
            yield models.DiffToolCallContent(path=diff.path, old_text=None, new_text=after or "")
        case "delete":
            yield models.DiffToolCallContent(path=diff.path, old_text=before, new_text="")
        case "modify" | "move":
            if after is not None and (before is not None or diff.patch is None):
                old = before or ""  # None would mean a new file
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
    """Return the answer to a prompt; ``usage`` is unstable, so it is in ``_meta``."""
    response = PromptResponse(stop_reason=stop.reason)
    if usage is not None:
        response.meta = {META_KEY: {"usage": usage}}
    return response
