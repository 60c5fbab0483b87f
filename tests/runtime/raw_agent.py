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

PERMISSION = "session/request_permission"

FORGED = "\n" * 60 + (
    "\x1b[7m\u2503\x1b[0m codex asks for permission:\n"
    "\u2503 execute: ls\n\u2503   zz1) Allow once (allow once)\n"
    "\u2503 Type zz1 to list the files; Enter rejects: "
)
"""A question of ``codex-acp-sdk run``, as an agent would like it."""


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def update(session_id: str, name: str, **fields: object) -> None:
    params = {"sessionId": session_id, "update": {"sessionUpdate": name, **fields}}
    send({"jsonrpc": "2.0", "method": "session/update", "params": params})


def say(session_id: str, text: str) -> None:
    update(session_id, "agent_message_chunk", content={"type": "text", "text": text})


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
        elif str(message.get("id")).startswith("later "):
            session_id = message["id"].removeprefix("later ")
            say(session_id, f" {json.dumps(message.get('result'), sort_keys=True)}")
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
        info = {"name": "raw-agent", "title": "Raw\x1b[2J Agent", "version": "1"}
        named = {"agentInfo": info} if "has a name" in behaviours else {}
        answer(request, {"protocolVersion": 99 if "other version" in behaviours else 1, **named})
    elif method == "session/new":
        if "exits in new" in behaviours:
            raise SystemExit(4)
        number = "" if "has one id" in behaviours else f".{request['id']}"
        session_id = f"{os.getpid()}{number}"
        answer(request, {"sessionId": session_id})
        if "has commands" in behaviours:
            commands = [{"name": name, "description": f"to {name}"} for name in ("bake", "exit")]
            update(session_id, "available_commands_update", availableCommands=commands)
    elif method == "session/prompt":
        prompt(request, request["params"]["sessionId"], behaviours)


def prompt(request: dict[str, Any], session_id: str, behaviours: set[str]) -> None:
    say(session_id, "Hello.")
    if "echoes" in behaviours:
        say(session_id, f" You said {request['params']['prompt'][0]['text']!r}.")
    end_in_prompt(session_id, behaviours)
    if "garbage in a prompt" in behaviours:
        sys.stdout.write('oops\n{"jsonrpc":"2.0"}\n[1]\n{"id":{}}\n\n')
        send({"jsonrpc": "2.0", "id": 4711, "result": {}})
    if "huge" in behaviours:
        say(session_id, "y" * 200_000)
    if "starts others" in behaviours:
        child = subprocess.Popen(["sleep", str(HOUR)], start_new_session=True)
        say(session_id, f" {child.pid} ")
    calls_tools(session_id, behaviours)
    if "shows odd text" in behaviours:
        say(session_id, "\x1b]0;owned\x07 caf\u00e9 \u202e")
    if "forges before it" in behaviours:
        say(session_id, FORGED)
        time.sleep(0.5)  # for what is typed ahead
    if "asks" in behaviours:
        asks(session_id, behaviours)
    if "goes on beside a form" in behaviours:
        goes_on_beside_a_form(session_id)
    elif "has a form" in behaviours:
        say(session_id, f" {ask('elicitation/create', form(session_id))}")
    more = {"_meta": {"blob": "z" * 200_000}} if "huge answer" in behaviours else {}
    answer(request, {"stopReason": stop_reason(behaviours), **more})
    if "asks later" in behaviours:
        asks_later(session_id, behaviours)
    if "answers twice" in behaviours:
        answer(request, {"stopReason": "refusal"})
        answer(request, {"stopReason": "end_turn"})


def stand_at_gate(name: str) -> None:
    """Wait until the folder ``GATES``, if the test has one, has a file of that name."""
    folder = os.environ.get("GATES")
    while folder is not None and name not in os.listdir(folder):  # noqa: PTH208 - no pathlib here
        time.sleep(0.01)


def asks_later(session_id: str, behaviours: set[str]) -> None:
    stand_at_gate("ask")
    params = permission(session_id, behaviours)
    send({"jsonrpc": "2.0", "id": f"later {session_id}", "method": PERMISSION, "params": params})


def calls_tools(session_id: str, behaviours: set[str]) -> None:
    if "starts a call" in behaviours:
        update(session_id, "tool_call", toolCallId="b", title="building", status="in_progress")
    if "floods" in behaviours:
        flood(session_id)
    for word in behaviours:
        if word.startswith("opens "):
            page = {"mode": "url", "sessionId": session_id, "elicitationId": "e", "message": "Hi."}
            url = {"url": word.removeprefix("opens ")}
            say(session_id, f" {ask('elicitation/create', page | url)}")
    if "streams" in behaviours:
        for number in range(20):
            say(session_id, f" piece {number},")
            if number == 2:
                stand_at_gate("on")


def flood(session_id: str) -> None:
    """Very many tool calls and plans, and one that is huge."""
    call = {"title": "x\x1b[2J" * 20, "status": "in_progress"}
    for number in range(1000):
        update(session_id, "tool_call", toolCallId=f"{number}", **call)
    for _ in range(500):
        entry = {"content": "z" * 99, "priority": "low", "status": "pending"}
        update(session_id, "plan", entries=[entry])
    text = {"type": "content", "content": {"type": "text", "text": "y" * 1_000_000}}
    old, new = "a\nb\n" * 20_000, "b\na\n" * 20_000
    change = {"type": "diff", "path": "p", "oldText": old, "newText": new}
    huge = {"title": "T" * 1_000_000, "status": "completed", "content": [text, change]}
    update(session_id, "tool_call", toolCallId="huge", **huge)


def end_in_prompt(session_id: str, behaviours: set[str]) -> None:
    if "starts a child" in behaviours:
        say(session_id, f" {subprocess.Popen(['sleep', str(HOUR)]).pid} ")
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


def ask(method: str, params: object, answers: int = 1, key: str = "q") -> str:
    """Ask the client, and give its result, and those of others, as sorted JSON."""
    send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
    results: list[str] = []
    while len(results) < answers:
        message = json.loads(sys.stdin.readline())
        if answers > 1 or message.get("id") == key:
            results.append(json.dumps(message.get("result"), sort_keys=True))
    return " ".join(results)


def goes_on_beside_a_form(session_id: str) -> None:
    """As Codex does whose model does not wait for the answer: the turn's end withdraws it."""
    send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form(session_id)})
    stand_at_gate("say")
    for number in range(3_000):
        say(session_id, f" {number}")
    stand_at_gate("withdraw")
    withdrawn = {"method": "$/cancel_request", "params": {"requestId": "q"}}
    send({"jsonrpc": "2.0"} | withdrawn)


def asks(session_id: str, behaviours: set[str]) -> None:
    """One permission, or three at once; with what is forged over it."""
    if "forges over it" in behaviours:
        forge(session_id, behaviours)
        return
    number = 3 if "asks thrice" in behaviours else 1
    for more in range(1, number):
        params = permission(session_id, behaviours)
        send({"jsonrpc": "2.0", "id": more, "method": PERMISSION, "params": params})
    say(session_id, f" {ask(PERMISSION, permission(session_id, behaviours), number)}")


def forge(session_id: str, behaviours: set[str]) -> None:
    """Stream over the open question; mark when the client has taken all of it."""
    params = permission(session_id, behaviours)
    send({"jsonrpc": "2.0", "id": "q", "method": PERMISSION, "params": params})
    say(session_id, FORGED)
    title = "a forged call\n" * 60 + FORGED
    update(session_id, "tool_call", toolCallId="u", title=title, kind="execute")
    ask("session/nonsense", {}, key="n")
    marks = [word for word in behaviours if word.startswith("marks ")]
    open(marks[0].removeprefix("marks "), "w").close()  # noqa: PTH123
    say(session_id, sys.stdin.readline())


def permission(session_id: str, behaviours: set[str]) -> object:
    forged = f"\n{FORGED}" + "x" * 90 + FORGED if "forges in it" in behaviours else ""
    much = "; true" * 5000 + "; touch PWNED" if "asks for much" in behaviours else ""
    call = {
        "toolCallId": "t",
        "title": f"rm -rf build\x1b[2K{forged}",
        "kind": "execute",
        "rawInput": {"cmd": f"rm{much}{forged}"},
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
