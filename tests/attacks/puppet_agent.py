"""An ACP agent that does what its prompts say: the standard library only.

A prompt is JSON: ``tell`` are messages that are sent as they are, ``ask`` requests (a method and
its params) whose answers become the agent's message, ``stop`` what the prompt is answered with;
null leaves it without an answer. In texts ``SESSION`` stands for the session's id.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer_of(request_id: str) -> Json:
    for line in sys.stdin:
        message: Json = json.loads(line)
        if message.get("id") == request_id and "method" not in message:
            return {key: message[key] for key in ("result", "error") if key in message}
    raise SystemExit


def prompt(request_id: Any, session: str, text: str) -> None:
    wanted = json.loads(text.replace("SESSION", session))
    for message in wanted.get("tell", ()):
        for _ in range(message.pop("times", 1)):
            send(message)
    answers = []
    for number, (method, params) in enumerate(wanted.get("ask", ())):
        send({"id": f"q{number}", "method": method, "params": params})
        answers.append(answer_of(f"q{number}"))
    content = {"type": "text", "text": json.dumps(answers)}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})
    if wanted.get("stop", "end_turn") is not None:
        send({"id": request_id, "result": {"stopReason": wanted.get("stop", "end_turn")}})
    for message in wanted.get("afterwards", ()):
        send({**message, "id": request_id} if "result" in message else message)


def main() -> None:
    count = 0
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                send({"id": message["id"], "result": {"protocolVersion": 1}})
            case "session/new":
                count += 1
                send({"id": message["id"], "result": {"sessionId": f"s{count}"}})
            case "session/prompt":
                params = message["params"]
                prompt(message["id"], params["sessionId"], params["prompt"][0]["text"])


if __name__ == "__main__":
    main()
