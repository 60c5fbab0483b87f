"""The whole adapter in memory between a client of plain JSON and whatever stands for Codex.

What is recorded from the real binary and what is played offline goes through the same adapter, and
the tap that is on every adapter of these tests watches both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, Self, cast

import anyio

from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.link import Link, memory_pair
from tests.acp.raw_peer import RawPeer
from tests.sent_to_clients.conversation import Json
from tests.support.adapter_tap import AdapterTap

WAIT = 60.0
"""Seconds; offline all comes within milliseconds, a real turn takes a few on a busy machine."""


class _Client(RawPeer):
    """A peer whose lines the tap sees."""

    def __init__(self, *arguments: Any) -> None:
        self.tap = AdapterTap()
        self._line = self.tap.on("agent")
        super().__init__(*arguments)

    def send(self, *messages: Json) -> None:
        for message in messages:
            line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
            self._line("received", line)
        super().send(*messages)

    def data_received(self, data: bytes) -> None:
        known = len(self.messages)
        super().data_received(data)
        for message in self.messages[known:]:
            self._line("sent", json.dumps(message).encode() + b"\n")

    async def news(self) -> None:
        """Wait for the next message."""
        await self._news.wait()


class Stage:
    """``async with Stage(link, capabilities) as stage:`` has an adapter that is initialized.

    ``messages`` are all that the adapter has sent.
    """

    def __init__(self, codex: Link, capabilities: Json, version: int = 1) -> None:
        self._codex = codex
        self._capabilities = capabilities
        self.version = version
        self._tasks = anyio.create_task_group()
        self._ids = 0
        self._answered: set[object] = set()

    async def __aenter__(self) -> Self:
        """Start the adapter, which owns ``codex`` from now on."""
        link, self._far = memory_pair()
        await self._tasks.__aenter__()
        self._client = _Client(self._far)
        app_server = AppServer(LaunchOptions(), cast("ChildProcess", self._codex))
        self._tasks.start_soon(serve_link, link, app_server)
        params: Json = {"protocolVersion": 1, "clientCapabilities": self._capabilities}
        if self.version == 2:
            known = {k: v for k, v in self._capabilities.items() if k == "elicitation"}
            info = {"name": "stage", "version": "1"}
            params = {"protocolVersion": 2, "info": info, "capabilities": known}
        await self.ask("initialize", params)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        """The client disconnects, and the adapter ends; then what the tap has found."""
        await self._far.aclose()
        self._tasks.cancel_scope.deadline = anyio.current_time() + WAIT
        await self._tasks.__aexit__(kind, *rest)
        if kind is None:
            self._client.tap.check()

    @property
    def messages(self) -> list[Json]:
        """What the adapter has sent so far, in order."""
        return self._client.messages

    def start(self, method: str, params: object) -> int:
        """Send a request; its id."""
        self._ids += 1
        self._client.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    async def reply(self, request_id: int) -> Json:
        """Wait for the answer to a request."""
        await self.until(lambda: bool(self._client.replies(request_id)))
        return self._client.replies(request_id)[0]

    async def ask(self, method: str, params: object) -> Json:
        """Send a request and wait for its result."""
        answer = await self.reply(self.start(method, params))
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``; asked again after each message of the adapter."""
        with anyio.fail_after(WAIT):
            while not holds():
                await self._client.news()

    async def new_session(self, cwd: Path) -> str:
        """A session of which everything is told that is told at once."""
        params = {"cwd": str(cwd), "mcpServers": []}
        answer = await self.ask("session/new", params)
        session: str = answer["sessionId"]
        if "availableCommands" not in answer:
            await self.until(lambda: bool(self.updates("available_commands_update")))
        return session

    async def load(self, session: str, cwd: Path) -> list[Json]:
        """The updates that tell the history of a session."""
        params = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
        if self.version == 1:
            await self.ask("session/load", params)
        else:
            await self.ask("session/resume", {**params, "replayFrom": {"type": "start"}})
        return self.updates()

    def updates(self, kind: str | None = None) -> list[Json]:
        """The updates so far; of one kind."""
        found = [told_in(m["params"]) for m in self.messages if m.get("method") == _UPDATE]
        return [update for update in found if kind in (None, update["sessionUpdate"])]

    def act(self, session: str, action: Json) -> int | None:
        """What a client does, as a step of a conversation has it; the id of a prompt."""
        match action:
            case {"prompt": text}:
                prompt = [{"type": "text", "text": text}]
                return self.start("session/prompt", {"sessionId": session, "prompt": prompt})
            case {"cancel": True}:
                self._client.send({"method": "session/cancel", "params": {"sessionId": session}})
            case {"title": title}:
                params = {"sessionId": session, "title": title}
                return self.start("session/set_title", params)
            case {"answer": answer}:
                asked = self.open_requests()[-1]
                self._client.send({"id": asked["id"], "result": _result(asked, answer)})
                self._answered.add(asked["id"])
            case _:
                raise AssertionError(action)
        return None

    def open_requests(self) -> list[Json]:
        """What the agent asks, and neither has an answer to nor has withdrawn."""
        withdrawn = {
            message["params"]["requestId"]
            for message in self.messages
            if message.get("method") == "$/cancel_request"
        }
        done = {None, *withdrawn, *self._answered}
        return [m for m in self.messages if "method" in m and m.get("id") not in done]


_UPDATE: Literal["session/update"] = "session/update"

MAIN: Final = "thread-1"
"""The session of every conversation; others are of its sub-agents."""


def told_in(params: Json) -> Json:
    """The update; one of a sub-agent's session names that."""
    session, update = params["sessionId"], params["update"]
    return update if session == MAIN else {"in": session, **update}


def _result(asked: Json, answer: str | Json) -> Json:
    """The result for a kind of option, or as it is given."""
    if not isinstance(answer, str):
        return answer
    if answer == "cancelled":
        return {"outcome": {"outcome": "cancelled"}}
    options = asked["params"]["options"]
    chosen = next(option["optionId"] for option in options if option["kind"] == answer)
    return {"outcome": {"outcome": "selected", "optionId": chosen}}
