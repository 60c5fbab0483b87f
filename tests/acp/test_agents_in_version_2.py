"""An agent of a few lines, written in version 1, as a client of version 2 has it on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from codex_acp.acp import PromptTurn, run_agent, types
from codex_acp.errors import ErrorReply
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import WAIT, RawPeer
from tests.support.acp_schema import problems_of_message
from tests.support.stream_rules_v2 import SessionRules

Json = dict[str, Any]

SESSION = "one"
TEXT = {"type": "text", "text": "Go."}


class Client(RawPeer):
    """A client of version 2 in plain JSON, which holds what it hears against the schema."""

    methods: dict[object, str]

    async def call(self, method: str, params: Json) -> Json:
        number = len(self.methods) + 1
        self.methods[number] = method
        answer: Json = await self.ask(number, method, params)
        return answer

    async def prompt(self) -> Json:
        return await self.call("session/prompt", {"sessionId": SESSION, "prompt": [TEXT]})

    @property
    def updates(self) -> list[Json]:
        told = [m["params"] for m in self.messages if m.get("method") == "session/update"]
        return [params["update"] for params in told]

    def of_kind(self, kind: str) -> list[Json]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    async def idle(self) -> Json:
        def is_idle() -> bool:
            states = self.of_kind("state_update")
            return bool(states) and states[-1]["state"] == "idle"

        await self.until(is_idle)
        return self.of_kind("state_update")[-1]

    def check(self) -> None:
        """What the agent has said fits the schema and the rules of a session's stream."""
        rules = SessionRules()
        for message in self.messages:
            asked = None if "method" in message else self.methods.get(message["id"])
            assert problems_of_message("agent", message, asked, 2) == [], message
            if message.get("method") == "session/update":
                rules.update(message["params"]["update"])
            elif message.get("method") == "session/request_permission":
                rules.permission(message["params"])
                rules.settled()
            elif asked == "session/prompt" and "result" in message:
                rules.taken(message["result"]["messageId"])
        assert rules.problems == []


async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
    assert request.mcp_servers is not None
    mode = types.SessionMode(id="m", name="M")
    return types.NewSessionResponse(
        session_id=SESSION,
        modes=types.SessionModeState(available_modes=[mode], current_mode_id="m"),
        config_options=OPTIONS,
    )


OPTIONS: list[types.SessionConfigOption] = [
    types.SelectSessionConfigOption(
        id="model",
        name="Model",
        current_value="a",
        options=[types.SessionConfigSelectOption(value="a", name="A")],
    )
]


@asynccontextmanager
async def serving(
    answer: Callable[[PromptTurn], Awaitable[Any]], **more: Any
) -> AsyncIterator[Client]:
    near, far = memory_pair()
    requests: Any = {"session/new": new, **more}
    serving = asyncio.ensure_future(run_agent(answer, name="small", link=far, requests=requests))
    client = Client(near)
    client.methods = {}
    introduced = await client.call(
        "initialize", {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
    )
    assert introduced["result"]["info"]["name"] == "small"
    opened = await client.call("session/new", {"cwd": "/w", "mcpServers": []})
    assert "modes" not in opened["result"]
    assert opened["result"]["configOptions"][0]["configId"] == "model"
    yield client
    client.check()
    await near.aclose()
    await asyncio.wait_for(serving, WAIT)


async def test_a_whole_turn_is_told_as_version_2_has_it() -> None:
    async def answer(turn: PromptTurn) -> None:
        turn.think("Hm.")
        turn.say("One ")
        turn.say("message.")
        turn.plan({"Edit": "in_progress"})
        hint = types.UnstructuredCommandInput(hint="what")
        command = types.AvailableCommand(name="go", description="Goes", input=hint)
        turn.update(types.AvailableCommandsUpdateSessionUpdate(available_commands=[command]))
        turn.update(types.CurrentModeUpdateSessionUpdate(current_mode_id="m"))
        async with turn.tool_call("Edit", kind="edit") as call:
            call.show("why", types.DiffToolCallContent(path="/w/a", old_text="1\n", new_text="2\n"))
            assert await call.is_allowed()
        turn.say("Another.")

    async with serving(answer) as client:
        taken = await client.prompt()
        asked = await client.sent("session/request_permission")
        assert asked["params"]["title"] == "Edit"
        assert asked["params"]["subject"]["type"] == "tool_call"
        states = [each["state"] for each in client.of_kind("state_update")]
        assert states == ["running", "requires_action"]
        outcome = {"outcome": "selected", "optionId": "allow"}
        client.send({"id": asked["id"], "result": {"outcome": outcome}})
        assert (await client.idle())["stopReason"] == "end_turn"
        (echo,) = client.of_kind("user_message")
        assert (echo["messageId"], echo["content"]) == (taken["result"]["messageId"], [TEXT])
        said = client.of_kind("agent_message_chunk")
        assert [each["content"]["text"] for each in said] == ["One ", "message.", "Another."]
        first, second, third = [each["messageId"] for each in said]
        assert first == second != third
        calls = client.of_kind("tool_call_update")
        assert [each["status"] for each in calls if "status" in each] == [
            "pending", "in_progress", "completed",
        ]  # fmt: skip
        (diff,) = [part for part in calls[1]["content"] if part["type"] == "diff"]
        assert diff["changes"] == [{"operation": "modify", "path": "/w/a"}]
        assert diff["patch"]["text"].endswith("@@ -1 +1 @@\n-1\n+2\n")
        assert client.of_kind("plan_update")[0]["plan"]["entries"][0]["content"] == "Edit"
        offered = client.of_kind("available_commands_update")[0]["availableCommands"]
        assert offered[0]["input"] == {"type": "text", "hint": "what"}


async def test_a_second_prompt_waits_for_its_place_and_a_cancel_withdraws_it() -> None:
    texts: list[str] = []
    on = anyio.Event()

    async def answer(turn: PromptTurn) -> None:
        texts.append(turn.text)
        await (on.wait() if len(texts) == 1 else anyio.sleep_forever())

    async with serving(answer) as client:
        await client.prompt()
        client.methods["held"] = "session/prompt"
        prompt = {"sessionId": SESSION, "prompt": [{"type": "text", "text": "Second."}]}
        client.send({"id": "held", "method": "session/prompt", "params": prompt})
        await client.settle()
        assert not [m for m in client.messages if m.get("id") == "held"]
        on.set()
        assert (await client.reply("held"))["result"]["messageId"]
        assert texts == ["Go.", "Second."]
        client.methods["never"] = "session/prompt"
        client.send(
            {"id": "never", "method": "session/prompt", "params": prompt},
            {"method": "session/cancel", "params": {"sessionId": SESSION}},
        )
        assert (await client.reply("never"))["error"]["code"] == -32800
        assert (await client.idle())["stopReason"] == "cancelled"
        assert len(texts) == 2


async def test_an_answer_that_fails_is_told_and_the_session_goes_on() -> None:
    async def answer(turn: PromptTurn) -> None:
        with_files = types.ReadTextFileRequest(session_id=turn.session_id, path="/w/a")
        try:
            await turn.side.fs_read_text_file(with_files)
        except ErrorReply as error:
            turn.say(f"{error.code}")
        raise ValueError

    async with serving(answer) as client:
        for _ in range(2):
            await client.prompt()
            end = await client.idle()
            assert (end["stopReason"], end["error"]["code"]) == ("error", -32603)
        assert client.of_kind("agent_message_chunk")[0]["content"]["text"] == "-32601"


async def test_sessions_are_listed_resumed_set_and_closed() -> None:
    async def answer(_: PromptTurn) -> None:
        await anyio.sleep_forever()

    async def listed(_: types.ListSessionsRequest) -> types.ListSessionsResponse:
        return types.ListSessionsResponse(sessions=[])

    async def load(request: types.LoadSessionRequest) -> types.LoadSessionResponse:
        said = types.UserMessageChunkSessionUpdate(content=types.TextContentBlock(text="Before."))
        assert request.session_id == "old"
        told.append(said)
        return types.LoadSessionResponse()

    async def choose(
        request: types.SetSessionConfigOptionRequest,
    ) -> types.SetSessionConfigOptionResponse:
        assert request.config_id == "model"
        return types.SetSessionConfigOptionResponse(config_options=OPTIONS)

    told: list[Any] = []
    more = {"session/list": listed, "session/load": load, "session/set_config_option": choose}
    async with serving(answer, **more) as client:
        assert (await client.call("session/list", {}))["result"] == {"sessions": []}
        where = {"sessionId": "old", "cwd": "/w"}
        odd = await client.call("session/resume", {**where, "replayFrom": {"type": "_middle"}})
        assert odd["error"]["code"] == -32602
        assert told == []
        assert await client.call("session/resume", {**where, "replayFrom": {"type": "start"}})
        assert len(told) == 1
        assert client.of_kind("state_update")[-1]["state"] == "idle"
        params = {"sessionId": SESSION, "configId": "model", "type": "id", "value": "a"}
        chosen = await client.call("session/set_config_option", params)
        assert chosen["result"]["configOptions"][0]["configId"] == "model"
        await client.prompt()
        assert (await client.call("session/close", {"sessionId": SESSION}))["result"] == {}
        assert client.of_kind("state_update")[-1]["stopReason"] == "cancelled"
        assert (await client.prompt())["error"]["code"] == -32002
        assert (await client.call("session/delete", where))["error"]["code"] == -32601
