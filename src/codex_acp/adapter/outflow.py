"""The updates on their way to the client: in order, and bounded when the client is slow.

While the client keeps up, an update is written at once, but for pieces of one message that follow
each other in one read: they become one. When it lags, updates wait here: adjacent pieces become one
however they came, and of a tool call's updates a later one takes the place of an earlier one whose
fields it all sets. When even that is too much, reading from Codex pauses.
Owns no session and must not know what an update means.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from codex_acp.acp._generated.v1.models import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    TextContentBlock,
    ToolCallUpdateSessionUpdate,
)
from codex_acp.errors import TransportError
from codex_acp.jsonrpc.message import EncodedJson
from codex_acp.mapping.messages.message_chunks import message_chunk
from codex_acp.mapping.messages.reasoning import thought_chunk
from codex_acp.mapping.step import TextChunk, ThoughtChunk
from codex_acp.wire.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from codex_acp.acp._generated.v1.models import SessionUpdate
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.mapping.step import Update

__all__ = ["Outflow"]

logger = logging.getLogger(__name__)

MAX_WAITING_UPDATES: Final = 2_000
"""Updates that cannot be joined; each is a small object besides its text."""

MAX_WAITING_TEXT: Final = 2 * 1024 * 1024
"""Characters that may wait: more than any model says while a client hangs."""

UPDATES_PER_WRITE: Final = 64
"""How many waiting updates are handed over before the client is given a chance to lag again."""

_CHUNKS: Final = (TextChunk, ThoughtChunk)

_MESSAGE: Final = b"agent_message_chunk"
_THOUGHT: Final = b"agent_thought_chunk"


class _Waiting:
    """One update that waits, with the pieces of text that came behind it."""

    __slots__ = ("encoded", "pieces", "session_id", "update")

    def __init__(self, session_id: str, update: SessionUpdate) -> None:
        self.session_id = session_id
        self.update = update
        self.pieces: list[str] = []
        self.encoded = b"" if _is_chunk(update) else encode(update)
        """As it is sent; of a chunk, which may grow, nothing yet."""

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

    def is_replaced_by(self, update: ToolCallUpdateSessionUpdate) -> bool:
        """Whether nothing of this is left once ``update`` is applied: its fields are all set anew.

        ``_meta`` may add instead of replacing, so such an update stays.
        """
        mine = self.update
        if not isinstance(mine, ToolCallUpdateSessionUpdate) or mine.meta or update.meta:
            return False
        return mine.model_fields_set <= update.model_fields_set

    def joined(self) -> bytes:
        """The update with all of its text, as JSON."""
        update = self.update
        if self.encoded:
            return self.encoded
        if self.pieces and isinstance(
            update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate
        ):
            content = update.content
            first = content.text if isinstance(content, TextContentBlock) else ""
            joined = TextContentBlock(text="".join([first, *self.pieces]))
            update = update.model_copy(update={"content": joined})
        return encode(update)

    @property
    def size(self) -> int:
        """About the characters that it holds."""
        return len(self.encoded) + sum(map(len, self.pieces))


class Outflow:
    """All sessions' updates to one client. ``spawn`` runs the task that waits for a slow one."""

    def __init__(
        self,
        side: AgentSide,
        spawn: Callable[[Callable[[], Coroutine[None, None, None]]], object],
    ) -> None:
        self._side = side
        self._spawn = spawn
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._last: _Waiting | None = None
        self._number = 0
        self._calls: dict[tuple[str, str], int] = {}
        """Session and tool call → the number of its newest update, if that waits."""
        self._size = 0
        self._draining = False
        self._prefixes: dict[str, bytes] = {}
        self._message: tuple[str, str, type] | None = None
        self._chunk_prefix = b""
        self._pieces: list[str] = []
        """Text of that message which the connection asks for before it sends anything else."""
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
        if not self._waiting:
            if isinstance(update, _CHUNKS):
                message = (session_id, update.message_id, type(update))
                if self._pieces and message == self._message:
                    self._pieces.append(update.text)
                    return
                if not self._side.writing_paused:
                    self._begin_chunk(message, update.text)
                    return
            elif not self._side.writing_paused:
                self._write_one(session_id, encode(update))
                return
        update = _model_of(update)
        last = self._last
        text = None if last is None else last.takes(session_id, update)
        if last is not None and text is not None:
            last.pieces.append(text)
            self._size += len(text)
        else:
            self._wait(session_id, update)
        self._tell_if_full()
        if not self._draining:
            self._draining = True
            self._spawn(self._drain)

    def _wait(self, session_id: str, update: SessionUpdate) -> None:
        """Put an update at the end; of a tool call's states that nobody has seen, keep the last."""
        if isinstance(update, ToolCallUpdateSessionUpdate):
            call = (session_id, update.tool_call_id)
            older = self._calls.get(call)
            if older is not None and self._waiting[older].is_replaced_by(update):
                self._size -= self._waiting.pop(older).size
            self._calls[call] = self._number
        waiting = _Waiting(session_id, update)
        self._waiting[self._number] = self._last = waiting
        self._number += 1
        self._size += waiting.size

    def flush(self) -> None:
        """Write everything that waits, however slow the client: a prompt's answer follows it."""
        self._write(len(self._waiting))

    async def drained(self) -> None:
        """Wait until a client that lags has taken most of what was sent. Raises TransportError."""
        while self._waiting or self._side.writing_paused:
            await self._side.drain()
            self._write(UPDATES_PER_WRITE)

    def _write(self, count: int) -> None:
        for _ in range(min(count, len(self._waiting))):
            number, waiting = self._waiting.popitem(last=False)
            self._size -= waiting.size
            if isinstance(waiting.update, ToolCallUpdateSessionUpdate):
                call = (waiting.session_id, waiting.update.tool_call_id)
                if self._calls.get(call) == number:
                    del self._calls[call]
            self._write_one(waiting.session_id, waiting.joined())
        if not self._waiting:
            self._last = None
        self._tell_if_full()

    def _write_one(self, session_id: str, update: bytes) -> None:
        """``SessionNotification`` around the JSON of the update."""
        before = self._prefixes.get(session_id)
        if before is None:
            before = b'{"sessionId":' + encode(session_id) + b',"update":'
            self._prefixes[session_id] = before
        self._side.session_update_encoded(EncodedJson(before + update + b"}"))

    def _begin_chunk(self, message: tuple[str, str, type], text: str) -> None:
        """Hold the first piece of a chunk, which grows until something else is sent."""
        if message != self._message:
            self._write_pieces()
            self._message = session_id, message_id, kind = message
            self._chunk_prefix = (
                b'{"sessionId":' + encode(session_id)
                + b',"update":{"sessionUpdate":"' + (_MESSAGE if kind is TextChunk else _THOUGHT)
                + b'","messageId":' + encode(message_id)
                + b',"content":{"type":"text","text":'
            )  # fmt: skip
        self._pieces.append(text)
        self._side.hold(self._write_pieces)

    def _write_pieces(self) -> None:
        """The pieces as one chunk, without its model, which would only be taken apart again."""
        pieces, self._pieces = self._pieces, []
        if pieces:
            text = to_json("".join(pieces))
            self._side.session_update_encoded(EncodedJson(self._chunk_prefix + text + b"}}}"))

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._side.drain()
                self._write(UPDATES_PER_WRITE)
        except TransportError:
            logger.debug("%d updates were not sent: the client is gone", len(self._waiting))
            self._waiting.clear()
            self._calls.clear()
            self._last = None
            self._size = 0
            self._tell_if_full()
        finally:
            self._draining = False

    def _tell_if_full(self) -> None:
        full = len(self._waiting) > MAX_WAITING_UPDATES or self._size > MAX_WAITING_TEXT
        if full != self._full:
            self._full = full
            if self._on_full is not None:
                self._on_full(full)


def _model_of(update: Update) -> SessionUpdate:
    if isinstance(update, TextChunk):
        return message_chunk(update.text, update.message_id)
    if isinstance(update, ThoughtChunk):
        return thought_chunk(update.text, update.message_id)
    return update


def _is_chunk(update: SessionUpdate) -> bool:
    return isinstance(update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate)
