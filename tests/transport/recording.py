"""A handler that records, and a peer that speaks byte by byte: for tests of connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine

from codex_acp.errors import TransportError
from codex_acp.jsonrpc import EncodedJson, JsonValue, Notification, Request
from codex_acp.transport.connection import Connection, Responder
from codex_acp.transport.link import MemoryLink, memory_pair

NULL = EncodedJson(b"null")


class Recorder:
    """A handler that notes what it is told; `answer` decides what a request gets."""

    def __init__(self, answer: Callable[[Request, Responder], object] | None = None) -> None:
        self.answer = answer
        self.events: list[object] = []
        self.responders: list[Responder] = []

    def on_request(self, request: Request, responder: Responder) -> None:
        self.events.append(request)
        self.responders.append(responder)
        if self.answer is not None:
            self.answer(request, responder)

    def on_request_again(self, request: Request) -> None:
        self.events.append(("again", request))

    def on_notification(self, notification: Notification) -> None:
        self.events.append(notification)
        if notification.method == "raise":
            msg = "not handled"
            raise ValueError(msg)

    def on_batch_end(self) -> None:
        self.events.append("end")

    def on_closed(self, error: TransportError | None) -> None:
        self.events.append(("closed", error))

    @property
    def messages(self) -> list[object]:
        return [event for event in self.events if event != "end"]


class RawPeer:
    """The other end, byte by byte."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self.chunks: list[bytes] = []
        self.closed: list[TransportError | None] = []
        link.start(self)

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)

    def link_closed(self, error: TransportError | None) -> None:
        self.closed.append(error)

    def pause_writing(self) -> None:
        raise AssertionError

    def resume_writing(self) -> None:
        raise AssertionError

    def send(self, *values: JsonValue) -> None:
        self.link.write(b"".join(json.dumps(value).encode() + b"\n" for value in values))

    @property
    def received(self) -> list[JsonValue]:
        return [json.loads(line) for line in b"".join(self.chunks).splitlines()]


async def settle() -> None:
    """Let all that is scheduled happen; memory links need only a few iterations."""
    for _ in range(10):
        await asyncio.sleep(0)


def joined(
    handler: Recorder, *, cancel_method: str | None = None, peer_resends: bool = False
) -> tuple[Connection, RawPeer]:
    ours, theirs = memory_pair()
    connection = Connection(
        ours,
        name="peer",
        version=False,
        line_limit=1000,
        cancel_method=cancel_method,
        peer_resends=peer_resends,
    )
    connection.start(handler)
    return connection, RawPeer(theirs)


def started(coroutine: Coroutine[object, object, JsonValue]) -> asyncio.Task[JsonValue]:
    return asyncio.get_running_loop().create_task(coroutine)


def error_of(answer: JsonValue) -> tuple[JsonValue, JsonValue, str]:
    assert isinstance(answer, dict)
    error = answer["error"]
    assert isinstance(error, dict)
    return answer["id"], error["code"], str(error["message"])
