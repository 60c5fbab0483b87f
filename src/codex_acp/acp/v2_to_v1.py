"""PURE: convert what an agent of version 2 sends to version 1, and MCP servers back to version 2.

So a program that knows only version 1 can drive agents of both versions. A function returns None
for a value that version 1 cannot express; such an update becomes an `UnknownVariant` with all its
fields. Must not know sessions, connections or clocks.

Three differences need more than new names. Version 2 may send a whole message again: version 1 gets
the new content alone. In version 1 an update replaces the whole content of a tool call, and a
command's output is content. So `ToolCalls` keeps the content, and adds the output when the command
has ended. An agent can send any number of small pieces, so the kept content is bounded,
and so is the content that is sent again. A diff of version 1 has the old and the new text. A diff
of version 2 has a git patch: each hunk becomes a diff, and a change without a patch a line of text.

No permission becomes easier to give: options of an unknown kind are removed, and the agent's
elicitation is not shown if version 1 cannot show all of it.
"""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp._json import with_key_renamed, without_none
from codex_acp._last_ones import LastOnes
from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v1.methods import STABLE_MODELS
from codex_acp.errors import InvalidPayload
from codex_acp.jsonrpc import encode_json
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.acp._generated.v2 import models as v2

    Update: TypeAlias = v1.SessionUpdate | UnknownVariant


Json = dict[str, Any]

_PLAN_STATUSES: Final = ("pending", "in_progress", "completed")
_PRIORITIES: Final = ("high", "medium", "low")


def v1_model(name: str, value: object) -> Any:
    """Decode ``value`` as the model ``name`` of version 1; return None if it does not fit."""
    try:
        return STABLE_MODELS.decode(name, value, name)
    except InvalidPayload:
        return None


def convert_each(convert: Callable[[Json], Json | None], values: object) -> list[Json]:
    """Convert each object of a list; leave out each for which ``convert`` returns None."""
    if not isinstance(values, Sequence):
        return []
    converted = (convert(value) for value in values if isinstance(value, dict))
    return [value for value in converted if value is not None]


def config_option(option: Json) -> Json | None:
    """Convert a select or a boolean option."""
    if option.get("type") not in ("select", "boolean"):
        return None
    converted = with_key_renamed(option, "configId", "id")
    if "options" in converted:
        converted["options"] = [
            with_key_renamed(choice, "groupId", "group") for choice in converted["options"]
        ]
    return converted


def command(offered: Json) -> Json | None:
    """Convert a slash command that takes free text or nothing."""
    if offered.get("type") != "command":
        return None
    converted = {key: value for key, value in offered.items() if key not in ("type", "input")}
    text = offered.get("input")
    if isinstance(text, Mapping) and text.get("type") == "text":
        converted["input"] = {key: value for key, value in text.items() if key != "type"}
    return converted


def auth_method(method: Json) -> Json | None:
    """Convert a login that the agent runs, or a login in a terminal."""
    converted = with_key_renamed(method, "methodId", "id")
    if method.get("type") == "agent":
        del converted["type"]
        return converted
    if method.get("type") != "terminal":
        return None
    converted["env"] = {variable["name"]: variable["value"] for variable in method.get("env") or ()}
    return converted


def agent_capabilities(capabilities: Json, *, has_logins: bool) -> Json:
    """Convert an agent's capabilities; add the capabilities of every agent of version 2."""
    converted: Json = {"_meta": capabilities["_meta"]} if "_meta" in capabilities else {}
    if has_logins:
        converted["auth"] = {"logout": {}}
    session = capabilities.get("session")
    if not isinstance(session, dict):
        return converted
    prompt, mcp = session.get("prompt") or {}, session.get("mcp") or {}
    optional = ("delete", "fork", "additionalDirectories")
    advertised = [name for name in optional if session.get(name) is not None]
    return {
        **converted,
        "loadSession": True,
        "sessionCapabilities": {name: {} for name in ("list", "resume", "close", *advertised)},
        "promptCapabilities": {
            name: prompt.get(name) is not None for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {"http": mcp.get("http") is not None, "sse": False},
    }


def mcp_server(server: Json) -> Json:
    """Convert an MCP server from version 1 to version 2, which requires a ``type``."""
    return server if "type" in server else {"type": "stdio", **server}


def plan_entries(content: object) -> list[Json] | None:
    """Return the entries of a plan of the type ``items``, without cancelled ones."""
    if not isinstance(content, dict) or content.get("type") != "items":
        return None
    entries = content.get("entries") or ()
    return [
        entry if entry.get("priority") in _PRIORITIES else {**entry, "priority": "medium"}
        for entry in entries
        if entry.get("status") in _PLAN_STATUSES
    ]


OUTPUT_LIMIT: Final = 1 << 16
"""Bytes at the end of one command's output that are kept."""
MAX_CONTENT_CHARACTERS: Final = 1 << 20
"""Characters at the end of one tool call's content that are kept."""
MAX_CALLS_WITH_CONTENT: Final = 64
"""Last updated tool calls, whose content is kept."""
MAX_CALLS: Final = 10_000
"""Tool calls whose ids are kept."""
MAX_TERMINALS: Final = 256
"""Terminals whose output is kept."""
MAX_CALLS_PER_TERMINAL: Final = 4
"""Tool calls that repeat one command's output; usually there is one."""
RESEND_LIMIT: Final = 1 << 14
"""Characters of content: up to this size, each new piece sends all of the content again. Larger
content is sent again when a quarter of it is new."""
_PIECE_OVERHEAD: Final = 64
"""Characters that are added to the length of each piece of content, so that empty ones count."""
_LEFT_OUT: Final = "(What this tool call had shown before is not repeated.)"

_STATUSES: Final = {"paused": "in_progress", "cancelled": "failed"}
"""Status that version 1 lacks → its replacement."""
_ENDED: Final = ("completed", "failed")

MAX_DEPTH: Final = 100
"""Leading directories of a path that its name in a patch may lack."""
_FILE: Final = re.compile(r"^diff --git ", re.M)
_HUNK: Final = re.compile(r"^@@ .*$", re.M)
_NEW_NAME: Final = re.compile(r"^\+\+\+ (?:b/)?(.+?)\t?$", re.M)
_OLD_NAME: Final = re.compile(r"^--- (?:a/)?(.+?)\t?$", re.M)


@dataclass(slots=True)
class _Terminal:
    """The output of a command that runs in a terminal of the agent."""

    output: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    call_ids: set[str] = field(default_factory=set)
    """Tool calls that show this terminal."""

    def add(self, data: object) -> None:
        """Add base64 to the output, and cut its beginning; ignore anything else."""
        try:
            self.output += base64.b64decode(str(data), validate=True)
        except ValueError:  # `binascii.Error` is one, too
            return
        del self.output[:-OUTPUT_LIMIT]


@dataclass(slots=True)
class _CallContent:
    """The content of a tool call, as pieces of version 2."""

    pieces: deque[Json] = field(default_factory=deque)
    size: int = 0
    """Characters of ``pieces``, see `_size`."""
    unsent_size: int = 0
    """Characters of the pieces that version 1 has not received yet."""
    is_cut: bool = False
    """Whether earlier pieces are no longer kept."""

    def add(self, piece: Json) -> None:
        size = _size(piece)
        self.pieces.append(piece)
        self.size += size
        self.unsent_size += size

    def replace(self, pieces: Sequence[Json]) -> None:
        """Keep ``pieces``, which version 1 receives now, in place of all others."""
        self.pieces = deque(pieces)
        self.size = sum(map(_size, pieces))
        self.unsent_size = 0
        self.is_cut = False
        self.trim()

    def trim(self) -> None:
        """Drop the oldest pieces above `MAX_CONTENT_CHARACTERS`. Due pieces must be sent before
        this call."""
        while self.size > MAX_CONTENT_CHARACTERS:
            self.size -= _size(self.pieces.popleft())
            self.is_cut = True


class ToolCalls:
    """Converts the tool calls of one session."""

    def __init__(self) -> None:
        self._calls: LastOnes[str, _CallContent] = LastOnes(MAX_CALLS)
        """By id, last updated last: `LastOnes` moves a key that is set to the end. Only the newest
        `MAX_CALLS_WITH_CONTENT` still have content."""
        self._terminals: LastOnes[str, _Terminal] = LastOnes(MAX_TERMINALS)
        self._evicted: list[Json] = []
        """Updates that are still to be sent, of calls whose content is no longer kept."""

    def convert_update(self, update: Json) -> Json:
        """Convert a ``tool_call_update``. A call's first update becomes a ``tool_call``."""
        is_new = not self.knows(update["toolCallId"])
        converted = self.convert_fields(update)
        if not is_new:
            return {**converted, "sessionUpdate": "tool_call_update"}
        title = converted.get("title") or converted.get("name") or "tool call"
        return {**converted, "sessionUpdate": "tool_call", "title": title}

    def knows(self, call_id: str) -> bool:
        """Return whether the agent has sent the tool call before."""
        return call_id in self._calls

    def convert_fields(self, update: Json) -> Json:
        """Convert the fields that an update of a tool call sets, and keep its content."""
        call_id = update["toolCallId"]
        call = self._touch(call_id)
        converted = without_none(update)
        converted.pop("capabilities", None)
        if "status" in converted:
            converted["status"] = _STATUSES.get(converted["status"], converted["status"])
        if "kind" in converted and v1_model("ToolKind", converted["kind"]) is None:
            converted["kind"] = "other"
        if "content" in update:
            pieces = update["content"] or ()
            converted["content"] = self._convert_pieces(call_id, pieces)
            call.replace(pieces)
        elif call.unsent_size and converted.get("status") in _ENDED:
            converted["content"] = self.send_content(call_id)
        if "locations" in update and update["locations"] is None:
            converted["locations"] = []
        return converted

    def append(self, chunk: Json) -> list[Json]:
        """Convert a ``tool_call_content_chunk``: return all content once enough of it is new."""
        call = self._touch(chunk["toolCallId"])
        call.add(chunk["content"])
        is_due = call.size <= RESEND_LIMIT or call.unsent_size >= call.size // 4
        updates = [self._content_update(chunk["toolCallId"])] if is_due else []
        call.trim()
        return updates

    def unsent_updates(self) -> list[Json]:
        """Return the updates of all content that was not sent yet, when the agent becomes idle."""
        unsent = [call_id for call_id, call in self._calls.items() if call.unsent_size]
        return self.evicted_updates() + [self._content_update(call_id) for call_id in unsent]

    def evicted_updates(self) -> list[Json]:
        """Return, once, the unsent updates of calls whose content is no longer kept."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def _touch(self, call_id: str) -> _CallContent:
        """Return a tool call, and make it the last updated one. Forget the content of a call that
        is no longer among the last `MAX_CALLS_WITH_CONTENT`."""
        call = self._calls[call_id] = self._calls.get(call_id) or _CallContent()
        dropped_id = next(islice(reversed(self._calls), MAX_CALLS_WITH_CONTENT, None), None)
        if dropped_id is not None:
            dropped = self._calls[dropped_id]
            if dropped.unsent_size:
                self._evicted.append(self._content_update(dropped_id))
            dropped.is_cut = dropped.is_cut or bool(dropped.pieces)
            dropped.pieces.clear()
            dropped.size = dropped.unsent_size = 0
        return call

    def convert_terminal(self, update: Json) -> list[Json]:
        """Convert an update of a terminal to updates of the tool calls that show the terminal."""
        terminal_id = update["terminalId"]
        terminal = self._terminals.setdefault(terminal_id, _Terminal())
        if terminal.has_ended:  # its output was sent
            return []
        if update["sessionUpdate"] == "terminal_output_chunk":
            terminal.add(update["data"])
        elif "output" in update:
            terminal.output.clear()
            terminal.add((update["output"] or {}).get("data", ""))
        if update.get("exitStatus") is None:
            return []
        terminal.has_ended = True
        showing = [each for each in sorted(terminal.call_ids) if self._shows(each, terminal_id)]
        return [self._content_update(call_id) for call_id in showing]

    def _shows(self, call_id: str, terminal_id: str) -> bool:
        """Return whether the kept content of a tool call has the terminal."""
        call = self._calls.get(call_id)
        return call is not None and any(p.get("terminalId") == terminal_id for p in call.pieces)

    def _content_update(self, call_id: str) -> Json:
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "content": self.send_content(call_id),
        }

    def send_content(self, call_id: str) -> list[Json]:
        """Return the kept content of a tool call in version 1, and note that it is sent."""
        call = self._calls[call_id]
        call.unsent_size = 0
        note = [_text_content(_LEFT_OUT)] if call.is_cut else []
        return note + self._convert_pieces(call_id, call.pieces)

    def _convert_pieces(self, call_id: str, pieces: Iterable[Json]) -> list[Json]:
        """Convert content; leave out kinds that version 1 lacks."""
        converted: list[Json] = []
        with_output: set[str] = set()
        for piece in pieces:
            kind = piece.get("type")
            if kind == "diff":
                converted += diffs(piece)
            elif kind == "terminal":
                converted += self._convert_terminal_piece(call_id, piece, with_output)
            elif kind == "content" and v1_model("ContentBlock", piece.get("content")) is not None:
                converted.append(piece)
        return converted

    def _convert_terminal_piece(
        self, call_id: str, piece: Json, with_output: set[str]
    ) -> list[Json]:
        """Return the piece, and the output of a command that has ended. ``with_output`` collects
        the terminals whose output was returned: each is returned once."""
        terminal_id = piece["terminalId"]
        terminal = self._terminals.setdefault(terminal_id, _Terminal())
        if len(terminal.call_ids) < MAX_CALLS_PER_TERMINAL:
            terminal.call_ids.add(call_id)
        may_repeat = call_id in terminal.call_ids and terminal_id not in with_output
        if not (may_repeat and terminal.has_ended and terminal.output):
            return [piece]
        with_output.add(terminal_id)
        return [piece, _text_content(terminal.output.decode(errors="replace"))]


def _text_content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def _size(piece: Json) -> int:
    return _PIECE_OVERHEAD + len(str(piece))


def diffs(diff: Json) -> list[Json]:
    """Convert a diff of version 2 to content of a tool call: one piece for each hunk."""
    hunks: dict[str, list[tuple[str, str]]] = {}
    for name, old_and_new in _hunks(diff.get("patch")):
        hunks.setdefault(name, []).append(old_and_new)
    converted: list[Json] = []
    for change in diff.get("changes") or ():
        path = str(change.get("path", ""))
        # `pop`: a second change of the file does not repeat the hunks.
        texts = next((hunks.pop(name) for name in _possible_names(path) if name in hunks), [])
        for old, new in texts:
            piece: Json = {"type": "diff", "path": path, "newText": new}
            if change.get("operation") != "add":
                piece["oldText"] = old
            converted.append(piece)
        if not texts:
            source = f"{change['oldPath']} → " if "oldPath" in change else ""
            converted.append(_text_content(f"{change.get('operation')}: {source}{path}"))
    return converted


def _possible_names(path: str) -> Iterator[str]:
    """Yield the names of a path in a patch: the whole path, or its end after any ``/``."""
    yield path
    for slash in islice(re.finditer("/", path), MAX_DEPTH):
        yield path[slash.end() :]


def _hunks(patch: object) -> list[tuple[str, tuple[str, str]]]:
    """Return (file, (old text, new text)) of each hunk."""
    if not isinstance(patch, dict) or patch.get("format") != "git_patch":
        return []
    hunks = []
    for section in _FILE.split(str(patch.get("text", "")))[1:]:
        head, *bodies = _HUNK.split(section)
        new, old = _NEW_NAME.search(head), _OLD_NAME.search(head)
        if new is not None and new[1] != "/dev/null":
            name = new[1]
        else:
            name = old[1] if old is not None else ""
        hunks += [(name, _old_and_new(body)) for body in bodies]
    return hunks


def _old_and_new(body: str) -> tuple[str, str]:
    """Return the old and the new text of a hunk's lines."""
    lines = body.split("\n")[1:]  # the first is the end of the ``@@`` line
    old = "".join(f"{line[1:]}\n" for line in lines if line.startswith((" ", "-")))
    new = "".join(f"{line[1:]}\n" for line in lines if line.startswith((" ", "+")))
    return old, new


_OPTION_KINDS: Final = ("allow_once", "allow_always", "reject_once", "reject_always")

_numbers = count(1)
"""Numbers of the tool calls that are made up for permission requests without one."""


def permission_request(
    request: v2.RequestPermissionRequest, calls: ToolCalls
) -> v1.RequestPermissionRequest:
    """Convert a permission request to one about a tool call, whose content has the
    ``description``. ``title``, ``description`` and ``subject`` are kept as unknown fields of the
    model."""
    question = plain(request)
    options = [option for option in question["options"] if option.get("kind") in _OPTION_KINDS]
    return v1.RequestPermissionRequest.model_validate(
        {**question, "toolCall": _tool_call(question, calls), "options": options}
    )


def _tool_call(question: Json, calls: ToolCalls) -> Json:
    """Return ``toolCall`` of a permission request: the fields to change of a known tool call, or
    all fields of a new one."""
    subject = question.get("subject") or {}
    if subject.get("type") == "tool_call":
        call_id = subject["toolCall"]["toolCallId"]
        title = {} if calls.knows(call_id) else {"title": question["title"]}
        fields = {**title, **calls.convert_fields(subject["toolCall"])}
        return {**fields, **_content_with_description(question, calls, call_id)}
    reason = "\n\n".join(filter(None, (question["title"], question.get("description"))))
    new_call = {
        "toolCallId": f"permission-{next(_numbers)}",
        "title": question["title"],
        "content": [_text_content(reason)],
    }
    if subject.get("type") == "command":
        return _tool_call_of_command(question, calls, new_call)
    return new_call


def _tool_call_of_command(question: Json, calls: ToolCalls, new_call: Json) -> Json:
    """Return ``toolCall`` of a question about a command: the known call that runs the command, or
    ``new_call`` if the question names no known call."""
    subject = question["subject"]
    raw_input = {"command": subject["command"], "cwd": subject["cwd"]}
    call_id = subject.get("toolCallId")
    if call_id is not None and calls.knows(call_id):
        content = _content_with_description(question, calls, call_id)
        return {"toolCallId": call_id, "rawInput": raw_input, **content}
    shown = {"title": subject["command"], "kind": "execute", "rawInput": raw_input}
    return {**new_call, **shown, **({} if call_id is None else {"toolCallId": call_id})}


def _content_with_description(question: Json, calls: ToolCalls, call_id: str) -> Json:
    """Return ``content`` of a known tool call, with the request's description, if any, once."""
    if not question.get("description"):
        return {}
    content, why = calls.send_content(call_id), _text_content(question["description"])
    return {"content": content if why in content else [*content, why]}


MAX_MESSAGES: Final = 64
"""Messages of one session whose sent text is remembered: the messages that changed last."""
_CHUNK_OF: Final = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}
"""Kind of update with a whole message → the kind with a piece of it."""


class _SentText:
    """The length and the hash of a message's `_text_of_block` texts that version 1 has received."""

    __slots__ = ("_hash", "length", "v1_id")

    def __init__(self, v1_id: str, text: str = "") -> None:
        self.v1_id = v1_id
        """Id of the message in version 1; a new id after the content was replaced."""
        self._hash = sha256()
        self.length = 0
        self.add(text)

    def add(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self.length += len(text)

    def is_start_of(self, text: str) -> bool:
        """Return whether some text was sent, and ``text`` starts with it."""
        start = text[: self.length].encode("utf-8", "surrogatepass")
        return self.length > 0 and sha256(start).digest() == self._hash.digest()


class UpdatesToV1:
    """Converts the updates of one session; permission requests refer to its tool ``calls``."""

    def __init__(self) -> None:
        self.calls: ToolCalls = ToolCalls()
        self._sent: LastOnes[str, _SentText] = LastOnes(MAX_MESSAGES)
        self._replaced = 0
        """Number of messages whose content was replaced."""

    def convert(self, update: v2.SessionUpdate) -> list[Update]:
        """Convert an update to any number of updates."""
        wire: Any = plain(update)
        converted = self._convert_json(wire)
        if converted is None:  # a kind that version 1 lacks; when idle, no more content comes
            unsent = self.calls.unsent_updates() if wire.get("state") == "idle" else []
            return [*_models(unsent), UnknownVariant.model_validate(wire)]
        updates = _models(converted)
        if wire["sessionUpdate"].startswith("terminal_"):  # version 1 has no terminals of agents
            return [UnknownVariant.model_validate(wire), *updates]
        if converted and not updates:  # nothing fitted version 1
            return [UnknownVariant.model_validate(wire)]
        return updates

    def _convert_json(self, update: Json) -> list[Json] | None:
        """Convert an update; return None for a kind that version 1 lacks."""
        kind: str = update["sessionUpdate"]
        if kind in _CHUNK_OF:
            return self._convert_message(update, _CHUNK_OF[kind])
        if kind in _CHUNK_OF.values():
            v1_id = self._note_sent(update["messageId"], _text_of_block(update["content"]))
            return [{**update, "messageId": v1_id}]
        match kind:
            case "state_update" | "plan_removed":
                return None
            case "tool_call_update":
                return [self.calls.convert_update(update), *self.calls.evicted_updates()]
            case "tool_call_content_chunk":
                return self.calls.append(update)
            case "terminal_update" | "terminal_output_chunk":
                return self.calls.convert_terminal(update)
            case "plan_update":
                entries = plan_entries(update.get("plan"))
                return None if entries is None else [{"sessionUpdate": "plan", "entries": entries}]
            case "available_commands_update":
                commands = convert_each(command, update["availableCommands"])
                return [{**update, "availableCommands": commands}]
            case "config_option_update":
                options = convert_each(config_option, update["configOptions"])
                return [{**update, "configOptions": options}]
        return [update]

    def _convert_message(self, update: Json, chunk_kind: str) -> list[Json]:
        """Convert a whole message to chunks with its new part."""
        message_id, content = update["messageId"], update.get("content") or []
        sent = self._sent.get(message_id)
        texts = [*map(_text_of_block, content)]
        text = "".join(texts)
        if sent is not None and sent.is_start_of(text):
            # The message has grown.
            content = _content_after(content, texts, sent.length)
            v1_id = self._note_sent(message_id, text[sent.length :])
        elif sent is not None and sent.length and "content" in update:
            # Version 1 cannot take back sent content: the new content becomes another message.
            self._replaced += 1
            v1_id = f"{message_id}#{self._replaced}"
            self._sent[message_id] = _SentText(v1_id, text)
        else:  # nothing was sent yet, or the update has no content
            v1_id = self._note_sent(message_id, text)
        return [{"sessionUpdate": chunk_kind, "messageId": v1_id, "content": c} for c in content]

    def _note_sent(self, message_id: str, text: str) -> str:
        """Add content, as `_text_of_block` writes it, to the sent content of a message; return the
        message's id in version 1."""
        sent = self._sent.setdefault(message_id, _SentText(message_id))
        sent.add(text)
        return sent.v1_id


def _models(updates: list[Json]) -> list[Update]:
    """Decode updates of version 1; leave out updates that do not fit."""
    decoded = [v1_model("SessionUpdate", update) for update in updates]
    return [update for update in decoded if update is not None]


def _text_of_block(block: Json) -> str:
    """Return the text of a block, or a digest if the block is no text."""
    if block.get("type") == "text":
        return str(block["text"])
    return "\0" + sha256(encode_json(block)).hexdigest()


def _content_after(content: Sequence[Json], texts: Sequence[str], length: int) -> list[Json]:
    """Return the content after the first ``length`` characters of its ``texts``."""
    rest: list[Json] = []
    for block, text in zip(content, texts, strict=True):
        size = len(text)
        if size > length:
            is_cut = length > 0 and block.get("type") == "text"
            rest.append({**block, "text": block["text"][length:]} if is_cut else block)
        length = max(0, length - size)
    return rest
