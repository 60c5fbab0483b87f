"""A model on a loopback port that says what a script says, for the real Codex to talk to.

Owns the HTTP server, its threads, the gates and the record of what was received. What is
said is in ``model_script``, how it is written in ``sse``. Standard library only, threads
only: it is used alike from synchronous and asynchronous code and needs no event loop.

Source: ``POST /v1/responses`` of the OpenAI Responses API, streamed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from codex_acp.errors import MisuseError
from codex_acp.testing.model_http import StreamPart, encode_response
from codex_acp.testing.model_script import (
    Fail,
    ModelRequest,
    ModelResponse,
    ModelScript,
    ScriptLike,
    as_script,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from codex_acp.testing.model_http import ModelServer

WAIT_SECONDS = 30.0
"""Default bound of the waiting methods: a real Codex start on a busy machine takes seconds."""

GATE_SECONDS = 60.0
"""A gate that nobody opens fails its response after this time, so that no test hangs."""


class ScriptedModel:
    """The server. ``with ScriptedModel(script) as model:`` gives Codex ``model.base_url``.

    ``script`` is a :class:`~codex_acp.testing.ModelScript` or a list of responses, each a
    :class:`~codex_acp.testing.ModelResponse` or a list of steps::

        with ScriptedModel([[exec_command("ls")], [Text("Two ", "files.")]]) as model:
            ...

    All methods may be called from any thread. A request for which the script has nothing left
    is answered with HTTP 400, whose text
    Codex shows as the error of the turn, and is listed in :attr:`unanswered`.
    """

    def __init__(self, script: ScriptLike, *, gate_seconds: float = GATE_SECONDS) -> None:
        self.script: ModelScript = as_script(script)
        self._gate_seconds = gate_seconds
        self._streams: list[tuple[StreamPart, ...]] = []
        self._changed = threading.Condition()
        self._requests: list[ModelRequest] = []
        self._unanswered: list[ModelRequest] = []
        self._used: set[int] = set()
        self._open_gates: set[str] = set()
        self._held_gates: set[str] = set()
        self._closing = False
        self._server: ModelServer | None = None

    def __repr__(self) -> str:
        return f"ScriptedModel(requests={len(self._requests)}, responses={len(self._streams)})"

    def __enter__(self) -> Self:
        """Start to listen. Raises :class:`~codex_acp.errors.MisuseError` the second time."""
        from codex_acp.testing.model_http import ModelServer

        if self._server is not None or self._closing:
            raise MisuseError("a ScriptedModel can be started once; make a new one")
        self._streams = [
            () if _failure(response) else encode_response(response.steps)
            for response in self.script.responses
        ]
        self._server = ModelServer(self)
        self._server.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Stop to listen, cut what is still being streamed, and wait for the threads."""
        self.close()

    def close(self) -> None:
        """Stop the server; may be called again. Everything recorded stays readable."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop()

    @property
    def base_url(self) -> str:
        """The provider's ``base_url``, ending in ``/v1``."""
        if self._server is None:
            raise MisuseError("the ScriptedModel is not started; use it in a with statement")
        return f"http://127.0.0.1:{self._server.port}/v1"

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """Everything received so far, in order of arrival."""
        with self._changed:
            return tuple(self._requests)

    @property
    def unanswered(self) -> tuple[ModelRequest, ...]:
        """The requests for which the script had no response left."""
        with self._changed:
            return tuple(self._unanswered)

    @property
    def remaining(self) -> int:
        """How many responses of the script nobody has asked for yet."""
        with self._changed:
            return len(self.script.responses) - len(self._used)

    def open(self, name: str) -> None:
        """Let every stream that stands, or will stand, at the gate ``name`` go on."""
        with self._changed:
            self._open_gates.add(name)
            self._changed.notify_all()

    def wait_for_requests(
        self, count: int, timeout: float = WAIT_SECONDS
    ) -> tuple[ModelRequest, ...]:
        """Block until ``count`` requests have arrived, and return all of them.

        Raises TimeoutError after ``timeout`` seconds. From asynchronous code call it in a
        thread: ``await anyio.to_thread.run_sync(model.wait_for_requests, 2)``.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                message = f"{len(self._requests)} of {count} model requests after {timeout} s"
                raise TimeoutError(message)
            return tuple(self._requests)

    def wait_for_gate(self, name: str, timeout: float = WAIT_SECONDS) -> None:
        """Block until a stream has reached the gate ``name``; all before it has been sent.

        Raises TimeoutError after ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._held_gates, timeout):
                raise TimeoutError(f"no stream reached the gate {name!r} within {timeout} s")

    # What the HTTP side asks for: see `ModelAnswers`.

    def _take(
        self, body: Mapping[str, object], headers: Mapping[str, str]
    ) -> tuple[int, Fail | tuple[StreamPart, ...]]:
        """Record a request; give its number and what to answer it with."""
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
            return request.number, self._exhausted(request)
        failure = _failure(self.script.responses[index])
        return request.number, failure or self._streams[index]

    def _exhausted(self, request: ModelRequest) -> Fail:
        message = (
            f"the scripted model has no response left for request {request.number} "
            f"({len(self.script.responses)} in the script, {self.remaining} not used); "
            f"last user text: {request.last_user_text[:200]!r}"
        )
        # Status 400: of this one Codex shows the body, of 500 it only says "high demand".
        return Fail(400, message)

    def _pause(self, seconds: float) -> bool:
        """Wait; False if the server is closing."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closing, seconds)

    def _hold(self, name: str) -> bool:
        """Wait for the gate; False if it stayed shut too long or the server is closing."""
        with self._changed:
            self._held_gates.add(name)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._closing or name in self._open_gates, self._gate_seconds
            )
            return name in self._open_gates and not self._closing


def _failure(response: ModelResponse) -> Fail | None:
    first = response.steps[0] if response.steps else None
    return first if isinstance(first, Fail) else None
