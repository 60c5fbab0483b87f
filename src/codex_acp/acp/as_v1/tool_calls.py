"""PURE: tool calls and the agent's terminals, as version 1 shows a tool call.

There its content is replaced as a whole, and a command's output is content: so what came of both
is kept here, and the output becomes text when the command has ended. A diff is the old and the new
text of a file there; a git patch has of both what is around a change, so each hunk becomes a diff,
and a change without a patch is told in words.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Any, Final

from codex_acp.acp.as_v1.values import fitting

Json = dict[str, Any]

OUTPUT_LIMIT: Final = 1 << 16
"""Bytes of one command's output that are kept, its end."""

_STATUSES: Final = {"paused": "in_progress", "cancelled": "failed"}
"""Statuses that version 1 lacks."""

_FILE: Final = re.compile(r"^diff --git ", re.M)
_HUNK: Final = re.compile(r"^@@ .*$", re.M)
_NEW: Final = re.compile(r"^\+\+\+ (?:b/)?(.+?)\t?$", re.M)
_OLD: Final = re.compile(r"^--- (?:a/)?(.+?)\t?$", re.M)


@dataclass(slots=True)
class _Terminal:
    """A command of the agent, as far as it was told."""

    output: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    calls: set[str] = field(default_factory=set)
    """Tool calls that show it."""

    def add(self, data: object) -> None:
        try:
            self.output += base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError):
            return
        del self.output[:-OUTPUT_LIMIT]

    @property
    def text(self) -> str:
        """The output; bytes that are no UTF-8 are marked."""
        return self.output.decode(errors="replace")


class ToolCalls:
    """Those of one session."""

    def __init__(self) -> None:
        self._content: dict[str, list[Json]] = {}
        self._terminals: dict[str, _Terminal] = {}

    def updated(self, update: Json) -> Json:
        """``tool_call_update`` of version 2: one that is new is version 1's ``tool_call``."""
        call_id = update["toolCallId"]
        is_new = call_id not in self._content
        made = self.patch(update)
        if not is_new:
            return {**made, "sessionUpdate": "tool_call_update"}
        title = made.get("title") or made.get("name") or "tool call"
        return {**made, "sessionUpdate": "tool_call", "title": title}

    def knows(self, call_id: str) -> bool:
        """Whether the tool call was told of before."""
        return call_id in self._content

    def patch(self, update: Json) -> Json:
        """What a tool call's update sets, as version 1 has it."""
        call_id = update["toolCallId"]
        content = self._content.setdefault(call_id, [])
        made = {key: value for key, value in update.items() if value is not None}
        made.pop("capabilities", None)
        if "status" in made:
            made["status"] = _STATUSES.get(made["status"], made["status"])
        if "kind" in made and fitting("ToolKind", made["kind"]) is None:
            made["kind"] = "other"
        if "content" in update:
            content[:] = update["content"] or ()
            made["content"] = self.shown(call_id)
        if update.get("locations", ...) is None:
            made["locations"] = []
        return made

    def appended(self, chunk: Json) -> Json:
        """``tool_call_content_chunk``: the whole content, with one more piece."""
        call_id = chunk["toolCallId"]
        self._content.setdefault(call_id, []).append(chunk["content"])
        return self._whole(call_id)

    def terminal(self, update: Json) -> list[Json]:
        """``terminal_update`` and ``terminal_output_chunk``: updates of the calls that show it."""
        terminal = self._terminals.setdefault(update["terminalId"], _Terminal())
        if update["sessionUpdate"] == "terminal_output_chunk":
            terminal.add(update["data"])
        elif "output" in update:
            terminal.output.clear()
            terminal.add((update["output"] or {}).get("data", ""))
        if update.get("exitStatus") is not None:
            terminal.has_ended = True
        elif update["sessionUpdate"] != "terminal_update" or "output" not in update:
            return []
        return [self._whole(call_id) for call_id in sorted(terminal.calls)]

    def _whole(self, call_id: str) -> Json:
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "content": self.shown(call_id),
        }

    def shown(self, call_id: str) -> list[Json]:
        """Its whole content, as far as version 1 has it."""
        shown: list[Json] = []
        for piece in self._content[call_id]:
            kind = piece.get("type")  # another than these three version 1 lacks
            if kind == "diff":
                shown += diffs(piece)
            elif kind == "terminal":
                shown += self._command(call_id, piece)
            elif kind == "content" and fitting("ContentBlock", piece.get("content")) is not None:
                shown.append(piece)
        return shown

    def _command(self, call_id: str, piece: Json) -> list[Json]:
        terminal = self._terminals.setdefault(piece["terminalId"], _Terminal())
        terminal.calls.add(call_id)
        if not terminal.has_ended or not terminal.output:
            return [piece]
        text = {"type": "text", "text": terminal.text}
        return [piece, {"type": "content", "content": text}]


def diffs(diff: Json) -> list[Json]:
    """Content of a tool call, for ``DiffToolCallContent`` of version 2."""
    hunks = _hunks(diff.get("patch"))
    found: list[Json] = []
    for change in diff.get("changes") or ():
        path = str(change.get("path", ""))
        own = [texts for name, texts in hunks if path == name or path.endswith(f"/{name}")]
        for old, new in own:
            made: Json = {"type": "diff", "path": path, "newText": new}
            if change.get("operation") != "add":
                made["oldText"] = old
            found.append(made)
        if not own:
            moved = f"{change['oldPath']} → " if "oldPath" in change else ""
            text = f"{change.get('operation')}: {moved}{path}"
            found.append({"type": "content", "content": {"type": "text", "text": text}})
    return found


def _hunks(patch: object) -> list[tuple[str, tuple[str, str]]]:
    """(file, (old text, new text)) of each hunk."""
    if not isinstance(patch, dict) or patch.get("format") != "git_patch":
        return []
    found = []
    for section in _FILE.split(str(patch.get("text", "")))[1:]:
        head, *bodies = _HUNK.split(section)
        name = _name(head)
        found += [(name, _texts(body)) for body in bodies]
    return found


def _name(head: str) -> str:
    new, old = _NEW.search(head), _OLD.search(head)
    if new is not None and new[1] != "/dev/null":
        return new[1]
    return old[1] if old is not None else ""


def _texts(body: str) -> tuple[str, str]:
    old: list[str] = []
    new: list[str] = []
    for line in body.split("\n")[1:]:
        sign, text = line[:1], line[1:]
        if sign in (" ", "-"):
            old.append(text)
        if sign in (" ", "+"):
            new.append(text)
    return _joined(old), _joined(new)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
