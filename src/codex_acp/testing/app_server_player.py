"""The player of an app-server script: one step for each message of the client.

Owns the position in the script, the ids of server requests and the record of the client's
answers. Sans-IO; see ``app_server_script`` for the rules it plays by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never, cast

from codex_acp._json import object_at
from codex_acp.errors import MisuseError
from codex_acp.testing.app_server_script import (
    AppServerScript,
    AppServerScriptLike,
    AskClient,
    AwaitAnswer,
    CloseOutput,
    Entry,
    Exit,
    Expect,
    ExpectNotification,
    JsonObject,
    Notify,
    Pause,
    RawLine,
    RequestId,
    Silence,
    StderrText,
    as_app_server_script,
    default_news,
    default_result,
    turn_object,
)

_REFERENCE = re.compile(r"\$\{([^:{}]+):([^{}]*)\}")


class Seen:
    """The newest value of each name, and the values that refer to them."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def put(self, name: str, value: object) -> None:
        """Remember ``value`` as the newest of ``name``."""
        self._values[name] = value

    def filled(self, value: object) -> object:
        """``value`` with every reference replaced.

        Raises :class:`~codex_acp.errors.MisuseError` for a reference to what was not seen.
        """
        if isinstance(value, str):
            whole = _REFERENCE.fullmatch(value)
            if whole:
                return self._look_up(whole[1], whole[2])
            return _REFERENCE.sub(lambda m: str(self._look_up(m[1], m[2])), value)
        if isinstance(value, Mapping):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.filled(inner) for inner in value]
        return value

    def filled_object(self, value: Mapping[str, object]) -> dict[str, object]:
        """:meth:`filled` of an object, which stays an object."""
        return cast("dict[str, object]", self.filled(value))

    def _look_up(self, name: str, path: str) -> object:
        try:
            value = self._values[name]
            for step in path.split(".") if path else ():
                if isinstance(value, list):
                    value = value[int(step)]
                else:
                    value = cast("Mapping[str, object]", value)[step]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"the script refers to ${{{name}:{path}}}, which was not seen"
            raise MisuseError(message) from error
        return value


METHOD_NOT_FOUND = -32601
"""JSON-RPC 2.0, section 5.1; what a request gets that the script does not know."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write one message."""

    message: JsonObject


Output: TypeAlias = Send | RawLine | StderrText | Pause | CloseOutput | Exit
"""Steps of the shell, in order."""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """An answer of the client to a server request, as it came.

    ``id`` keeps its JSON type. ``name`` is that of the server request, None if no request that
    is open has this id: it was never sent, or it was answered before.
    """

    id: object
    message: JsonObject
    name: str | None

    @property
    def result(self) -> object:
        """The result, or None if it is an error."""
        return self.message.get("result")


class AppServerPlayer:
    """Plays a script. Call :meth:`start` once, then :meth:`feed` with each message.

    A shell does all outputs of one call before it feeds the next message.
    """

    def __init__(self, script: AppServerScriptLike) -> None:
        self.script: AppServerScript = as_app_server_script(script)
        self.received: list[JsonObject] = []
        """Every message of the client, in order."""
        self.answers: list[ClientAnswer] = []
        """Every answer of the client, in order, also wrong and repeated ones."""
        self.unexpected: list[JsonObject] = []
        """The requests that no entry expected and that had no default answer."""
        self._entries = list(self.script.entries)
        self._position = 0
        self._waiting: list[JsonObject] = []
        self._open: dict[tuple[type, object], str] = {}
        self._answered: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._next_id = 0
        self._turns = 0
        self._silent = False
        self._seen = Seen()

    def __repr__(self) -> str:
        return f"AppServerPlayer(received={len(self.received)}, remaining={len(self.remaining)})"

    @property
    def finished(self) -> bool:
        """Whether every entry has been played."""
        return self._position >= len(self._entries)

    @property
    def remaining(self) -> tuple[Entry, ...]:
        """The entries not played yet; the first is the one that waits."""
        return tuple(self._entries[self._position :])

    def start(self) -> list[Output]:
        """Return the output before the client's first message."""
        return self._advance()

    def feed(self, message: JsonObject) -> list[Output]:
        """Take one message of the client; return what it makes the server do."""
        self.received.append(message)
        method = message.get("method")
        if not isinstance(method, str):
            self._take_answer(message)
            return [] if self._silent else self._advance()
        self._seen.put(method, object_at(message, "params"))
        if self._silent:
            return []
        if not self._is_scripted(method, is_request="id" in message):
            return self._unscripted(message, method)
        self._waiting.append(message)
        return self._advance()

    def extend(self, *entries: Entry) -> list[Output]:
        """Add entries to the end of the script; return what is played of them at once."""
        self._entries.extend(entries)
        return self._advance()

    def newest(self, method: str) -> JsonObject | None:
        """The client's newest message of this method, if there is one."""
        found = (message for message in reversed(self.received) if message.get("method") == method)
        return next(found, None)

    def answers_to(self, request_id: RequestId) -> list[ClientAnswer]:
        """The answers that carry exactly this id; ``0`` and ``"0"`` are told apart."""
        key = (type(request_id), request_id)
        return [answer for answer in self.answers if (type(answer.id), answer.id) == key]

    # The client's side.

    def _take_answer(self, message: JsonObject) -> None:
        request_id = message.get("id")
        hashable = request_id if isinstance(request_id, (str, int, float)) else None
        name = self._open.pop((type(request_id), hashable), None)
        self.answers.append(ClientAnswer(request_id, message, name))
        if name is not None:
            self._answered[name] = self._answered.get(name, 0) + 1
            self._seen.put(name, message)

    def _is_scripted(self, method: str, *, is_request: bool) -> bool:
        """Whether the present entry or a later one is for one more message of this method."""
        if is_request:
            places = sum(
                isinstance(entry, Expect) and entry.expect == method for entry in self.remaining
            )
        else:
            places = sum(
                isinstance(entry, ExpectNotification) and entry.expect_notification == method
                for entry in self.remaining
            )
        taken = sum(_is_of(message, method, is_request=is_request) for message in self._waiting)
        return places > taken

    def _unscripted(self, message: JsonObject, method: str) -> list[Output]:
        if "id" not in message:
            return []
        if self.script.defaults or method == "initialize":
            result = self._default(method, message)
            if result is not None:
                told = [Send(news) for news in default_news(method, object_at(message, "params"))]
                return [Send({"id": message["id"], "result": result}), *told]
        self.unexpected.append(message)
        text = f"the script of this app-server does not expect {method}"
        return [Send({"id": message["id"], "error": {"code": METHOD_NOT_FOUND, "message": text}})]

    def _default(self, method: str, request: JsonObject) -> dict[str, object] | None:
        params = object_at(request, "params")
        if method == "turn/start":
            self._turns += 1
            self._remember_turn(turn_object(f"turn-{self._turns}"), params)
        return default_result(method, params, f"turn-{max(self._turns, 1)}")

    # The script's side.

    def _advance(self) -> list[Output]:
        outputs: list[Output] = []
        while not self.finished and not self._silent:
            done = self._play(self._entries[self._position])
            if done is None:
                break
            self._position += 1
            outputs.extend(done)
        return outputs

    def _play(self, entry: Entry) -> list[Output] | None:
        """The outputs of one entry, or None if it has to wait."""
        match entry:
            case Expect():
                request = self._next_waiting(entry.expect, is_request=True)
                return None if request is None else self._answer(entry, request)
            case ExpectNotification():
                found = self._next_waiting(entry.expect_notification, is_request=False)
                return None if found is None else []
            case AwaitAnswer():
                asked = self._asked.get(entry.name, 0)
                return [] if 0 < asked <= self._answered.get(entry.name, 0) else None
            case Notify():
                message = self._message(entry.notify, entry.params)
                return [Send(message)] * entry.times
            case AskClient():
                return [self._ask(entry)]
            case Silence():
                self._silent = True
                return []
            case RawLine() | StderrText() | Pause() | CloseOutput() | Exit():
                return [entry]
            case _:
                assert_never(entry)

    def _next_waiting(self, method: str, *, is_request: bool) -> JsonObject | None:
        for index, message in enumerate(self._waiting):
            if _is_of(message, method, is_request=is_request):
                return self._waiting.pop(index)
        return None

    def _answer(self, entry: Expect, request: JsonObject) -> list[Output]:
        # Again: of two requests that waited, the newest must be the one that is played.
        self._seen.put(entry.expect, object_at(request, "params"))
        if entry.silent:
            return []
        if entry.error is not None:
            error = self._seen.filled_object(entry.error)
            return [Send({"id": request["id"], "error": error})]
        if entry.result is None:
            result = self._default(entry.expect, request) or {}
        else:
            result = self._seen.filled_object(entry.result)
            if entry.expect == "turn/start":
                self._remember_turn(result.get("turn"), object_at(request, "params"))
        return [Send({"id": request["id"], "result": result})]

    def _remember_turn(self, turn: object, params: JsonObject) -> None:
        """The turn that later entries speak of as ``${turn:...}``."""
        if isinstance(turn, dict):
            self._seen.put("turn", {**turn, "threadId": params.get("threadId")})

    def _ask(self, entry: AskClient) -> Send:
        request_id = entry.id
        if request_id is None:
            request_id = self._next_id
        if isinstance(request_id, int):
            self._next_id = max(self._next_id, request_id + 1)
        name = entry.name or entry.request
        key = (type(request_id), request_id)
        # A request that is sent again with its id, as after thread/resume, is still one.
        if key not in self._open:
            self._asked[name] = self._asked.get(name, 0) + 1
        self._open[key] = name
        return Send({**self._message(entry.request, entry.params), "id": request_id})

    def _message(self, method: str, params: JsonObject | None) -> dict[str, object]:
        message: dict[str, object] = {"method": method}
        if params is not None:
            message["params"] = self._seen.filled_object(params)
        return message


def _is_of(message: JsonObject, method: str, *, is_request: bool) -> bool:
    return message.get("method") == method and ("id" in message) == is_request
