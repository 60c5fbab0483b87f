"""A client of ACP version 2 (a draft): start an agent, send a prompt, print the answer.

python examples/acp_v2_client.py "Hello" python examples/acp_v2_agent.py
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from codex_acp.acp import ClientSide, acp_connection, spawn, v2

ME = v2.Implementation(name="example", version="1")


class Screen:
    """Shows one session, until it is idle again."""

    def __init__(self) -> None:
        self.stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._works = False

    def show(self, notification: v2.UpdateSessionNotification) -> None:
        match notification.update:
            case v2.AgentMessageChunkSessionUpdate(content=v2.TextContentBlock(text=text)):
                print(text, end="", flush=True)
            case v2.RunningStateUpdateSessionUpdate():
                self._works = True
            case v2.IdleStateUpdateSessionUpdate(stop_reason=reason) if self._works:
                self.stopped.set_result(reason or "not said")


async def refuse(request: v2.RequestPermissionRequest) -> v2.RequestPermissionResponse:
    """Reject every permission. An unknown option would not be consent either."""
    for option in request.options:
        if option.kind == "reject_once":
            chosen = v2.SelectedRequestPermissionOutcome(option_id=option.option_id)
            return v2.RequestPermissionResponse(outcome=chosen)
    return v2.RequestPermissionResponse(outcome=v2.CancelledRequestPermissionOutcome())


async def main(text: str, command: list[str]) -> None:
    screen = Screen()
    handlers = v2.ClientHandlers(
        {"session/request_permission": refuse, "elicitation/create": None},
        {"session/update": screen.show, "elicitation/complete": None, "$/cancel_request": None},
    )
    connection = acp_connection(spawn(command, name="the agent"), name="the agent")
    async with ClientSide(connection, None, None, v2=handlers) as side:
        await side.v2.initialize(v2.InitializeRequest(protocol_version=2, info=ME))
        opened = await side.v2.session_new(v2.NewSessionRequest(cwd=str(Path.cwd())))
        session = opened.session_id
        words = v2.TextContentBlock(text=text)
        await side.v2.session_prompt(v2.PromptRequest(session_id=session, prompt=[words]))
        print(f"\n({await screen.stopped})")
        await side.v2.session_close(v2.CloseSessionRequest(session_id=session))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
