"""Which version is spoken: chosen at ``initialize``, with its handlers, models and methods."""

from __future__ import annotations

from typing import Any

import pytest
from anyio import create_task_group

from codex_acp.acp import AgentSide, ClientSide, acp_connection, client_features, types, v2
from codex_acp.errors import ErrorReply, MisuseError, UnsupportedVersion
from codex_acp.transport.link import MemoryLink, memory_pair
from tests.acp import tables, tables_v2
from tests.acp.raw_peer import RawPeer

Json = dict[str, Any]


class Agent:
    """An agent of some versions, which keeps what its handlers of ``initialize`` were given."""

    def __init__(self, *versions: int, answers: int = 0) -> None:
        near, far = memory_pair()
        self.given: list[types.InitializeRequest | v2.InitializeRequest] = []
        self._answers = answers
        requests_v1, requests_v2 = tables.agent_requests(), tables_v2.agent_requests()
        requests_v1["initialize"] = self.initialize
        requests_v2["initialize"] = self.initialize_v2
        requests_v2["session/prompt"] = self.prompt_v2
        self.prompts: list[v2.PromptRequest] = []
        handlers = v2.AgentHandlers(requests_v2, tables_v2.agent_notifications())
        self.side = AgentSide(
            acp_connection(near, name="the client"),
            requests_v1 if 1 in versions else None,
            tables.agent_notifications() if 1 in versions else None,
            v2=handlers if 2 in versions else None,
        )
        self.peer = RawPeer(far)

    async def initialize(self, request: types.InitializeRequest) -> types.InitializeResponse:
        self.given.append(request)
        return types.InitializeResponse(protocol_version=1)

    async def initialize_v2(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        self.given.append(request)
        version, self._answers = self._answers or 2, 0
        return v2.InitializeResponse(protocol_version=version, info=tables_v2.ME)

    async def prompt_v2(self, request: v2.PromptRequest) -> v2.PromptResponse:
        self.prompts.append(request)
        return v2.PromptResponse(message_id="m1")

    async def initialized(self, params: object) -> Json:
        async with self.side:
            answer: Json = await self.peer.ask("i", "initialize", params)
            return answer


def asked(version: object) -> Json:
    return {**tables_v2.INITIALIZE, "protocolVersion": version}


@pytest.mark.parametrize(
    ("versions", "requested", "answered"),
    [
        ((1, 2), 0, 1),
        ((1, 2), 1, 1),
        ((1, 2), 2, 2),
        ((1, 2), 3, 2),
        ((1, 2), 0xFFFF, 2),
        ((2,), 2, 2),
        ((2,), 99, 2),
        ((1,), 1, 1),
        ((1,), 2, 1),
        ((1,), 99, 1),
        ((1,), 0, 1),
    ],
)
async def test_the_highest_version_that_both_have_is_spoken(
    versions: tuple[int, ...], requested: int, answered: int
) -> None:
    agent = Agent(*versions)
    result = (await agent.initialized(asked(requested)))["result"]
    assert result["protocolVersion"] == answered
    assert agent.side.version == answered
    assert type(agent.given[0]).__module__.split(".")[3] == f"v{answered}"


@pytest.mark.parametrize(("versions", "requested"), [((2,), 1), ((2,), 0)], ids=str)
async def test_where_nothing_fits_the_error_says_what_is_there(
    versions: tuple[int, ...], requested: int
) -> None:
    agent = Agent(*versions)
    error = (await agent.initialized(asked(requested)))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"requested": requested, "supported": list(versions)}
    assert agent.side.version is None


@pytest.mark.parametrize("versions", [(1,), (1, 2), (2,)], ids=str)
@pytest.mark.parametrize(
    "params",
    [asked("2"), asked(None), asked(-1), asked(True), asked(1.5), asked(65536), asked([2]), {}, []],
    ids=str,
)
async def test_what_is_no_version_is_an_invalid_param(
    versions: tuple[int, ...], params: object
) -> None:
    agent = Agent(*versions)
    async with agent.side:
        error = (await agent.peer.ask(1, "initialize", params))["error"]
        assert error["code"] == -32602
        assert agent.given == []
        assert "result" in await agent.peer.ask(2, "initialize", asked(2))


@pytest.mark.parametrize("versions", [(1,), (1, 2), (2,)], ids=str)
async def test_initialize_comes_first_and_once(versions: tuple[int, ...]) -> None:
    agent = Agent(*versions)
    async with agent.side:
        early = await agent.peer.ask(1, "session/new", {})
        assert (early["error"]["code"], len(agent.given)) == (-32600, 0)
        assert "result" in await agent.peer.ask(2, "initialize", asked(2))
        for version in (2, 1):
            await agent.peer.ask(3, "session/list", {})
            again = await agent.peer.ask(4, "initialize", asked(version))
            assert (again["error"]["code"], len(agent.given)) == (-32600, 1)


async def test_a_version_is_strict_with_params_of_its_own() -> None:
    error = (await Agent(1, 2).initialized({"protocolVersion": 2}))["error"]
    assert error["code"] == -32602
    assert "info" in error["message"]


async def test_params_of_a_newer_version_are_read_as_far_as_they_are_known() -> None:
    agent = Agent(1, 2)
    params = {"protocolVersion": 3, "info": 5, "capabilities": 7, "mood": "good"}
    assert (await agent.initialized(params))["result"]["protocolVersion"] == 2
    (request,) = agent.given
    assert isinstance(request, v2.InitializeRequest)
    assert (request.protocol_version, request.info.name) == (2, "unknown")


async def test_a_client_of_version_2_may_repeat_initialize_until_it_asks_for_more() -> None:
    agent = Agent(1, 2)
    async with agent.side:
        assert (await agent.peer.ask(1, "initialize", asked(2)))["result"]
        lower = await agent.peer.ask(2, "initialize", asked(1))
        assert lower["error"]["code"] == -32600
        broken = await agent.peer.ask(3, "initialize", {"protocolVersion": 2})
        assert broken["error"]["code"] == -32602
        newer = await agent.peer.ask(4, "initialize", asked(3))
        assert newer["result"]["protocolVersion"] == 2
        assert len(agent.given) == 2
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}
        assert (await agent.peer.ask(5, "session/prompt", prompt))["result"]["messageId"] == "m1"
        assert (await agent.peer.ask(6, "initialize", asked(2)))["error"]["code"] == -32600


async def test_a_client_of_version_1_may_not() -> None:
    agent = Agent(1, 2)
    async with agent.side:
        assert (await agent.peer.ask(1, "initialize", asked(1)))["result"]
        for version in (1, 2):
            again = await agent.peer.ask(2 + version, "initialize", asked(version))
            assert again["error"]["code"] == -32600


@pytest.mark.parametrize("requested", [2, 3])
async def test_what_only_version_2_says_is_read_by_an_agent_of_version_1(requested: int) -> None:
    agent = Agent(1)
    capabilities: Json = {"elicitation": {"form": {}}, "auth": {"terminal": {}}}
    await agent.initialized({**asked(requested), "capabilities": capabilities})
    (request,) = agent.given
    assert isinstance(request, types.InitializeRequest)
    assert request.client_info == types.Implementation(name="c", version="1")
    features = client_features(request.client_capabilities)
    assert features.elicitation_form
    assert features.terminal_auth
    assert features.boolean_config_options
    assert not features.elicitation_url


async def test_what_it_says_for_version_1_counts_there() -> None:
    agent = Agent(1)
    both = {"clientInfo": {"name": "old", "version": "1"}, "clientCapabilities": {"terminal": True}}
    await agent.initialized({**asked(2), "capabilities": {"elicitation": {"form": {}}}, **both})
    (request,) = agent.given
    assert isinstance(request, types.InitializeRequest)
    assert request.client_info is not None
    assert request.client_info.name == "old"
    features = client_features(request.client_capabilities)
    assert (features.terminal, features.elicitation_form) == (True, False)


@pytest.mark.parametrize(
    ("version", "method"),
    [
        (2, "session/load"),
        (2, "session/set_mode"),
        (2, "authenticate"),
        (2, "logout"),
        (1, "auth/login"),
        (1, "tool_call/cancel"),
        (1, "terminal/cancel"),
    ],
)
async def test_methods_of_the_other_version_are_not_offered(version: int, method: str) -> None:
    agent = Agent(1, 2)
    async with agent.side:
        await agent.peer.ask(1, "initialize", asked(version))
        answer = await agent.peer.ask(2, method, {"sessionId": "s"})
    assert answer["error"]["code"] == -32601


async def test_a_handler_that_answers_another_version_is_an_error_and_not_spoken_with() -> None:
    agent = Agent(1, 2, answers=1)
    async with agent.side:
        error = (await agent.peer.ask(1, "initialize", asked(2)))["error"]
        assert error["code"] == -32603
        assert "answered version 1, but 2 was chosen" in error["message"]
        assert "result" in await agent.peer.ask(2, "initialize", asked(2))


async def test_calls_of_the_other_version_are_a_misuse() -> None:
    agent = Agent(1, 2)
    update = v2.UpdateSessionNotification(
        session_id="s", update=v2.RunningStateUpdateSessionUpdate(state="running")
    )
    async with agent.side:
        await agent.peer.ask(1, "initialize", asked(1))
        with pytest.raises(MisuseError, match="speaks version 1 of ACP, not 2"):
            agent.side.v2.session_update(update)
    other = Agent(1, 2)
    async with other.side:
        await other.peer.ask(1, "initialize", asked(2))
        other.side.v2.session_update(update)
        sent = await other.peer.sent("session/update")
        assert sent["params"]["update"]["state"] == "running"
        with pytest.raises(MisuseError, match="speaks version 2 of ACP, not 1"):
            other.side.session_update(
                types.SessionNotification(
                    session_id="s", update=types.CurrentModeUpdateSessionUpdate(current_mode_id="m")
                )
            )


async def test_an_unknown_kind_of_content_reaches_the_handler_as_what_it_is() -> None:
    agent = Agent(2)
    smell = {"type": "_smell", "ppm": 3}
    async with agent.side:
        await agent.peer.ask(1, "initialize", asked(2))
        prompt = {"sessionId": "s", "prompt": [smell]}
        assert (await agent.peer.ask(2, "session/prompt", prompt))["result"] == {"messageId": "m1"}
        broken = {"sessionId": "s", "prompt": [{"type": "text"}]}
        assert (await agent.peer.ask(3, "session/prompt", broken))["error"]["code"] == -32602
    (block,) = agent.prompts[0].prompt
    assert isinstance(block, v2.UnknownVariant)
    assert block.wire() == smell


def test_a_side_without_any_handlers_is_a_misuse() -> None:
    near, _ = memory_pair()
    with pytest.raises(MisuseError, match="handlers of one version"):
        AgentSide(acp_connection(near, name="x"), None, None)


def test_handlers_of_requests_without_those_of_notifications_are_not_dropped() -> None:
    near, far = memory_pair()
    handlers = v2.AgentHandlers(tables_v2.agent_requests(), tables_v2.agent_notifications())
    with pytest.raises(MisuseError, match="or None for both"):
        AgentSide(acp_connection(near, name="x"), tables.agent_requests(), None, v2=handlers)
    with pytest.raises(MisuseError, match="or None for both"):
        ClientSide(acp_connection(far, name="x"), None, tables.client_notifications())


# The client's side.


def a_client(link: MemoryLink, *versions: int) -> ClientSide:
    handlers = v2.ClientHandlers(tables_v2.client_requests(), tables_v2.client_notifications())
    return ClientSide(
        acp_connection(link, name="the agent"),
        tables.client_requests() if 1 in versions else None,
        tables.client_notifications() if 1 in versions else None,
        v2=handlers if 2 in versions else None,
    )


V1 = types.InitializeRequest(
    protocol_version=1, client_info=types.Implementation(name="c", version="1")
)
V2 = v2.InitializeRequest(protocol_version=2, info=tables_v2.ME)


@pytest.mark.parametrize(
    ("has", "answered"), [((1,), 1), ((2,), 2), ((1, 2), 2)], ids=["1", "2", "both"]
)
async def test_a_client_of_both_speaks_what_the_agent_has(
    has: tuple[int, ...], answered: int
) -> None:
    near, far = memory_pair()
    agent = AgentSide(
        acp_connection(far, name="the client"),
        tables.agent_requests() if 1 in has else None,
        tables.agent_notifications() if 1 in has else None,
        v2=v2.AgentHandlers(tables_v2.agent_requests(), tables_v2.agent_notifications())
        if 2 in has
        else None,
    )
    client = a_client(near, 1, 2)
    async with agent, client:
        response = await client.negotiate(V1, V2)
        assert response.protocol_version == client.version == agent.version == answered
        assert type(response).__module__.split(".")[3] == f"v{answered}"
        error: type[Exception] = MisuseError if answered == 1 else ErrorReply
        with pytest.raises(error, match=r"speaks version 1|not offered"):
            await client.v2.session_list(v2.ListSessionsRequest())


@pytest.mark.parametrize("answered", [3, 0, None, "2"])
async def test_an_answer_that_was_not_offered_is_an_error(answered: object) -> None:
    near, far = memory_pair()
    peer = RawPeer(far)
    client = a_client(near, 1, 2)

    async def answer() -> None:
        request = await peer.sent("initialize")
        assert request["params"]["protocolVersion"] == 2
        assert {"info", "clientInfo"} <= request["params"].keys()
        peer.send({"id": request["id"], "result": {"protocolVersion": answered}})

    async with client, create_task_group() as tasks:
        tasks.start_soon(answer)
        with pytest.raises(UnsupportedVersion, match="this client has 1 and 2"):
            await client.negotiate(V1, V2)
        assert client.version is None


async def test_an_agent_that_only_repeats_the_version_is_spoken_to_in_version_1() -> None:
    near, far = memory_pair()
    peer = RawPeer(far)
    client = a_client(near, 1, 2)

    async def answer() -> None:
        request = await peer.sent("initialize")
        said = {"protocolVersion": 2, "agentCapabilities": {"loadSession": True}}
        peer.send({"id": request["id"], "result": said})

    async with client, create_task_group() as tasks:
        tasks.start_soon(answer)
        response = await client.negotiate(V1, V2)
        assert client.version == response.protocol_version == 1
        assert isinstance(response, types.InitializeResponse)
        assert response.agent_capabilities is not None
        assert response.agent_capabilities.load_session
