"""Clients over streamable HTTP for measuring: next to nothing between the socket and the time."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
import time
from contextlib import closing
from typing import Any, Protocol
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived

Message = dict[str, Any]


class _Requests(Protocol):
    """One version of HTTP."""

    def post(self, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        """The headers and the body of the response."""

    def listen(self, headers: dict[str, str], take: Any) -> None:
        """Give each event of a stream to ``take``."""

    def close(self) -> None:
        """Close the sockets of a server that has ended."""


class HttpClient:
    """What the benchmark calls a client; ``requests`` carries it."""

    def __init__(self, requests: _Requests) -> None:
        self._requests = requests
        self._came: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._headers = {"content-type": "application/json"}
        self._sessions: set[str] = set()

    def send(self, message: Message) -> None:
        """Post a message; open the stream that its answer comes on."""
        headers, session = dict(self._headers), message["params"].get("sessionId")
        if session is not None:
            self._listen(session)
            headers["acp-session-id"] = session
        answered, body = self._requests.post(headers, json.dumps(message).encode())
        if body:
            self._came.put(json.loads(body))
            self._headers["acp-connection-id"] = answered["acp-connection-id"]
            self._listen(None)

    def receive(self) -> Message:
        """The next message, with the time of its arrival."""
        return self._came.get()

    def close(self) -> None:
        """Once the server has ended, which ends the streams."""
        self._requests.close()

    def _listen(self, session: str | None) -> None:
        key = session or ""
        if key in self._sessions:
            return
        self._sessions.add(key)
        headers = {**self._headers, "accept": "text/event-stream"}
        if session is not None:
            headers["acp-session-id"] = session
        self._requests.listen(headers, self._take)

    def _take(self, line: bytes) -> None:
        if line.startswith(b"data: "):
            at = time.monotonic_ns()
            self._came.put({**json.loads(line[6:]), "at": at})


class Http1:
    """HTTP/1.1: a TCP connection a stream, and one for what is posted."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._where, self._path = parts.netloc, parts.path
        self._posting = http.client.HTTPConnection(self._where)
        self._reading: list[threading.Thread] = []

    def post(self, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        """See `_Requests`."""
        self._posting.request("POST", self._path, body, headers)
        got = self._posting.getresponse()
        return {name.lower(): value for name, value in got.getheaders()}, got.read()

    def listen(self, headers: dict[str, str], take: Any) -> None:
        """See `_Requests`."""
        connection = http.client.HTTPConnection(self._where)
        connection.request("GET", self._path, headers=headers)
        got = connection.getresponse()

        def read() -> None:
            with closing(connection), got:
                while line := got.readline():
                    take(line)

        self._reading.append(threading.Thread(target=read, daemon=True))
        self._reading[-1].start()

    def close(self) -> None:
        """See `_Requests`."""
        self._posting.close()
        for thread in self._reading:
            thread.join()


class Http2:
    """HTTP/2: all on one TCP connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._authority, self._path = parts.netloc, parts.path
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._frames = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._takes: dict[int, Any] = {}
        self._answers: dict[int, queue.SimpleQueue[Any]] = {}
        self._frames.initiate_connection()
        self._flush()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def post(self, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        """See `_Requests`."""
        with self._lock:
            stream = self._begin("POST", headers, ends=False)
            answer = self._answers[stream] = queue.SimpleQueue()
            for start in range(0, len(body), 16_384):
                self._frames.send_data(stream, body[start : start + 16_384])
            self._frames.end_stream(stream)
            self._flush()
        found: dict[str, str] = answer.get()
        return found, answer.get() if found[":status"] == "200" else b""

    def listen(self, headers: dict[str, str], take: Any) -> None:
        """See `_Requests`."""
        with self._lock:
            stream = self._begin("GET", headers, ends=True)
            opened = self._answers[stream] = queue.SimpleQueue()
            self._takes[stream] = take
            self._flush()
        opened.get()

    def close(self) -> None:
        """See `_Requests`."""
        self._reading.join()
        self._socket.close()

    def _begin(self, method: str, headers: dict[str, str], *, ends: bool) -> int:
        stream = self._frames.get_next_available_stream_id()
        pseudo = {
            ":method": method,
            ":path": self._path,
            ":scheme": "http",
            ":authority": self._authority,
        }
        self._frames.send_headers(stream, [*pseudo.items(), *headers.items()], end_stream=ends)
        return stream

    def _flush(self) -> None:
        self._socket.sendall(self._frames.data_to_send())

    def _read(self) -> None:
        while data := self._received():
            with self._lock:
                events = self._frames.receive_data(data)
                for event in events:
                    if isinstance(event, DataReceived) and event.flow_controlled_length:
                        self._frames.acknowledge_received_data(
                            event.flow_controlled_length, event.stream_id
                        )
                self._flush()
            for event in events:
                if isinstance(event, ResponseReceived):
                    self._answers[event.stream_id].put(dict(event.headers))
                elif isinstance(event, DataReceived) and event.stream_id in self._takes:
                    for line in event.data.splitlines():  # an event is one frame here
                        self._takes[event.stream_id](line)
                elif isinstance(event, DataReceived):
                    self._answers[event.stream_id].put(event.data)

    def _received(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except ConnectionError:  # the server has ended
            return b""
