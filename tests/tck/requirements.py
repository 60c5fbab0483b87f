"""The requirements: each with the kit's ids, a sentence, and a check that raises if it is not met.

The ids are those of https://github.com/agentclientprotocol/acp-tck, with ``ACP-`` before them.
Its rows that cannot fail, and those about batches, are not here: see `NOT_HERE`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.tck.world import WAITS, Agent, Json, Skipped, World

Check = Callable[[World], None]


class Requirement(NamedTuple):
    """One row; an id for each version that has it."""

    sentence: str
    ids: dict[int, tuple[str, ...]]
    check: Check


REQUIREMENTS: Final[list[Requirement]] = []

NOT_HERE: Final = {
    "BATCH-201 to -208, INFO-BATCH-201 and -202, and JSONRPC-001 and -003 inside a batch": (
        "JSON-RPC batches were in a draft of v2; the schema and the SDK have none: see below"
    ),
    "AUTH-003, -004, -203, -204, -207": (
        "these ids need real credentials, or delete a login; tests/e2e/test_login.py tests them"
    ),
    "PERM-201, PATCH-204 to -209, ENUM-203": (
        "the kit cannot make every agent show tool calls and permissions; "
        "tests/e2e/test_v2_sessions.py and tests/e2e_contract test them for this agent"
    ),
    "INFO-*, STDERR-001, MCP-201, MCP-202, CANCEL-204, EXT-203": (
        "rows that record a fact and cannot fail"
    ),
}

STOPS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
MESSAGES: Final = ("user_message", "agent_message", "agent_thought")
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def row(sentence: str, v1: str = "", v2: str = "") -> Callable[[Check], Check]:
    """Enter a function as the check of these ids, which are separated by spaces."""

    def enter(check: Check) -> Check:
        ids = {version: tuple(found.split()) for version, found in ((1, v1), (2, v2)) if found}
        REQUIREMENTS.append(Requirement(sentence, ids, check))
        return check

    return enter


# The handshake.


@row(
    "the agent answers initialize, with the version that the client asked for",
    "INIT-001 INIT-002",
    "INIT-001 INIT-201",
)
def _initialize(world: World) -> None:
    with world.agent() as agent:
        assert agent.introduction["protocolVersion"] == world.version


@row("the agent answers an unknown version with a version that exists", "INIT-003", "INIT-003")
def _future(world: World) -> None:
    assert world.version <= _version(world, 65535) < 65535


@row("the agent answers a request for version 1 with version 1 or 2", v2="INIT-202")
def _older(world: World) -> None:
    assert _version(world, 1) in (1, 2)


def _version(world: World, asked: int) -> int:
    agent = world.own()
    info = {"name": "tck", "version": "1"}
    params: Json = {"protocolVersion": asked, "clientCapabilities": {}, "info": info}
    try:
        return int(agent.result("initialize", {**params, "capabilities": {}})["protocolVersion"])
    finally:
        agent.__exit__()


@row("the agent sends its name and version", "INIT-004", "INIT-203")
def _info(world: World) -> None:
    with world.agent() as agent:
        info = agent.introduction["agentInfo" if world.version == 1 else "info"]
        assert info["name"]
        assert info["version"]


@row(
    "each capability is an object or null; vendors' capabilities are in _meta",
    v2="INIT-204 EXT-202",
)
def _markers(world: World) -> None:
    with world.agent() as agent:
        found = agent.introduction.get("capabilities") or {}
        for each in (found, found.get("session") or {}, found.get("auth") or {}):
            assert all(value is None or isinstance(value, dict) for value in each.values()), each
        assert not agent.problems, agent.problems[0]


@row("login methods have unique ids and known types, and use a terminal only if one is offered",
     "AUTH-001 AUTH-002", "AUTH-201 AUTH-202 AUTH-206")  # fmt: skip
def _login_ways(world: World) -> None:
    with world.agent() as agent:
        ways = agent.introduction.get("authMethods") or []
        ids = [way["id" if world.version == 1 else "methodId"] for way in ways]
        assert len(ids) == len(set(ids))
        kinds = [way.get("type", "agent") for way in ways]
        assert all(kind == "agent" or kind.startswith("_") for kind in kinds), kinds


@row("a client that is logged in, or needs no login, gets a session", "AUTH-005", "AUTH-205")
def _no_login(world: World) -> None:
    with world.agent() as agent:
        assert agent.new()


# Sessions.


@row("session/new gives each session an id of its own", "SESSION-001 SESSION-002",
     "SESSION-001 SESSION-002 SESSION-203")  # fmt: skip
def _new(world: World) -> None:
    with world.agent() as agent:
        first, second = agent.new(), agent.new(mcpServers=[])
        assert first
        assert first != second
        assert not agent.problems, agent.problems[0]


@row("a session can have additional directories", "ADDDIRS-001", "ADDDIRS-201 ADDDIRS-202")
def _directories(world: World) -> None:
    with world.agent() as agent:
        names = ("sessionCapabilities",) if world.version == 1 else ()
        agent.can(*names, "additionalDirectories")
        session = agent.new(additionalDirectories=[agent.cwd])
        if world.version == 2:
            params = {"sessionId": session, "cwd": agent.cwd}
            agent.result("session/resume", {**params, "additionalDirectories": [agent.cwd]})


@row("the agent resumes a session that had no prompt", "RESUME-001", "RESUME-201")
def _resume(world: World) -> None:
    with world.agent() as agent:
        _can_resume(agent)
        agent.reopen(agent.new())
        assert not agent.problems, agent.problems[0]


@row("a resume sends no history before its answer", "RESUME-002", "RESUME-203")
def _resume_tells_no_history(world: World) -> None:
    with world.agent() as agent:
        _can_resume(agent)
        session = agent.new()
        agent.prompt(session)
        before = len(agent.messages)
        agent.reopen(session)
        told = [each["sessionUpdate"] for each in agent.updates(session, agent.messages[before:])]
        assert not [kind for kind in told if kind.removesuffix("_chunk") in MESSAGES], told


def _can_resume(agent: Agent) -> None:
    if agent.version == 1:
        agent.can("sessionCapabilities", "resume")


@row(
    "the agent loads a session that had no prompt, and answers with an object", "LOAD-001 LOAD-003"
)
def _load(world: World) -> None:
    with world.agent() as agent:
        agent.can("loadSession")
        agent.reopen(agent.new(), history=True)
        assert not agent.problems, agent.problems[0]


@row("the whole history comes before the answer, and no history after it", "LOAD-002", "RESUME-202")
def _history_before_the_answer(world: World) -> None:
    with world.agent() as agent:
        if world.version == 1:
            agent.can("loadSession")
        session = agent.new()
        agent.prompt(session)
        agent.quiet()
        agent.reopen(session, history=True)
        assert agent.updates(session, agent.quiet()) == []


@row("a replayed prompt keeps its message id, and chunks come after the whole message",
     v2="RESUME-204 RESUME-205")  # fmt: skip
def _replay(world: World) -> None:
    with world.agent() as agent:
        session = agent.new()
        message_id = agent.prompt(session)["messageId"]
        agent.quiet()
        before = len(agent.messages)
        agent.reopen(session, history=True)
        whole: set[str] = set()
        users = set()
        for update in agent.updates(session, agent.messages[before:]):
            kind = update["sessionUpdate"]
            if kind in MESSAGES:
                whole.add(update["messageId"])
            elif kind.removesuffix("_chunk") in MESSAGES:
                assert update["messageId"] in whole, update
            if kind.startswith("user_message"):
                users.add(update["messageId"])
        assert users <= {message_id}


@row("the agent lists sessions, only those of a given directory, each with an absolute directory",
     "LIST-001 LIST-002", "LIST-201 LIST-202 LIST-203 LIST-204")  # fmt: skip
def _list(world: World) -> None:
    with world.agent() as agent:
        if world.version == 1:
            agent.can("sessionCapabilities", "list")
        agent.prompt(agent.new())
        listed = agent.result("session/list", {})["sessions"]
        assert all(each["cwd"].startswith("/") for each in listed)
        assert agent.result("session/list", {"cwd": "/nobody/was/here"})["sessions"] == []
        here = agent.result("session/list", {"cwd": agent.cwd})["sessions"]
        assert all(each["cwd"] == agent.cwd for each in here)
        assert not agent.problems, agent.problems[0]


@row("a deleted session is not listed, and deleting it again is no error",
     "DELETE-001 DELETE-002", "DELETE-201 DELETE-202 DELETE-203")  # fmt: skip
def _delete(world: World) -> None:
    with world.agent() as agent:
        agent.can(*(("sessionCapabilities",) if world.version == 1 else ()), "delete")
        session = agent.new()
        agent.prompt(session)
        agent.result("session/delete", {"sessionId": session})
        listed = agent.result("session/list", {})["sessions"]
        assert session not in [each["sessionId"] for each in listed]
        agent.result("session/delete", {"sessionId": session})


@row("the agent closes an idle session", "CLOSE-001", "CLOSE-201")
def _close(world: World) -> None:
    with world.agent() as agent:
        _can_close(agent)
        agent.result("session/close", {"sessionId": agent.new()})


@row("closing a session cancels its running prompt", "CLOSE-002", "CLOSE-202 CANCEL-208")
def _close_cancels(world: World) -> None:
    with world.agent() as agent:
        _can_close(agent)
        session = agent.new()
        waiting = _begin(agent, session)
        closing = agent.start("session/close", {"sessionId": session})
        assert _stop(agent, session, waiting) == "cancelled"
        assert "result" in agent.answer(closing)


def _can_close(agent: Agent) -> None:
    if agent.version == 1:
        agent.can("sessionCapabilities", "close")


# Options.


@row("each option is valid, and no option is a boolean unless the client takes booleans",
     "CONFIG-001 CONFIG-003 MODES-001", "CONFIG-201 CONFIG-204")  # fmt: skip
def _options(world: World) -> None:
    with world.agent() as agent:
        opened = agent.opened()
        options = _given_options(opened)
        for option in options:
            if option["type"] == "select":
                assert option["currentValue"] in _values(option), option
            else:
                assert world.version == 2, "v1 wants a capability for that"
                assert isinstance(option["currentValue"], bool)
        modes = opened.get("modes")
        if modes:
            assert modes["currentModeId"] in [mode["id"] for mode in modes["availableModes"]]
        assert not agent.problems, agent.problems[0]


@row("setting any option answers with all options, and with the new value", "CONFIG-002",
     "CONFIG-202 CONFIG-206")  # fmt: skip
def _set_options(world: World) -> None:
    with world.agent() as agent:
        opened = agent.opened()
        session, key = opened["sessionId"], _option_key(world)
        known = {option[key] for option in _given_options(opened)}
        for option in _given_options(opened):
            values = [each for each in _values(option) if each != option["currentValue"]]
            if option["type"] != "select" or not values:
                continue
            value = (
                {"type": "id", "value": values[-1]} if world.version == 2 else {"value": values[-1]}
            )
            params = {"sessionId": session, "configId": option[key], **value}
            answer = agent.result("session/set_config_option", params)["configOptions"]
            found = {each[key]: each["currentValue"] for each in answer}
            assert known <= found.keys(), f"{option[key]}: {known - found.keys()} vanished"
            assert found[option[key]] == values[-1]
            known = set(found) & known
        for update in agent.updates(session):
            if update["sessionUpdate"] == "config_option_update":
                assert known <= {each[key] for each in update["configOptions"]}


@row("the options of a resumed session are valid", v2="CONFIG-203")
def _options_of_a_resumed_session(world: World) -> None:
    with world.agent() as agent:
        for option in agent.reopen(agent.new()).get("configOptions") or []:
            assert option["type"] != "select" or option["currentValue"] in _values(option)


@row("each mode can be set", "MODES-002")
def _modes(world: World) -> None:
    with world.agent() as agent:
        opened = agent.opened()
        modes = opened.get("modes")
        if not modes:
            raise Skipped("there are no modes")
        for mode in modes["availableModes"]:
            agent.result(
                "session/set_mode", {"sessionId": opened["sessionId"], "modeId": mode["id"]}
            )
        assert not agent.problems, agent.problems[0]


def _option_key(world: World) -> str:
    return "id" if world.version == 1 else "configId"


def _given_options(opened: Json) -> list[Json]:
    found: list[Json] = opened.get("configOptions") or []
    if not found:
        raise Skipped("there are no options")
    return found


def _values(option: Json) -> list[str]:
    entries = option.get("options", [])
    groups = [each.get("options", [each]) for each in entries]
    return [entry["value"] for group in groups for entry in group]


# Prompts.


@row(
    "a prompt of text ends with a known stop reason",
    "PROMPT-001",
    "PROMPT-201 STATE-202 STATE-203",
)
def _prompt(world: World) -> None:
    with world.agent() as agent:
        end = agent.prompt(agent.new())
        assert end["stopReason"] in STOPS
        assert world.version == 1 or end["messageId"]


@row("the updates of a prompt fit the schema and name its session",
     "PROMPT-002 SCHEMA-001 SCHEMA-002",
     "PROMPT-205 SCHEMA-001 SCHEMA-002 PATCH-201 ENUM-201 ENUM-202 META-201")  # fmt: skip
def _updates(world: World) -> None:
    with world.agent() as agent:
        session = agent.new()
        agent.prompt(session)
        agent.quiet()
        told = [
            m["params"]["sessionId"] for m in agent.messages if m.get("method") == "session/update"
        ]
        assert set(told) <= agent.sessions
        assert not agent.problems, agent.problems[0]
        for update in agent.updates(session):
            if world.version == 2 and update["sessionUpdate"].removesuffix("_chunk") in MESSAGES:
                assert update["messageId"]


@row("a prompt's message has its id, running comes before idle, and two prompts have two ids",
     v2="PROMPT-203 STATE-201 PATCH-203")  # fmt: skip
def _place(world: World) -> None:
    with world.agent() as agent:
        session = agent.new()
        first, second = agent.prompt(session)["messageId"], agent.prompt(session)["messageId"]
        assert first != second
        updates = agent.updates(session)
        users = [u["messageId"] for u in updates if u["sessionUpdate"].startswith("user_message")]
        assert {first, second} <= set(users)
        states = [u["state"] for u in updates if u["sessionUpdate"] == "state_update"]
        assert states.index("running") < states.index("idle")


@row("a prompt takes a link and _meta", "PROMPT-003 META-001", "PROMPT-003 META-001")
def _link(world: World) -> None:
    with world.agent() as agent:
        link = {"type": "resource_link", "name": "note", "uri": "file:///tmp/note.txt"}
        end = agent.prompt(agent.new(), link, _meta={"traceparent": "00-1-1-00"})
        assert end["stopReason"] in STOPS


def _takes(kind: str, block: Json) -> Check:
    def check(world: World) -> None:
        with world.agent() as agent:
            agent.can("promptCapabilities" if world.version == 1 else "prompt", kind)
            assert agent.prompt(agent.new(), block)["stopReason"] in STOPS

    return check


_WAV: Final = base64.b64encode(
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\0\0\0\0"
).decode()
_RESOURCE: Final = {"uri": "file:///tmp/note.txt", "text": "A note.", "mimeType": "text/plain"}
_PROMISED: Final = "the agent takes an advertised kind of content: "
row(f"{_PROMISED}images", "PROMPTCAP-001", "PROMPTCAP-001")(
    _takes("image", {"type": "image", "data": PIXEL, "mimeType": "image/png"})
)
row(f"{_PROMISED}audio", "PROMPTCAP-002", "PROMPTCAP-002")(
    _takes("audio", {"type": "audio", "data": _WAV, "mimeType": "audio/wav"})
)
row(f"{_PROMISED}embedded resources", "PROMPTCAP-003", "PROMPTCAP-003")(
    _takes("embeddedContext", {"type": "resource", "resource": _RESOURCE})
)


@row("a cancelled prompt ends as cancelled, no update follows, and the cancel has no answer",
     "CANCEL-001 CANCEL-002",
     "CANCEL-201 CANCEL-202 CANCEL-203 CANCEL-205 CANCEL-206 CANCEL-207")  # fmt: skip
def _cancel(world: World) -> None:
    for more in ({}, {"_meta": {"why": "tck"}}):
        with world.agent() as agent:
            session = agent.new()
            waiting = _begin(agent, session)
            agent.notify("session/cancel", {"sessionId": session, **more})
            assert _stop(agent, session, waiting) == "cancelled"
            behind = agent.quiet()
            assert [m for m in behind if "method" not in m] == []
            later = {u["sessionUpdate"] for u in agent.updates(session, behind)}
            of_turns = {"state_update", "agent_message_chunk", "agent_thought_chunk", "tool_call"}
            assert later & of_turns == set()


def _begin(agent: Agent, session: str) -> object:
    """A prompt that runs: the agent has said something, and the model stands still."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": WAITS}]}
    waiting = agent.start("session/prompt", params)

    def said(message: Json) -> bool:
        update = message.get("params", {}).get("update", {})
        return "agent_message" in str(update.get("sessionUpdate"))

    agent.until(said)
    return waiting


def _stop(agent: Agent, session: str, waiting: object) -> str:
    answer = agent.answer(waiting)
    assert "result" in answer, answer
    end = answer["result"] if agent.version == 1 else agent.idle(session)
    return str(end["stopReason"])


@row("the agent calls no method that the client did not offer",
     "CLIENTCAP-001 CLIENTCAP-002 CLIENTCAP-003", "CLIENTCAP-201 CLIENTCAP-202")  # fmt: skip
def _calls(world: World) -> None:
    with world.agent() as agent:
        agent.prompt(agent.new())
        called = {m["method"] for m in agent.messages if "method" in m}
        allowed = {"session/update", "session/request_permission", "$/cancel_request"}
        assert all(method in allowed or method.startswith("_") for method in called), called


# The wire.


@row("each line is one message in UTF-8, and a response has a result or an error",
     "TRANSPORT-001 TRANSPORT-002 JSONRPC-002",
     "TRANSPORT-201 TRANSPORT-002 TRANSPORT-203 JSONRPC-002")  # fmt: skip
def _lines(world: World) -> None:
    with world.agent() as agent:
        agent.prompt(agent.new())
        agent.ask("session/prompt", {})
        for line in agent.lines:
            message = json.loads(line.decode("utf-8"))
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                assert ("result" in message) != ("error" in message)


@row("an answer has the id of its request, whatever its type; notifications have none",
     "JSONRPC-001 JSONRPC-003", "JSONRPC-001 JSONRPC-003 EXT-201")  # fmt: skip
def _ids(world: World) -> None:
    with world.agent() as agent:
        for request_id in ("a string", 4711):
            assert agent.answer(agent.start("session/list", {}, request_id))["id"] == request_id
        agent.notify("_nobody/knows", {})
        agent.notify("session/cancel", {"sessionId": "nobody"})
        assert [m for m in agent.quiet() if "method" not in m] == []


@row("the agent refuses an unknown method with one message, and the connection goes on",
     "JSONRPC-004 JSONRPC-005 EXT-001 ERROR-001",
     "JSONRPC-004 JSONRPC-005 EXT-001 ERROR-001")  # fmt: skip
def _unknown(world: World) -> None:
    with world.agent() as agent:
        assert agent.ask("nobody/knows", {})["error"]["code"] == -32601
        assert "id" in agent.ask("_nobody/knows", {})
        for error in (
            agent.ask("session/new", {"cwd": 1})["error"],
            agent.ask("_x/y", {})["error"],
        ):
            assert error["message"]
            assert "\n" not in error["message"]
        assert agent.new()


@row("the agent ends when its input does", "SHUTDOWN-001", "SHUTDOWN-001")
def _shutdown(world: World) -> None:
    with world.own() as agent:
        agent.new()
    assert agent.process.returncode is not None
    assert agent.process.returncode >= 0, "it had to be killed"


def table() -> str:
    """The requirements as the page about them has them."""
    lines = ["| requirement | in v1 | in v2 |", "|---|---|---|"]
    for each in REQUIREMENTS:
        cells = [" ".join(f"`{i}`" for i in each.ids.get(version, ())) or "-" for version in (1, 2)]
        lines.append(f"| {each.sentence} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)
