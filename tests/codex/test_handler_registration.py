"""Registering handlers: one typed form per method, decorators, plain functions, tools."""

from __future__ import annotations

import ast
import inspect
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from codex_acp.codex import CodexClient
from codex_acp.codex._generated import handler_registration as answering
from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.codex.types import (
    CurrentTimeRead,
    CurrentTimeReadResponse,
    DynamicToolCallResponse,
    ItemToolCall,
)
from codex_acp.errors import MisuseError
from codex_acp.testing import AskClient, Entry, Expect, ExpectNotification, ScriptedAppServer
from tests.codex.server_request_samples import SAMPLES

CLOCK = "currentTime/read"


@asynccontextmanager
async def asked(client_of: list[CodexClient]) -> AsyncIterator[ScriptedAppServer]:
    """A server that asks for the time as soon as it was greeted."""
    script: list[Entry] = [
        Expect("initialize"),
        ExpectNotification("initialized"),
        AskClient(CLOCK, SAMPLES[CLOCK]),
    ]
    async with ScriptedAppServer(script) as server:
        client_of.append(CodexClient(server.link))
        yield server


async def answer(server: ScriptedAppServer, client: CodexClient) -> dict[str, object]:
    async with client:
        await server.wait_for(lambda: bool(server.player.answers))
    (only,) = server.player.answers
    return dict(only.message)


def test_every_server_request_has_its_typed_signatures() -> None:
    tree = ast.parse(inspect.getsource(answering))
    direct: list[object] = []
    decorators: list[object] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "handle":
            literals = [a.value for a in ast.walk(node.args) if isinstance(a, ast.Constant)]
            methods = [a for a in literals if a in SERVER_REQUESTS]
            if methods:
                (direct if len(node.args.args) == 3 else decorators).extend(methods)
                text = ast.unparse(node)
                result = SERVER_REQUESTS[str(methods[0])].result
                assert f"models.{result}" in text
    assert sorted(map(str, direct)) == sorted(map(str, decorators)) == sorted(SERVER_REQUESTS)


async def test_a_handler_for_one_method() -> None:
    clients: list[CodexClient] = []

    async def clock(_request: CurrentTimeRead) -> CurrentTimeReadResponse:
        return CurrentTimeReadResponse(current_time_at=5)

    async with asked(clients) as server:
        clients[0].handle("currentTime/read", clock)
        assert (await answer(server, clients[0]))["result"] == {"currentTimeAt": 5}


async def test_a_decorator_gives_the_function_back() -> None:
    clients: list[CodexClient] = []
    async with asked(clients) as server:

        @clients[0].handle("currentTime/read")
        async def clock(_request: CurrentTimeRead) -> CurrentTimeReadResponse:
            return CurrentTimeReadResponse(current_time_at=6)

        assert inspect.iscoroutinefunction(clock)
        assert (await answer(server, clients[0]))["result"] == {"currentTimeAt": 6}


async def test_a_plain_function_runs_in_a_thread_and_the_reader_goes_on() -> None:
    clients: list[CodexClient] = []
    main, called, release = threading.get_ident(), threading.Event(), threading.Event()
    where: list[int] = []

    def clock(_request: CurrentTimeRead) -> CurrentTimeReadResponse:
        where.append(threading.get_ident())
        called.set()
        release.wait(60)
        return CurrentTimeReadResponse(current_time_at=7)

    async with asked(clients) as server:
        clients[0].handle("currentTime/read", clock)
        async with clients[0] as client:
            with anyio.fail_after(60):
                await anyio.to_thread.run_sync(called.wait, 10)
                server.play(Expect("thread/list"))
                assert (await client.thread_list()).data == []  # while the handler blocks
                assert server.player.answers == []
                release.set()
                await server.wait_for(lambda: bool(server.player.answers))
    assert where
    assert main not in where


def test_a_method_that_does_not_exist_is_refused() -> None:
    client = CodexClient(ScriptedAppServer().link)
    with pytest.raises(MisuseError, match="no/such"):
        client.handle("no/such", lambda _request: None)  # type: ignore[call-overload] # that is the test


def test_tools_and_a_handler_for_their_calls_exclude_each_other() -> None:
    def look(x: int) -> int:
        """Look."""
        return x

    async def call(_request: ItemToolCall) -> DynamicToolCallResponse:
        return DynamicToolCallResponse(success=True, content_items=[])

    with_tools = CodexClient(ScriptedAppServer().link, tools=[look])
    with pytest.raises(MisuseError, match="tools are in use"):
        with_tools.handle("item/tool/call", call)
    with_handler = CodexClient(ScriptedAppServer().link)
    with_handler.handle("item/tool/call", call)
    with pytest.raises(MisuseError, match="item/tool/call"):
        with_handler.tool(look)
