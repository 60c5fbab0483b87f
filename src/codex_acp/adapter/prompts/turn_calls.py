"""Call Codex about the turns of one thread; describe the failure of a prompt if Codex refuses.

Must not know the queue of prompts. Sources: Codex schema ``turn/*``, ``thread/turns/list``,
``thread/backgroundTerminals/*``.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

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
from codex_acp.jsonrpc import AGENT_LOST, INTERNAL_ERROR, INVALID_PARAMS
from codex_acp.mapping.events import PromptFailure
from codex_acp.transcript.secrets import scrub
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.wire.model import WireModel

    Interrupt: TypeAlias = Callable[[str, str], None]
    """Starts to interrupt a turn, by the ids of its thread and of the turn; does not wait."""

logger = logging.getLogger(__name__)

STEER_SECONDS: Final = 10.0
"""Seconds to wait for the reply to ``turn/steer``, which usually comes at once."""

INTERRUPT_SECONDS: Final = 10.0
"""Seconds to wait for the reply to ``turn/interrupt``, which Codex sends at once or never."""

LOOK_BACK: Final = 8
"""Newest turns in which `TurnCalls.look_up` searches. A thread runs one turn at a time, so a turn
that ran a moment ago is among them."""

MAX_STDERR: Final = 16 * 1024
"""Characters of an error that quotes the end of a process's stderr."""


class TurnCalls:
    """The calls for one thread; `Session.move` sets ``codex`` to the connection after a loss."""

    def __init__(self, codex: AppServerConnection, thread_id: str) -> None:
        self.codex = codex
        self._thread_id = thread_id

    @property
    def asks_person(self) -> bool:
        """Whether Codex waits for the answer to a request of this thread."""
        requests = self.codex.open_requests
        return any(request.thread_id == self._thread_id for request in requests)

    @property
    def written(self) -> int | None:
        """Bytes written to this Codex, None if it is not a child process; for `surely_unread`."""
        link = self.codex.link
        return link.offered if isinstance(link, ChildProcess) else None

    def surely_unread(self, since: int | None) -> bool:
        """Return whether Codex has ended, and read no byte after the first ``since`` bytes."""
        link = self.codex.link
        return (
            since is not None
            and isinstance(link, ChildProcess)
            and link.taken is not None
            and link.taken <= since
        )

    def start_params(self, message: list[models.UserInput], message_id: str) -> WireModel:
        return models.TurnStartParams(
            thread_id=self._thread_id, input=message, client_user_message_id=message_id
        )

    def steer_params(
        self, turn_id: str, message: list[models.UserInput], message_id: str
    ) -> models.TurnSteerParams:
        return models.TurnSteerParams(
            thread_id=self._thread_id,
            expected_turn_id=turn_id,
            input=message,
            client_user_message_id=message_id,
        )

    async def steer(self, turn_id: str, message: list[models.UserInput], message_id: str) -> bool:
        """Add a message to the running turn; return whether Codex took the message. Without a reply
        in `STEER_SECONDS`, returns True: the turn will show whether Codex took the message."""
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
        return {"threadId": self._thread_id, "turnId": turn_id}

    async def interrupt(self, turn_id: str) -> None:
        """Interrupt a turn. The wait is bounded: Codex never replies if the turn has just ended."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    await self.codex.call_raw("turn/interrupt", self.interrupt_params(turn_id))
        except CodexAcpError as error:
            logger.info("thread %s: the interrupt was refused: %s", self._thread_id, error)

    async def look_up(
        self, turn_ids: Collection[str], message_id: str | None
    ) -> tuple[models.Turn | None, bool | None]:
        """Return a turn as Codex knows it now (None: no turn), and whether the turn has the message
        (None: unknown).

        Looks for one of ``turn_ids``. Without ids, looks for the turn with the message
        ``message_id``; if there is none, returns the newest turn. Raises CodexAcpError."""
        turns = await self._newest_turns("notLoaded" if turn_ids else "summary")
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
        except ErrorReply as error:  # this Codex, or this kind of thread, has no list
            logger.info("thread %s: its turns cannot be listed: %s", self._thread_id, error)
        read = models.ThreadReadParams(thread_id=self._thread_id, include_turns=True)
        return list(reversed((await self.codex.thread_read(read)).thread.turns))

    async def end_commands(
        self, item_ids: Collection[str]
    ) -> tuple[list[str], list[models.ThreadBackgroundTerminal]]:
        """End the commands of an interrupted turn, given by their items: Codex lets them run in the
        background. Return the items of the ended commands, and the terminals that still run."""
        ended: list[str] = []
        not_ended: list[models.ThreadBackgroundTerminal] = []
        for terminal in await self.background_terminals():
            if terminal.item_id not in item_ids:
                continue  # a command of an earlier turn is meant to run on
            try:
                has_ended = await self.terminate(terminal.process_id)
            except ErrorReply as error:
                logger.warning("thread %s: a command lives on: %s", self._thread_id, error)
                has_ended = False
            if has_ended:
                ended.append(terminal.item_id)
            else:
                not_ended.append(terminal)
        return ended, not_ended

    async def terminate(self, process_id: str) -> bool:
        """End the command of a process; return whether it ran. Raises CodexAcpError."""
        params = models.ThreadBackgroundTerminalsTerminateParams(
            thread_id=self._thread_id, process_id=process_id
        )
        return (await self.codex.thread_background_terminals_terminate(params)).terminated

    async def background_terminals(self) -> list[models.ThreadBackgroundTerminal]:
        """Return the commands of the thread that outlive their turns. Raises CodexAcpError."""
        params = models.ThreadBackgroundTerminalsListParams(thread_id=self._thread_id)
        return await all_pages(self.codex.thread_background_terminals_list, params)


def _messages_of(turn: models.Turn) -> list[str]:
    """Return the ids of the client's messages that Codex has read into a turn."""
    items = (item for item in turn.items if isinstance(item, models.UserMessageThreadItem))
    return [item.client_id for item in items if item.client_id is not None]


def start_refused(error: CodexAcpError) -> PromptFailure:
    """Return the failure of a prompt whose turn Codex did not begin."""
    if isinstance(error, RpcError):
        return PromptFailure(error.code, error.message, object_at(error.data))
    if isinstance(error, TransportError):
        return codex_gone(error)
    if isinstance(error, ErrorReply):
        code = INVALID_PARAMS if error.code == INVALID_PARAMS else INTERNAL_ERROR
        return start_refused(refused_call("Codex refused the turn", error, code))
    return PromptFailure(INTERNAL_ERROR, f"Codex did not start the turn: {error}", {})


def codex_gone(error: TransportError | None) -> PromptFailure:
    """Return the failure of a prompt whose Codex ended."""
    data: dict[str, object] = {"reason": AGENT_LOST}
    message = "Codex ended while the prompt ran" if error is None else str(error)
    end = message
    if isinstance(error, ProcessExited):
        data |= {"exitCode": error.returncode, "stderr": scrub(error.stderr_tail, MAX_STDERR)}
        end = how_ended(error.returncode)  # in the message, Codex's stderr follows
    message = message.replace(end, f"{end}; the next prompt starts it again", 1)
    return PromptFailure(INTERNAL_ERROR, scrub(message, MAX_STDERR), data)
