"""Define the script of a scripted Codex app-server, and play it without any IO.

The player numbers the server requests and records the client's messages. Must not know streams,
processes or time: the player returns outputs, among them pauses. ``app_server`` carries out the
outputs in a process, ``app_server_link`` in memory.

**References.** In a string that the server sends, ``${name:path}`` is replaced by an earlier value,
with its JSON type if the reference is the whole string. If ``name`` is the method of a client's
request or notification, the value is in its last params. If ``name`` names a server request,
the value is in the last answer. ``path`` is dotted and may be empty. ``${turn:id}`` and
``${turn:threadId}`` are the ids of the last turn and its thread. Example:
``"${turn/start:input.0.text}"``.

**Order.** Entries are played in order. A request that a later entry expects waits for that entry. A
request that no entry expects gets a default answer if the script has ``defaults``; ``initialize``
always gets one. A request without any answer gets an error, and is listed in ``unexpected``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never, cast, get_args

from codex_acp._json import object_at
from codex_acp.errors import MisuseError
from codex_acp.jsonrpc import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from codex_acp.jsonrpc import RequestId


JsonObject: TypeAlias = "Mapping[str, object]"


@dataclass(frozen=True, slots=True)
class Expect:
    """Wait for a request of the client, and answer it.

    Without ``result`` and ``error``, the answer is the method's default, or ``{}``. ``silent``
    leaves the request without an answer.
    """

    expect: str
    result: JsonObject | None = None
    error: JsonObject | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True)
class ExpectNotification:
    """Wait for a notification of the client."""

    expect_notification: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Send a notification, ``times`` times."""

    notify: str
    params: JsonObject | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class AskClient:
    """Send a server request. Without an ``id``, ids count from 0, as in Codex.

    :class:`AwaitAnswer` and references use ``name``, by default the method.
    """

    request: str
    params: JsonObject | None = None
    id: RequestId | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Wait until the last server request with this name is answered."""

    name: str


@dataclass(frozen=True, slots=True)
class RawLine:
    """Write a text that may be no JSON. Without ``newline``, the next output continues the line."""

    raw: str
    newline: bool = True


@dataclass(frozen=True, slots=True)
class StderrText:
    """Write a line to standard error."""

    stderr: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for ``seconds``."""

    pause: float


@dataclass(frozen=True, slots=True)
class CloseOutput:
    """Close standard output, but continue to read."""

    close: bool = True


@dataclass(frozen=True, slots=True)
class Exit:
    """End the process with a status; in memory, close the link."""

    exit: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """From here on read all messages, and answer none, not even with a default."""

    silence: bool = True


Entry: TypeAlias = (
    Expect
    | ExpectNotification
    | Notify
    | AskClient
    | AwaitAnswer
    | RawLine
    | StderrText
    | Pause
    | CloseOutput
    | Exit
    | Silence
)
"""One step of the script of an app-server."""


def _json_name(entry: type[Entry], field_name: str) -> str:
    """Return the name of a field in JSON; no Python field can be called ``await``."""
    return "await" if entry is AwaitAnswer else field_name


_KINDS: Mapping[str, type[Entry]] = {
    _json_name(entry, fields(entry)[0].name): entry for entry in get_args(Entry)
}
"""Name of the first member in an entry's JSON → class of the entry."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "JsonObject | None": (dict,),
    "RequestId | None": (int, str),
    "bool": (bool,),
    "float": (int, float),
    "int": (int,),
    "str": (str,),
    "str | None": (str,),
}
"""Annotation of a field → allowed types of its JSON value."""


def entry_from_json(raw: object, where: str) -> Entry:
    """Make an entry from its JSON. Raises MisuseError whose message begins with ``where``."""
    members = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    kinds = [kind for kind in _KINDS if kind in members]
    if len(kinds) != 1:
        raise MisuseError(f"{where} must be an object with one of {', '.join(_KINDS)}")
    kind = kinds[0]
    entry_class = _KINDS[kind]
    types = {_json_name(entry_class, f.name): _TYPES[str(f.type)] for f in fields(entry_class)}
    for member, value in members.items():
        if member not in types or not isinstance(value, types[member]):
            raise MisuseError(f"{where}: {kind!r} cannot have {member!r} as {value!r}")
    others: Any = {member: value for member, value in members.items() if member != kind}
    first: Any = members[kind]
    return entry_class(first, **others)


def entry_to_json(entry: Entry) -> dict[str, object]:
    """Return the JSON of an entry, without members that have their defaults."""
    first, *others = fields(entry)
    members: dict[str, object] = {_json_name(type(entry), first.name): getattr(entry, first.name)}
    for item in others:
        value: object = getattr(entry, item.name)
        if value != item.default:
            members[item.name] = value
    return members


CODEX_VERSION = "0.163.0"
"""The version that the scripted app-server reports."""
THREAD_ID = "thread-1"
"""Id of the thread of ``thread/start``; ``thread/resume`` answers with the id in its params."""
_STARTED_AT = 1_700_000_000
"""A fixed time in seconds: records must be equal in every run."""
_FIXED_RESULTS: dict[str, dict[str, object]] = {
    "account/read": {"account": None, "requiresOpenaiAuth": False, "workspaceRouting": None},
    "collaborationMode/list": {"data": []},
    "config/read": {"config": {}, "origins": {}, "layers": []},
    "fs/getMetadata": {  # the directories in scripts do not exist
        "createdAtMs": 0,
        "isDirectory": True,
        "isFile": False,
        "isSymlink": False,
        "modifiedAtMs": 0,
    },
    "initialize": {
        "userAgent": f"scripted/{CODEX_VERSION}",
        "codexHome": "/scripted/codex-home",
        "platformFamily": "unix",
        "platformOs": "linux",
    },
    "model/list": {"data": [], "nextCursor": None},
    "permissionProfile/list": {"data": [], "nextCursor": None},
    "skills/list": {"data": []},
    "thread/archive": {},
    "thread/inject_items": {},
    "thread/list": {"data": [], "nextCursor": None},
    "thread/name/set": {},
    "thread/unsubscribe": {"status": "unsubscribed"},
    "turn/interrupt": {},
}
"""Method → result that does not depend on the params."""


def default_result(method: str, params: JsonObject, turn_id: str) -> dict[str, object] | None:
    """Return the default result of a client request; None if the method has no default.

    ``turn_id`` is the id of the turn that runs, or that the request starts.
    """
    match method:
        case "thread/start":
            return _thread_result(THREAD_ID, params)
        case "thread/resume" | "thread/read":
            return _thread_result(str(params.get("threadId", THREAD_ID)), params)
        case "turn/start":
            return {"turn": turn_object(turn_id)}
        case "turn/steer":
            return {"turnId": turn_id}
    return deepcopy(_FIXED_RESULTS.get(method))


def turn_object(turn_id: str, status: str = "inProgress") -> dict[str, object]:
    """Return a ``Turn`` without items."""
    return {
        "id": turn_id,
        "rootTurnId": turn_id,
        "items": [],
        "itemsView": "notLoaded",
        "status": status,
        "error": None,
        "startedAt": _STARTED_AT,
        "completedAt": None if status == "inProgress" else _STARTED_AT,
        "durationMs": None if status == "inProgress" else 0,
    }


def _thread_result(thread_id: str, params: JsonObject) -> dict[str, object]:
    cwd = str(params.get("cwd") or "/scripted/workspace")
    model = str(params.get("model") or "gpt-5.5")
    nulls = (
        "agentNickname", "agentRole", "daybreakEnabled", "extra", "forkedFromId", "gitInfo", "name",
        "parentThreadId", "path", "projectId", "reasoningEffort", "section", "sectionEnteredAt",
        "threadSource",
    )  # fmt: skip
    thread: dict[str, object] = {
        **dict.fromkeys(nulls),
        **dict.fromkeys(("createdAt", "updatedAt", "recencyAt"), _STARTED_AT),
        "id": thread_id,
        "environments": [],
        "sessionId": thread_id,
        "preview": "",
        "ephemeral": False,
        "historyMode": "paginated",
        "modelProvider": "scripted",
        "model": model,
        "status": {"type": "idle"},
        "cwd": cwd,
        "cliVersion": CODEX_VERSION,
        "originator": "scripted",
        "source": "vscode",
        "canAcceptDirectInput": True,
        "turns": [],
    }
    return {
        "thread": thread,
        "model": model,
        "modelProvider": "scripted",
        "serviceTier": None,
        "disabledPluginIds": [],
        "cwd": cwd,
        "runtimeWorkspaceRoots": [cwd],
        "instructionSources": [],
        "approvalPolicy": params.get("approvalPolicy") or "on-request",
        "approvalsReviewer": "user",
        "sandbox": {"type": "readOnly", "networkAccess": False},
        "activePermissionProfile": None,
        "reasoningEffort": None,
        "multiAgentMode": "explicitRequestOnly",
    }


_TURN_IDS: JsonObject = {"threadId": "${turn:threadId}", "turnId": "${turn:id}"}
_AT_MS = 1000 * _STARTED_AT


def turn_started() -> list[Entry]:
    """Send ``turn/started`` of the last turn."""
    turn = turn_object("${turn:id}")
    return [Notify("turn/started", {"threadId": "${turn:threadId}", "turn": turn})]


def agent_message(*deltas: str, item_id: str = "msg-1") -> list[Entry]:
    """Send a message of the agent: ``item/started``, the deltas, ``item/completed``."""
    notifications = [
        Notify("item/agentMessage/delta", {**_TURN_IDS, "itemId": item_id, "delta": delta})
        for delta in deltas
    ]
    completed = _agent_message_item(item_id, "".join(deltas))
    return [
        _item_started(_agent_message_item(item_id, "")),
        *notifications,
        Notify("item/completed", {"item": completed, **_TURN_IDS, "completedAtMs": _AT_MS}),
    ]


def command_approval(
    command: str = "touch made",
    *,
    item_id: str = "call-1",
    reason: str | None = None,
    name: str | None = None,
) -> list[Entry]:
    """Start a command's item, and request its approval; let ``AwaitAnswer`` follow.

    ``name`` names the server request; by default ``item/commandExecution/requestApproval``.
    """
    item: JsonObject = {
        "type": "commandExecution",
        "id": item_id,
        "pluginId": None,
        "scriptPath": None,
        "command": command,
        "cwd": "/scripted/workspace",
        "processId": None,
        "source": "agent",
        "status": "inProgress",
        "commandActions": [{"type": "unknown", "command": command}],
        "aggregatedOutput": None,
        "exitCode": None,
        "durationMs": None,
    }
    params: JsonObject = {
        "kind": "command",
        **_TURN_IDS,
        "itemId": item_id,
        "startedAtMs": _AT_MS,
        "environmentId": "local",
        "reason": reason,
        "command": command,
        "cwd": "/scripted/workspace",
        "commandActions": [{"type": "unknown", "command": command}],
        "proposedExecpolicyAmendment": command.split(),
        "availableDecisions": [
            "accept",
            {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": command.split()}},
            "cancel",
        ],
    }
    method = "item/commandExecution/requestApproval"
    return [_item_started(item), AskClient(method, params, name=name)]


def file_change_approval(
    path: str = "/scripted/workspace/new.txt",
    content: str = "new\n",
    *,
    item_id: str = "call-1",
    name: str | None = None,
) -> list[Entry]:
    """Start the item of a new file, and request its approval; let ``AwaitAnswer`` follow."""
    change: JsonObject = {"path": path, "kind": {"type": "add"}, "diff": content}
    item: JsonObject = {
        "type": "fileChange",
        "id": item_id,
        "changes": [change],
        "status": "inProgress",
    }
    params: JsonObject = {
        **_TURN_IDS,
        "itemId": item_id,
        "startedAtMs": _AT_MS,
        "reason": None,
        "grantRoot": None,
    }
    method = "item/fileChange/requestApproval"
    return [_item_started(item), AskClient(method, params, name=name)]


def request_resolved(request_id: int | str) -> list[Entry]:
    """Send ``serverRequest/resolved``, as Codex does when a server request is settled."""
    params = {"threadId": "${turn:threadId}", "requestId": request_id}
    return [Notify("serverRequest/resolved", params)]


def turn_completed(
    status: Literal["completed", "interrupted", "failed"] = "completed", *, error: str | None = None
) -> list[Entry]:
    """Send ``turn/completed`` of the last turn; ``error`` is the message of a failed turn."""
    turn = turn_object("${turn:id}", status)
    if error is not None:
        turn["error"] = {"message": error, "codexErrorInfo": None, "additionalDetails": None}
    return [Notify("turn/completed", {"threadId": "${turn:threadId}", "turn": turn})]


def _agent_message_item(item_id: str, text: str) -> JsonObject:
    return {
        "type": "agentMessage",
        "id": item_id,
        "text": text,
        "phase": None,
        "memoryCitation": None,
        "delivery": None,
        "questions": None,
    }


def _item_started(item: JsonObject) -> Notify:
    return Notify("item/started", {"item": item, **_TURN_IDS, "startedAtMs": _AT_MS})


_OPTIONS = ("defaults", "ignore_eof", "ignore_sigterm")


@dataclass(frozen=True, slots=True, init=False)
class AppServerScript:
    """Entries, and options of the server.

    ``defaults`` answers usual requests that no entry expects. With ``ignore_eof`` or
    ``ignore_sigterm``, the process goes on, for tests of shutdown.
    """

    entries: tuple[Entry, ...]
    defaults: bool
    ignore_eof: bool
    ignore_sigterm: bool

    def __init__(
        self,
        *entries: Entry,
        defaults: bool = False,
        ignore_eof: bool = False,
        ignore_sigterm: bool = False,
    ) -> None:
        object.__setattr__(self, "entries", entries)
        for name, value in zip(_OPTIONS, (defaults, ignore_eof, ignore_sigterm), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def from_jsonl(cls, text: str) -> AppServerScript:
        """Read a script with one entry a line, blank lines and ``#`` comments.

        A line ``{"options": {"defaults": true}}`` sets options. Raises MisuseError that names the
        invalid line.
        """
        entries: list[Entry] = []
        options: dict[str, bool] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                raw = json.loads(line)
            except ValueError as error:
                raise MisuseError(f"line {number} is not JSON: {error}") from error
            if isinstance(raw, dict) and "options" in raw:
                values = raw["options"]
                if not isinstance(values, dict) or not all(
                    name in _OPTIONS and isinstance(value, bool) for name, value in values.items()
                ):
                    names = ", ".join(_OPTIONS)
                    raise MisuseError(f"line {number}: options are the booleans {names}")
                options.update(values)
            else:
                entries.append(entry_from_json(raw, f"line {number}"))
        return cls(*entries, **options)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> AppServerScript:
        """Read a script from a JSONL file."""
        from pathlib import Path

        return cls.from_jsonl(Path(path).read_text(encoding="utf-8"))

    def to_jsonl(self) -> str:
        """Return the script as text, from which :meth:`from_jsonl` makes an equal script."""
        options = {name: True for name in _OPTIONS if getattr(self, name)}
        lines: list[dict[str, object]] = [{"options": options}] if options else []
        lines += map(entry_to_json, self.entries)
        return "".join(f"{json.dumps(line)}\n" for line in lines)


AppServerScriptLike: TypeAlias = "AppServerScript | Iterable[Entry]"
"""A script, or its entries."""


def as_app_server_script(script: AppServerScriptLike) -> AppServerScript:
    """Return ``script``, or a script with the entries ``script``."""
    return script if isinstance(script, AppServerScript) else AppServerScript(*script)


_REFERENCE = re.compile(r"\$\{([^:{}]+):([^{}]*)\}")  # ${name:path}


class References:
    """Keeps the last value of each name, and replaces references by the values."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def put(self, name: str, value: object) -> None:
        self._values[name] = value

    def replace(self, value: object) -> Any:
        """Replace all references in ``value``. Raises MisuseError for an unknown name or path."""
        if isinstance(value, str):
            whole = _REFERENCE.fullmatch(value)
            if whole:
                return self._look_up(whole[1], whole[2])
            return _REFERENCE.sub(lambda m: str(self._look_up(m[1], m[2])), value)
        if isinstance(value, Mapping):
            return {key: self.replace(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.replace(inner) for inner in value]
        return value

    def _look_up(self, name: str, path: str) -> object:
        try:
            value = self._values[name]
            for step in path.split(".") if path else ():
                if isinstance(value, list):
                    value = value[int(step)]
                else:
                    value = cast("Mapping[str, object]", value)[step]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"the script refers to ${{{name}:{path}}}, which was not seen"
            raise MisuseError(message) from error
        return value


@dataclass(frozen=True, slots=True)
class Send:
    """Write one message."""

    message: JsonObject


Output: TypeAlias = Send | RawLine | StderrText | Pause | CloseOutput | Exit
"""A step of the server, which the process or the link carries out."""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """An answer of the client to a server request.

    ``id`` has its JSON type. ``name`` names the server request; None if no open request has
    the id, because the request was never sent, or was answered before.
    """

    id: object
    message: JsonObject
    name: str | None

    @property
    def result(self) -> object:
        """The result, or None for an error."""
        return self.message.get("result")


class AppServerPlayer:
    """Plays a script. Call :meth:`start` once, then :meth:`feed` with each message.

    Carry out all outputs of a call before the next call.
    """

    def __init__(self, script: AppServerScriptLike) -> None:
        self.script: AppServerScript = as_app_server_script(script)
        self.received: list[JsonObject] = []
        """All messages of the client, in order."""
        self.answers: list[ClientAnswer] = []
        """All answers of the client, in order, also wrong and repeated answers."""
        self.unexpected: list[JsonObject] = []
        """Requests that no entry expected, and that have no default answer."""
        self._entries = list(self.script.entries)
        self._position = 0
        self._waiting: list[JsonObject] = []
        """Messages of the client that wait for a later entry."""
        self._open: dict[tuple[type, object], str] = {}
        """Type and id of each open server request → its name."""
        self._asked: set[str] = set()
        """Names of all server requests so far."""
        self._next_id = 0
        self._turns = 0
        self._silent = False
        self._references = References()

    def __repr__(self) -> str:
        return f"AppServerPlayer(received={len(self.received)}, remaining={len(self.remaining)})"

    @property
    def finished(self) -> bool:
        """Whether every entry has been played."""
        return self._position >= len(self._entries)

    @property
    def remaining(self) -> tuple[Entry, ...]:
        """The entries that were not played yet; the first entry waits."""
        return tuple(self._entries[self._position :])

    def start(self) -> list[Output]:
        """Return the outputs before the client's first message."""
        return self._advance()

    def feed(self, message: JsonObject) -> list[Output]:
        """Take one message of the client; return the outputs that follow."""
        self.received.append(message)
        method = message.get("method")
        if not isinstance(method, str):
            request_id = message.get("id")
            # A wrong answer may have a list or an object as its id.
            hashable_id = request_id if isinstance(request_id, (str, int, float)) else None
            name = self._open.pop((type(request_id), hashable_id), None)
            self.answers.append(ClientAnswer(request_id, message, name))
            if name is not None:
                self._references.put(name, message)
            return [] if self._silent else self._advance()
        self._references.put(method, object_at(message, "params"))
        if self._silent:
            return []
        if not self._is_scripted(method, is_request="id" in message):
            return self._answer_unscripted(message, method)
        self._waiting.append(message)
        return self._advance()

    def extend(self, *entries: Entry) -> list[Output]:
        """Add entries to the end of the script; return the outputs that follow."""
        self._entries.extend(entries)
        return self._advance()

    def newest(self, method: str) -> JsonObject | None:
        """Return the client's last message with a method, or None."""
        found = (message for message in reversed(self.received) if message.get("method") == method)
        return next(found, None)

    def answers_to(self, request_id: RequestId) -> list[ClientAnswer]:
        """Return the client's answers with this id; ``0`` and ``"0"`` are different ids."""
        key = (type(request_id), request_id)
        return [answer for answer in self.answers if (type(answer.id), answer.id) == key]

    # Handling the client's messages.

    def _is_scripted(self, method: str, *, is_request: bool) -> bool:
        """Return whether a remaining entry expects one more message with this method."""
        name = "expect" if is_request else "expect_notification"
        expected: int = sum(getattr(entry, name, None) == method for entry in self.remaining)
        waiting = sum(
            _has_method(message, method, is_request=is_request) for message in self._waiting
        )
        return expected > waiting

    def _answer_unscripted(self, message: JsonObject, method: str) -> list[Output]:
        if "id" not in message:
            return []
        if self.script.defaults or method == "initialize":
            result = self._default_result(method, message)
            if result is not None:
                outputs: list[Output] = [Send({"id": message["id"], "result": result})]
                if method == "thread/unsubscribe":  # Codex unloads the thread
                    thread = {"threadId": object_at(message, "params").get("threadId")}
                    outputs.append(Send({"method": "thread/closed", "params": thread}))
                return outputs
        self.unexpected.append(message)
        text = f"the script of this app-server does not expect {method}"
        return [Send({"id": message["id"], "error": {"code": METHOD_NOT_FOUND, "message": text}})]

    def _default_result(self, method: str, request: JsonObject) -> dict[str, object] | None:
        """Return the default result, or None; ``turn/start`` begins the next turn."""
        params = object_at(request, "params")
        if method == "turn/start":
            self._turns += 1
            self._remember_turn(turn_object(f"turn-{self._turns}"), params)
        return default_result(method, params, f"turn-{max(self._turns, 1)}")

    # Playing the script's entries.

    def _advance(self) -> list[Output]:
        """Play entries until one has to wait; return their outputs."""
        outputs: list[Output] = []
        while not self.finished and not self._silent:
            played = self._play(self._entries[self._position])
            if played is None:
                break
            self._position += 1
            outputs.extend(played)
        return outputs

    def _play(self, entry: Entry) -> list[Output] | None:
        """Return the outputs of one entry, or None if it has to wait."""
        match entry:
            case Expect():
                request = self._next_waiting(entry.expect, is_request=True)
                return None if request is None else self._answer(entry, request)
            case ExpectNotification():
                notification = self._next_waiting(entry.expect_notification, is_request=False)
                return None if notification is None else []
            case AwaitAnswer():
                is_open = entry.name in self._open.values()
                return None if is_open or entry.name not in self._asked else []
            case Notify():
                message = self._message(entry.notify, entry.params)
                return [Send(message)] * entry.times
            case AskClient():
                return [self._ask(entry)]
            case Silence():
                self._silent = True
                return []
            case RawLine() | StderrText() | Pause() | CloseOutput() | Exit():
                return [entry]
            case _:
                assert_never(entry)

    def _next_waiting(self, method: str, *, is_request: bool) -> JsonObject | None:
        for index, message in enumerate(self._waiting):
            if _has_method(message, method, is_request=is_request):
                return self._waiting.pop(index)
        return None

    def _answer(self, entry: Expect, request: JsonObject) -> list[Output]:
        # `feed` may have put the params of a later request here, which still waits.
        self._references.put(entry.expect, object_at(request, "params"))
        if entry.silent:
            return []
        if entry.error is not None:
            error = self._references.replace(entry.error)
            return [Send({"id": request["id"], "error": error})]
        if entry.result is None:
            result = self._default_result(entry.expect, request) or {}
        else:
            result = self._references.replace(entry.result)
            if entry.expect == "turn/start":
                self._remember_turn(result.get("turn"), object_at(request, "params"))
        return [Send({"id": request["id"], "result": result})]

    def _remember_turn(self, turn: object, params: JsonObject) -> None:
        """Set the turn of the references ``${turn:...}``."""
        if isinstance(turn, dict):
            self._references.put("turn", {**turn, "threadId": params.get("threadId")})

    def _ask(self, entry: AskClient) -> Send:
        request_id = self._next_id if entry.id is None else entry.id
        if isinstance(request_id, int):
            self._next_id = max(self._next_id, request_id + 1)
        name = entry.name or entry.request
        self._asked.add(name)
        self._open[type(request_id), request_id] = name
        return Send({**self._message(entry.request, entry.params), "id": request_id})

    def _message(self, method: str, params: JsonObject | None) -> dict[str, object]:
        message: dict[str, object] = {"method": method}
        if params is not None:
            message["params"] = self._references.replace(params)
        return message


def _has_method(message: JsonObject, method: str, *, is_request: bool) -> bool:
    return message.get("method") == method and ("id" in message) == is_request
