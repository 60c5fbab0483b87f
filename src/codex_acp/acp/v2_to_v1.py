"""PURE: values, updates and questions of an agent of version 2, in the models of version 1.

For a program that is written once and drives agents of either version. What version 1 has no
place for is an `UnknownVariant` with all of it, and a function that returns None has nothing of the
kind in version 1: nobody is told that a value is what it is not. Knows no session, no connection
and no clock.

A message that is given as a whole becomes the pieces that are new in it. In version 1 the content
of a tool call is replaced as a whole, and a command's output is content: what came of both is kept
here, and the output becomes text when the command has ended. What is kept is bounded, and so is
what a small piece more has told again: an agent can send any number of them. A diff is the old and
the new text of a file there; a git patch has of both what is around a change, so each hunk becomes
a diff, and a change without a patch is told in words.

No permission becomes easier to give: an option of a kind that is not known cannot be chosen, and a
question that cannot be shown whole is not asked.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from codex_acp._last_ones import LastOnes
from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v1.methods import STABLE_MODELS
from codex_acp.acp._generated.v1.models import RequestPermissionRequest
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.errors import InvalidPayload
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.acp._generated.v1.models import CreateElicitationRequest
    from codex_acp.wire.model import WireModel

    Update: TypeAlias = v1.SessionUpdate | UnknownVariant


Json = dict[str, Any]

_PLAN_STATUSES: Final = ("pending", "in_progress", "completed")


def as_json(model: WireModel) -> Json:
    """A model as plain JSON data under its wire names: what was set, nothing else."""
    return cast("Json", plain(model))


def fitting(name: str, value: object) -> Any:
    """``value`` as a model of version 1; None if it does not fit."""
    try:
        return STABLE_MODELS.decode(name, value, name)
    except InvalidPayload:
        return None


def each(make: Callable[[Json], Json | None], values: object) -> list[Json]:
    """Return those objects of a list, as ``make`` has them, that version 1 has."""
    given = values if isinstance(values, Sequence) else ()
    made = (make(value) for value in given if isinstance(value, dict))
    return [value for value in made if value is not None]


def config_option(option: Json) -> Json | None:
    """A select or a boolean; their ids have other names."""
    if option.get("type") not in ("select", "boolean"):
        return None
    made = _renamed(option, "configId", "id")
    if "options" in made:
        made["options"] = [_renamed(each, "groupId", "group") for each in made["options"]]
    return made


def command(given: Json) -> Json | None:
    """A command with free text behind it, or with nothing."""
    if given.get("type") != "command":
        return None
    made = {key: value for key, value in given.items() if key not in ("type", "input")}
    text = given.get("input")
    if isinstance(text, Mapping) and text.get("type") == "text":
        made["input"] = {key: value for key, value in text.items() if key != "type"}
    return made


def auth_method(method: Json) -> Json | None:
    """A login that the agent runs, or one in a terminal."""
    made = _renamed(method, "methodId", "id")
    if method.get("type") == "agent":
        del made["type"]
        return made
    if method.get("type") != "terminal":
        return None
    made["env"] = {each["name"]: each["value"] for each in method.get("env") or ()}
    return made


def agent_capabilities(said: Json, *, has_logins: bool) -> Json:
    """Those of an agent; what is baseline in version 2 is said in version 1."""
    made: Json = {key: said[key] for key in ("_meta",) if key in said}
    if has_logins:
        made["auth"] = {"logout": {}}
    session = said.get("session")
    if not isinstance(session, dict):
        return made
    prompt, mcp = session.get("prompt") or {}, session.get("mcp") or {}
    may_be = ("delete", "fork", "additionalDirectories")
    offered = [name for name in may_be if session.get(name) is not None]
    return {
        **made,
        "loadSession": True,
        "sessionCapabilities": {name: {} for name in ("list", "resume", "close", *offered)},
        "promptCapabilities": {
            name: prompt.get(name) is not None for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {"http": mcp.get("http") is not None, "sse": False},
    }


def mcp_server(server: Json) -> Json:
    """One of version 1 as version 2 has it, where each says what it is."""
    return server if "type" in server else {"type": "stdio", **server}


def plan(content: object) -> list[Json] | None:
    """The entries of a plan of items; one that was given up is no longer part of it."""
    if not isinstance(content, dict) or content.get("type") != "items":
        return None
    entries = content.get("entries") or ()
    kept = [entry for entry in entries if entry.get("status") in _PLAN_STATUSES]
    known = ("high", "medium", "low")
    return [e if e.get("priority") in known else {**e, "priority": "medium"} for e in kept]


def _renamed(value: Json, old: str, new: str) -> Json:
    return {new if key == old else key: inner for key, inner in value.items()}


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
        # Whether what is new is worth telling all of it again.
        is_due = call.size <= TOLD_AT_ONCE or call.untold >= call.size // 4
        told = [self._whole(chunk["toolCallId"])] if is_due else []
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
        """Return the tool call of which something is said; forget content of older ones."""
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
        """Return a command and, once, its output."""
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
        new, old = _NEW.search(head), _OLD.search(head)
        if new is not None and new[1] != "/dev/null":
            name = new[1]
        else:
            name = old[1] if old is not None else ""
        found += [(name, _texts(body)) for body in bodies]
    return found


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


_KINDS: Final = ("allow_once", "allow_always", "reject_once", "reject_always")


def permission(request: v2.RequestPermissionRequest, calls: ToolCalls) -> RequestPermissionRequest:
    """As version 1 asks it, about a tool call whose content ends with the ``description``.

    ``title``, ``description`` and ``subject`` are kept as they came, among the fields that
    version 1 lacks.
    """
    said = as_json(request)
    options = [option for option in said["options"] if option.get("kind") in _KINDS]
    tool_call = _tool_call(said, calls)
    return RequestPermissionRequest.model_validate(
        {**said, "toolCall": tool_call, "options": options}
    )


def elicitation(request: v2.CreateElicitationRequest) -> CreateElicitationRequest | None:
    """A form or a URL; None for a mode that is not known, and for a form that version 1 lacks."""
    if isinstance(request, UnknownVariant):
        return None
    made: CreateElicitationRequest | None = fitting("CreateElicitationRequest", as_json(request))
    return made


def _tool_call(said: dict[str, Any], calls: ToolCalls) -> dict[str, Any]:
    """A patch, as in version 1: what was said of the tool call before is not changed by it."""
    subject = said.get("subject") or {}
    if subject.get("type") == "tool_call":
        call_id = subject["toolCall"]["toolCallId"]
        known = calls.knows(call_id)
        patch = {**({} if known else {"title": said["title"]}), **calls.patch(subject["toolCall"])}
        return {**patch, **_why(said, calls, call_id)}
    text = "\n\n".join(filter(None, (said["title"], said.get("description"))))
    new: dict[str, Any] = {
        "toolCallId": f"permission-{next(_numbers)}",
        "title": said["title"],
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
    }
    if subject.get("type") != "command":
        return new
    command = {"command": subject["command"], "cwd": subject["cwd"]}
    made = {**new, "title": subject["command"], "kind": "execute", "rawInput": command}
    call_id = subject.get("toolCallId")
    if call_id is None:
        return made
    if calls.knows(call_id):
        return {"toolCallId": call_id, "rawInput": command, **_why(said, calls, call_id)}
    return {**made, "toolCallId": call_id}


def _why(said: dict[str, Any], calls: ToolCalls, call_id: str) -> dict[str, Any]:
    """The content of a tool call that is shown already, and why it is asked about."""
    if not said.get("description"):
        return {}
    text = {"type": "text", "text": said["description"]}
    return {"content": [*calls.shown(call_id), {"type": "content", "content": text}]}


_numbers = count(1)


MESSAGES: Final = 64
"""Messages of a session of which is remembered what was said: the last ones may still change."""

_WHOLE: Final = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}


class _Said:
    """The text of a message, of which only is kept what tells it from another."""

    __slots__ = ("_hash", "length", "name")

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        """The id under which it goes on: another one, where what was said of it was replaced."""
        self._hash = sha256()
        self.length = 0
        self.add(text)

    def __bool__(self) -> bool:
        return self.length > 0

    def add(self, text: str) -> None:
        """Add text to the message."""
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self.length += len(text)

    def begins(self, text: str) -> bool:
        """Whether ``text`` begins with it."""
        begin = text[: self.length].encode("utf-8", "surrogatepass")
        return sha256(begin).digest() == self._hash.digest()


class Updates:
    """Translates the updates of one session; permission requests refer to its tool ``calls``."""

    def __init__(self) -> None:
        self.calls: ToolCalls = ToolCalls()
        self._said: LastOnes[str, _Said] = LastOnes(MESSAGES)
        self._replaced = 0

    def translated(self, update: v2.SessionUpdate) -> list[Update]:
        """Return an update as version 1 has it: none, one or several updates."""
        if (
            isinstance(
                update, v2.AgentMessageChunkSessionUpdate | v2.AgentThoughtChunkSessionUpdate
            )
            and isinstance(update.content, v2.TextContentBlock)
            and update.content.model_fields_set <= {"type", "text"}
        ):
            return [self._text(update, update.content.text)]
        wire: Any = plain(update)
        made = self._translated(wire)
        if made is None:
            rest = self.calls.untold() if wire.get("state") == "idle" else []
            late = (fitting("SessionUpdate", each) for each in rest)
            return [*(each for each in late if each), UnknownVariant.model_validate(wire)]
        known = [fitting("SessionUpdate", each) for each in made]
        found: list[Update] = [each for each in known if each is not None]
        if wire["sessionUpdate"].startswith("terminal_"):
            return [UnknownVariant.model_validate(wire), *found]
        return found if found or not made else [UnknownVariant.model_validate(wire)]

    def _translated(self, update: Json) -> list[Json] | None:
        """Return an update as those of version 1; None: it has nothing like it."""
        kind: str = update["sessionUpdate"]
        if kind in _WHOLE:
            return self._message(update, _WHOLE[kind])
        if kind in _WHOLE.values():
            name = self._note(update["messageId"], [update["content"]])
            return [{**update, "messageId": name}]
        match kind:
            case "state_update" | "plan_removed":
                return None
            case "tool_call_update":
                return [self.calls.updated(update), *self.calls.late()]
            case "tool_call_content_chunk":
                return self.calls.appended(update)
            case "terminal_update" | "terminal_output_chunk":
                return self.calls.terminal(update)
            case "plan_update":
                entries = plan(update.get("plan"))
                return None if entries is None else [{"sessionUpdate": "plan", "entries": entries}]
            case "available_commands_update":
                return [{**update, "availableCommands": each(command, update["availableCommands"])}]
            case "config_option_update":
                return [{**update, "configOptions": each(config_option, update["configOptions"])}]
        return [update]

    def _text(
        self,
        update: v2.AgentMessageChunkSessionUpdate | v2.AgentThoughtChunkSessionUpdate,
        text: str,
    ) -> Update:
        """Return a chunk of text, of which there are thousands."""
        name = self._note(update.message_id, [{"type": "text", "text": text}])
        content = v1.TextContentBlock(text=text)
        if isinstance(update, v2.AgentMessageChunkSessionUpdate):
            return v1.AgentMessageChunkSessionUpdate(content=content, message_id=name)
        return v1.AgentThoughtChunkSessionUpdate(content=content, message_id=name)

    def _message(self, update: Json, kind: str) -> list[Json]:
        """Return chunks with the new part of a message that version 2 sends as a whole."""
        message_id, content = update["messageId"], update.get("content") or []
        said = self._said.get(message_id)
        text = _text_of(content)
        if said and said.begins(text):
            rest = text[said.length :]
            content = [{"type": "text", "text": rest}] if rest else []
            name = self._note(message_id, content)
        elif said and content:
            # Version 1 cannot take back what was said: the new text is a message of its own.
            self._replaced += 1
            name = f"{message_id}#{self._replaced}"
            self._said[message_id] = _Said(name, text)
        else:
            name = self._note(message_id, content)
        return [{"sessionUpdate": kind, "messageId": name, "content": c} for c in content]

    def _note(self, message_id: str, content: Sequence[Json]) -> str:
        """Remember more content of a message, and return the message's id in version 1."""
        said = self._said.setdefault(message_id, _Said(message_id))
        said.add(_text_of(content))
        return said.name


def _text_of(content: Sequence[Json]) -> str:
    return "".join(str(block["text"]) for block in content if block.get("type") == "text")
