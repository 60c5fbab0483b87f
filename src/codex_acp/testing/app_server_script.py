"""A scripted Codex app-server without any IO: messages in, outputs out.

Owns what a script means and the record of what the client said. Knows nothing of streams,
processes or time: a pause is an output like any other, and the shell around it does it
(``app_server`` as a process, ``app_server_link`` in memory).

**References.** A string ``${name:path}`` in what is sent is replaced by a value seen before,
with its JSON type if it is the whole string. ``name`` is the method of a client's request or
notification (the value is its newest params) or the name of a server request (the value is
the newest answer to it). ``path`` is dotted and may be empty. ``${turn:id}`` and
``${turn:threadId}`` are of the newest turn. Example: ``"${turn/start:input.0.text}"``.

**Order.** Entries are played in order. A request that a later entry expects waits for it. A
request that no entry expects gets the default answer, if the script has ``defaults`` (and
``initialize`` always), else an error, and is listed in ``unexpected``.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

JsonObject: TypeAlias = "Mapping[str, object]"
RequestId: TypeAlias = int | str
"""A JSON-RPC id; ``0`` and ``"0"`` are different."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Wait for a request of the client and answer it.

    Without ``result`` and ``error`` the default answer is sent (``{}`` for a method that has
    none). ``silent`` leaves the request without an answer.
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
    """Send a server request. Without an ``id`` they count from 0, as Codex's do.

    ``name`` is how :class:`AwaitAnswer` and references speak of it; by default the method.
    """

    request: str
    params: JsonObject | None = None
    id: RequestId | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Wait until the newest server request of this name is answered."""

    name: str


@dataclass(frozen=True, slots=True)
class RawLine:
    """Write text that need not be JSON; without ``newline`` the next output joins the line."""

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
    """Close standard output and go on reading."""

    close: bool = True


@dataclass(frozen=True, slots=True)
class Exit:
    """End the process with this status; in memory the link closes."""

    exit: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """From here on take everything and answer nothing, not even by default."""

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


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A class, the JSON member that names it, and the types that its members may have."""

    entry: type[Entry]
    members: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


_OBJECT = (dict,)
_SPELLINGS: Mapping[str, _Spelling] = {
    "expect": _Spelling(
        Expect, {"expect": (str,), "result": _OBJECT, "error": _OBJECT, "silent": (bool,)}
    ),
    "expect_notification": _Spelling(ExpectNotification, {"expect_notification": (str,)}),
    "notify": _Spelling(Notify, {"notify": (str,), "params": _OBJECT, "times": (int,)}),
    "request": _Spelling(
        AskClient, {"request": (str,), "params": _OBJECT, "id": (int, str), "name": (str,)}
    ),
    "await": _Spelling(AwaitAnswer, {"await": (str,)}),
    "raw": _Spelling(RawLine, {"raw": (str,), "newline": (bool,)}),
    "stderr": _Spelling(StderrText, {"stderr": (str,)}),
    "pause": _Spelling(Pause, {"pause": (int, float)}),
    "close": _Spelling(CloseOutput, {"close": (bool,)}),
    "exit": _Spelling(Exit, {"exit": (int,)}),
    "silence": _Spelling(Silence, {"silence": (bool,)}),
}


def entry_from_json(raw: object, where: str) -> Entry:
    """The entry that ``raw`` spells. Raises MisuseError that begins with ``where``."""
    members = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    kinds = [kind for kind in _SPELLINGS if kind in members]
    if len(kinds) != 1:
        raise MisuseError(f"{where} must be an object with one of {', '.join(_SPELLINGS)}")
    spelling = _SPELLINGS[kinds[0]]
    arguments: dict[str, object] = {}
    for member, value in members.items():
        types = spelling.members.get(member)
        if types is None or not isinstance(value, types):
            raise MisuseError(f"{where}: {kinds[0]!r} cannot have {member!r} as {value!r}")
        arguments["name" if member == "await" else member] = value
    return spelling.entry(**arguments)  # type: ignore[arg-type]


def entry_to_json(entry: Entry) -> dict[str, object]:
    """The JSON form of ``entry``, without what is at its default."""
    if isinstance(entry, AwaitAnswer):
        return {"await": entry.name}
    members: dict[str, object] = {}
    for position, item in enumerate(fields(entry)):
        value: object = getattr(entry, item.name)
        if position == 0 or item.default is MISSING or value != item.default:
            members[item.name] = value
    return members


CODEX_VERSION = "0.163.0"
"""The version that the scripted app-server claims to be."""
THREAD_ID = "thread-1"
"""The thread of ``thread/start``; ``thread/resume`` answers with the id it is asked for."""
_STARTED_AT = 1_700_000_000
"""A fixed time in seconds: what is recorded must be the same in every run."""
_ALWAYS: dict[str, dict[str, object]] = {
    "account/read": {"account": None, "requiresOpenaiAuth": False, "workspaceRouting": None},
    "collaborationMode/list": {"data": []},
    "config/read": {"config": {}, "origins": {}, "layers": []},
    "fs/getMetadata": {  # scripts name directories that are nowhere
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
"""Answers to requests, whatever their params."""


def default_result(method: str, params: JsonObject, turn_id: str) -> dict[str, object] | None:
    """The default result of a client request, or None if ``method`` has none.

    ``turn_id`` is the id for a turn that the request starts or that is running.
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
    return deepcopy(_ALWAYS.get(method))


def default_news(method: str, params: JsonObject) -> list[JsonObject]:
    """Return what is told behind the default result: Codex unloads what nobody follows."""
    if method != "thread/unsubscribe":
        return []
    return [{"method": "thread/closed", "params": {"threadId": params.get("threadId")}}]


def turn_object(turn_id: str, status: str = "inProgress") -> dict[str, object]:
    """A ``Turn`` with no items."""
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
    thread: dict[str, object] = {
        "id": thread_id,
        "environments": [],
        "extra": None,
        "sessionId": thread_id,
        "forkedFromId": None,
        "parentThreadId": None,
        "preview": "",
        "ephemeral": False,
        "section": None,
        "sectionEnteredAt": None,
        "projectId": None,
        "historyMode": "paginated",
        "modelProvider": "scripted",
        "model": model,
        "reasoningEffort": None,
        "createdAt": _STARTED_AT,
        "updatedAt": _STARTED_AT,
        "recencyAt": _STARTED_AT,
        "status": {"type": "idle"},
        "path": None,
        "cwd": cwd,
        "cliVersion": CODEX_VERSION,
        "originator": "scripted",
        "source": "vscode",
        "canAcceptDirectInput": True,
        "threadSource": None,
        "agentNickname": None,
        "agentRole": None,
        "gitInfo": None,
        "name": None,
        "daybreakEnabled": None,
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


_TURN: JsonObject = {"threadId": "${turn:threadId}", "turnId": "${turn:id}"}
_AT_MS = 1_700_000_000_000
"""A fixed time in milliseconds: recorded traffic must be the same in every run."""


def turn_started() -> list[Entry]:
    """``turn/started`` of the newest turn."""
    return [Notify("turn/started", {"threadId": "${turn:threadId}", "turn": _turn("inProgress")})]


def agent_message(*deltas: str, item_id: str = "msg-1") -> list[Entry]:
    """A whole assistant message: ``item/started``, a delta each, ``item/completed``."""
    entries: list[Entry] = [_item("item/started", "startedAtMs", _message(item_id, ""))]
    entries += [
        Notify("item/agentMessage/delta", {**_TURN, "itemId": item_id, "delta": delta})
        for delta in deltas
    ]
    done = _message(item_id, "".join(deltas))
    return [*entries, _item("item/completed", "completedAtMs", done)]


def command_approval(
    command: str = "touch made",
    *,
    item_id: str = "call-1",
    reason: str | None = None,
    name: str | None = None,
) -> list[Entry]:
    """A command that is started and asked about; follow it with ``AwaitAnswer``.

    ``name`` is the server request's; by default ``item/commandExecution/requestApproval``.
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
    asked: JsonObject = {
        "kind": "command",
        **_TURN,
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
    return [_item("item/started", "startedAtMs", item), AskClient(method, asked, name=name)]


def file_change_approval(
    path: str = "/scripted/workspace/new.txt",
    content: str = "new\n",
    *,
    item_id: str = "call-1",
    name: str | None = None,
) -> list[Entry]:
    """A file that is to be added and is asked about; follow it with ``AwaitAnswer``."""
    change: JsonObject = {"path": path, "kind": {"type": "add"}, "diff": content}
    item: JsonObject = {
        "type": "fileChange",
        "id": item_id,
        "changes": [change],
        "status": "inProgress",
    }
    asked: JsonObject = {
        **_TURN,
        "itemId": item_id,
        "startedAtMs": _AT_MS,
        "reason": None,
        "grantRoot": None,
    }
    method = "item/fileChange/requestApproval"
    return [_item("item/started", "startedAtMs", item), AskClient(method, asked, name=name)]


def request_resolved(request_id: int | str) -> list[Entry]:
    """``serverRequest/resolved``, which Codex sends when a server request is settled."""
    params = {"threadId": "${turn:threadId}", "requestId": request_id}
    return [Notify("serverRequest/resolved", params)]


def turn_completed(
    status: Literal["completed", "interrupted", "failed"] = "completed", *, error: str | None = None
) -> list[Entry]:
    """``turn/completed`` of the newest turn; ``error`` is the message of a failed one."""
    turn = _turn(status)
    if error is not None:
        turn["error"] = {"message": error, "codexErrorInfo": None, "additionalDetails": None}
    return [Notify("turn/completed", {"threadId": "${turn:threadId}", "turn": turn})]


def _turn(status: str) -> dict[str, object]:

    return {**turn_object("${turn:id}", status), "rootTurnId": "${turn:id}"}


def _message(item_id: str, text: str) -> JsonObject:
    return {
        "type": "agentMessage",
        "id": item_id,
        "text": text,
        "phase": None,
        "memoryCitation": None,
        "delivery": None,
        "questions": None,
    }


def _item(method: str, clock: str, item: JsonObject) -> Notify:
    return Notify(method, {"item": item, **_TURN, clock: _AT_MS})


@dataclass(frozen=True, slots=True, init=False)
class AppServerScript:
    """Entries and how the server behaves around them.

    ``defaults`` answers the usual requests that no entry expects; ``ignore_eof`` and
    ``ignore_sigterm`` make a process that does not end when it should, for tests of shutdown.
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
        object.__setattr__(self, "defaults", defaults)
        object.__setattr__(self, "ignore_eof", ignore_eof)
        object.__setattr__(self, "ignore_sigterm", ignore_sigterm)

    @classmethod
    def from_jsonl(cls, text: str) -> AppServerScript:
        """Read a script: one entry a line; blank lines and ``#`` comments do not count.

        A line ``{"options": {"defaults": true}}`` sets options. Raises MisuseError that names
        the line at fault.
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
                options.update(_options(raw["options"], number))
            else:
                entries.append(entry_from_json(raw, f"line {number}"))
        return cls(*entries, **options)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> AppServerScript:
        """Read a script from a JSONL file."""
        from pathlib import Path

        return cls.from_jsonl(Path(path).read_text(encoding="utf-8"))

    def to_jsonl(self) -> str:
        """The script as text that :meth:`from_jsonl` reads back as equal."""
        options = {name: True for name in _OPTIONS if getattr(self, name)}
        head: list[dict[str, object]] = [{"options": options}] if options else []
        lines = [*head, *(entry_to_json(entry) for entry in self.entries)]
        return "".join(f"{json.dumps(line)}\n" for line in lines)


_OPTIONS = ("defaults", "ignore_eof", "ignore_sigterm")


def _options(raw: object, number: int) -> dict[str, bool]:
    if not isinstance(raw, dict) or not all(
        name in _OPTIONS and isinstance(value, bool) for name, value in raw.items()
    ):
        raise MisuseError(f"line {number}: options are the booleans {', '.join(_OPTIONS)}")
    return raw


AppServerScriptLike: TypeAlias = "AppServerScript | Iterable[Entry]"
"""A script, or simply its entries."""


def as_app_server_script(script: AppServerScriptLike) -> AppServerScript:
    """The script that ``script`` stands for."""
    return script if isinstance(script, AppServerScript) else AppServerScript(*script)
