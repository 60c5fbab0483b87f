"""What holds of every conversation with a client of ACP v2 (contract 4, and the pages of v2).

Told from the messages alone, as a client sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.transcripts.player import Line
    from tests.transcripts.transcript import Json

__all__ = ["problems"]

_OPEN = {"pending", "in_progress"}

_OF_A_TURN = {
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call_update",
    "terminal_update",
    "terminal_output_chunk",
    "plan_update",
}


def problems(lines: list[Line]) -> list[str]:
    """What is against the rules in what the adapter has said to the client."""
    client = _Client()
    for line in lines:
        if line.to == "client":
            client.take(line.message)
        elif line.by == "client" and "answer" in line.message:
            client.answered()
    if client.state != "idle":
        client.found.append(f"the session is left {client.state}")
    return client.found


class _Client:
    def __init__(self) -> None:
        self.found: list[str] = []
        self.state = "idle"
        self.calls: dict[str, Json] = {}
        self.terminals: dict[str, Json] = {}
        self.messages: set[str] = set()
        self.asked: list[str | None] = []

    def take(self, message: Json) -> None:
        """One message of the agent."""
        if message.get("method") == "session/update":
            self._update(message["params"]["update"])
        elif message.get("method") == "session/request_permission":
            self._permission(message["params"])
        elif message.get("method") == "elicitation/create":
            self.asked.append(None)
        elif "messageId" in message.get("result", {}):
            self._taken(message["result"]["messageId"])

    def _taken(self, message_id: str) -> None:
        if message_id not in self.messages:
            self.found.append(f"the prompt {message_id} is answered before its echo")

    def answered(self) -> None:
        """The client has answered the last question."""
        if self.asked:
            self.asked.pop()

    def _update(self, update: Json) -> None:
        kind = update["sessionUpdate"]
        if self.state == "idle" and kind in _OF_A_TURN:
            self.found.append(f"4.2: while the session is idle: {update}")
        match kind:
            case "state_update":
                self._state(update)
            case "user_message":
                self.messages.add(update["messageId"])
            case "tool_call_update":
                self._call(update)
            case "terminal_update":
                self.terminals.setdefault(update["terminalId"], {}).update(update)
            case "terminal_output_chunk" if update["terminalId"] not in self.terminals:
                self.found.append(f"output of a terminal that is not known: {update}")

    def _state(self, update: Json) -> None:
        if update["state"] == "idle":
            left = [i for i, call in self.calls.items() if call.get("status") in _OPEN]
            self.found += [f"4.5: {each} is left open" for each in left]
            if self.state != "idle" and "stopReason" not in update:
                self.found.append("4.4: work has ended without a reason")
        if update["state"] == "requires_action" and not (self.asked or self.state == "running"):
            self.found.append("nobody is asked")
        self.state = update["state"]

    def _call(self, update: Json) -> None:
        call_id = update["toolCallId"]
        known = self.calls.get(call_id)
        if known is None and not {"title", "status"} <= update.keys():
            self.found.append(f"4.1: {call_id} was never announced: {update}")
        if update.get("status") == "in_progress" and call_id in self.asked:
            self.found.append(f"4.1: {call_id} is in progress while it is asked for")
        call: dict[str, Any] = {**(known or {}), **update}
        self.calls[call_id] = call
        for part in call.get("content") or ():
            if part["type"] == "terminal" and part["terminalId"] not in self.terminals:
                self.found.append(f"{call_id} shows a terminal that is not known")

    def _permission(self, params: Json) -> None:
        subject = params["subject"]
        call_id = subject.get("toolCallId") or subject["toolCall"]["toolCallId"]
        if self.calls.get(call_id, {}).get("status") != "pending":
            self.found.append(f"4.1: {call_id} is asked for and not pending")
        kinds = {option["kind"] for option in params["options"]}
        if not kinds & {"reject_once", "reject_always"}:
            self.found.append("3.4: there is no way to say no")
        self.asked.append(call_id)
