"""An ACP agent that does all it can so that its client cannot close: the standard library only.

``python hostile_agent.py BEHAVIOUR…``; what the behaviours are stands in `main`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOUR = 3600


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(behaviours: set[str]) -> str:
    """Answer what opens a session, and give its id; the prompt that follows is not answered."""
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if message["method"] == "initialize":
            capabilities: dict[str, object] = {}
            if "offers session/close" in behaviours:
                capabilities = {"sessionCapabilities": {"close": {}}}
            result: dict[str, object] = {"protocolVersion": 1, "agentCapabilities": capabilities}
            send(id=message["id"], result=result)
        elif message["method"] == "session/new":
            send(id=message["id"], result={"sessionId": "s1"})
        elif message["method"] == "session/prompt":
            break
    return "s1"


def ask(session: str) -> None:
    """Questions of every kind, and none of their answers is read."""
    requests: list[tuple[str, dict[str, object]]] = []
    for number in range(200):
        requests.append(("fs/read_text_file", {"path": str(Path.cwd() / "hole"), "line": 2}))
        call = {"toolCallId": f"c{number}", "title": "?"}
        options = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
        requests.append(("session/request_permission", {"toolCall": call, "options": options}))
        form: dict[str, object] = {
            "mode": "form",
            "message": "?",
            "requestedSchema": {"type": "object"},
        }
        requests.append(("elicitation/create", form))
    deaf = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 300' & sleep 300"
    for number in range(16):
        requests.append(("terminal/create", {"command": "/bin/sh", "args": ["-c", deaf]}))
        requests.append(("terminal/wait_for_exit", {"terminalId": f"terminal-{number + 1}"}))
    for number, (method, params) in enumerate(requests):
        send(id=f"q{number}", method=method, params={"sessionId": session, **params})


def flood(session: str) -> None:
    content = {"type": "text", "text": "x" * 1000}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    params = {"sessionId": session, "update": update}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}) + "\n"
    while True:
        sys.stdout.write(line * 100)


def main(behaviours: set[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if "starts others" in behaviours:
        subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; setsid sleep 300 & sleep 300"])
    session = answer(behaviours)
    if "asks" in behaviours:
        ask(session)
    try:
        if "floods" in behaviours:
            flood(session)
    except OSError:
        pass
    time.sleep(HOUR)


if __name__ == "__main__":
    main(set(sys.argv[1:]))
