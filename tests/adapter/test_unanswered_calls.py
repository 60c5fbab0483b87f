"""A Codex that is stopped, or leaves one call unanswered: each request of the client ends."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

import anyio
import pytest

from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.answer_bound import AnswerTimes
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.errors import RpcError
from codex_acp.testing import CodexHome, Expect, ModelResponse, ScriptedModel, Text
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer
from tests.adapter.config_bench import LISTS, ConfigBench, taken
from tests.adapter.memory_bench import THREAD, WAIT, MemoryBench
from tests.support.processes import processes_of

pytestmark = pytest.mark.attack("app-server")

SOON = AnswerTimes(reply=0.5, presence=0.5, silent=0.1)

WHERE: dict[str, Any] = {"cwd": "/scripted/workspace", "mcpServers": []}


async def refused(bench: MemoryBench, request_id: str) -> str:
    answer = await bench.client.reply(request_id)
    return str(answer["error"]["message"])


@pytest.mark.parametrize(
    ("method", "call", "params"),
    [
        ("session/list", "thread/list", {}),
        ("session/delete", "thread/delete", {"sessionId": "stored"}),
        ("session/new", "config/read", WHERE),
    ],
)
async def test_4_3_a_call_that_codex_leaves_unanswered_fails_its_request(
    method: str, call: str, params: dict[str, Any]
) -> None:
    silent = Expect(call, silent=True)
    async with MemoryBench(answer_times=SOON) as bench:
        bench.server.play(silent)
        bench.client.send({"id": "r", "method": method, "params": params})
        assert f"Codex has not answered {call}" in await refused(bench, "r")
        assert "result" in await bench.client.ask("l", "session/list", {})


async def test_4_3_an_option_that_codex_never_takes_holds_up_no_other() -> None:
    script = *LISTS, Expect("thread/settings/update", silent=True), *taken(effort="high")
    async with ConfigBench(*script, answer_times=SOON) as bench:
        await bench.open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                fails, bench.set("reasoning_effort", "low"), "has not answered thread/settings/u"
            )
            await bench.server.wait_for_message("thread/settings/update")
            assert (await bench.set("reasoning_effort", "high"))["reasoning_effort"][
                "currentValue"
            ] == "high"


async def test_4_3_an_option_that_waits_behind_another_ends_with_its_session() -> None:
    script = *LISTS, Expect("thread/settings/update", silent=True)
    async with ConfigBench(*script, answer_times=SOON) as bench:
        await bench.open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                fails, bench.set("reasoning_effort", "low"), "has not answered thread/settings/u"
            )
            await bench.server.wait_for_message("thread/settings/update")
            tasks.start_soon(
                fails, bench.set("reasoning_effort", "high"), "is not open; session/list names"
            )
            await anyio.lowlevel.checkpoint()
            bench.config.forget(THREAD)
        assert len(bench.asked("thread/settings/update")) == 1


async def fails(request: Awaitable[object], text: str) -> None:
    with pytest.raises(RpcError, match=text):
        await request


async def test_a_call_that_takes_long_is_waited_for_while_codex_is_there() -> None:
    async with MemoryBench(answer_times=AnswerTimes(0.5, WAIT, 0.5)) as bench:
        bench.server.play(Expect("thread/start", silent=True))
        bench.client.send({"id": "n", "method": "session/new", "params": WHERE})
        asked = await bench.server.wait_for_message("thread/loaded/list")
        assert asked["params"] == {}
        await bench.asked_codex("thread/loaded/list", 3)
        assert not [m for m in bench.client.messages if m.get("id") == "n"]


# The real Codex, stopped.


class Stopped(NamedTuple):
    """A client whose Codex is stopped, and a session that is open and one that is stored."""

    client: RawPeer
    where: dict[str, Any]
    session: str
    stored: str
    go_on: Callable[[], None]


@asynccontextmanager
async def stopped() -> AsyncIterator[Stopped]:
    script = [ModelResponse(Text("Done."), repeat=True)]
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        launch = LaunchOptions(env={**os.environ, **home.env})
        link, far = memory_pair()
        app_server = AppServer(launch, answer_times=AnswerTimes(3.0, 1.0, 0.2))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_link, link, app_server)
            client = RawPeer(far)
            await client.ask("i", "initialize", {"protocolVersion": 1})
            where = {"cwd": str(home.workspace), "mcpServers": []}
            stored, session = [
                (await client.ask(each, "session/new", where))["result"]["sessionId"]
                for each in ("stored", "open")
            ]
            words = [{"type": "text", "text": "hello"}]
            await client.ask("p", "session/prompt", {"sessionId": stored, "prompt": words})
            await client.ask("c", "session/close", {"sessionId": stored})
            (codex,) = processes_of("app-server", f"CODEX_HOME={home.env['CODEX_HOME']}")
            os.kill(codex, signal.SIGSTOP)
            try:
                yield Stopped(
                    client, where, session, stored, lambda: os.kill(codex, signal.SIGCONT)
                )
            finally:
                os.kill(codex, signal.SIGCONT)
            await far.aclose()


async def works_again(
    client: RawPeer, request_id: str, method: str, params: dict[str, Any]
) -> None:
    """Ask until Codex answers in time: on a busy machine it may need longer than 0.2 s at first."""
    with anyio.fail_after(WAIT):
        for number in count():
            answer = await client.ask(f"{request_id} again {number}", method, params)
            if "result" in answer:
                return
            assert "Codex has not answered" in answer["error"]["message"], answer


@pytest.mark.e2e
async def test_4_3_each_request_ends_while_codex_is_stopped_and_works_when_it_goes_on() -> None:
    async with stopped() as it:
        stored, opened = {"sessionId": it.stored, **it.where}, {"sessionId": it.session}
        requests: dict[str, tuple[str, dict[str, Any]]] = {
            "new": ("session/new", it.where),
            "list": ("session/list", {}),
            "load": ("session/load", stored),
            "resume": ("session/resume", {"sessionId": it.session, **it.where}),
            "fork": ("session/fork", stored),
            "option": (
                "session/set_config_option",
                opened | {"configId": "mode", "value": "read-only"},
            ),
            "title": ("session/set_title", {"sessionId": it.stored, "title": "One"}),
        }
        for request_id, (method, params) in requests.items():
            it.client.send({"id": request_id, "method": method, "params": params})
        for request_id in requests:
            answer = await it.client.reply(request_id)
            assert "Codex has not answered" in answer["error"]["message"], answer
        closed = await it.client.ask("close", "session/close", opened)
        assert "result" in closed
        it.go_on()
        for request_id, (method, params) in requests.items():
            if params.get("sessionId") != it.session:
                await works_again(it.client, request_id, method, params)
