"""A badly behaved ACP agent, as a program: the standard library only, and every line by hand.

``python raw_agent.py BEHAVIOUR…``; what the behaviours are stands in `main`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

HOUR = 3600


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def say(session_id: str, text: str) -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    params = {"sessionId": session_id, "update": update}
    send({"jsonrpc": "2.0", "method": "session/update", "params": params})


def main(behaviours: set[str]) -> None:
    if "ignores SIGTERM" in behaviours:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "exits at once" in behaviours:
        sys.stderr.write("no licence\n")
        raise SystemExit(3)
    if "banner" in behaviours:
        sys.stdout.write("Welcome to the agent!\n\n[info] ready\n")
        sys.stdout.flush()
    if "only garbage" in behaviours:
        sys.stdout.write("\x00\xff not JSON\n" * 100)
        sys.stdout.flush()
        time.sleep(HOUR)
    for line in iter(sys.stdin.readline, ""):
        if "floods stderr" in behaviours:
            sys.stderr.write("noise " * 20 + "\n")
            sys.stderr.write("x" * 3_000_000 + "\nthe last line\n")
        message = json.loads(line)
        if "id" in message and "method" in message:
            handle(message, behaviours)
    if "outlives its stdin" in behaviours:
        time.sleep(HOUR)


def handle(request: dict[str, Any], behaviours: set[str]) -> None:
    method = request["method"]
    if method == "initialize":
        if "never answers" in behaviours:
            time.sleep(HOUR)
        if "refuses" in behaviours:
            error = {"code": -32603, "message": "not today", "data": {"details": "a holiday"}}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return
        answer(request, {"protocolVersion": 99 if "other version" in behaviours else 1})
    elif method == "session/new":
        if "exits in new" in behaviours:
            raise SystemExit(4)
        answer(request, {"sessionId": f"{os.getpid()}"})
    elif method == "session/prompt":
        prompt(request, request["params"]["sessionId"], behaviours)


def prompt(request: dict[str, Any], session_id: str, behaviours: set[str]) -> None:
    say(session_id, "Hello.")
    end_in_prompt(behaviours)
    if "garbage in a prompt" in behaviours:
        sys.stdout.write('oops\n{"jsonrpc":"2.0"}\n[1]\n{"id":{}}\n\n')
        send({"jsonrpc": "2.0", "id": 4711, "result": {}})
    if "huge" in behaviours:
        say(session_id, "y" * 200_000)
    if "starts others" in behaviours:
        child = subprocess.Popen(["sleep", str(HOUR)], start_new_session=True)
        say(session_id, f" {child.pid} ")
    if "shows odd text" in behaviours:
        say(session_id, "\x1b]0;owned\x07 caf\u00e9 \u202e")
    if "asks" in behaviours:
        say(session_id, f" {ask('session/request_permission', permission(session_id))}")
    if "has a form" in behaviours:
        say(session_id, f" {ask('elicitation/create', form(session_id))}")
    more = {"_meta": {"blob": "z" * 200_000}} if "huge answer" in behaviours else {}
    answer(request, {"stopReason": stop_reason(behaviours), **more})
    if "answers twice" in behaviours:
        answer(request, {"stopReason": "refusal"})
        answer(request, {"stopReason": "end_turn"})


def end_in_prompt(behaviours: set[str]) -> None:
    if "exits in a prompt" in behaviours:
        sys.stderr.write("boom\n")
        sys.stderr.flush()
        os._exit(7)
    if "is killed in a prompt" in behaviours:
        os.kill(os.getpid(), signal.SIGKILL)
    if "closes stdout" in behaviours:
        os.close(1)
        time.sleep(HOUR)


def stop_reason(behaviours: set[str]) -> str:
    if "waits for cancel" in behaviours:
        while json.loads(sys.stdin.readline())["method"] != "session/cancel":
            pass
        return "cancelled"
    if "ignores cancel" in behaviours:
        time.sleep(HOUR)
    words = [word for word in behaviours if word.startswith("stops with ")]
    return words[0].removeprefix("stops with ") if words else "end_turn"


def ask(method: str, params: object) -> str:
    """Ask the client, and give its result as sorted JSON."""
    send({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
    while True:
        message = json.loads(sys.stdin.readline())
        if message.get("id") == "q":
            return json.dumps(message.get("result"), sort_keys=True)


def permission(session_id: str) -> object:
    call = {
        "toolCallId": "t",
        "title": "rm -rf build\x1b[2K",
        "kind": "execute",
        "rawInput": {"cmd": "rm"},
        "content": [{"type": "diff", "path": "/w/a", "oldText": "old", "newText": "new"}],
    }
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    return {"sessionId": session_id, "toolCall": call, "options": options}


def form(session_id: str) -> object:
    properties = {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "sure": {"type": "boolean", "default": True},
        "note": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["name", "colour"]}
    message = "Who are you?"
    return {
        "mode": "form", "sessionId": session_id, "message": message, "requestedSchema": schema
    }  # fmt: skip


if __name__ == "__main__":
    main(set(sys.argv[1:]))
