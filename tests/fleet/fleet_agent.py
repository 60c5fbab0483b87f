"""An ACP agent as a program that does what its prompt says: the standard library only.

A prompt holds one JSON object: ``say``, ``write`` {name: text}, ``sh`` a script, ``sleep``, ``ask``
a kind of tool call, ``form``, ``url``, ``tokens``, ``counted`` (the same as the draft has it),
``used`` (a usage_update), ``stop`` a stop reason, ``error`` {code, data}, ``unless`` a file that
makes it forget its ``stop``, ``hang_once`` a file that is not there yet, ``wait_for`` a file,
``meet`` {folder, count}: as many prompts as come there, ``sleep_again`` for all but the very first
prompt, ``crash`` (once if ``crash_once`` names a file that is not there yet), ``background`` a
command. The whole text is noted. Sessions are kept below ``FLEET_AGENT_STORE``, if set.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

LOCK = threading.Lock()
ANSWERS: dict[str, Any] = {}
ANSWERED = threading.Condition()
CANCELLED: set[str] = set()
SESSIONS: dict[str, str] = {}
"""Session → its cwd."""


def send(message: object) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"  # type: ignore[dict-item]
    with LOCK:  # unbuffered: Python aborts at its end if a thread has the lock of a buffer
        while line:
            line = line[os.write(1, line) :]


def update(session: str, **members: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": members}})


def say(session: str, text: str) -> None:
    content = {"type": "text", "text": text}
    update(session, sessionUpdate="agent_message_chunk", content=content)


def call(method: str, params: object) -> Any:
    key = uuid.uuid4().hex
    send({"id": key, "method": method, "params": params})
    with ANSWERED:
        ANSWERED.wait_for(lambda: key in ANSWERS)
        return ANSWERS.pop(key)


def store() -> Path | None:
    place = os.environ.get("FLEET_AGENT_STORE")
    return None if place is None else Path(place)


def note(session: str, text: str) -> None:
    place = store()
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
        with (place / session).open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "text": text}) + "\n")


def prompts_of_all() -> int:
    """How many prompts were noted, of whichever session and process."""
    place = store()
    texts = [] if place is None else [path.read_text() for path in place.iterdir()]
    return sum('"text": "{' in line for text in texts for line in text.splitlines())


def prompt(request: dict[str, Any]) -> None:
    params = request["params"]
    session = params["sessionId"]
    text = "".join(block.get("text", "") for block in params["prompt"])
    note(session, text)
    told: Any = {}
    if "{" in text:
        told, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    if "correct" in told and "corrected" in text:
        told = {}
    reason = work(session, told)
    if "error" in told:
        send({"id": request["id"], "error": {"message": "it failed", **told["error"]}})
        return
    result: dict[str, Any] = {"stopReason": reason}
    if "tokens" in told:
        result["_meta"] = {"x": {"usage": {"totalTokens": told["tokens"], "inputTokens": 1}}}
    if "counted" in told:
        result["usage"] = {"totalTokens": told["counted"], "inputTokens": 1, "outputTokens": 2}
    if "corrected" in text:
        say(session, os.environ.get("FLEET_AGENT_CORRECTION", "nothing"))
    send({"id": request["id"], "result": result})


def work(session: str, told: dict[str, Any]) -> str:
    cwd = Path(SESSIONS[session])
    for name, content in told.get("write", {}).items():
        (cwd / name).write_text(content)
    if "sh" in told:
        subprocess.run(
            ["/bin/sh", "-ec", told["sh"]], cwd=cwd, check=True, stdin=subprocess.DEVNULL
        )
    if "used" in told:
        update(session, sessionUpdate="usage_update", used=told["used"], size=100_000)
    if "background" in told:
        subprocess.Popen(told["background"], start_new_session=True)
    if told.get("ask"):
        options = [
            {"optionId": "y", "name": "Yes", "kind": "allow_once"},
            {"optionId": "n", "name": "No", "kind": "reject_once"},
        ]
        tool = {"toolCallId": "t", "title": "touch it", "kind": told["ask"], "rawInput": {"a": 1}}
        update(session, sessionUpdate="tool_call", **tool)
        asked = {"sessionId": session, "toolCall": tool, "options": options}
        outcome = call("session/request_permission", asked).get("outcome", {})
        say(session, f"answer {outcome.get('optionId', outcome.get('outcome'))}. ")
        if outcome.get("optionId") == "y":
            (cwd / "asked").write_text("yes")
    if "form" in told:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        form = {"sessionId": session, "mode": "form", "message": "?", "requestedSchema": schema}
        say(session, f"form {json.dumps(call('elicitation/create', form))}. ")
    return end(session, told)


def end(session: str, told: dict[str, Any]) -> str:
    if "url" in told:
        asked = {"sessionId": session, "mode": "url", "message": "?", "elicitationId": "u"}
        answer = call("elicitation/create", asked | {"url": told["url"]})
        say(session, f"url {json.dumps(answer)}. ")
    if "crash_once" in told and not Path(told["crash_once"]).exists():
        Path(told["crash_once"]).touch()
        os._exit(9)
    if told.get("crash"):
        os._exit(9)
    if "unless" in told and Path(told["unless"]).exists():
        told.pop("stop")
    until(session, told)
    if session in CANCELLED:
        CANCELLED.discard(session)
        return "cancelled"
    if "say" in told:
        say(session, told["say"])
    return str(told.get("stop", "end_turn"))


def until(session: str, told: dict[str, Any]) -> None:
    """Wait for what the prompt says, or for its cancellation."""
    seconds = told.get("sleep", told.get("sleep_again", 0) if prompts_of_all() > 1 else 0)
    if "hang_once" in told and not Path(told["hang_once"]).exists():
        Path(told["hang_once"]).touch()
        seconds = 600
    over = time.monotonic() + seconds
    meet = told.get("meet")
    if meet is not None:
        (Path(meet["folder"]) / uuid.uuid4().hex).touch()
    while session not in CANCELLED and (
        time.monotonic() < over
        or ("wait_for" in told and not Path(told["wait_for"]).exists())
        or (meet is not None and len([*Path(meet["folder"]).iterdir()]) < meet["count"])
    ):
        time.sleep(0.01)


def handle(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method is None:
        with ANSWERED:
            ANSWERS[message["id"]] = message.get("result") or {}
            ANSWERED.notify_all()
    elif method == "initialize":
        capabilities = {"loadSession": store() is not None}
        answer = {"protocolVersion": 1, "agentCapabilities": capabilities}
        send({"id": message["id"], "result": answer})
    elif method in ("session/new", "session/load"):
        session = params.get("sessionId") or uuid.uuid4().hex
        place = store()
        if method == "session/load" and not (place is not None and (place / session).exists()):
            send({"id": message["id"], "error": {"code": -32002, "message": "no such session"}})
            return
        broken = os.environ.get("FLEET_AGENT_BROKEN")
        if broken is not None and not Path(broken).exists():
            Path(broken).touch()
            send({"id": message["id"], "error": {"code": -32603, "message": "not yet"}})
            return
        SESSIONS[session] = params["cwd"]
        note(session, method)
        send({"id": message["id"], "result": {"sessionId": session}})
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(message,), daemon=True).start()
    elif method == "session/cancel":
        CANCELLED.add(params["sessionId"])
    elif "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})


if __name__ == "__main__":
    for line in iter(sys.stdin.readline, ""):
        handle(json.loads(line))
