"""When a prompt of version 2 has ended: its answer says only that it was inserted.

Owns which report of an idle session is the end of which prompt. Must not know how updates come.
Source: https://agentclientprotocol.com/protocol/v2/prompt-lifecycle
"""

from __future__ import annotations

import asyncio

from codex_acp.acp._generated.v1.models import PromptResponse
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.wire.codec import plain

STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""Those of version 1, in which a program is told why a prompt has ended."""


class Turn:
    """One prompt, from the moment that it is sent. The session may be at work already."""

    def __init__(self, prompt: object = None) -> None:
        self._prompt = prompt
        self._message_id: str | None = None
        self._echoed: set[str] = set()
        self._is_active = False
        self._idle: v2.IdleStateUpdateSessionUpdate | None = None
        self._end: asyncio.Future[v2.IdleStateUpdateSessionUpdate] = (
            asyncio.get_running_loop().create_future()
        )
        self.was_cancelled = False

    def take(self, update: v2.SessionUpdate) -> None:
        """An update of the session, in order."""
        if isinstance(update, v2.UserMessageSessionUpdate | v2.UserMessageChunkSessionUpdate):
            self._echoed.add(update.message_id)
        elif isinstance(
            update,
            v2.RunningStateUpdateSessionUpdate
            | v2.RequiresActionStateUpdateSessionUpdate
            | v2.OtherStateUpdateSessionUpdate,  # whatever that is, it is not idle
        ):
            self._is_active, self._idle = True, None
        elif isinstance(update, v2.IdleStateUpdateSessionUpdate):
            self._idle = update
            self._look()

    def echoes(self, update: v2.SessionUpdate) -> bool:
        """Whether this says what the prompt has said, and nothing else."""
        if isinstance(update, v2.UserMessageSessionUpdate | v2.UserMessageChunkSessionUpdate):
            if self._message_id is not None:
                return update.message_id == self._message_id
            return isinstance(update, v2.UserMessageSessionUpdate) and (
                plain(update.content) == self._prompt
            )
        return False

    def inserted(self, message_id: str) -> None:
        """The agent has taken the prompt."""
        self._message_id = message_id
        self._look()

    def _look(self) -> None:
        """Idle after the prompt was taken, and not merely still idle from before."""
        is_ours = self._message_id in self._echoed or self._is_active
        if self._message_id is None or self._idle is None or not is_ours or self._end.done():
            return
        self._end.set_result(self._idle)

    def fail(self, error: Exception) -> None:
        """Nothing more will come."""
        if not self._end.done():
            self._end.set_exception(error)
            self._end.exception()  # it need not be looked at: the request may have failed itself

    async def end(self) -> PromptResponse:
        """Wait for it. Raises ErrorReply for a turn that failed."""
        idle = await self._end
        reason = idle.stop_reason
        if reason is None:  # the agent does not say
            return PromptResponse(stop_reason="cancelled" if self.was_cancelled else "end_turn")
        if reason == "error":
            error = idle.error
            code = INTERNAL_ERROR if error is None else error.code
            message = "the turn failed" if error is None else error.message
            data = None if error is None else error.data
            raise ErrorReply("session/prompt", code, message, data)
        if reason not in STOP_REASONS:
            raise CodexAcpError(f"the agent stopped for a reason that is not known here: {reason}")
        told = {"stopReason": reason, "usage": idle.usage and plain(idle.usage), "_meta": idle.meta}
        return PromptResponse.model_validate({k: v for k, v in told.items() if v is not None})
