"""The HTTP side of the scripted model: one thread a connection, one request a connection.

Owns sockets and threads; what to say a `ModelAnswers` knows. Private to this package.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Protocol, assert_never

from codex_acp.testing.model_steps import Delay, Disconnect, Fail, Failed, Gate
from codex_acp.testing.sse import StreamPart, encode_response, personalise

if TYPE_CHECKING:
    from collections.abc import Mapping


IDLE_SECONDS = 30.0
"""A client that connects and then sends nothing is dropped after this time."""

JOIN_SECONDS = 5.0
"""How long the end waits for the handler threads; their sockets are shut by then."""


class ModelAnswers(Protocol):
    """Answers for the server, which calls this from the threads of its connections."""

    def _take(
        self, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> tuple[int, Fail | tuple[StreamPart, ...]]:
        """Record a request; give its number and what to answer it with."""

    def _pause(self, seconds: float) -> bool:
        """Wait; False if the server is closing."""

    def _hold(self, name: str) -> bool:
        """Wait for the gate; False if it stayed shut too long or the server is closing."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS
    server: ModelServer

    def do_POST(self) -> None:
        self.close_connection = True
        length = self.headers.get("content-length", "")
        raw = self.rfile.read(int(length)) if length.isdigit() else b""
        if not self.path.endswith("/responses"):
            self._answer(Fail(404, f"the scripted model has no {self.path}"))
            return
        try:
            body = json.loads(raw)
        except ValueError as error:
            self._answer(Fail(400, f"the request is not JSON: {error}"))
            return
        if not isinstance(body, dict):
            self._answer(Fail(400, "the request is not a JSON object"))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, answer = self.server.answers._take(body, headers)
        # Codex may be killed, or may interrupt the turn, while its answer is written.
        with contextlib.suppress(ConnectionError, TimeoutError):
            if isinstance(answer, Fail):
                self._answer(answer)
            else:
                self._stream(number, answer)

    def do_GET(self) -> None:
        self.close_connection = True
        self._answer(Fail(404, f"the scripted model has no {self.path}"))

    def _answer(self, fail: Fail) -> None:
        is_text = isinstance(fail.body, str)
        body = fail.body.encode() if isinstance(fail.body, str) else json.dumps(fail.body).encode()
        self.send_response(fail.status)
        for name, value in fail.headers.items():
            self.send_header(name, value)
        if "content-type" not in {name.lower() for name in fail.headers}:
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, number: int, parts: tuple[StreamPart, ...]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        answers = self.server.answers
        for part in parts:
            match part:
                case bytes():
                    self.wfile.write(personalise(part, number))
                case Delay():
                    if not answers._pause(part.seconds):
                        return
                case Gate():
                    if not answers._hold(part.name):
                        self._gate_stayed_shut(part, number)
                        return
                case Disconnect():
                    return
                case _:
                    assert_never(part)

    def _gate_stayed_shut(self, gate: Gate, number: int) -> None:
        """End the stream visibly: the turn fails with the gate's name."""
        failed = Failed("scripted_gate", f"nobody opened the gate {gate.name!r} of the script")
        for part in encode_response([failed]):
            if isinstance(part, bytes):
                self.wfile.write(personalise(part, number))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - overridden
        """Say nothing: the requests are recorded and standard error belongs to the test."""


class ModelServer(ThreadingHTTPServer):
    """Listens on an ephemeral port of 127.0.0.1 from :meth:`start` to :meth:`stop`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, answers: ModelAnswers) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.port: int = int(self.server_address[1])
        self._thread = threading.Thread(
            target=self.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="scripted-model",
            daemon=True,
        )
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._stopped = False

    def start(self) -> None:
        """Begin to accept connections, in a thread of its own."""
        self._thread.start()

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Handle one connection, known by its socket and thread so that :meth:`stop` finds it."""
        assert isinstance(request, socket.socket)
        with self._lock:
            self._connections[request] = threading.current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._connections[request]

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is the client's affair; anything else is shown."""
        import sys

        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Stop to accept, shut every connection, and wait for the threads, within a bound."""
        if self._stopped:
            return
        self._stopped = True
        self.shutdown()
        self._thread.join(JOIN_SECONDS)
        self.server_close()
        with self._lock:
            connections = dict(self._connections)
        deadline = time.monotonic() + JOIN_SECONDS
        for connection, thread in connections.items():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(max(0.0, deadline - time.monotonic()))
