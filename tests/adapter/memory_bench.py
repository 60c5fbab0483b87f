"""The adapter in memory, between a raw ACP client and a scripted app-server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast

import anyio
import pytest

from codex_acp.adapter.load_ahead import LoadAhead
from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.adapter.session import driver
from codex_acp.codex.connection.answer_bound import ANSWER_TIMES, AnswerTimes
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.testing import AppServerScript, Entry, Notify, RawLine, ScriptedAppServer
from codex_acp.testing.app_server_script import turn_object
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer

THREAD = "thread-1"
"""The thread, and session, of every bench."""

WAIT = 60.0
"""Seconds; in memory everything comes within milliseconds."""


def turn_note(method: str, turn_id: str, status: str = "inProgress") -> Notify:
    """``turn/started`` or ``turn/completed`` of a turn that the script names itself."""
    return Notify(method, {"threadId": THREAD, "turn": turn_object(turn_id, status)})


def hurry(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Let timers of the sessions that are opened from now on run for other ``seconds``."""
    monkeypatch.setattr(driver, "TIMINGS", driver.TIMINGS._replace(**seconds))


class MemoryBench:
    """``async with MemoryBench(*entries) as bench:`` has a session open, ``THREAD``."""

    def __init__(
        self,
        *script: Entry,
        capabilities: dict[str, Any] | None = None,
        ahead: LoadAhead | None = None,
        version: int = 1,
        answer_times: AnswerTimes = ANSWER_TIMES,
    ) -> None:
        self._version = version
        self._answer_times = answer_times
        self._ahead = ahead
        self.server = ScriptedAppServer(AppServerScript(*script, defaults=True))
        self._capabilities = capabilities or {}
        self._link, far = memory_pair()
        self._far = far
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        """Start everything and open the session."""
        await self.server.__aenter__()
        await self._tasks.__aenter__()
        self.client = RawPeer(self._far)
        link = cast("ChildProcess", self.server.link)
        app_server = AppServer(LaunchOptions(), link, answer_times=self._answer_times)
        self._tasks.start_soon(partial(serve_link, self._link, app_server, ahead=self._ahead))
        introduction = {"protocolVersion": 1, "clientCapabilities": self._capabilities}
        in_v2 = {
            "protocolVersion": 2,
            "info": {"name": "bench", "version": "1"},
            "capabilities": self._capabilities,
        }
        await self.client.ask("init", "initialize", in_v2 if self._version == 2 else introduction)
        params = {"cwd": "/scripted/workspace", "mcpServers": []}
        answer = await self.client.ask("new", "session/new", params)
        assert answer["result"]["sessionId"] == THREAD
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        """The client disconnects; the adapter has to end."""
        await self._far.aclose()
        scope = self._tasks.cancel_scope
        scope.deadline = anyio.current_time() + WAIT
        if kind is not None:
            scope.cancel()
        await self._tasks.__aexit__(kind, *rest)
        await self.server.__aexit__(kind, *rest)
        assert not scope.cancelled_caught, "the adapter does not end when its client has gone"

    def start_prompt(self, request_id: str = "p1", text: str = "hi") -> None:
        """Send ``session/prompt``."""
        prompt = [{"type": "text", "text": text}]
        params = {"sessionId": THREAD, "prompt": prompt}
        self.client.send({"id": request_id, "method": "session/prompt", "params": params})

    async def end_of(self, request_id: str = "p1") -> Any:
        """The stop reason of a prompt, or the error object; in v2 of the session that is idle."""
        answer = await self.client.reply(request_id)
        if "error" in answer:
            return answer["error"]
        if self._version == 1:
            return answer["result"]["stopReason"]
        await self.client.until(lambda: any(u.get("state") == "idle" for u in self.updates))
        idle = next(each for each in reversed(self.updates) if each.get("state") == "idle")
        return idle.get("error") or idle["stopReason"]

    async def prompt(self, request_id: str = "p1") -> Any:
        """Run a prompt; see `end_of`."""
        self.start_prompt(request_id)
        return await self.end_of(request_id)

    def cancel(self) -> None:
        """Send ``session/cancel``."""
        self.client.send({"method": "session/cancel", "params": {"sessionId": THREAD}})

    @property
    def updates(self) -> list[Any]:
        """All updates so far."""
        told = (m for m in self.client.messages if m.get("method") == "session/update")
        return [message["params"]["update"] for message in told]

    def said(self) -> str:
        """The text of all chunks so far."""
        chunks = ("agent_message_chunk", "agent_thought_chunk")
        return "".join(u["content"]["text"] for u in self.updates if u["sessionUpdate"] in chunks)

    async def until_said(self, text: str) -> None:
        """Wait until the adapter has said ``text``."""
        await self.client.until(lambda: text in self.said())

    def updates_behind(self, request_id: str) -> list[Any]:
        """The updates of turns that came behind the answer to a prompt; there must be none."""
        messages = self.client.messages
        answer = next(i for i, m in enumerate(messages) if m.get("id") == request_id)
        behind = (m for m in messages[answer:] if m.get("method") == "session/update")
        updates = [message["params"]["update"] for message in behind]
        kinds = ("agent_message_chunk", "tool_call", "tool_call_update")
        return [update for update in updates if update["sessionUpdate"] in kinds]

    async def asked_codex(self, method: str, times: int = 1) -> list[Any]:
        """Wait until Codex was asked so often; gives the params of each."""

        def found() -> list[Any]:
            received = self.server.player.received
            return [message["params"] for message in received if message.get("method") == method]

        await self.server.wait_for(lambda: len(found()) >= times)
        return found()

    async def answer_turn_start(
        self, turn_id: str, *before: Entry, then: Sequence[Entry] = ()
    ) -> None:
        """Answer the ``turn/start`` that the script left open, in one read with what is around."""
        request = await self.server.wait_for_message("turn/start")
        answer = {"id": request["id"], "result": {"turn": turn_object(turn_id)}}
        self.server.play(*before, RawLine(json.dumps(answer)), *then)
