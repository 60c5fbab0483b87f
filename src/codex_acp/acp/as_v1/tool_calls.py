"""PURE: tool calls and the agent's terminals, as version 1 shows a tool call.

There its content is replaced as a whole, and a command's output is content: so what came of both
is kept here, and the output becomes text when the command has ended. What is kept is bounded, and
so is what a small piece more has told again: an agent can send any number of them. A diff is the
old and the new text of a file there; a git patch has of both what is around a change, so each hunk
becomes a diff, and a change without a patch is told in words.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from codex_acp._last_ones import LastOnes
from codex_acp.acp.as_v1.values import fitting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]

OUTPUT_LIMIT: Final = 1 << 16
"""Bytes of one command's output that are kept, its end."""

MAX_CONTENT: Final = 1 << 20
"""Characters of one tool call's content that are kept, its end; what went before is told once."""

MAX_CONTENTS: Final = 64
"""Tool calls whose content is kept, the last ones."""

MAX_CALLS: Final = 10_000
"""Tool calls that are known at all."""

MAX_TERMINALS: Final = 256

MAX_SHOWING: Final = 4
"""Tool calls that one command's output is told in; usually it is one."""

TOLD_AT_ONCE: Final = 1 << 14
"""Characters of content up to which every piece more is told; then they are gathered."""

_PIECE: Final = 64
"""Characters that each piece counts for besides its own."""

_LEFT_OUT: Final = "(What this tool call had shown before is not repeated.)"

_STATUSES: Final = {"paused": "in_progress", "cancelled": "failed"}
"""Statuses that version 1 lacks."""

_ENDS: Final = ("completed", "failed")

MAX_DEPTH: Final = 100
"""Directories above a file in which the patch may have been made."""

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


@dataclass(slots=True)
class _Call:
    """Fields of a tool call as the client has them now."""

    pieces: deque[Json] = field(default_factory=deque)
    size: int = 0
    untold: int = 0
    """Of that, what was not told."""
    left_out: bool = False

    def add(self, piece: Json) -> None:
        size = _size(piece)
        self.pieces.append(piece)
        self.size += size
        self.untold += size

    def trim(self) -> None:
        """Keep no more than may be; to be called when what is new was told, if that is due."""
        while self.size > MAX_CONTENT:
            self.size -= _size(self.pieces.popleft())
            self.left_out = True

    def forget(self) -> None:
        self.left_out = self.left_out or bool(self.pieces)
        self.pieces.clear()
        self.size = self.untold = 0

    @property
    def is_due(self) -> bool:
        """Whether what is new is worth telling all of it again."""
        return self.size <= TOLD_AT_ONCE or self.untold >= self.size // 4


class ToolCalls:
    """The tool calls of one session."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._with_content: dict[str, None] = {}
        """Ids of the calls whose content is kept, the one updated last at the end."""
        self._terminals: LastOnes[str, _Terminal] = LastOnes(MAX_TERMINALS)
        self._late: list[Json] = []
        """Updates still to be sent of calls whose content is no longer kept."""

    def updated(self, update: Json) -> Json:
        """``tool_call_update`` of version 2: one that is new is version 1's ``tool_call``."""
        call_id = update["toolCallId"]
        is_new = call_id not in self._calls
        made = self.patch(update)
        if not is_new:
            return {**made, "sessionUpdate": "tool_call_update"}
        title = made.get("title") or made.get("name") or "tool call"
        return {**made, "sessionUpdate": "tool_call", "title": title}

    def knows(self, call_id: str) -> bool:
        """Whether the tool call was told of before."""
        return call_id in self._calls

    def patch(self, update: Json) -> Json:
        """Return the fields that a tool call's update sets, as version 1 has them."""
        call_id = update["toolCallId"]
        call = self._call(call_id)
        made = {key: value for key, value in update.items() if value is not None}
        made.pop("capabilities", None)
        if "status" in made:
            made["status"] = _STATUSES.get(made["status"], made["status"])
        if "kind" in made and fitting("ToolKind", made["kind"]) is None:
            made["kind"] = "other"
        if "content" in update:
            call.forget()
            call.left_out = False
            pieces = update["content"] or ()
            made["content"] = self._shown(call_id, pieces)
            for piece in pieces:
                call.add(piece)
            call.trim()
            call.untold = 0
        elif call.untold and made.get("status") in _ENDS:
            made["content"] = self.shown(call_id)
        if update.get("locations", ...) is None:
            made["locations"] = []
        return made

    def appended(self, chunk: Json) -> list[Json]:
        """``tool_call_content_chunk``: the whole content, with one more piece; perhaps later."""
        call = self._call(chunk["toolCallId"])
        call.add(chunk["content"])
        told = [self._whole(chunk["toolCallId"])] if call.is_due else []
        call.trim()
        return told

    def untold(self) -> list[Json]:
        """Return the updates that still wait, at the end of the agent's work."""
        rest = [self._whole(name) for name in self._with_content if self._calls[name].untold]
        return self.late() + rest

    def late(self) -> list[Json]:
        """The same of calls that others have taken the place of: with the next update."""
        late, self._late = self._late, []
        return late

    def _call(self, call_id: str) -> _Call:
        """Of which something is said."""
        call = self._calls.setdefault(call_id, _Call())
        self._with_content.pop(call_id, None)
        self._with_content[call_id] = None
        if len(self._with_content) > MAX_CONTENTS:
            oldest = next(iter(self._with_content))
            del self._with_content[oldest]
            if self._calls[oldest].untold:
                self._late.append(self._whole(oldest))
            self._calls[oldest].forget()
        if len(self._calls) > MAX_CALLS:
            del self._calls[next(name for name in self._calls if name not in self._with_content)]
        return call

    def terminal(self, update: Json) -> list[Json]:
        """``terminal_update`` and ``terminal_output_chunk``: updates of the calls that show it."""
        terminal = self._terminals.setdefault(update["terminalId"], _Terminal())
        if terminal.has_ended:
            return []
        if update["sessionUpdate"] == "terminal_output_chunk":
            terminal.add(update["data"])
        elif "output" in update:
            terminal.output.clear()
            terminal.add((update["output"] or {}).get("data", ""))
        if update.get("exitStatus") is not None:
            terminal.has_ended = True
        elif update["sessionUpdate"] != "terminal_update" or "output" not in update:
            return []
        return [self._whole(name) for name in sorted(terminal.calls) if name in self._calls]

    def _whole(self, call_id: str) -> Json:
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "content": self.shown(call_id),
        }

    def shown(self, call_id: str) -> list[Json]:
        """Its whole content, as far as version 1 has it and it is kept."""
        call = self._calls[call_id]
        call.untold = 0
        before = [_words(_LEFT_OUT)] if call.left_out else []
        return before + self._shown(call_id, call.pieces)

    def _shown(self, call_id: str, pieces: Iterable[Json]) -> list[Json]:
        shown: list[Json] = []
        told: set[str] = set()
        for piece in pieces:
            kind = piece.get("type")  # another than these three version 1 lacks
            if kind == "diff":
                shown += diffs(piece)
            elif kind == "terminal":
                shown += self._command(call_id, piece, told)
            elif kind == "content" and fitting("ContentBlock", piece.get("content")) is not None:
                shown.append(piece)
        return shown

    def _command(self, call_id: str, piece: Json, told: set[str]) -> list[Json]:
        """A command, and what came of it; its output once."""
        terminal_id = piece["terminalId"]
        terminal = self._terminals.setdefault(terminal_id, _Terminal())
        if len(terminal.calls) < MAX_SHOWING:
            terminal.calls.add(call_id)
        if (
            not (terminal.has_ended and terminal.output)
            or call_id not in terminal.calls
            or terminal_id in told
        ):
            return [piece]
        told.add(terminal_id)
        return [piece, _words(terminal.text)]


def _words(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def _size(piece: Json) -> int:
    return _PIECE + len(str(piece))


def diffs(diff: Json) -> list[Json]:
    """Content of a tool call, for ``DiffToolCallContent`` of version 2."""
    hunks: dict[str, list[tuple[str, str]]] = {}
    for name, texts in _hunks(diff.get("patch")):
        hunks.setdefault(name, []).append(texts)
    found: list[Json] = []
    for change in diff.get("changes") or ():
        path = str(change.get("path", ""))
        # Each is told once, however many changes name its file.
        own = next((hunks.pop(name) for name in _names(path) if name in hunks), [])
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


def _names(path: str) -> Iterator[str]:
    """As the patch may call it: by its whole path, or from any directory on."""
    yield path
    for found in islice(re.finditer("/", path), MAX_DEPTH):
        yield path[found.end() :]


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
