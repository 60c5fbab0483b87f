"""The updates on their way to the client: in order, and bounded when the client is slow.

While the client keeps up, an update is written at once. When it lags, updates wait here, and
adjacent pieces of one message become one; when even that is too much, reading from Codex pauses.
Owns no session and must not know what an update means, except that text can be joined.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from codex_acp.acp._generated.v1.models import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    TextContentBlock,
)
from codex_acp.errors import TransportError
from codex_acp.jsonrpc.message import EncodedJson
from codex_acp.mapping.messages import message_chunk
from codex_acp.mapping.step import TextChunk
from codex_acp.wire.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from codex_acp.acp._generated.v1.models import SessionUpdate
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.mapping.step import Update

__all__ = ["Outflow"]

logger = logging.getLogger(__name__)

MAX_WAITING_UPDATES: Final = 2_000
"""Updates that cannot be joined are whole tool calls or messages; two thousand are megabytes."""

MAX_WAITING_TEXT: Final = 8 * 1024 * 1024
"""Characters of joined text that may wait: more than any model says while a client hangs."""

UPDATES_PER_WRITE: Final = 64
"""How many waiting updates are handed over before the client is given a chance to lag again."""


class _Waiting:
    """One update that waits, with the pieces of text that came behind it."""

    __slots__ = ("pieces", "session_id", "update")

    def __init__(self, session_id: str, update: SessionUpdate) -> None:
        self.session_id = session_id
        self.update = update
        self.pieces: list[str] = []

    def takes(self, session_id: str, update: SessionUpdate) -> str | None:
        """The text of ``update`` if it can be joined to this one, else None."""
        mine = self.update
        if (
            isinstance(mine, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate)
            and isinstance(update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate)
            and type(update) is type(mine)
            and session_id == self.session_id
            and update.message_id == mine.message_id
            and isinstance(mine.content, TextContentBlock)
            and isinstance(update.content, TextContentBlock)
            and not (update.meta or mine.meta)
        ):
            return update.content.text
        return None

    def joined(self) -> SessionUpdate:
        """The update with all of its text."""
        update = self.update
        if self.pieces and isinstance(
            update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate
        ):
            content = update.content
            first = content.text if isinstance(content, TextContentBlock) else ""
            joined = TextContentBlock(text="".join([first, *self.pieces]))
            return update.model_copy(update={"content": joined})
        return update


class Outflow:
    """All sessions' updates to one client. ``spawn`` runs the task that waits for a slow one."""

    def __init__(
        self,
        side: AgentSide,
        spawn: Callable[[Callable[[], Coroutine[None, None, None]]], object],
    ) -> None:
        self._side = side
        self._spawn = spawn
        self._waiting: deque[_Waiting] = deque()
        self._text = 0
        self._draining = False
        self._prefixes: dict[str, bytes] = {}
        self._message: tuple[str, str] | None = None
        self._chunk_prefix = b""
        self._on_full: Callable[[bool], None] | None = None
        self._full = False

    def when_full(self, callback: Callable[[bool], None]) -> None:
        """``callback(True)`` when no more should come, ``callback(False)`` when it may again."""
        self._on_full = callback
        if self._full:
            callback(True)

    @property
    def client_gone(self) -> bool:
        """Whether nothing that is sent arrives any more."""
        return self._side.closed

    def send(self, session_id: str, update: Update) -> None:
        """Send an update behind all that was sent before."""
        if not self._waiting and not self._side.writing_paused:
            if isinstance(update, TextChunk):
                self._write_chunk(session_id, update)
            else:
                self._write_one(session_id, update)
            return
        update = _model_of(update)
        text = self._waiting[-1].takes(session_id, update) if self._waiting else None
        if text is not None:
            self._waiting[-1].pieces.append(text)
            self._text += len(text)
        else:
            self._waiting.append(_Waiting(session_id, update))
        self._tell_if_full()
        if not self._draining:
            self._draining = True
            self._spawn(self._drain)

    def flush(self) -> None:
        """Write everything that waits, however slow the client: a prompt's answer follows it."""
        self._write(len(self._waiting))

    def _write(self, count: int) -> None:
        for _ in range(min(count, len(self._waiting))):
            waiting = self._waiting.popleft()
            self._text -= sum(map(len, waiting.pieces))
            self._write_one(waiting.session_id, waiting.joined())
        self._tell_if_full()

    def _write_one(self, session_id: str, update: SessionUpdate) -> None:
        """``SessionNotification`` around the update, which is encoded by itself."""
        before = self._prefixes.get(session_id)
        if before is None:
            before = b'{"sessionId":' + encode(session_id) + b',"update":'
            self._prefixes[session_id] = before
        self._side.session_update_encoded(EncodedJson(before + encode(update) + b"}"))

    def _write_chunk(self, session_id: str, chunk: TextChunk) -> None:
        """The same for a text chunk, whose model would only be taken apart again."""
        message = (session_id, chunk.message_id)
        if message != self._message:
            self._message = message
            self._chunk_prefix = (
                b'{"sessionId":' + encode(session_id)
                + b',"update":{"sessionUpdate":"agent_message_chunk","messageId":'
                + encode(chunk.message_id)
                + b',"content":{"type":"text","text":'
            )  # fmt: skip
        text = to_json(chunk.text)
        self._side.session_update_encoded(EncodedJson(self._chunk_prefix + text + b"}}}"))

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._side.drain()
                self._write(UPDATES_PER_WRITE)
        except TransportError:
            logger.debug("%d updates were not sent: the client is gone", len(self._waiting))
            self._waiting.clear()
            self._text = 0
            self._tell_if_full()
        finally:
            self._draining = False

    def _tell_if_full(self) -> None:
        full = len(self._waiting) > MAX_WAITING_UPDATES or self._text > MAX_WAITING_TEXT
        if full != self._full:
            self._full = full
            if self._on_full is not None:
                self._on_full(full)


def _model_of(update: Update) -> SessionUpdate:
    if isinstance(update, TextChunk):
        return message_chunk(update.text, update.message_id)
    return update
