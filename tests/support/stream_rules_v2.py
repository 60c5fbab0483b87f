"""What must hold of the stream of every conversation in ACP v2 with our adapter (contract 4).

A tool call is announced before anything else is said of it, pending while it is asked about, ended
when its session is idle, and what has ended stays so; a prompt is answered behind its echo.
Source: the pages of v2 on the prompt's life and on tool calls.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

_OPEN: Final = ("pending", "in_progress")

FINAL: Final = ("completed", "failed", "cancelled")
"""A tool call that is so stays so, unless Codex tells of it anew: a model may use its id again."""

_OF_A_TURN: Final = frozenset(
    {
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call_update",
        "terminal_update",
        "terminal_output_chunk",
        "plan_update",
    }
)


class SessionRules:
    """Follows one session; ``problems`` says what was against the rules."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.state: str | None = "idle"
        """None of one that is opened: something may run in it."""
        self._background: set[str] = set()
        """Terminals that run on while the session is idle, and their tool calls; sub-agents that
        work then, whose questions the session asks."""
        self._calls: dict[str, Json] = {}
        self._terminals: set[str] = set()
        self._messages: set[str] = set()
        self._asked: list[str] = []
        """Tool calls that wait for a person, the newest last."""
        self._replays = False

    def replay(self, *, begins: bool) -> None:
        """The history is told from now on, or was: all of it anew, of a session that is idle."""
        self._replays = begins
        if begins:
            self.state = None

    def status(self, call_id: str) -> str | None:
        """How a tool call is; None of one that was not announced."""
        status: str | None = self._calls.get(call_id, {}).get("status")
        return status

    def taken(self, message_id: str) -> None:
        """A prompt was answered."""
        if message_id not in self._messages:
            self.problems.append(f"the prompt {message_id} is answered before its echo")

    def update(self, update: Json) -> None:
        """Take an update."""
        kind = update["sessionUpdate"]
        shown = str(update.get("toolCallId") or update.get("terminalId"))
        is_idle = self.state == "idle" and not self._replays
        if is_idle and kind in _OF_A_TURN and not self._is_background(shown):
            self.problems.append(f"4.2: while the session is idle: {update}")
        match kind:
            case "state_update":
                self._state(update)
            case "user_message":
                self._messages.add(update["messageId"])
            case "tool_call_update":
                self._call(update)
            case "terminal_update":
                self._terminals.add(update["terminalId"])
            case "terminal_output_chunk" if update["terminalId"] not in self._terminals:
                self.problems.append(f"output of a terminal that is not known: {update}")

    def permission(self, params: Json) -> None:
        """Take ``session/request_permission``."""
        subject = params["subject"]
        call_id = subject.get("toolCallId") or subject["toolCall"]["toolCallId"]
        if self.status(call_id) != "pending":
            self.problems.append(f"4.1: {call_id} is asked for and {self.status(call_id)}")
        kinds = {option["kind"] for option in params["options"]}
        if not kinds & {"reject_once", "reject_always"}:
            self.problems.append(f"3.4: there is no way to say no: {params}")
        self._asked.append(call_id)

    def settled(self, call_id: str | None = None) -> None:
        """A permission was answered, or is wanted no more; None: the newest."""
        if self._asked:
            self._asked.remove(self._asked[-1] if call_id is None else call_id)

    def _is_background(self, shown: str) -> bool:
        """Whether a terminal or a tool call belongs to what works in the background."""
        sub_agents = tuple(f"codex-acp:agent:{each}:" for each in self._background)
        return shown in self._background or shown.startswith((*sub_agents, "subagent-"))

    def _state(self, update: Json) -> None:
        for each in update.get("background") or ():
            self._background.add(each.get("terminalId") or each["sessionId"])
        if update["state"] == "idle":
            left = [i for i, call in self._calls.items() if call.get("status") in _OPEN]
            asked = [each for each in self._asked if not self._is_background(each)]
            self.problems += [
                f"4.5: {each} is left open" for each in left if not self._is_background(each)
            ]
            self.problems += [f"3.5: somebody is still asked about {each}" for each in asked]
            if self.state not in ("idle", None) and "stopReason" not in update:
                self.problems.append("4.4: work has ended without a reason")
        if update["state"] == "requires_action" and self.state == "idle" and not self._replays:
            self.problems.append("what does not run requires an action")
        self.state = update["state"]

    def _call(self, update: Json) -> None:
        call_id = update["toolCallId"]
        known = self._calls.get(call_id)
        if known is None and not {"title", "status"} <= update.keys():
            self.problems.append(f"4.1: {call_id} was never announced: {update}")
        runs = update.get("status") == "in_progress"
        if runs and call_id in self._asked and not self._replays:
            self.problems.append(f"4.1: {call_id} is in progress while it is asked for")
        before, now = self.status(call_id), update.get("status")
        stays = before == "cancelled" or (before in FINAL and not begins_anew(update))
        if stays and now not in (None, before) and not self._replays:
            self.problems.append(f"4.5: {call_id} was {before} and is {now}")
        self._calls[call_id] = {**(known or {}), **update}
        for part in update.get("content") or ():
            if part["type"] == "terminal" and part["terminalId"] not in self._terminals:
                self.problems.append(f"{call_id} shows a terminal that is not known")


def begins_anew(update: Json) -> bool:
    """Whether an update tells the whole of a tool call, as Codex has reported it."""
    return {"title", "rawInput"} <= update.keys()
