"""An agent and a client of this library on one connection: a whole turn, and its cancellation."""

from __future__ import annotations

import anyio

from codex_acp.acp import (
    AgentNotificationHandlers,
    AgentRequestHandlers,
    AgentSide,
    ClientSide,
    acp_connection,
    types,
)
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import WAIT
from tests.acp.tables import (
    agent_notifications,
    agent_requests,
    client_notifications,
    client_requests,
)
from tests.support.acp_schema import SchemaTap

SESSION = "s1"


class ToyAgent:
    """Says one word, asks for one permission, says what it got."""

    def __init__(self) -> None:
        self.side: AgentSide | None = None
        self.turn: anyio.CancelScope | None = None

    def requests(self) -> AgentRequestHandlers:
        return {**agent_requests(), "session/new": self.new, "session/prompt": self.prompt}

    def notifications(self) -> AgentNotificationHandlers:
        return {**agent_notifications(), "session/cancel": self.cancel}

    async def new(self, params: types.NewSessionRequest) -> types.NewSessionResponse:
        assert params.cwd == "/work"
        return types.NewSessionResponse(session_id=SESSION)

    async def prompt(self, params: types.PromptRequest) -> types.PromptResponse:
        assert self.side is not None
        with anyio.CancelScope() as self.turn:
            self.say(f"{len(params.prompt)} block")
            answer = await self.side.session_request_permission(
                types.RequestPermissionRequest(
                    session_id=SESSION,
                    tool_call=types.ToolCallUpdate(tool_call_id="t"),
                    options=[types.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
                )
            )
            self.say(answer.outcome.outcome)
            return types.PromptResponse(stop_reason="end_turn")
        return types.PromptResponse(stop_reason="cancelled")

    def cancel(self, params: types.CancelNotification) -> None:
        assert params.session_id == SESSION
        assert self.turn is not None
        self.turn.cancel()

    def say(self, text: str) -> None:
        assert self.side is not None
        content = types.TextContentBlock(text=text)
        update = types.AgentMessageChunkSessionUpdate(content=content)
        self.side.session_update(types.SessionNotification(session_id=SESSION, update=update))


class ToyClient:
    """Notes what it is told; answers a permission with yes, or never."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.heard: list[str] = []
        self.asked = anyio.Event()
        self.withdrawn = anyio.Event()

    async def permission(
        self, params: types.RequestPermissionRequest
    ) -> types.RequestPermissionResponse:
        self.asked.set()
        if not self.answers:
            try:
                await anyio.sleep_forever()
            finally:
                self.withdrawn.set()
        outcome: types.SelectedRequestPermissionOutcome | types.CancelledRequestPermissionOutcome
        outcome = types.SelectedRequestPermissionOutcome(option_id=params.options[0].option_id)
        return types.RequestPermissionResponse(outcome=outcome)

    def update(self, params: types.SessionNotification) -> None:
        assert isinstance(params.update, types.AgentMessageChunkSessionUpdate)
        assert isinstance(params.update.content, types.TextContentBlock)
        self.heard.append(params.update.content.text)


async def converse(client: ToyClient, *, cancel: bool) -> tuple[str, SchemaTap]:
    """One session and one prompt; its stop reason, and all that was sent."""
    left, right = memory_pair()
    tap, toy = SchemaTap(), ToyAgent()
    toy.side = AgentSide(
        acp_connection(left, name="the client", on_line=tap.on("agent")),
        toy.requests(),
        toy.notifications(),
    )
    side = ClientSide(
        acp_connection(right, name="the agent", on_line=tap.on("client")),
        {**client_requests(), "session/request_permission": client.permission},
        {**client_notifications(), "session/update": client.update},
    )
    stop: list[str] = []

    async def prompt() -> None:
        answer = await side.session_prompt(
            types.PromptRequest(session_id=SESSION, prompt=[types.TextContentBlock(text="go")])
        )
        stop.append(answer.stop_reason)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(toy.side.run)
            async with side:
                await side.initialize(types.InitializeRequest(protocol_version=1))
                await side.session_new(types.NewSessionRequest(cwd="/work", mcp_servers=[]))
                async with anyio.create_task_group() as turn:
                    turn.start_soon(prompt)
                    if cancel:
                        await client.asked.wait()
                        side.session_cancel(types.CancelNotification(session_id=SESSION))
                if cancel:
                    await client.withdrawn.wait()
    tap.check()
    assert tap.unanswered("agent") == []
    return stop[0], tap


async def test_a_turn_with_a_permission() -> None:
    client = ToyClient(answers=True)
    stop, tap = await converse(client, cancel=False)
    assert stop == "end_turn"
    assert client.heard == ["1 block", "selected"]
    assert [m.get("method", "answer") for m in tap.sent_by("agent")] == [
        "answer",
        "answer",
        "session/update",
        "session/request_permission",
        "session/update",
        "answer",
    ]


async def test_a_cancelled_turn_withdraws_its_permission_request() -> None:
    client = ToyClient(answers=False)
    stop, tap = await converse(client, cancel=True)
    assert stop == "cancelled"
    assert client.heard == ["1 block"]
    methods = [m.get("method", "answer") for m in tap.sent_by("agent")]
    assert methods[-2:] == ["$/cancel_request", "answer"]
