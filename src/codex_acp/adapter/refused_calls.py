"""Turns a refusal of Codex into the answer to the request that needed the call."""

from __future__ import annotations

from typing import cast

from codex_acp.errors import ErrorReply, RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, JsonValue
from codex_acp.routing.display import prose
from codex_acp.transcript.secrets import scrub, scrub_json


def refused_call(what: str, error: ErrorReply, code: int = INTERNAL_ERROR) -> RpcError:
    """``what`` failed, and what Codex said of it; that may quote what an MCP server was given."""
    said = prose(scrub(error.message))
    details = scrub_json(cast("JsonValue", error.data))
    data = {"message": said, "code": error.code, "data": details}
    return RpcError(code, f"{what}: {said}", data)
