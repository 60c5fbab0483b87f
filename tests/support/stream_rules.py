"""What must hold of the stream of every conversation with our adapter, whatever it is about.

A tool call is announced once and before anything else is said of it, pending while it is asked
about, ended when its prompt is answered (contract 4.5), and has one end. Behind that answer nothing
more is said of its turn, nor is anybody asked (contract 3.5, 4.2). A session is known before it is
updated.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.stream_rules_v2 import FINAL, SessionRules, begins_anew

Json = dict[str, Any]

_OPEN: Final = ("pending", "in_progress")

_OPENS: Final = ("session/load", "session/resume")
"""Requests that name the session that they open: its updates may come before the answer."""

_MAKES: Final = ("session/new", "session/fork")
"""Requests whose answer names the session."""

_ENDS: Final = ("session/close", "session/delete", "session/archive")

_TAKEN_OVER: Final = "now shown on another connection"
"""What the client is told of a session of which it hears no more."""


class StreamRules:
    """Follows both sides of one connection; ``problems`` says what was against the rules.

    ``version`` is that of ACP, once it is known.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.version = 1
        self._in_v2: dict[str, SessionRules] = {}
        self._permissions: dict[str, tuple[str, str]] = {}
        """What a person is asked, by id: session and tool call."""
        self._told: dict[str, set[str]] = {}
        """Session → the messages and tool calls of what runs in it."""
        self._over: dict[str, set[str]] = {}
        """The same of the prompts that were answered, until the next one."""
        self._asked: dict[str, Json] = {}
        """The client's requests that are not answered, by id."""
        self._sessions: set[str] = set()
        self._calls: dict[tuple[str, str], str] = {}
        """Session and tool call → status."""
        self._reopened: set[tuple[str, str]] = set()
        """Tool calls that were open when their session was opened anew: announced once more."""
        self._displaced: set[str] = set()
        """Sessions that another connection has shown: a prompt's echo may be there."""
        self._above: dict[str, str] = {}
        """Session of a sub-agent → the one above it."""

    def from_client(self, message: Json) -> None:
        """Take a message that the client has sent."""
        if "method" not in message:
            self._settled(message.get("id"))
        if "method" not in message or message.get("id") is None:
            return
        self._asked[json.dumps(message["id"])] = message
        self._over.pop(_session_of(message), None)
        if message["method"] in _OPENS:
            self._of_v2(_session_of(message)).replay(begins=True)

    def from_agent(self, message: Json) -> None:
        """Take a message that the agent has sent."""
        method, params = message.get("method"), message.get("params")
        if method is None:
            asked = self._asked.pop(json.dumps(message.get("id")), None)
            if asked is not None:
                self._answered(asked, message.get("result"))
        elif method == "$/cancel_request" and isinstance(params, dict):
            self._settled(params["requestId"])
        elif isinstance(params, dict) and "sessionId" in params:
            session = params["sessionId"]
            if session not in self._sessions and not self._is_opening(session):
                self._wrong(f"{method} for a session that the client does not know: {params}")
            if method == "session/update":
                self._sub_agent(session, params["update"])
            match method:
                case "session/update" if self.version != 1:
                    self._of_v2(session).update(params["update"])
                case "session/request_permission" if self.version != 1:
                    self._asked_in_v2(session, message)
                case "session/update":
                    self._update(session, params["update"])
                case "session/request_permission":
                    self._permissions[json.dumps(message["id"])] = (
                        session,
                        params["toolCall"]["toolCallId"],
                    )
                    self._permission(session, params["toolCall"])
                case "elicitation/create":
                    self._elicitation(session, params.get("toolCallId"))

    def displaced(self, session: str, *, shown: bool = False) -> None:
        """Another connection shows a session from now on, or did for a moment: ``shown``."""
        self._displaced.add(session)
        if not shown:
            self._forget_calls(session)
            self._of_v2(session).state = None

    def _answered(self, asked: Json, result: object) -> None:
        method, session = asked["method"], _session_of(asked)
        if method in _MAKES and isinstance(result, dict):
            self._sessions.add(result["sessionId"])
        elif method in _OPENS:
            for each in [session, *(s for s in self._above if self._top(s) == session)]:
                self._of_v2(each).replay(begins=self._is_opening(each))  # another may go on
            if result is not None:
                self._sessions.add(session)
                self._reopened |= {
                    key
                    for key, status in self._calls.items()
                    if self._top(key[0]) == session and status in _OPEN
                }
        elif method in _ENDS and result is not None:
            self._sessions.discard(session)
            for each in [s for s in self._above if self._top(s) == session]:
                self._forget_calls(each)
                self._above.pop(each)
            self._forget_calls(session)
            self._of_v2(session).replay(begins=self._is_opening(session))
        elif method == "session/prompt" and self.version != 1:
            elsewhere = session in self._displaced or self._is_opening(session)
            if isinstance(result, dict) and not elsewhere:
                self._of_v2(session).taken(result["messageId"])
        elif method == "session/prompt":
            self._prompt_answered(session)

    def _is_opening(self, session: str) -> bool:
        """Whether the client waits for an answer that opens it; a close may come in between."""
        waiting = (each for each in self._asked.values() if each["method"] in _OPENS)
        return any(_session_of(each) == session for each in waiting)

    def _prompt_answered(self, session: str) -> None:
        """One that waited behind another one may be answered while that one's calls still run."""
        others = (each for each in self._asked.values() if each["method"] == "session/prompt")
        if self._is_opening(session) or any(_session_of(o) == session for o in others):
            return
        left = [key[1] for key, s in self._calls.items() if key[0] == session and s in _OPEN]
        if left:
            self._wrong(f"the prompt was answered, these tool calls have not ended: {left}")
        asked = [call for of, call in self._permissions.values() if of == session]
        if asked:
            self._wrong(f"the prompt was answered, somebody is still asked about {asked}")
        self._over[session] = self._over.pop(session, set()) | self._told.pop(session, set())

    def _update(self, session: str, update: Json) -> None:
        kind = update["sessionUpdate"]
        name = update.get("toolCallId") or update.get("messageId")
        if name is not None and not self._is_opening(self._top(session)):
            self._told.setdefault(session, set()).add(name)
            if name in self._over.get(session, ()):
                self._wrong(f"4.2: behind the answer to its prompt: {update}")
        if kind not in ("tool_call", "tool_call_update"):
            return
        key = (session, update["toolCallId"])
        status = update.get("status")
        if kind == "tool_call":
            again = key in self._reopened or self._is_opening(self._top(session))
            if key in self._calls and not again:
                self._wrong(f"announced twice: {update}")
            self._calls[key] = status or "pending"
        elif key not in self._calls:
            self._wrong(f"an update of a tool call that was not announced: {update}")
        else:
            before = self._calls[key]
            if before in FINAL and status not in (None, before) and not begins_anew(update):
                self._wrong(f"4.5: a tool call that was {before} is {status}: {update}")
            self._calls[key] = status or before

    def _permission(self, session: str, call: Json) -> None:
        status = self._calls.get((session, call["toolCallId"]))
        if status is None:
            self._wrong(f"asked about a tool call that was not announced: {call}")
        elif status != "pending" or call.get("status") not in (None, "pending"):
            self._wrong(f"asked about a tool call that is {status}: {call}")

    def _elicitation(self, session: str, call: str | None) -> None:
        known = (session, call) in self._calls or self._of_v2(session).status(str(call))
        if call is not None and not known:
            self._wrong(f"an elicitation of a tool call that was not announced: {call}")

    def _sub_agent(self, session: str, update: Json) -> None:
        """A session announces one below it, whose history is told with its own, or ends here."""
        if _TAKEN_OVER in json.dumps(update):
            self._forget_calls(session)
        if update["sessionUpdate"] == "subagent_update":
            child = update["sessionId"]
            self._sessions.add(child)
            self._above[child] = session
            if self._is_opening(self._top(child)):
                self._of_v2(child).replay(begins=True)

    def _top(self, session: str) -> str:
        while session in self._above:
            session = self._above[session]
        return session

    def _asked_in_v2(self, session: str, message: Json) -> None:
        subject = message["params"]["subject"]
        call = subject.get("toolCallId") or subject["toolCall"]["toolCallId"]
        self._permissions[json.dumps(message["id"])] = (session, call)
        self._of_v2(session).permission(message["params"])

    def _settled(self, request_id: object) -> None:
        asked = self._permissions.pop(json.dumps(request_id), None)
        if asked is not None:
            session, call = asked
            if self.version != 1:
                self._of_v2(session).settled(call)

    def _of_v2(self, session: str) -> SessionRules:
        made = SessionRules()
        made.problems = self.problems
        return self._in_v2.setdefault(session, made)

    def _forget_calls(self, session: str) -> None:
        self._calls = {key: s for key, s in self._calls.items() if key[0] != session}
        self._in_v2.pop(session, None)
        self._told.pop(session, None)
        self._over.pop(session, None)

    def _wrong(self, problem: str) -> None:
        self.problems.append(problem)


def _session_of(message: Json) -> str:
    params = message.get("params")
    return str(params.get("sessionId")) if isinstance(params, dict) else ""
