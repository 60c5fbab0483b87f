"""An agent of ACP version 2 (a draft): it echoes each prompt.

Name `python examples/acp_v2_agent.py` as the command of an agent in a client of version 2, or:
codex-acp-sdk run --command "python examples/acp_v2_agent.py" "Hello"
"""

from __future__ import annotations

import asyncio
from itertools import count

from codex_acp.acp import AgentSide, acp_connection, stdio, v2

ids = count(1)


async def initialize(_request: v2.InitializeRequest) -> v2.InitializeResponse:
    return v2.InitializeResponse(
        protocol_version=2,
        info=v2.Implementation(name="echo", version="1"),
        capabilities=v2.AgentCapabilities(session=v2.SessionCapabilities()),
    )


async def new_session(_request: v2.NewSessionRequest) -> v2.NewSessionResponse:
    return v2.NewSessionResponse(session_id=f"session-{next(ids)}")


async def close_session(_request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
    return v2.CloseSessionResponse()


async def prompt(request: v2.PromptRequest) -> v2.PromptResponse:
    """Accept the prompt with the answer; the work follows."""
    inserted = f"message-{next(ids)}"
    asyncio.get_running_loop().call_soon(work, request, inserted)
    return v2.PromptResponse(message_id=inserted)


def work(request: v2.PromptRequest, inserted: str) -> None:
    texts = [block.text for block in request.prompt if isinstance(block, v2.TextContentBlock)]
    said = v2.TextContentBlock(text=f"You said: {' '.join(texts)}")
    updates: list[v2.SessionUpdate] = [
        v2.UserMessageSessionUpdate(message_id=inserted, content=request.prompt),
        v2.RunningStateUpdateSessionUpdate(state="running"),
        v2.AgentMessageChunkSessionUpdate(message_id=f"message-{next(ids)}", content=said),
        v2.IdleStateUpdateSessionUpdate(state="idle", stop_reason="end_turn"),
    ]
    for update in updates:
        side.v2.session_update(
            v2.UpdateSessionNotification(session_id=request.session_id, update=update)
        )


REQUESTS: v2.AgentRequestHandlers = {
    "initialize": initialize,
    "auth/login": None,
    "auth/logout": None,
    "session/new": new_session,
    "session/list": None,
    "session/resume": None,
    "session/close": close_session,
    "session/delete": None,
    "session/set_config_option": None,
    "session/prompt": prompt,
    "tool_call/cancel": None,
    "terminal/cancel": None,
}
NOTIFICATIONS: v2.AgentNotificationHandlers = {"session/cancel": None, "$/cancel_request": None}

if __name__ == "__main__":
    connection = acp_connection(stdio(), name="the client")
    side = AgentSide(connection, None, None, v2=v2.AgentHandlers(REQUESTS, NOTIFICATIONS))
    asyncio.run(side.run())
