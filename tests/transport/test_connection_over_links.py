"""The whole path: a connection over a child process whose own connection is over its stdio."""

from __future__ import annotations

import sys

import anyio
import pytest

from codex_acp.errors import ErrorReply, ProcessExited, TransportError
from codex_acp.jsonrpc import EncodedJson, Notification, Request
from codex_acp.transport.child import spawn
from codex_acp.transport.connection import Connection, Responder

WAIT = 60
"""Seconds; a bound for a busy machine, not an expectation."""

SERVER = """
import asyncio, os, sys
from codex_acp.jsonrpc import encode_json
from codex_acp.transport.connection import Connection
from codex_acp.transport.stdio import StdioLink, claim_stdout

class Server:
    def on_request(self, request, responder):
        if request.method == "exit":
            sys.stderr.write("asked to exit\\n")
            sys.stderr.flush()
            os._exit(7)
        if request.method == "fail":
            raise ValueError("as asked")
        print("stray output")
        responder.result(encode_json(request.params))
    def on_notification(self, notification):
        connection.notify("echo", encode_json(notification.params))
    def on_batch_end(self):
        pass
    def on_closed(self, error):
        closed.set()

async def main():
    global connection, closed
    closed = asyncio.Event()
    connection = Connection(StdioLink(0, claim_stdout()), name="client", version=True)
    connection.start(Server())
    await closed.wait()
    await connection.aclose()

asyncio.run(main())
"""


class Client:
    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self.news = anyio.Event()
        self.ends: list[TransportError | None] = []

    def on_request(self, request: Request, responder: Responder) -> None:
        raise AssertionError(request, responder)

    def on_request_again(self, request: Request) -> None:
        raise AssertionError(request)

    def on_notification(self, notification: Notification) -> None:
        self.notifications.append(notification)
        self.news.set()

    def on_batch_end(self) -> None:
        pass

    def on_closed(self, error: TransportError | None) -> None:
        self.ends.append(error)


def connected() -> tuple[Connection, Client]:
    child = spawn([sys.executable, "-c", SERVER], name="server")
    connection = Connection(child, name="server", version=False)
    client = Client()
    connection.start(client)
    return connection, client


async def test_calls_notifications_and_errors_cross_two_processes() -> None:
    connection, client = connected()
    with anyio.fail_after(WAIT):
        big = EncodedJson(b'{"text":"' + "ä".encode() * 500_000 + b'"}')
        assert await connection.call("echo", big) == {"text": "ä" * 500_000}
        with pytest.raises(ErrorReply, match="ValueError: as asked"):
            await connection.call("fail", None)
        connection.notify("n", EncodedJson(b"[1]"))
        await client.news.wait()
    assert client.notifications == [Notification("echo", [1])]
    await connection.aclose()
    assert client.ends == [None]


async def test_a_call_in_flight_fails_with_the_last_words_of_the_process() -> None:
    connection, client = connected()
    with anyio.fail_after(WAIT), pytest.raises(ProcessExited, match="asked to exit") as caught:
        await connection.call("exit", None)
    assert caught.value.returncode == 7
    assert client.ends == [caught.value]
    await connection.aclose()
