"""What must hold of every conversation, whatever a test is about (contract 4.1, 4.5, 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codex_acp.transcript.events import Entry
    from tests.support.acp_schema import Sent

__all__ = ["check_tool_calls", "check_transcript"]

_OPEN = ("pending", "in_progress")


def check_tool_calls(messages: Iterable[Sent]) -> None:
    """Announced before they are asked about, pending while asked, ended with their prompt."""
    statuses: dict[tuple[str, str], str] = {}
    prompts: dict[object, str] = {}
    for by, message in messages:
        method = message.get("method")
        if by == "client":
            if method == "session/prompt":
                prompts[message["id"]] = message["params"]["sessionId"]
        elif method == "session/update":
            _take_update(statuses, message["params"])
        elif method == "session/request_permission":
            call = message["params"]["toolCall"]
            key = (message["params"]["sessionId"], call["toolCallId"])
            assert key in statuses, f"asked about a tool call that was not announced: {call}"
            assert statuses[key] == "pending", f"asked about a tool call that is {statuses[key]}"
            assert call.get("status", "pending") == "pending", call
        elif method is None and message["id"] in prompts:
            session = prompts.pop(message["id"])
            left = [key for key, s in statuses.items() if key[0] == session and s in _OPEN]
            assert not left, f"the prompt ended, these tool calls did not: {left}"


def _take_update(statuses: dict[tuple[str, str], str], params: dict[str, Any]) -> None:
    update = params["update"]
    if update["sessionUpdate"] not in ("tool_call", "tool_call_update"):
        return
    key = (params["sessionId"], update["toolCallId"])
    if update["sessionUpdate"] == "tool_call":
        assert key not in statuses, f"announced twice: {update}"
        statuses[key] = update.get("status", "pending")
    else:
        assert key in statuses, f"an update of a tool call that was not announced: {update}"
        statuses[key] = update.get("status", statuses[key])


def check_transcript(entries: Iterable[Entry], requests: Sequence[dict[str, Any]]) -> None:
    """Each request of Codex is in the transcript, and as one thing only."""
    families: dict[object, set[str]] = {}
    for entry in entries:
        family, _, _ = entry.event.type.partition(".")
        request_id = getattr(entry.event.ref, "codex_request_id", None)
        if request_id is not None:
            families.setdefault(request_id, set()).add(family)
    for request in requests:
        found = families.get(request["id"], set())
        assert len(found) == 1, f"{request['method']} is in the transcript as {found or 'nothing'}"
        assert found <= {"approval", "elicitation", "request"}
