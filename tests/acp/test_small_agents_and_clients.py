"""An agent and a client in a few lines: what they do for their authors, and what they never do."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from codex_acp.acp import ConnectedAgent, PromptTurn, connect_agent, run_agent, types
from codex_acp.errors import ErrorReply, LaunchError, MisuseError, RpcError, TransportError
from codex_acp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
)
from codex_acp.transport.link import memory_pair
from codex_acp.wire.codec import plain
from tests.acp.raw_peer import RawPeer

WAIT = 60


@pytest.fixture(params=[1, 2], ids=["v1", "v2"], autouse=True)
def spoken(request: pytest.FixtureRequest) -> Iterator[int]:
    """The version of ACP that is spoken: nothing of a test changes with it, but what it says."""
    World.spoken = request.param
    yield request.param
    World.spoken = 1


class World:
    """``async with World(answer) as world``: an agent of a few lines, and a client of a few."""

    spoken = 1

    def __init__(
        self, answer: Callable[[PromptTurn], Any], *, client: Any = None, **agent: Any
    ) -> None:
        self.heard: list[types.SessionNotification] = []
        self._answer, self._agent, self._client = answer, agent, client or {}
        if self.spoken == 1:
            self._client.setdefault("protocol_version", 1)

    async def __aenter__(self) -> World:
        near, far = memory_pair()
        serving = run_agent(self._answer, name="small", link=far, **self._agent)
        self._served = asyncio.get_running_loop().create_task(serving)
        self.agent: ConnectedAgent = connect_agent(
            near, name="test", notifications={"session/update": self.heard.append}, **self._client
        )
        await self.agent.__aenter__()
        assert self.agent.initialized.protocol_version == self.agent.side.version
        opened = await self.agent.side.session_new(
            types.NewSessionRequest(cwd="/w", mcp_servers=[])
        )
        self.session_id = opened.session_id
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.agent.__aexit__(*error)
        await asyncio.wait_for(self._served, WAIT)

    async def prompt(self, text: str = "Hi.", session_id: str | None = None) -> str:
        with anyio.fail_after(WAIT):
            request = types.PromptRequest(
                session_id=session_id or self.session_id, prompt=[types.TextContentBlock(text=text)]
            )
            return str((await self.agent.side.session_prompt(request)).stop_reason)

    @property
    def updates(self) -> list[Any]:
        return [plain(notification.update) for notification in self.heard]


async def refused(call: Awaitable[object]) -> int:
    with anyio.fail_after(WAIT), pytest.raises(ErrorReply) as caught:
        await call
    return caught.value.code


async def nothing(turn: PromptTurn) -> None:
    del turn


async def test_what_an_answer_says_comes_before_the_prompts_end() -> None:
    async def answer(turn: PromptTurn) -> str:
        turn.think("Hm.")
        turn.plan({"Answer": "in_progress"})
        turn.say(turn.text.upper())
        return "max_tokens"

    async with World(answer) as world:
        assert await world.prompt("a") == "max_tokens"
        thought, plan, said = world.updates
    assert thought["sessionUpdate"] == "agent_thought_chunk"
    assert plan["entries"] == [{"content": "Answer", "priority": "medium", "status": "in_progress"}]
    assert said["content"]["text"] == "A"


async def test_a_tool_call_runs_only_when_it_is_allowed_and_always_ends() -> None:
    ran: list[str] = []

    async def answer(turn: PromptTurn) -> None:
        async with turn.tool_call("Delete", kind="delete", raw_input={"path": "a"}) as call:
            if await call.is_allowed():
                ran.append("deleted")

    async with World(answer) as world:  # a client without a row for permissions rejects
        await world.prompt()
        assert ran == []
        announced, ended = world.updates
    assert (announced["status"], announced["rawInput"]) == ("pending", {"path": "a"})
    assert ended["status"] == "failed"


@pytest.mark.attack("agent")
async def test_an_option_that_stands_for_two_kinds_is_not_chosen_to_reject() -> None:
    """The agent goes by the id: rejecting by this one would allow."""
    allowed: list[bool] = []
    both = [
        types.PermissionOption(option_id="x", name="No", kind="reject_once"),
        types.PermissionOption(option_id="x", name="Yes", kind="allow_once"),
    ]

    async def answer(turn: PromptTurn) -> None:
        async with turn.tool_call("Delete") as call:
            allowed.append(await call.is_allowed(both))

    async with World(answer) as world:
        await world.prompt()
    assert allowed == [False]


async def test_a_tool_call_whose_body_fails_is_failed_and_so_is_the_prompt() -> None:
    async def answer(turn: PromptTurn) -> None:
        async with turn.tool_call("Break") as call:
            call.show("so far")
            raise ValueError

    async with World(answer) as world:
        await refused(
            world.agent.side.session_prompt(
                types.PromptRequest(session_id=world.session_id, prompt=[])
            )
        )
        assert world.updates[-1]["status"] == "failed"
        assert world.updates[-2]["content"][0]["content"]["text"] == "so far"


async def test_a_cancelled_prompt_ends_as_cancelled_and_the_session_goes_on(spoken: int) -> None:
    started = anyio.Event()

    async def answer(turn: PromptTurn) -> None:
        if turn.text == "wait":
            started.set()
            await anyio.sleep_forever()

    async with World(answer) as world, anyio.create_task_group() as tasks:
        reasons: list[str] = []
        ended = anyio.Event()

        async def prompt() -> None:
            reasons.append(await world.prompt("wait"))
            ended.set()

        tasks.start_soon(prompt)
        with anyio.fail_after(WAIT):
            await started.wait()
        if spoken == 1:  # in version 2 it would wait for its place
            busy = types.PromptRequest(session_id=world.session_id, prompt=[])
            assert await refused(world.agent.side.session_prompt(busy)) == INVALID_REQUEST
        world.agent.side.session_cancel(types.CancelNotification(session_id=world.session_id))
        world.agent.side.session_cancel(types.CancelNotification(session_id="no such"))
        with anyio.fail_after(WAIT):
            await ended.wait()
        assert reasons == ["cancelled"]
        assert await world.prompt("go on") == "end_turn"


@pytest.mark.attack("client")
@pytest.mark.parametrize("way", ["close", "delete"])
async def test_a_session_that_was_ended_runs_nothing_any_more(spoken: int, way: str) -> None:
    started = anyio.Event()
    refuse = False

    async def answer(turn: PromptTurn) -> None:
        if turn.text == "wait":
            started.set()
            await anyio.sleep_forever()

    async def close(request: types.CloseSessionRequest) -> types.CloseSessionResponse:
        del request
        if refuse:
            raise RpcError(INVALID_REQUEST, "not now")
        return types.CloseSessionResponse()

    async def delete(request: types.DeleteSessionRequest) -> types.DeleteSessionResponse:
        await close(types.CloseSessionRequest(session_id=request.session_id))
        return types.DeleteSessionResponse()

    rows: Any = {"session/close": close, "session/delete": delete}
    async with World(answer, requests=rows) as world, anyio.create_task_group() as tasks:
        reasons: list[str] = []
        side = world.agent.side
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "close": lambda: side.session_close(
                types.CloseSessionRequest(session_id=world.session_id)
            ),
            "delete": lambda: side.session_delete(
                types.DeleteSessionRequest(session_id=world.session_id)
            ),
        }

        async def prompt() -> None:
            reasons.append(await world.prompt("wait"))

        refuse = True
        assert await refused(calls[way]()) == INVALID_REQUEST
        assert await world.prompt("still open") == "end_turn"
        refuse = False
        tasks.start_soon(prompt)
        with anyio.fail_after(WAIT):
            await started.wait()
            await calls[way]()
        gone = types.PromptRequest(session_id=world.session_id, prompt=[])
        unknown = INVALID_PARAMS if spoken == 1 else RESOURCE_NOT_FOUND
        assert await refused(world.agent.side.session_prompt(gone)) == unknown
        tasks.cancel_scope.deadline = anyio.current_time() + WAIT
    assert reasons == ["cancelled"]


async def test_what_has_no_handler_is_refused_and_not_advertised(spoken: int) -> None:
    async def listed(request: types.ListSessionsRequest) -> types.ListSessionsResponse:
        del request
        return types.ListSessionsResponse(sessions=[])

    given = types.AgentCapabilities(prompt_capabilities=types.PromptCapabilities(image=True))
    rows = {"session/list": listed, "session/load": None, "session/delete": None}
    async with World(nothing, requests=rows, capabilities=given) as world:
        told: Any = plain(world.agent.initialized.agent_capabilities)
        baseline: dict[str, Any] = {} if spoken == 1 else {"resume": {}, "close": {}}
        assert told["sessionCapabilities"] == {"list": {}, **baseline}
        assert {name for name, can in told["promptCapabilities"].items() if can} == {"image"}
        assert bool(told.get("loadSession")) is (spoken == 2)
        await world.agent.side.session_list(types.ListSessionsRequest())
        load = types.LoadSessionRequest(session_id="s", cwd="/w", mcp_servers=[])
        code = METHOD_NOT_FOUND if spoken == 1 else RESOURCE_NOT_FOUND
        assert await refused(world.agent.side.session_load(load)) == code
        delete = types.DeleteSessionRequest(session_id="s")
        assert await refused(world.agent.side.session_delete(delete)) == METHOD_NOT_FOUND


async def test_a_session_is_one_that_was_opened_here(spoken: int) -> None:
    async def load(request: types.LoadSessionRequest) -> types.LoadSessionResponse:
        del request
        return types.LoadSessionResponse()

    async with World(nothing, requests={"session/load": load}) as world:
        unknown = types.PromptRequest(session_id="old", prompt=[])
        code = INVALID_PARAMS if spoken == 1 else RESOURCE_NOT_FOUND
        assert await refused(world.agent.side.session_prompt(unknown)) == code
        await world.agent.side.session_load(
            types.LoadSessionRequest(session_id="old", cwd="/w", mcp_servers=[])
        )
        assert await world.prompt(session_id="old") == "end_turn"


async def test_a_client_advertises_what_it_has_handlers_for() -> None:
    seen: list[Any] = []

    async def read(request: types.ReadTextFileRequest) -> types.ReadTextFileResponse:
        return types.ReadTextFileResponse(content=request.path)

    async def answer(turn: PromptTurn) -> None:
        request = types.ReadTextFileRequest(session_id=turn.session_id, path="/w/a")
        seen.append((await turn.side.fs_read_text_file(request)).content)

    async with World(answer, client={"requests": {"fs/read_text_file": read}}) as world:
        await world.prompt()
        told: Any = plain(world.agent._request.client_capabilities)  # what was sent
    assert seen == ["/w/a"]
    assert told["fs"] == {"readTextFile": True, "writeTextFile": False}
    assert told["terminal"] is False


async def test_a_method_that_acp_does_not_have_is_misuse() -> None:
    rows: Any = {"session/think": nothing}
    with pytest.raises(MisuseError, match="session/think"):
        await run_agent(nothing, name="a", requests=rows, link=memory_pair()[0])
    with pytest.raises(MisuseError, match="session/think"):
        connect_agent(["true"], name="a", requests=rows)
    with pytest.raises(MisuseError, match="is a list, not 'my"):
        connect_agent("my-agent --acp", name="a")
    with pytest.raises(LaunchError, match="no-such-agent"):
        connect_agent(["/no-such-agent"], name="a", capabilities=types.ClientCapabilities())


async def test_plain_functions_answer_as_async_ones_do() -> None:
    def answer(turn: PromptTurn) -> str:
        turn.say("plain")
        return "refusal"

    def new(_: types.NewSessionRequest) -> types.NewSessionResponse:
        return types.NewSessionResponse(session_id="mine")

    async with World(answer, requests={"session/new": new}) as world:
        assert (world.session_id, await world.prompt()) == ("mine", "refusal")
        assert world.updates[0]["content"]["text"] == "plain"


async def test_a_client_may_decide_in_a_plain_function() -> None:
    allowed: list[bool] = []

    async def answer(turn: PromptTurn) -> None:
        async with turn.tool_call("Delete") as call:
            allowed.append(await call.is_allowed())

    def decide(request: types.RequestPermissionRequest) -> types.RequestPermissionResponse:
        chosen = types.SelectedRequestPermissionOutcome(option_id=request.options[0].option_id)
        return types.RequestPermissionResponse(outcome=chosen)

    async with World(answer, client={"requests": {"session/request_permission": decide}}) as world:
        await world.prompt()
    assert allowed == [True]


async def test_a_thread_that_speaks_is_refused_and_the_prompt_goes_on() -> None:
    async def answer(turn: PromptTurn) -> None:
        with pytest.raises(MisuseError, match="call_soon_threadsafe"):
            await asyncio.to_thread(turn.say, "from a thread")
        turn.say("from the loop")

    async with World(answer) as world:
        assert await world.prompt() == "end_turn"
        assert [update["content"]["text"] for update in world.updates] == ["from the loop"]


async def test_what_cannot_be_called_is_refused_before_anything_starts() -> None:
    rows: Any = {"session/list": 3}
    link, far = memory_pair()
    with pytest.raises(MisuseError, match="session/list is a function, not 3"):
        await run_agent(nothing, name="a", requests=rows, link=link)
    answer: Any = "Hello."
    with pytest.raises(MisuseError, match=r"by a function, not 'Hello\.'"):
        await run_agent(answer, name="a", link=far)
    notifications: Any = {"session/update": nothing}
    with pytest.raises(MisuseError, match="a plain function: nothing awaits it"):
        connect_agent(["/no-such-agent"], name="a", notifications=notifications)


async def test_files_in_version_2_are_refused_before_the_agent_starts() -> None:
    requests: Any = {"fs/read_text_file": nothing}
    with pytest.raises(MisuseError, match="no files or terminals"):
        connect_agent(["/no-such-agent"], name="a", requests=requests, protocol_version=2)
    version: Any = 3
    with pytest.raises(MisuseError, match="1 or 2, not 3"):
        connect_agent(["/no-such-agent"], name="a", protocol_version=version)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("Hello.", r"a prompt's answer is a stop reason or None .*, not 'Hello\.'"),
        (None, "KeyError"),
    ],
)
async def test_a_failing_answer_is_told_alike_in_both_versions(returned: Any, said: str) -> None:
    async def answer(turn: PromptTurn) -> Any:
        return returned or {"": ""}[turn.text]

    async with World(answer) as world:
        with pytest.raises(ErrorReply, match=f"^session/prompt failed: {said}"):
            await world.prompt()


@pytest.mark.parametrize(
    "answer", [lambda _: sys.exit(3), lambda _: asyncio.to_thread(sys.exit, 3)]
)
async def test_an_answer_may_end_the_program(answer: Any, spoken: Any) -> None:
    near, far = memory_pair()

    async def prompt() -> None:
        async with connect_agent(near, name="test", protocol_version=spoken) as agent:
            opened = await agent.side.session_new(types.NewSessionRequest(cwd="/", mcp_servers=[]))
            request = types.PromptRequest(session_id=opened.session_id, prompt=[])
            with pytest.raises((ErrorReply, TransportError)):
                await agent.side.session_prompt(request)

    prompted = asyncio.ensure_future(prompt())
    with anyio.fail_after(WAIT), pytest.raises(SystemExit) as raised:
        await run_agent(answer, name="small", link=far)
    await prompted
    assert raised.value.code == 3


async def test_what_an_agent_prints_is_not_in_the_protocols_way() -> None:
    code = (
        "import asyncio; from codex_acp.acp import run_agent\n"
        "async def answer(turn): print('to stderr'); turn.say('said')\n"
        "asyncio.run(run_agent(answer, name='prints'))"
    )
    heard: list[types.SessionNotification] = []
    async with connect_agent(
        [sys.executable, "-c", code], name="test", notifications={"session/update": heard.append}
    ) as agent:
        with anyio.fail_after(30):
            opened = await agent.side.session_new(types.NewSessionRequest(cwd="/", mcp_servers=[]))
            await agent.side.session_prompt(
                types.PromptRequest(session_id=opened.session_id, prompt=[])
            )
    assert len(heard) == 1


def test_who_starts_an_agent_in_a_terminal_is_told_what_it_is() -> None:
    code = (
        "import asyncio; from codex_acp.acp import run_agent\n"
        "async def answer(turn): ...\n"
        "asyncio.run(run_agent(answer, name='small'))"
    )
    terminal, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as agent:
        os.close(theirs)
        os.write(terminal, b"\x04")  # Ctrl-D
        out, err = agent.communicate(timeout=60)
    os.close(terminal)
    assert out == b""
    assert b"small: an ACP agent, which a client starts; try it: codex-acp-sdk run" in err


async def test_methods_whose_params_may_be_absent_are_called_in_version_2_as_well() -> None:
    near, far = memory_pair()
    agent = RawPeer(far)
    methods: list[str] = []

    async def answer() -> None:
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": 2, "info": {"name": "a", "version": "1"}},
            "session/list": {"sessions": []},
        }
        results["initialize"]["capabilities"] = {"session": {}, "auth": {"logout": {}}}
        for method in ("initialize", "auth/logout", "session/list"):
            request = await agent.sent(method)
            methods.append(request["method"])
            agent.send({"id": request["id"], "result": results.get(method, {})})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        async with connect_agent(near, name="c") as connected:
            assert connected.side.version == 2
            await connected.side.logout()
            assert (await connected.side.session_list()).sessions == []
    assert methods == ["initialize", "auth/logout", "session/list"]
