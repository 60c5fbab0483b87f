"""Route each request of the Codex app-server, show the question, and print the reply for Codex.

python examples/bridge_question.py allow_once < what-the-app-server-wrote.jsonl
"""

from __future__ import annotations

import json
import sys

from codex_acp.bridge import Approval, Bridge, Decline, Elicitation, Route, Told


def answer(bridge: Bridge, asked: Route, kind: str) -> Told:
    match asked:
        case Approval():
            options = asked.v1().options
            print(asked.title, [option.name for option in options])
            chosen = next((o.option_id for o in options if o.kind == kind), "none of them")
            outcome = {"outcome": "selected", "optionId": chosen}
            return bridge.answered(asked, {"outcome": outcome})
        case Elicitation():
            print(asked.message)
            return bridge.answered(asked, {"action": "decline"})
        case Decline():
            print(asked.reason)
            return asked.told


def main(kind: str) -> None:
    messages = [json.loads(line) for line in sys.stdin]
    threads = [m["params"]["threadId"] for m in messages if "threadId" in m.get("params", {})]
    bridge = Bridge(threads[0])
    for message in messages:
        if "method" in message and "id" in message:
            asked = bridge.asked(message["id"], message["method"], message.get("params"))
            for reply in answer(bridge, asked, kind).replies:
                print(json.dumps(reply.message()))
        elif "method" in message:
            bridge.heard(message["method"], message.get("params"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "reject_once")
