"""An agent and a client of this library on one connection: a whole turn, and its cancellation."""

from __future__ import annotations

import anyio

from codex_acp.acp import (
    AgentNotificationHandlers,
    AgentRequestHandlers,
    AgentSide,
    ClientSide,
    acp_connection,
)
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    CancelledRequestPermissionOutcome,
    CancelNotification,
    InitializeRequest,
    NewSessionRequest,
    NewSessionResponse,
    PermissionOption,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedRequestPermissionOutcome,
    SessionNotification,
    TextContentBlock,
    ToolCallUpdate,
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

    async def new(self, params: NewSessionRequest) -> NewSessionResponse:
        assert params.cwd == "/work"
        return NewSessionResponse(session_id=SESSION)

    async def prompt(self, params: PromptRequest) -> PromptResponse:
        assert self.side is not None
        with anyio.CancelScope() as self.turn:
            self.say(f"{len(params.prompt)} block")
            answer = await self.side.session_request_permission(
                RequestPermissionRequest(
                    session_id=SESSION,
                    tool_call=ToolCallUpdate(tool_call_id="t"),
                    options=[PermissionOption(option_id="y", name="Yes", kind="allow_once")],
                )
            )
            self.say(answer.outcome.outcome)
            return PromptResponse(stop_reason="end_turn")
        return PromptResponse(stop_reason="cancelled")

    def cancel(self, params: CancelNotification) -> None:
        assert params.session_id == SESSION
        assert self.turn is not None
        self.turn.cancel()

    def say(self, text: str) -> None:
        assert self.side is not None
        content = TextContentBlock(text=text)
        update = AgentMessageChunkSessionUpdate(content=content)
        self.side.session_update(SessionNotification(session_id=SESSION, update=update))


class ToyClient:
    """Notes what it is told; answers a permission with yes, or never."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.heard: list[str] = []
        self.asked = anyio.Event()
        self.withdrawn = anyio.Event()

    async def permission(self, params: RequestPermissionRequest) -> RequestPermissionResponse:
        self.asked.set()
        if not self.answers:
            try:
                await anyio.sleep_forever()
            finally:
                self.withdrawn.set()
        outcome: SelectedRequestPermissionOutcome | CancelledRequestPermissionOutcome
        outcome = SelectedRequestPermissionOutcome(option_id=params.options[0].option_id)
        return RequestPermissionResponse(outcome=outcome)

    def update(self, params: SessionNotification) -> None:
        assert isinstance(params.update, AgentMessageChunkSessionUpdate)
        assert isinstance(params.update.content, TextContentBlock)
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
            PromptRequest(session_id=SESSION, prompt=[TextContentBlock(text="go")])
        )
        stop.append(answer.stop_reason)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(toy.side.run)
            async with side:
                await side.initialize(InitializeRequest(protocol_version=1))
                await side.session_new(NewSessionRequest(cwd="/work", mcp_servers=[]))
                async with anyio.create_task_group() as turn:
                    turn.start_soon(prompt)
                    if cancel:
                        await client.asked.wait()
                        side.session_cancel(CancelNotification(session_id=SESSION))
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
