"""Stands for Codex when a conversation is played: says what the player gives it, answers calls.

The answers are those that were recorded, else those of every scripted app-server.
"""

from __future__ import annotations

import json
from collections import deque

from codex_acp.errors import TransportError
from codex_acp.testing.app_server_script import default_result
from codex_acp.transport.link import MemoryLink, memory_pair
from tests.sent_to_clients.conversation import Json


class PlayedCodex:
    """``link`` is the adapter's end. ``received`` is all that the adapter has sent."""

    def __init__(self) -> None:
        self.link: MemoryLink
        self.link, self._end = memory_pair()
        self.received: list[Json] = []
        self._results: dict[str, deque[Json]] = {}
        self._turns = 0
        self._rest = b""
        self._end.start(self)

    def say(self, message: Json) -> None:
        """Send one message."""
        self._end.write(json.dumps(message).encode() + b"\n")

    def will_answer(self, method: str, result: Json) -> None:
        """The next call of ``method`` that is not answered yet gets ``result``."""
        self._results.setdefault(method, deque()).append(result)

    async def aclose(self) -> None:
        """Close this end."""
        await self._end.aclose()

    def _answer(self, method: str, params: Json) -> Json:
        recorded = self._results.get(method)
        if recorded:
            return {"result": recorded.popleft()}
        if method == "turn/start":
            self._turns += 1
        result = default_result(method, params, f"turn-{max(self._turns, 1)}")
        if result is not None:
            return {"result": result}
        return {"error": {"code": -32601, "message": f"{method} is not in this conversation"}}

    # What the link calls.

    def data_received(self, data: bytes) -> None:
        """See `Receiver.data_received`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for message in map(json.loads, lines):
            self.received.append(message)
            if "method" in message and "id" in message:
                self.say(
                    {"id": message["id"], **self._answer(message["method"], message["params"])}
                )

    def link_closed(self, error: TransportError | None) -> None:
        """See `Receiver.link_closed`."""

    def pause_writing(self) -> None:
        """See `Receiver.pause_writing`."""

    def resume_writing(self) -> None:
        """See `Receiver.resume_writing`."""
