"""Makes the calls about the turns of one thread, and reads each refusal.

Owns the calls and their bounds; must not know of prompts. Sources: Codex schema ``turn/*``,
``thread/turns/list``, ``thread/backgroundTerminals/*``.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from codex_acp._json import object_at
from codex_acp.adapter.sessions.opening_errors import refused_call
from codex_acp.codex._generated import models
from codex_acp.codex.connection.calls import all_pages
from codex_acp.errors import (
    CodexAcpError,
    ErrorReply,
    ProcessExited,
    RpcError,
    TransportError,
    how_ended,
)
from codex_acp.jsonrpc.message import AGENT_LOST, INTERNAL_ERROR, INVALID_PARAMS
from codex_acp.mapping.events import PromptFailure
from codex_acp.transcript.secrets import scrub
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Collection

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.wire.model import WireModel

logger = logging.getLogger(__name__)

STEER_SECONDS: Final = 10.0
"""A steered message is answered at once; after this it may or may not have been taken."""

INTERRUPT_SECONDS: Final = 10.0
"""An interrupt is answered at once, or never."""

LOOK_BACK: Final = 8
"""Turns that are looked at for one: a thread runs one at a time, so ours is among the newest."""

WHOLE_TAIL: Final = 16 * 1024
"""Characters of an error with all that is kept of a process's stderr."""


class TurnCalls:
    """The calls for one thread. ``codex`` is replaced when the session moves to another one."""

    def __init__(self, codex: AppServerConnection, thread_id: str) -> None:
        self.codex = codex
        self._thread_id = thread_id

    @property
    def asks_person(self) -> bool:
        """Whether Codex waits for an answer to something that it has asked for this thread."""
        return any(asked.thread_id == self._thread_id for asked in self.codex.open_requests)

    @property
    def written(self) -> int | None:
        """How much was written to this Codex, if it is a process of ours; see `untaken`."""
        link = self.codex.link
        return link.offered if isinstance(link, ChildProcess) else None

    def untaken(self, since: int | None) -> bool:
        """Whether this Codex has ended and surely has read nothing that came after `written`."""
        link = self.codex.link
        return (
            since is not None
            and isinstance(link, ChildProcess)
            and link.taken is not None
            and link.taken <= since
        )

    def start_params(self, message: list[models.UserInput], message_id: str) -> WireModel:
        """Return the params of the ``turn/start`` that begins a turn with ``message``."""
        return models.TurnStartParams(
            thread_id=self._thread_id, input=message, client_user_message_id=message_id
        )

    def steer_params(
        self, turn_id: str, message: list[models.UserInput], message_id: str
    ) -> models.TurnSteerParams:
        """Return the params of the ``turn/steer`` that adds ``message`` to a running turn."""
        return models.TurnSteerParams(
            thread_id=self._thread_id,
            expected_turn_id=turn_id,
            input=message,
            client_user_message_id=message_id,
        )

    async def steer(self, turn_id: str, message: list[models.UserInput], message_id: str) -> bool:
        """Add a message to the running turn; return whether Codex took it.

        Also true when it did not say so in time: then the turn shows whether it did.
        """
        params = self.steer_params(turn_id, message, message_id)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(STEER_SECONDS):
                    await self.codex.turn_steer(params)
        except CodexAcpError as error:
            logger.info("thread %s: a message was not steered: %s", self._thread_id, error)
            return False
        return True

    def interrupt_params(self, turn_id: str) -> JsonValue:
        """Return the params of ``turn/interrupt``."""
        return {"threadId": self._thread_id, "turnId": turn_id}

    async def interrupt(self, turn_id: str) -> None:
        """Interrupt a turn that must not go on; Codex never answers that of one just ended."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    await self.codex.call_raw("turn/interrupt", self.interrupt_params(turn_id))
        except CodexAcpError as error:
            logger.info("thread %s: the interrupt was refused: %s", self._thread_id, error)

    async def look_up(
        self, turn_ids: Collection[str], message_id: str | None
    ) -> tuple[models.Turn | None, bool | None]:
        """Return a turn as Codex knows it now, None if it is not to be found, and whether
        ``message_id`` began it.

        With no ids it is the turn with that message, else the newest one, of which None says that
        nothing tells which message began it. Raises as every call.
        """
        turns = await self._newest_turns("summary" if not turn_ids else "notLoaded")
        if turn_ids:
            return next((turn for turn in turns if turn.id in turn_ids), None), True
        for turn in turns:
            if message_id in _messages_of(turn):
                return turn, True
        newest = next(iter(turns), None)
        return newest, None if newest is None or not _messages_of(newest) else False

    async def _newest_turns(self, view: Literal["notLoaded", "summary"]) -> list[models.Turn]:
        params = models.ThreadTurnsListParams(
            thread_id=self._thread_id, limit=LOOK_BACK, sort_direction="desc", items_view=view
        )
        try:
            return list((await self.codex.thread_turns_list(params)).data)
        except ErrorReply as error:  # a Codex, or a kind of thread, without the list
            logger.info("thread %s: its turns cannot be listed: %s", self._thread_id, error)
        read = models.ThreadReadParams(thread_id=self._thread_id, include_turns=True)
        return list(reversed((await self.codex.thread_read(read)).thread.turns))

    async def end_commands(
        self, item_ids: Collection[str]
    ) -> tuple[list[str], list[models.ThreadBackgroundTerminal]]:
        """End the commands of these items that live on; the items ended, and what could not be.

        Codex leaves the commands of an interrupted turn running in the background.
        """
        ended: list[str] = []
        left: list[models.ThreadBackgroundTerminal] = []
        for terminal in await self.background_terminals():
            if terminal.item_id not in item_ids:
                continue  # of an earlier turn: it was meant to live on
            try:
                done = await self.terminate(terminal.process_id)
            except ErrorReply as error:
                logger.warning("thread %s: a command lives on: %s", self._thread_id, error)
                done = False
            if done:
                ended.append(terminal.item_id)
            else:
                left.append(terminal)
        return ended, left

    async def terminate(self, process_id: str) -> bool:
        """End one command by its process; whether it ran. Raises CodexAcpError."""

        params = models.ThreadBackgroundTerminalsTerminateParams(
            thread_id=self._thread_id, process_id=process_id
        )
        return (await self.codex.thread_background_terminals_terminate(params)).terminated

    async def background_terminals(self) -> list[models.ThreadBackgroundTerminal]:
        """The commands of the thread that outlive their turns. Raises CodexAcpError."""

        params = models.ThreadBackgroundTerminalsListParams(thread_id=self._thread_id)
        return await all_pages(self.codex.thread_background_terminals_list, params)


def _messages_of(turn: models.Turn) -> list[str]:
    """The ids of the client's messages that Codex has read into a turn."""
    items = (item for item in turn.items if isinstance(item, models.UserMessageThreadItem))
    return [item.client_id for item in items if item.client_id is not None]


def start_refused(error: CodexAcpError) -> PromptFailure:
    """How the prompt ends whose turn could not be begun."""
    if isinstance(error, RpcError):
        return PromptFailure(error.code, error.message, object_at(error.data))
    if isinstance(error, TransportError):
        return codex_gone(error)
    if isinstance(error, ErrorReply):
        code = INVALID_PARAMS if error.code == INVALID_PARAMS else INTERNAL_ERROR
        return start_refused(refused_call("Codex refused the turn", error, code))
    return PromptFailure(INTERNAL_ERROR, f"Codex did not start the turn: {error}", {})


def codex_gone(error: TransportError | None) -> PromptFailure:
    """How a prompt ends whose Codex has ended."""
    data: dict[str, object] = {"reason": AGENT_LOST}
    message = what = "Codex ended while the prompt ran" if error is None else str(error)
    if isinstance(error, ProcessExited):
        data |= {"exitCode": error.returncode, "stderr": scrub(error.stderr_tail, WHOLE_TAIL)}
        what = how_ended(error.returncode)  # the end of its stderr stands behind that
    message = message.replace(what, f"{what}; the next prompt starts it again", 1)
    return PromptFailure(INTERNAL_ERROR, scrub(message, WHOLE_TAIL), data)
