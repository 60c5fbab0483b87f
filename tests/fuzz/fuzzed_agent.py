"""An ACP agent that damages what it says: ``python -m tests.fuzz.fuzzed_agent SEED RATE RECORD``.

The standard library only. It asks for everything that a client can be asked for, of its own session
and of others; its answers keep their id, all else may change.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutations import damaged, mutated, odd_value, to_line

Json = dict[str, Any]

_TEXT = {"type": "text", "text": "Hello."}

_OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]

_FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 1}},
    "required": ["name"],
}


def updates() -> list[Json]:
    """One of each kind."""
    call = {"toolCallId": "c", "title": "t", "kind": "execute", "status": "pending"}
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}
    entry = {"content": "a", "priority": "low", "status": "pending"}
    command = {"name": "x", "description": "y"}
    option: Json = {"id": "m", "name": "M", "type": "select", "currentValue": "a"}
    option["options"] = [{"value": "a", "name": "A"}]
    return [
        {"sessionUpdate": "agent_message_chunk", "content": _TEXT, "messageId": "m"},
        {"sessionUpdate": "agent_thought_chunk", "content": _TEXT},
        {"sessionUpdate": "user_message_chunk", "content": _TEXT},
        {"sessionUpdate": "tool_call", **call, "content": [diff]},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"},
        {"sessionUpdate": "plan", "entries": [entry]},
        {"sessionUpdate": "available_commands_update", "availableCommands": [command]},
        {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
        {"sessionUpdate": "config_option_update", "configOptions": [option]},
        {"sessionUpdate": "session_info_update", "title": "t"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    ]  # fmt: skip


def requests(session: str, cwd: str) -> list[tuple[str, Json]]:
    """All that an agent may ask."""
    of = {"sessionId": session}
    call = {"toolCallId": "c", "title": "rm", "rawInput": {"a": 1}}
    url = {"mode": "url", "url": "https://a.example/", "elicitationId": "e"}
    return [
        ("session/request_permission", {**of, "toolCall": call, "options": _OPTIONS}),
        ("elicitation/create", {**of, "mode": "form", "message": "?", "requestedSchema": _FORM}),
        ("elicitation/create", {**of, **url, "message": "?"}),
        ("fs/read_text_file", {**of, "path": f"{cwd}/a.txt", "line": 1, "limit": 2}),
        ("fs/read_text_file", {**of, "path": f"{cwd}/../../etc/passwd"}),
        ("fs/write_text_file", {**of, "path": f"{cwd}/b.txt", "content": "x"}),
        ("terminal/create", {**of, "command": "/bin/echo", "args": ["x"], "env": [], "cwd": cwd}),
        ("terminal/output", {**of, "terminalId": "1"}),
        ("terminal/wait_for_exit", {**of, "terminalId": "1"}),
        ("terminal/kill", {**of, "terminalId": "1"}),
        ("terminal/release", {**of, "terminalId": "1"}),
        ("_vendor.example/x", {}),
    ]  # fmt: skip


class _Agent:
    def __init__(self, seed: int, rate: float, record: Path) -> None:
        self._random = Random(seed)
        self._rate = rate
        self._record = record
        self._cwd = "/"
        self._sessions: list[str] = []
        self._asked = 0
        self._prompt: Any = None
        """The id of the prompt that is cancelled before it ends."""

    def take(self, line: bytes) -> None:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        match method:
            case "initialize":
                can = {"loadSession": True, "sessionCapabilities": {"list": {}, "close": {}}}
                self._answer(message["id"], {"protocolVersion": 1, "agentCapabilities": can})
            case "session/new":
                self._cwd = params["cwd"]
                self._sessions.append(f"s{len(self._sessions)}")
                self._answer(message["id"], {"sessionId": self._sessions[-1]})
            case "session/prompt":
                self._turn(message["id"], params["sessionId"])
            case "session/cancel":
                if self._prompt is not None:
                    self._answer(self._prompt, {"stopReason": "cancelled"})
                    self._prompt = None
            case None:
                pass
            case _ if "id" in message:
                self._answer(message["id"], {"sessions": []} if method == "session/list" else {})

    def _turn(self, request_id: Any, session: str) -> None:
        random = self._random
        for _ in range(random.randint(1, 12)):
            other = (
                random.choice([*self._sessions, "no-session"]) if random.random() < 0.2 else session
            )
            if random.random() < 0.6:
                update = {"sessionId": other, "update": random.choice(updates())}
                self._write({"method": "session/update", "params": update})
            else:
                self._asked += 1
                method, params = random.choice(requests(other, self._cwd))
                again = random.choice((0, 1, "a", self._asked))
                asked = {"id": again, "method": method, "params": params}
                self._write(asked)
        if random.random() < 0.08:
            self._prompt = request_id
        else:
            self._answer(request_id, {"stopReason": "end_turn"})
            if random.random() < 0.2:
                self._answer(request_id, {"stopReason": "refusal"})

    def _answer(self, request_id: Any, result: Json) -> None:
        answer: Json = {"jsonrpc": "2.0", "id": request_id, "result": result}
        if self._random.random() < self._rate / 3:
            odd = self._random.random() < 0.2
            answer["result"] = odd_value(self._random) if odd else mutated(result, self._random)
        self._send(to_line(answer))

    def _write(self, message: Json) -> None:
        line = to_line({"jsonrpc": "2.0", **message})
        if self._random.random() < self._rate:
            odd = self._random.random() < 0.6
            line = to_line(mutated(message, self._random)) if odd else damaged(line, self._random)
            line = line if line.endswith(b"\n") else line + b"\n"
            with self._record.open("ab") as file:
                file.write(line)
        self._send(line)

    def _send(self, line: bytes) -> None:
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            os._exit(0)


def main(seed: str, rate: str, record: str) -> None:
    agent = _Agent(int(seed), float(rate), Path(record))
    for line in sys.stdin.buffer:
        agent.take(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
