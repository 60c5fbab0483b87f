"""Handler tables of version 2 with nothing in them, to fill in, and the smallest valid params."""

from __future__ import annotations

from typing import Any

from codex_acp.acp.v2 import (
    AgentNotificationHandlers,
    AgentRequestHandlers,
    ClientNotificationHandlers,
    ClientRequestHandlers,
    Implementation,
    InitializeRequest,
    InitializeResponse,
)

ME = Implementation(name="me", version="1")
INITIALIZE: dict[str, Any] = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}


async def initialize(params: InitializeRequest) -> InitializeResponse:
    del params
    return InitializeResponse(protocol_version=2, info=ME)


def agent_requests() -> AgentRequestHandlers:
    return {
        "initialize": initialize,
        "auth/login": None,
        "auth/logout": None,
        "session/new": None,
        "session/list": None,
        "session/delete": None,
        "session/resume": None,
        "session/close": None,
        "session/set_config_option": None,
        "session/prompt": None,
        "tool_call/cancel": None,
        "terminal/cancel": None,
    }


def agent_notifications() -> AgentNotificationHandlers:
    return {"session/cancel": None, "$/cancel_request": None}


def client_requests() -> ClientRequestHandlers:
    return {"session/request_permission": None, "elicitation/create": None}


def client_notifications() -> ClientNotificationHandlers:
    return {"session/update": None, "elicitation/complete": None, "$/cancel_request": None}
