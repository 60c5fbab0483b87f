"""``_session/steering``: a message for the running turn, or for a new turn if none runs.

The answer comes when Codex has taken the message: ``injected`` into a running turn, or
``startedNewTurn``. If no turn runs and the client wants no new turn, the answer is
``promptRequired`` at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codex_acp.adapter.session.driver import NothingRuns
from codex_acp.errors import InvalidPayload, RpcError
from codex_acp.jsonrpc import INVALID_PARAMS, JsonValue
from codex_acp.mapping.content import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.mapping.content import Block
    from codex_acp.wire.registry import ModelRegistry


async def answer_steering(
    agent_of: Callable[[str], CodexAgent], models: ModelRegistry, params: JsonValue
) -> JsonValue:
    """Answer a ``_session/steering`` request, whose content ``models`` decode. Raises RpcError:
    -32602, -32002 for a session that is not open, and the errors of `Session.prompt`."""
    session_id, prompt, only_joins = _read_params(params)
    agent = agent_of(session_id)
    session, blocks = agent.session(session_id), _blocks(session_id, prompt, models)
    running = session.driver.turn
    was_injected: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_accepted(_message_id: str) -> None:
        if not was_injected.done():  # compare now: the turn may end in the same read
            was_injected.set_result(running is not None and session.driver.turn == running)

    cancelled = "the session's work was cancelled before that"
    try:
        injected = await agent.begin_prompt(
            session.id, blocks, was_injected, on_accepted, cancelled, joins=only_joins
        )
    except NothingRuns:
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}
    return {"outcome": "injected" if injected else "startedNewTurn"}


def _read_params(params: JsonValue) -> tuple[str, list[JsonValue], bool]:
    """Return the session's id, the content, and whether the message may only join a running turn.
    Raises RpcError -32602."""
    members = params if isinstance(params, dict) else {}
    session_id, prompt = members.get("sessionId"), members.get("prompt")
    if not isinstance(session_id, str):
        raise RpcError(INVALID_PARAMS, "sessionId: has to be a string")
    if not isinstance(prompt, list) or not prompt:
        raise RpcError(INVALID_PARAMS, "prompt: has to be a list of content blocks")
    meta = members.get("_meta")
    steering = None if meta is None else _object(meta, "_meta").get("steering")
    when_idle = (
        None if steering is None else _object(steering, "_meta.steering").get("idleBehavior")
    )
    if when_idle not in (None, "promptRequired"):
        raise RpcError(INVALID_PARAMS, "_meta.steering.idleBehavior: is promptRequired or not said")
    return session_id, prompt, when_idle is not None


def _object(value: JsonValue, name: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"{name}: has to be an object")
    return value


def _blocks(session_id: str, prompt: list[JsonValue], models: ModelRegistry) -> Sequence[Block]:
    """Return the content of a prompt. Raises RpcError -32602."""
    params: JsonValue = {"sessionId": session_id, "prompt": prompt}
    try:
        return blocks_of(models.decode("PromptRequest", params, "the prompt").prompt)
    except InvalidPayload as error:
        raise RpcError(INVALID_PARAMS, str(error)) from error
