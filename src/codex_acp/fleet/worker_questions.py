"""Hand the questions of a worker's agents to the driver, and its answers to the runtime.

Owns which session's question belongs to which task. Whatever is not a clear answer is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from codex_acp.acp.as_v1.values import as_json
from codex_acp.fleet.questions import permission_question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.runtime import Form, FormAnswer, Permission, UrlAnswer, UrlRequest

    Ask = Callable[[Mapping[str, JsonValue]], Awaitable[Mapping[str, JsonValue]]]


async def ask_permission(ask: Ask, permission: Permission) -> str | None:
    """The id of the option chosen at the driver; None rejects."""
    chosen = (await ask(permission_question(permission))).get("optionId")
    return chosen if isinstance(chosen, str) else None


class WorkerQuestions:
    """The callbacks of one runtime for forms and URLs, which have no policy for each session."""

    def __init__(self) -> None:
        self._asks: dict[str, Ask] = {}

    def listen(self, session_id: str, ask: Ask) -> None:
        """Questions of this session are asked by ``ask`` from now on."""
        self._asks[session_id] = ask

    def leave(self, session_id: str) -> None:
        """No more."""
        self._asks.pop(session_id, None)

    async def form(self, form: Form) -> FormAnswer:
        """Asked at the driver; of no session of ours: declined."""
        answer = await self._elicit("form", form)
        content = answer.get("content")
        if answer.get("action") == "accept" and isinstance(content, dict):
            return cast("FormAnswer", content)
        return "decline" if answer.get("action") == "decline" else "cancel"

    async def url(self, request: UrlRequest) -> UrlAnswer:
        """The same."""
        action = (await self._elicit("url", request)).get("action")
        return cast("UrlAnswer", action) if action in ("accept", "decline") else "cancel"

    async def _elicit(self, kind: str, request: Form | UrlRequest) -> Mapping[str, JsonValue]:
        ask = self._asks.get(getattr(request, "session_id", ""))
        if ask is None:
            return {"action": "decline"}
        answer = (await ask({"kind": kind, "request": as_json(request)})).get("answer")
        return answer if isinstance(answer, dict) else {}
