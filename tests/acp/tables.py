"""Handler tables with nothing in them, to fill in, and the smallest valid params."""

from __future__ import annotations

from typing import Any

from codex_acp.acp import (
    AgentNotificationHandlers,
    AgentRequestHandlers,
    ClientNotificationHandlers,
    ClientRequestHandlers,
)
from codex_acp.acp.types import InitializeRequest, InitializeResponse

INITIALIZE: dict[str, Any] = {"protocolVersion": 1}
PROMPT: dict[str, Any] = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
NEW_SESSION: dict[str, Any] = {"cwd": "/tmp/x", "mcpServers": []}
PERMISSION: dict[str, Any] = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "t1"},
    "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
}


async def initialize(params: InitializeRequest) -> InitializeResponse:
    del params
    return InitializeResponse(protocol_version=1)


def agent_requests() -> AgentRequestHandlers:
    return {
        "initialize": initialize,
        "authenticate": None,
        "logout": None,
        "session/new": None,
        "session/load": None,
        "session/list": None,
        "session/delete": None,
        "session/resume": None,
        "session/close": None,
        "session/set_mode": None,
        "session/set_config_option": None,
        "session/prompt": None,
    }


def agent_notifications() -> AgentNotificationHandlers:
    return {"session/cancel": None, "$/cancel_request": None}


def client_requests() -> ClientRequestHandlers:
    return {
        "fs/write_text_file": None,
        "fs/read_text_file": None,
        "session/request_permission": None,
        "terminal/create": None,
        "terminal/output": None,
        "terminal/release": None,
        "terminal/wait_for_exit": None,
        "terminal/kill": None,
        "elicitation/create": None,
    }


def client_notifications() -> ClientNotificationHandlers:
    return {"session/update": None, "elicitation/complete": None, "$/cancel_request": None}
