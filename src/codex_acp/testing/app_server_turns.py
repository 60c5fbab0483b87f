"""Entries for the usual parts of a turn, so that a script of an app-server stays short.

Pure. All of them speak of the newest turn through references, so they fit behind
``Expect("turn/start")`` with any answer. Shapes are those of Codex 0.163.
"""

from __future__ import annotations

from typing import Literal

from codex_acp.testing.app_server_entries import AskClient, Entry, JsonObject, Notify

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
    from codex_acp.testing.app_server_defaults import turn_object

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
