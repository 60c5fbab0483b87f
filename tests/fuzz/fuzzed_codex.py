"""An app-server that never runs out of answers, and damages what it says at a given rate.

``FuzzedCodex(directory, seed, rate).path`` stands in for the Codex binary; what each turn does is
said by the first word of its prompt. With a rate of 0 it is a well-behaved one, and fast. Answers
keep their id, so that a client never waits for one that it was not given: all else may change.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import sys
from pathlib import Path
from typing import Any

from codex_acp.testing.app_server_script import (
    command_approval,
    default_result,
    file_change_approval,
    turn_object,
)
from tests.fuzz.mutations import damaged, mutated, odd_value, to_line

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]

AT = 1_700_000_000_000


class FuzzedCodex:
    """The executable; ``lines`` is a file with each damaged line that it has written, ``answers``
    one with each answer that it got to a question."""

    def __init__(self, directory: Path, seed: int = 0, rate: float = 0.0) -> None:
        self.path = directory / "codex"
        self.lines = directory / "damaged-lines"
        self.answers = directory / "answers"
        command = [sys.executable, "-P", "-m", "tests.fuzz.fuzzed_codex"]
        command += [str(seed), str(rate), str(self.lines)]
        where = shlex.quote(f"{ROOT / 'src'}:{ROOT}")
        self.path.write_text(
            f'#!/bin/sh\nPYTHONPATH={where}\nexport PYTHONPATH\nexec {shlex.join(command)} "$@"\n'
        )
        self.path.chmod(0o755)


class _Server:
    def __init__(self, seed: int, rate: float, record: Path) -> None:
        self._random = random.Random(seed)
        self._rate = rate
        self._record = record
        self._next_id = 0
        self._threads = 0
        self._turns: dict[str, str] = {}
        """Thread → the running turn."""
        self._asked: dict[int, str] = {}
        """Open server request → its thread."""
        self._out: list[bytes] = []

    def take(self, line: bytes) -> None:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            with self._record.with_name("answers").open("ab") as file:
                file.write(line)
            thread = self._asked.pop(message.get("id"), None)
            if thread is not None:
                self._say(thread, "Heard.")
                self._complete(thread, "completed")
        elif "id" in message:
            self._answer(message["id"], method, params)
        if self._out:
            sys.stdout.buffer.write(b"".join(self._out))
            sys.stdout.buffer.flush()
            self._out = []

    def _answer(self, request_id: Any, method: str, params: Json) -> None:
        if method == "turn/start":
            self._turn(request_id, params)
            return
        result = default_result(method, params, self._turns.get(params.get("threadId", ""), "t"))
        if method in ("thread/start", "thread/fork"):
            self._threads += 1
            made = default_result("thread/resume", {**params, "threadId": self._name()}, "")
            result = made
        if method == "mcpServer/oauth/login":
            result = {"authorizationUrl": "https://login.example.org/", "loginId": "l1"}
        if method == "thread/turns/list":
            result = {"data": [], "nextCursor": None}
        self._reply(request_id, result or {})
        if method == "turn/interrupt":
            self._complete(str(params.get("threadId")), "interrupted")

    def _name(self) -> str:
        return f"00000000-0000-7000-8000-{self._threads:012d}"

    def _turn(self, request_id: Any, params: Json) -> None:
        thread = str(params.get("threadId"))
        self._next_id += 1
        turn = f"turn-{self._next_id}"
        self._reply(request_id, {"turn": turn_object(turn)})
        if thread in self._turns:
            return
        self._turns[thread] = turn
        self._notify("turn/started", {"threadId": thread, "turn": turn_object(turn)})
        first: Json = next((i for i in params.get("input") or [] if i.get("type") == "text"), {})
        match str(first.get("text", "")).partition(" ")[0]:
            case "ask":
                self._play(command_approval(item_id=f"call-{self._next_id}"), thread, turn)
            case "patch":
                self._play(file_change_approval(item_id=f"call-{self._next_id}"), thread, turn)
            case "form":
                self._form(thread, turn)
            case "login":
                failed = {"threadId": thread, "name": "s", "status": "failed", "error": "401"}
                failed |= {"failureReason": "reauthenticationRequired"}
                self._notify("mcpServer/startupStatus/updated", failed)
                self._complete(thread, "completed")
            case "wait":
                pass
            case "die":
                os._exit(3)
            case _:
                self._say(thread, "Hello.")
                self._complete(thread, "completed")

    def _play(self, entries: list[Any], thread: str, turn: str) -> None:
        """A scripted approval: its item, then the question."""
        for entry in entries:
            params = {**(entry.params or {}), "threadId": thread, "turnId": turn}
            if hasattr(entry, "notify"):
                self._notify(entry.notify, params)
            else:
                self._ask(entry.request, params)

    def _form(self, thread: str, turn: str) -> None:
        properties = {"name": {"type": "string", "minLength": 1}, "n": {"type": "integer"}}
        schema = {"type": "object", "properties": properties, "required": ["name"]}
        form: Json = {"threadId": thread, "turnId": turn, "serverName": "s", "mode": "form"}
        form |= {"_meta": None, "message": "Who?", "requestedSchema": schema}
        self._ask("mcpServer/elicitation/request", form)

    def _ask(self, method: str, params: Json) -> None:
        self._next_id += 1
        self._asked[self._next_id] = params["threadId"]
        self._write({"method": method, "id": self._next_id, "params": params})

    def _say(self, thread: str, text: str) -> None:
        of = {"threadId": thread, "turnId": self._turns.get(thread, "t")}
        item_id = f"item-{self._next_id}"
        item = {"type": "agentMessage", "id": item_id, "text": "", "phase": None}
        self._notify("item/started", {"item": item, **of, "startedAtMs": AT})
        self._notify("item/agentMessage/delta", {**of, "itemId": item_id, "delta": text})
        self._notify("item/completed", {"item": {**item, "text": text}, **of, "completedAtMs": AT})

    def _complete(self, thread: str, status: str) -> None:
        turn = self._turns.pop(thread, None)
        if turn is not None:
            params = {"threadId": thread, "turn": turn_object(turn, status)}
            self._notify("turn/completed", params)
        for asked in [key for key, of in self._asked.items() if of == thread]:
            del self._asked[asked]

    def _reply(self, request_id: Any, result: Json) -> None:
        """Its content may be odd, but for the handshake's; its id is right."""
        answer: Json = {"id": request_id, "result": result}
        if self._rate and request_id and self._random.random() < self._rate / 2:
            odd = self._random.random() < 0.2
            changed = odd_value(self._random) if odd else mutated(result, self._random)
            answer["result"] = changed
            self._noted(to_line(answer))
        else:
            self._out.append(to_line(answer))

    def _notify(self, method: str, params: Json) -> None:
        self._write({"method": method, "params": params})

    def _write(self, message: Json) -> None:
        if not self._rate or self._random.random() >= self._rate:
            self._out.append(to_line(message))
            return
        line = to_line(message)
        match self._random.randrange(6):
            case 0:
                self._noted(damaged(line, self._random))
            case 1:
                self._noted(line * self._random.choice((2, 3)))
            case 2:
                self._noted(to_line(mutated(message, self._random)) + line)
            case 3:
                self._noted(damaged(line, self._random) + b"\n" + line)
            case 4:
                stray: Json = {"id": self._random.choice((1, 10**6, "x", -1)), "result": {}}
                self._noted(to_line(stray) + line)
            case _:
                self._noted(to_line(mutated(message, self._random)))

    def _noted(self, data: bytes) -> None:
        data = data if data.endswith(b"\n") else data + b"\n"  # the next line is whole
        with self._record.open("ab") as file:
            file.write(data)
        self._out.append(data)


def main(seed: str, rate: str, record: str, *arguments: str) -> int:
    if "--version" in arguments:
        sys.stdout.write("codex-cli 0.163.0\n")
        return 0
    server = _Server(int(seed), float(rate), Path(record))
    for line in sys.stdin.buffer:
        server.take(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
