"""Run a model on a loopback port that sends the responses of a script to the real Codex.

Has the HTTP server, the gates, the received requests, and the format of the stream;
``model_script`` has the script. Uses only the standard library and threads, so that synchronous and
asynchronous tests can use the model.

Source: ``POST /v1/responses`` of the OpenAI Responses API, streamed.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, assert_never

from codex_acp.errors import MisuseError
from codex_acp.testing import model_script
from codex_acp.testing.model_script import Fail, ModelRequest, ModelScript, ScriptLike

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from codex_acp.testing.model_script import Step


WAIT_SECONDS = 30.0
"""Seconds that the waiting methods wait: on a busy machine, Codex needs seconds to start."""

GATE_SECONDS = 60.0
"""Seconds after which a gate that stays closed fails its response, so that no test hangs."""


class ScriptedModel:
    """A running model. ``with ScriptedModel(script) as model:``, and give Codex ``model.base_url``.

    ``script`` is a :class:`~codex_acp.testing.ModelScript` or a list of responses, each a
    :class:`~codex_acp.testing.ModelResponse` or a list of steps::

        with ScriptedModel([[exec_command("ls")], [Text("Two ", "files.")]]) as model:
            ...

    Call the methods from any thread. A request without a response in the script gets HTTP 400, and
    is listed in :attr:`unanswered`. Codex shows the text of the 400 as the error of the turn.
    """

    def __init__(self, script: ScriptLike, *, gate_seconds: float = GATE_SECONDS) -> None:
        self.script: ModelScript = model_script.as_script(script)
        self._gate_seconds = gate_seconds
        self._encoded: list[Fail | tuple[StreamPart, ...]] = []
        """The script's responses, encoded, in the order of the script."""
        self._changed = threading.Condition()
        """Lock of all attributes, notified of each change."""
        self._requests: list[ModelRequest] = []
        self._unanswered: list[ModelRequest] = []
        self._used: set[int] = set()
        """Indexes of the used responses."""
        self._open_gates: set[str] = set()
        self._reached_gates: set[str] = set()
        self._closing = False
        self._server: ModelServer | None = None

    def __repr__(self) -> str:
        return f"ScriptedModel(requests={len(self._requests)}, responses={len(self._encoded)})"

    def __enter__(self) -> Self:
        """Start the server. Raises :class:`~codex_acp.errors.MisuseError` the second time."""
        if self._server is not None or self._closing:
            raise MisuseError("a ScriptedModel can be started once; make a new one")
        for response in self.script.responses:
            steps = response.steps
            first = steps[0] if steps else None
            self._encoded.append(first if isinstance(first, Fail) else encode_response(steps))
        self._server = ModelServer(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        """Stop the server, cut running responses, and wait for the threads."""
        self.close()

    def close(self) -> None:
        """Stop the server; the requests stay readable. May be called again."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop()

    @property
    def base_url(self) -> str:
        """The provider's ``base_url``, which ends with ``/v1``."""
        if self._server is None:
            raise MisuseError("the ScriptedModel is not started; use it in a with statement")
        return f"http://127.0.0.1:{self._server.port}/v1"

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """All requests so far, in the order of arrival."""
        with self._changed:
            return tuple(self._requests)

    @property
    def unanswered(self) -> tuple[ModelRequest, ...]:
        """The requests for which the script had no response left."""
        with self._changed:
            return tuple(self._unanswered)

    @property
    def remaining(self) -> int:
        """Number of the script's responses that were not used yet."""
        with self._changed:
            return len(self.script.responses) - len(self._used)

    def open(self, name: str) -> None:
        """Open the gate ``name`` for all streams, also for later streams."""
        with self._changed:
            self._open_gates.add(name)
            self._changed.notify_all()

    def wait_for_requests(
        self, count: int, timeout: float = WAIT_SECONDS
    ) -> tuple[ModelRequest, ...]:
        """Block until ``count`` requests have arrived; return all requests.

        Raises TimeoutError after ``timeout`` seconds. In asynchronous code, call this in a thread:
        ``await anyio.to_thread.run_sync(model.wait_for_requests, 2)``.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                message = f"{len(self._requests)} of {count} model requests after {timeout} s"
                raise TimeoutError(message)
            return tuple(self._requests)

    def wait_for_gate(self, name: str, timeout: float = WAIT_SECONDS) -> None:
        """Block until a stream has reached the gate ``name``, and sent all steps before the gate.

        Raises TimeoutError after ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._reached_gates, timeout):
                raise TimeoutError(f"no stream reached the gate {name!r} within {timeout} s")

    # Called by the threads of the HTTP connections.

    def _choose_response(
        self, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> tuple[int, Fail | tuple[StreamPart, ...]]:
        """Record a request; return its number and its encoded response."""
        with self._changed:
            request = ModelRequest(len(self._requests), body, headers)
            index = self.script.choose(request, self._used)
            self._requests.append(request)
            if index is None:
                self._unanswered.append(request)
            else:
                self._used.add(index)
            self._changed.notify_all()
        if index is None:
            message = (
                f"the scripted model has no response left for request {request.number} "
                f"({len(self.script.responses)} in the script, {self.remaining} not used); "
                f"last user text: {request.last_user_text[:200]!r}"
            )
            # Codex shows the body of 400, but only "high demand" for 500.
            return request.number, Fail(400, message)
        return request.number, self._encoded[index]

    def _wait(self, seconds: float) -> bool:
        """Wait ``seconds`` and return True; return False at once if the server is closing."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closing, seconds)

    def _wait_until_open(self, name: str) -> bool:
        """Wait for a gate; return False if it stays closed too long, or the server is closing."""
        with self._changed:
            self._reached_gates.add(name)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._closing or name in self._open_gates, self._gate_seconds
            )
            return name in self._open_gates and not self._closing


StreamPart: TypeAlias = bytes | model_script.Delay | model_script.Gate | model_script.Disconnect
"""Bytes of one write, or a step between two writes."""
_NUMBER = secrets.token_hex(8)
"""Placeholder of the request's number; random, so that no scripted text contains it."""


def encode_event(event: Mapping[str, object]) -> bytes:
    """Encode a server-sent event; its name is the ``type`` of ``event``."""
    data = json.dumps(event, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode()


def encode_response(steps: Sequence[Step]) -> tuple[StreamPart, ...]:
    """Encode steps other than ``Fail``; adjacent events become one write."""
    parts: list[StreamPart] = []
    for is_data, group in groupby(_response_parts(steps), lambda part: isinstance(part, bytes)):
        if is_data:
            parts.append(b"".join(part for part in group if isinstance(part, bytes)))
        else:
            parts.extend(group)
    return tuple(parts)


def with_number(data: bytes, number: int) -> bytes:
    """Put the number of a request into the ids of its encoded response."""
    return data.replace(_NUMBER.encode(), str(number).encode())


def _response_parts(steps: Sequence[Step]) -> Iterator[StreamPart]:
    yield encode_event({"type": "response.created", "response": {"id": f"resp_{_NUMBER}"}})
    usage = model_script.Usage()
    for index, step in enumerate(steps):
        match step:
            case model_script.Text():
                yield from _text_events(step, f"msg_{_NUMBER}_{index}")
            case model_script.Reasoning():
                yield from _reasoning_events(step, f"rs_{_NUMBER}_{index}")
            case model_script.ToolCall():
                yield _item_event("done", _tool_call_item(step, f"call_{_NUMBER}_{index}"))
            case model_script.CustomToolCall():
                call_id = step.call_id or f"call_{_NUMBER}_{index}"
                call = {"call_id": call_id, "name": step.name, "input": step.input}
                yield _item_event("done", {"type": "custom_tool_call", **call})
            case model_script.Usage():
                usage = step
            case model_script.Delay() | model_script.Gate():
                yield step
            case model_script.Disconnect():
                yield step
                return
            case model_script.Incomplete():
                details = {"incomplete_details": {"reason": step.reason}}
                yield _end_event("incomplete", details, usage)
                return
            case model_script.Failed():
                error = {"error": {"code": step.code, "message": step.message}}
                yield _end_event("failed", error, usage)
                return
            case Fail():
                raise AssertionError("Fail is an HTTP answer, not a stream")
            case _:
                assert_never(step)
    yield _end_event("completed", {}, usage)


def _item_event(stage: str, item: Mapping[str, object]) -> bytes:
    return encode_event({"type": f"response.output_item.{stage}", "item": item})


def _deltas(kind: str, fields: str, deltas: Sequence[str], pause: float) -> Iterator[StreamPart]:
    """Yield the delta events; ``fields`` are members of JSON that all events have."""
    head = f'event: {kind}\ndata: {{"type":"{kind}",{fields},"delta":'
    for position, delta in enumerate(deltas):
        if pause > 0 and position > 0:
            yield model_script.Delay(pause)
        yield f"{head}{json.dumps(delta)}}}\n\n".encode()


def _text_events(step: model_script.Text, item_id: str) -> Iterator[StreamPart]:
    item: dict[str, object] = {"type": "message", "role": "assistant", "id": item_id}
    yield _item_event("added", {**item, "content": []})
    shared = f'"item_id":"{item_id}","output_index":0,"content_index":0'
    yield from _deltas("response.output_text.delta", shared, step.deltas, step.pause)
    text = "".join(step.deltas)
    yield _item_event("done", {**item, "content": [{"type": "output_text", "text": text}]})


def _reasoning_events(step: model_script.Reasoning, item_id: str) -> Iterator[StreamPart]:
    item: dict[str, object] = {"type": "reasoning", "id": item_id}
    yield _item_event("added", {**item, "summary": []})
    yield encode_event(
        {
            "type": "response.reasoning_summary_part.added",
            "item_id": item_id,
            "summary_index": 0,
            "part": {"type": "summary_text", "text": ""},
        }
    )
    shared = f'"item_id":"{item_id}","output_index":0,"summary_index":0'
    yield from _deltas("response.reasoning_summary_text.delta", shared, step.deltas, step.pause)
    text = "".join(step.deltas)
    yield _item_event("done", {**item, "summary": [{"type": "summary_text", "text": text}]})


def _tool_call_item(step: model_script.ToolCall, default_id: str) -> dict[str, object]:
    call: dict[str, object] = {
        "type": "function_call",
        "call_id": step.call_id or default_id,
        "name": step.name,
        "arguments": json.dumps(step.arguments),
    }
    if step.namespace is not None:
        call["namespace"] = step.namespace
    return call


def _end_event(status: str, extra: Mapping[str, object], usage: model_script.Usage) -> bytes:
    counts = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    response = {"id": f"resp_{_NUMBER}", "status": status, "usage": counts, **extra}
    return encode_event({"type": f"response.{status}", "response": response})


IDLE_SECONDS = 30.0
"""Seconds after which a connection without a request is closed."""
JOIN_SECONDS = 5.0
"""Seconds for the server's threads to end after `ModelServer.stop`."""


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
        number, answer = self.server.model._choose_response(body, headers)
        # Codex may end, or interrupt the turn, while the answer is written.
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
        model = self.server.model
        for part in parts:
            match part:
                case bytes():
                    self.wfile.write(with_number(part, number))
                case model_script.Delay():
                    if not model._wait(part.seconds):
                        return
                case model_script.Gate():
                    if not model._wait_until_open(part.name):  # fail the turn with the gate's name
                        reason = f"nobody opened the gate {part.name!r} of the script"
                        for end in encode_response([model_script.Failed("scripted_gate", reason)]):
                            if isinstance(end, bytes):
                                self.wfile.write(with_number(end, number))
                        return
                case model_script.Disconnect():
                    return
                case _:
                    assert_never(part)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - overridden
        """Log nothing: the requests are recorded, and standard error belongs to the test."""


class ModelServer(ThreadingHTTPServer):
    """Serves ``model`` at a free port of 127.0.0.1, in threads, until :meth:`stop`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # connections that wait to be accepted

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)  # 0: any free port
        self.model = model
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
        self._thread.start()

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Handle one connection, and note its socket and thread for :meth:`stop`."""
        assert isinstance(request, socket.socket)
        with self._lock:
            self._connections[request] = threading.current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._connections[request]

    def handle_error(self, request: object, client_address: object) -> None:
        """Show an error, unless the client has closed the connection."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Accept no more connections, shut down all that are open, and wait for the threads."""
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
