"""Write blocks and the content of tool calls for ACP v2, and read the open unions of requests.

Unknown members of an open union are refused, as v2 requires. The change of a file becomes a patch
in git's format, but with absolute paths, without ``a/`` and ``b/``.
Sources: schema of v2, its ``DiffPatchFormat``; git's "Generating patch text with -p".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, assert_never, cast

from codex_acp.acp._generated.v2 import models
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.content import FileDiff, ImageBlock, TerminalContent, write_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.content import Block, CallContent


def block_of(block: Block) -> models.ContentBlock:
    """Write a block."""
    written: models.ContentBlock = write_block(models, block)
    if isinstance(block, ImageBlock) and block.uri is not None:
        cast("models.ImageContentBlock", written).uri = block.uri
    return written


def content_of(content: Sequence[CallContent]) -> list[models.ToolCallContent]:
    """Write the content of a tool call."""
    written: list[models.ToolCallContent] = []
    for part in content:
        if isinstance(part, FileDiff):
            diff = models.DiffToolCallContent(changes=[_change(part)])
            patch = git_patch(part)
            if patch is not None:
                diff.patch = models.DiffPatch(format="git_patch", text=patch)
            written.append(diff)
        elif isinstance(part, TerminalContent):
            written.append(models.TerminalToolCallContent(terminal_id=part.terminal_id))
        else:
            written.append(models.ContentToolCallContent(content=block_of(part)))
    return written


def _change(diff: FileDiff) -> models.DiffChange:
    match diff.operation:
        case "add":
            return models.AddDiffChange(path=diff.path)
        case "delete":
            return models.DeleteDiffChange(path=diff.path)
        case "modify":
            return models.ModifyDiffChange(path=diff.path)
        case "move":
            return models.MoveDiffChange(old_path=diff.moved_from or diff.path, path=diff.path)
        case _:
            assert_never(diff.operation)


_PLAIN_NAME: Final = re.compile(r'[^\x00-\x1f\x7f"\\]+')
"""Names that git writes without quotation marks."""
_NO_NEWLINE: Final = "\\ No newline at end of file\n"


def git_patch(diff: FileDiff) -> str | None:
    """Return the patch; None if its hunks are not known, or if nothing changes."""
    old_name, name = _quoted(diff.moved_from or diff.path), _quoted(diff.path)
    head = f"diff --git {old_name} {name}\n"
    match diff.operation:
        case "add":
            return f"{head}new file mode 100644\n{_whole(diff, '/dev/null', name)}"
        case "delete":
            return f"{head}deleted file mode 100644\n{_whole(diff, old_name, '/dev/null')}"
        case "modify" if diff.patch is None and diff.after is not None:
            return f"{head}{_whole(diff, old_name, name)}"
        case "modify" | "move":
            moved = diff.moved_from is not None
            rename = f"rename from {old_name}\nrename to {name}\n" if moved else ""
            if not diff.patch:
                return f"{head}{rename}" if rename else None
            end = "" if diff.patch.endswith("\n") else "\n"
            return f"{head}{rename}--- {old_name}\n+++ {name}\n{diff.patch}{end}"
        case _:
            assert_never(diff.operation)


def _whole(diff: FileDiff, old_name: str, name: str) -> str:
    """Return one hunk that replaces the whole old text by the new text; "" if both are empty."""
    before, after = _lines("-", diff.before or ""), _lines("+", diff.after or "")
    if not (before or after):
        return ""
    head = f"--- {old_name}\n+++ {name}\n@@ -{_span(before)} +{_span(after)} @@\n"
    return f"{head}{''.join(before)}{''.join(after)}"


def _quoted(name: str) -> str:
    """Return the name of a file as git writes it: in quotation marks if it has odd characters."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    shown = [
        char
        if char.isprintable()
        else "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in escaped
    ]
    return f'"{"".join(shown)}"'


def _lines(sign: str, text: str) -> list[str]:
    """Return the lines of a text, each behind ``sign``; only ``\\n`` ends a line."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [f"{sign}{part}\n" for part in parts]
    return [*lines, f"{sign}{last}\n", _NO_NEWLINE] if last else lines


def _span(lines: list[str]) -> str:
    """Return the range of all ``lines`` in the header of a hunk."""
    if not lines:
        return "0,0"
    count = len(lines) - (lines[-1] == _NO_NEWLINE)
    return "1" if count == 1 else f"1,{count}"


def wants_history(request: models.ResumeSessionRequest) -> bool:
    """Return whether to replay the history. Raises RpcError -32602 if not from the start."""
    if request.replay_from is None:
        return False
    if isinstance(request.replay_from, models.StartReplayFrom):
        return True
    kind = request.replay_from.wire().get("type")
    message = f"replayFrom: this agent replays from the start only, not from {kind!r}"
    raise RpcError(INVALID_PARAMS, message)


def option_and_value(request: models.SetSessionConfigOptionRequest) -> tuple[str, str, str | bool]:
    """Return session id, option id and value. Raises RpcError -32602 for an unknown type."""
    if isinstance(
        request,
        models.IdSetSessionConfigOptionRequest | models.BooleanSetSessionConfigOptionRequest,
    ):
        return request.session_id, request.config_id, request.value
    kind = request.wire().get("type")
    raise RpcError(INVALID_PARAMS, f"type: there are no values of the type {kind!r}")
