"""The tap on our adapter sees what is wrong; without this, the tests that use it could not fail."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.adapter_tap import AdapterTap

Json = dict[str, Any]

TEXT: Final = {"type": "text", "text": "x"}
CALL: Final = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run"}
FORM: Final = {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}}
URL: Final = {"mode": "url", "message": "?", "elicitationId": "e", "url": "https://a.example/"}
SWITCH: Final = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
OPTIONS: Final = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
ALL: Final = {
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
    "auth": {"terminal": True},
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "subagents": {},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}


class Talk:
    """A conversation, as the tap on the agent's side hears it."""

    def __init__(self, capabilities: object = None) -> None:
        self.tap = AdapterTap()
        self._ids = 0
        params: Json = {"protocolVersion": 1}
        if capabilities is not None:
            params["clientCapabilities"] = capabilities
        self.introduction = self.client("initialize", params)

    def client(self, method: str, params: Json) -> int:
        """A request of the client; its id."""
        self._ids += 1
        self._line("received", {"id": self._ids, "method": method, "params": params})
        return self._ids

    def answer(self, request_id: int, result: Json | None = None) -> None:
        """The agent answers; None: with an error."""
        if result is None:
            error = {"code": -32603, "message": "no"}
            self._line("sent", {"id": request_id, "error": error})
        else:
            self._line("sent", {"id": request_id, "result": result})

    def agent(self, method: str, params: Json, request_id: int | None = None) -> None:
        """The agent asks or tells."""
        message: Json = {"method": method, "params": params}
        self._line("sent", message if request_id is None else {"id": request_id, **message})

    def update(self, update: Json, session: str = "s") -> None:
        self.agent("session/update", {"sessionId": session, "update": update})

    def ask(self, tool_call: Json) -> None:
        params = {"sessionId": "s", "toolCall": tool_call, "options": OPTIONS}
        self.agent("session/request_permission", params, 0)

    def choose(self) -> None:
        """The client answers what it was asked."""
        self._line("received", {"id": 0, "result": {"outcome": {"outcome": "cancelled"}}})

    def session(self) -> None:
        """Session ``s`` is open."""
        self.answer(self.client("session/new", {"cwd": "/", "mcpServers": []}), {"sessionId": "s"})

    def prompt(self) -> int:
        return self.client("session/prompt", {"sessionId": "s", "prompt": [TEXT]})

    def end(self, prompt: int) -> None:
        self.answer(prompt, {"stopReason": "end_turn"})

    def _line(self, direction: Any, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self.tap.on("agent")(direction, line)

    def is_wrong(self, problem: str) -> None:
        """The tap has found this."""
        with pytest.raises(AssertionError, match=problem):
            self.tap.check()


NEEDY: Final[list[tuple[str, Json]]] = [
    ("session.notices", {"sessionUpdate": "notice", "severity": "info", "title": "News"}),
    ("subagents", {"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Helper"}),
    (
        "session.compaction",
        {"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"},
    ),
    ("session.configOptions", {"sessionUpdate": "config_option_update", "configOptions": [SWITCH]}),
    ("terminal_output", {**CALL, "content": [{"type": "terminal", "terminalId": "t"}]}),
    ("terminal_output", {**CALL, "_meta": {"terminal_info": {"terminal_id": "t"}}}),
]
NEEDY_REQUESTS: Final[list[tuple[str, str, Json]]] = [
    ("elicitation.form", "elicitation/create", FORM),
    ("elicitation.url", "elicitation/create", URL),
    ("fs.readTextFile", "fs/read_text_file", {"path": "/a"}),
    ("fs.writeTextFile", "fs/write_text_file", {"path": "/a", "content": ""}),
    ("terminal", "terminal/create", {"command": "ls"}),
]
LOGINS: Final[list[tuple[str, Json]]] = [
    ("auth.terminal", {"type": "terminal", "id": "l", "name": "L", "args": []}),
    ("terminal-auth", {"id": "l", "name": "L", "_meta": {"terminal-auth": {"command": "x"}}}),
]


@pytest.mark.parametrize("nothing", [None, {}, {"elicitation": {}, "session": None}])
@pytest.mark.parametrize(("capability", "update"), NEEDY)
def test_an_update_needs_what_the_client_advertises(
    capability: str, update: Json, nothing: object
) -> None:
    able, unable = Talk(ALL), Talk(nothing)
    for talk in (able, unable):
        talk.session()
        talk.update(update)

    able.tap.check()
    unable.is_wrong(f"needs .*{capability}")


@pytest.mark.parametrize(("capability", "method", "params"), NEEDY_REQUESTS)
def test_a_request_needs_what_the_client_advertises(
    capability: str, method: str, params: Json
) -> None:
    able, unable = Talk(ALL), Talk({"terminal": False, "fs": {}})
    for talk in (able, unable):
        talk.session()
        talk.agent(method, {"sessionId": "s", **params}, 7)

    able.tap.check()
    unable.is_wrong(f"needs {capability}")


def test_a_page_that_is_done_is_told_only_to_who_can_open_pages() -> None:
    able, unable = Talk(ALL), Talk({"elicitation": {"form": {}}})
    for talk in (able, unable):
        talk.agent("elicitation/complete", {"elicitationId": "e"})

    able.tap.check()
    unable.is_wrong("needs elicitation.url")


@pytest.mark.parametrize(("capability", "login"), LOGINS)
def test_a_login_in_a_terminal_needs_one(capability: str, login: Json) -> None:
    able, unable = Talk(ALL), Talk()
    for talk in (able, unable):
        talk.answer(talk.introduction, {"protocolVersion": 1, "authMethods": [login]})

    able.tap.check()
    unable.is_wrong(f"needs .*{capability}")


def test_a_permission_request_has_no_terminal_that_nobody_advertised() -> None:
    talk = Talk()
    talk.session()
    talk.update(CALL)
    talk.ask({"toolCallId": "c", "content": [{"type": "terminal", "terminalId": "t"}]})

    talk.is_wrong("terminal content")


def test_an_option_that_is_a_switch_is_seen_in_answers_too() -> None:
    talk = Talk()
    new = talk.client("session/new", {"cwd": "/", "mcpServers": []})
    talk.answer(new, {"sessionId": "s", "configOptions": [SWITCH]})

    talk.is_wrong("the boolean option fast")


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": []}},
        {"sessionUpdate": "plan_removed", "planId": "p"},
        {"sessionUpdate": "_vendor.example/news"},
    ],
)
def test_an_update_outside_the_stable_schema_is_wrong_for_everybody(update: Json) -> None:
    talk = Talk({**ALL, "plan": {}})
    talk.session()
    talk.update(update)

    talk.is_wrong("no client of ACP v1")


def test_an_unstable_message_is_wrong_for_everybody() -> None:
    talk = Talk(ALL)
    talk.agent("mcp/message", {"serverId": "s", "requestId": 1, "method": "ping"})

    talk.is_wrong("no client of ACP v1")


def test_unstable_methods_of_ours_are_answered_and_held_against_their_schema() -> None:
    talk = Talk()
    talk.session()
    fork = talk.client("session/fork", {"sessionId": "s", "cwd": "/", "mcpServers": []})
    talk.answer(fork, {"sessionId": "t"})
    talk.update({"sessionUpdate": "agent_message_chunk", "content": TEXT}, "t")
    titled = talk.client("session/set_title", {"sessionId": "s", "title": "T"})
    talk.answer(titled, {"title": "T"})
    talk.tap.check()

    talk.answer(talk.client("session/fork", {"sessionId": "s"}), {"sessionId": 5})
    talk.is_wrong("ForkSessionResponse")


def test_another_unstable_method_is_not_ours_to_answer() -> None:
    talk = Talk()
    talk.answer(talk.client("mcp/message", {}), {})

    talk.is_wrong("a result for mcp/message")


def test_what_is_advertised_of_the_unstable_methods_has_their_shape() -> None:
    talk = Talk()
    capabilities = {"sessionCapabilities": {"fork": True}}
    talk.answer(talk.introduction, {"protocolVersion": 1, "agentCapabilities": capabilities})

    talk.is_wrong("fork in the answer of initialize")


def test_a_conversation_by_the_rules_is_no_problem() -> None:
    talk = Talk()
    talk.answer(talk.introduction, {"protocolVersion": 1})
    talk.session()
    prompt = talk.prompt()
    talk.update(CALL)
    talk.ask({"toolCallId": "c", "status": "pending"})
    talk.choose()
    talk.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
    talk.end(prompt)
    loaded = talk.client("session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []})
    talk.update({**CALL, "status": "completed"})
    talk.answer(loaded, {})

    talk.tap.check()
    assert talk.tap.left_open() == []


def test_a_tool_call_is_announced_before_it_is_updated() -> None:
    talk = Talk()
    talk.session()
    talk.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run"})

    talk.is_wrong("that was not announced")


def test_a_tool_call_is_announced_once() -> None:
    talk = Talk()
    talk.session()
    talk.update(CALL)
    talk.update(CALL)

    talk.is_wrong("announced twice")


@pytest.mark.parametrize("status", ["pending", "in_progress", None])
def test_a_tool_call_has_ended_when_its_prompt_is_answered(status: str | None) -> None:
    talk = Talk()
    talk.session()
    prompt = talk.prompt()
    talk.update(CALL if status is None else {**CALL, "status": status})
    talk.end(prompt)

    talk.is_wrong("have not ended: \\['c'\\]")


def test_a_tool_call_has_one_end_unless_all_of_it_is_told_anew() -> None:
    talk = Talk()
    talk.session()
    talk.update({**CALL, "status": "completed"})
    change = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"}
    talk.update({**change, "title": "Run", "rawInput": {}})
    talk.update({**change, "status": "failed"})
    talk.tap.check()
    talk.update({**change, "status": "completed"})

    talk.is_wrong("that was failed is completed")


def test_nobody_is_asked_behind_the_answer_to_a_prompt() -> None:
    talk = Talk()
    talk.session()
    prompt = talk.prompt()
    talk.update(CALL)
    talk.ask({"toolCallId": "c", "status": "pending"})
    talk.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"})
    talk.end(prompt)

    talk.is_wrong("somebody is still asked about \\['c'\\]")


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": []},
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT},
    ],
)
def test_nothing_goes_on_behind_the_answer_to_its_prompt(update: Json) -> None:
    talk = Talk()
    talk.session()
    prompt = talk.prompt()
    talk.update({**CALL, "status": "completed"})
    talk.update({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT})
    talk.end(prompt)
    talk.update({"sessionUpdate": "agent_message_chunk", "messageId": "new", "content": TEXT})
    talk.tap.check()
    talk.update(update)

    talk.is_wrong("behind the answer to its prompt")


def test_a_prompt_that_waited_may_be_answered_before_the_running_ones_tool_calls_end() -> None:
    talk = Talk()
    talk.session()
    running, waiting = talk.prompt(), talk.prompt()
    talk.update(CALL)
    talk.end(waiting)
    talk.tap.check()
    talk.answer(running)

    talk.is_wrong("have not ended")


def test_a_permission_is_asked_for_a_tool_call_that_is_known_and_pending() -> None:
    unknown, running = Talk(), Talk()
    for talk in (unknown, running):
        talk.session()
    running.update({**CALL, "status": "in_progress"})
    for talk in (unknown, running):
        talk.ask({"toolCallId": "c"})

    unknown.is_wrong("not announced")
    running.is_wrong("that is in_progress")


def test_an_elicitation_names_no_tool_call_that_is_unknown() -> None:
    talk = Talk(ALL)
    talk.session()
    talk.agent("elicitation/create", {"sessionId": "s", "toolCallId": "c", **FORM}, 3)

    talk.is_wrong("an elicitation of a tool call that was not announced")


def test_a_session_is_updated_only_while_the_client_knows_it() -> None:
    early, closed, refused = Talk(), Talk(), Talk()
    early.client("session/new", {"cwd": "/", "mcpServers": []})
    closed.session()
    closed.answer(closed.client("session/close", {"sessionId": "s"}), {})
    load = {"sessionId": "s", "cwd": "/", "mcpServers": []}
    refused.answer(refused.client("session/load", load))
    for talk in (early, closed, refused):
        talk.update({"sessionUpdate": "agent_message_chunk", "content": TEXT})

        talk.is_wrong("a session that the client does not know")


def test_two_answers_to_one_request_are_a_problem_and_none_is_seen() -> None:
    talk = Talk()
    talk.session()
    prompt = talk.prompt()
    assert talk.tap.left_open() == ["initialize", "session/prompt"]
    talk.end(prompt)
    assert talk.tap.left_open() == ["initialize"]
    talk.end(prompt)

    talk.is_wrong("without being asked")


def test_a_request_that_the_client_gave_up_or_made_too_long_is_not_left_open() -> None:
    talk = Talk()
    talk.answer(talk.introduction, {"protocolVersion": 1})
    talk.session()
    prompt = talk.prompt()
    talk.agent("$/cancel_request", {"requestId": prompt})
    assert talk.tap.left_open() == ["session/prompt"], "the id is one of the agent's"
    talk._line("received", {"method": "$/cancel_request", "params": {"requestId": prompt}})
    assert talk.tap.left_open() == []
    talk.client("session/new", {"cwd": "x" * 100, "mcpServers": []})
    talk._line("sent", {"id": None, "error": {"code": -32600, "message": "too long"}})

    assert talk.tap.left_open() == []


def test_what_does_not_fit_the_schema_is_still_told() -> None:
    talk = Talk()
    talk.session()
    talk.update({"sessionUpdate": "agent_message_chunk"})

    talk.is_wrong("SessionNotification")
