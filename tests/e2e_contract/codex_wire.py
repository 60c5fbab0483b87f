"""What travels between the adapter and Codex, seen from between the two.

Owns the record and what must hold of it. Standard library and `Link` only: it knows nothing of
what the library makes of the lines.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import anyio

from codex_acp.errors import TransportError
from codex_acp.transport.link import Link, Receiver

Message = dict[str, Any]

WAIT = 40.0
"""Seconds; on a busy machine a turn takes a few."""


class Travelled(NamedTuple):
    """One message, and who sent it."""

    by: Literal["codex", "adapter"]
    message: Message


class CodexWire:
    """The messages of one connection to the app-server, in order."""

    def __init__(self) -> None:
        self.messages: list[Travelled] = []
        self._news = asyncio.Event()

    def add(self, by: Literal["codex", "adapter"], line: bytes) -> None:
        """Take one line; what is no object is none of our business."""
        message = json.loads(line)
        if isinstance(message, dict):
            self.messages.append(Travelled(by, message))
            self._news.set()
            self._news = asyncio.Event()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``; looked at again after each message."""
        with anyio.fail_after(WAIT):
            while not holds():
                await self._news.wait()

    def asked(self, method: str | None = None, thread: str | None = None) -> list[Message]:
        """The server requests, in order; of one method, of one thread."""
        return [
            message
            for by, message in self.messages
            if by == "codex"
            and "method" in message
            and "id" in message
            and (method is None or message["method"] == method)
            and (thread is None or message["params"].get("threadId") == thread)
        ]

    def heard(self, method: str, thread: str) -> list[Message]:
        """The params of the notifications of one method that name ``thread``."""
        return [
            message["params"]
            for by, message in self.messages
            if by == "codex"
            and message.get("method") == method
            and "id" not in message
            and message["params"].get("threadId") == thread
        ]

    def replies(self, request: Message) -> list[Message]:
        """What was sent with this very id: ``0`` and ``"0"`` are two."""
        return [
            message
            for by, message in self.messages
            if by == "adapter"
            and "method" not in message
            and _same_id(message.get("id"), request["id"])
        ]

    def result(self, request: Message) -> Any:
        """The result of the one reply."""
        (reply,) = self.replies(request)
        return reply["result"]

    def check(self) -> None:
        """Contract 1.4: each server request has exactly one reply, and no reply is without one."""
        asked = Counter(_key(message["id"]) for message in self.asked())
        replied = Counter(
            _key(message["id"])
            for by, message in self.messages
            if by == "adapter" and "method" not in message
        )
        methods = {_key(message["id"]): message["method"] for message in self.asked()}
        wrong = {
            f"{key} {methods.get(key)}": replied[key]
            for key in asked.keys() | replied.keys()
            if replied[key] != (1 if key in asked else 0)
        }
        assert not wrong, f"replies to server requests of Codex, by id and method: {wrong}"


def _same_id(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _key(request_id: object) -> str:
    return json.dumps(request_id)


class TapLink:
    """A link that records what passes."""

    _END: Final = b"\n"

    def __init__(self, link: Link, wire: CodexWire) -> None:
        self._link = link
        self._wire = wire
        self._rest: dict[Literal["codex", "adapter"], bytes] = {"codex": b"", "adapter": b""}
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        """See `Link.start`."""
        self._receiver = receiver
        self._link.start(self)

    def write(self, data: bytes) -> None:
        """See `Link.write`."""
        self._record("adapter", data)
        self._link.write(data)

    def pause_reading(self) -> None:
        """See `Link.pause_reading`."""
        self._link.pause_reading()

    def resume_reading(self) -> None:
        """See `Link.resume_reading`."""
        self._link.resume_reading()

    async def aclose(self) -> None:
        """See `Link.aclose`."""
        await self._link.aclose()

    # What the link calls.

    def data_received(self, data: bytes) -> None:
        """See `Receiver.data_received`."""
        self._record("codex", data)
        assert self._receiver is not None
        self._receiver.data_received(data)

    def link_closed(self, error: TransportError | None) -> None:
        """See `Receiver.link_closed`."""
        assert self._receiver is not None
        self._receiver.link_closed(error)

    def pause_writing(self) -> None:
        """See `Receiver.pause_writing`."""
        assert self._receiver is not None
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        """See `Receiver.resume_writing`."""
        assert self._receiver is not None
        self._receiver.resume_writing()

    def _record(self, by: Literal["codex", "adapter"], data: bytes) -> None:
        *lines, self._rest[by] = (self._rest[by] + data).split(self._END)
        for line in lines:
            self._wire.add(by, line)
