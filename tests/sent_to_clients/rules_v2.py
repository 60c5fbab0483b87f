"""What holds of every conversation with a client of ACP v2."""

from __future__ import annotations

from tests.sent_to_clients.conversation import Json
from tests.sent_to_clients.player import Line
from tests.sent_to_clients.stage import MAIN
from tests.support.stream_rules_v2 import SessionRules


def problems(lines: list[Line]) -> list[str]:
    """What is against the rules in what the adapter has said to the client."""
    rules, below = SessionRules(), SessionRules()
    for line in lines:
        if line.to == "client":
            session = line.message.get("params", {}).get("sessionId", MAIN)
            _take(rules if session == MAIN else below, line.message)
        elif line.by == "client" and "answer" in line.message:
            rules.settled()
    if rules.state != "idle":
        rules.problems.append(f"the session is left {rules.state}")
    return rules.problems + below.problems


def _take(rules: SessionRules, message: Json) -> None:
    if message.get("method") == "session/update":
        rules.update(message["params"]["update"])
    elif message.get("method") == "session/request_permission":
        rules.permission(message["params"])
    elif message.get("method") == "$/cancel_request":
        rules.settled()
    elif "messageId" in message.get("result", {}):
        rules.taken(message["result"]["messageId"])
