"""Requests that are open when the client or the server ends: answered if they can be (1.4)."""

from __future__ import annotations

import asyncio
import logging

import anyio
import pytest

from codex_acp.codex.client import CodexClient
from codex_acp.codex.connection import server_requests as requests_module
from codex_acp.codex.types import CommandExecutionRequestApprovalResponse
from codex_acp.testing import AskClient, ScriptedAppServer
from tests.codex.codex_bench import HELLO
from tests.codex.server_request_samples import COMMAND, SAMPLES


@pytest.mark.parametrize("swallows", [False, True])
async def test_closing_the_client_answers_what_is_open_once_and_ends_the_handler(
    swallows: bool,
) -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def waits(_request: object) -> CommandExecutionRequestApprovalResponse:
        started.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            if not swallows:
                raise
        finally:
            ended.set()
        return CommandExecutionRequestApprovalResponse(decision="accept")

    async with ScriptedAppServer([*HELLO, AskClient(COMMAND, SAMPLES[COMMAND])]) as server:
        client = CodexClient(server.link)
        client.handle({COMMAND: waits})
        async with client:
            with anyio.fail_after(60):
                await started.wait()
        assert ended.is_set()
        await server.wait_for(lambda: bool(server.player.answers))
        assert [a.result for a in server.player.answers] == [{"decision": "decline"}]


async def test_a_handler_that_cannot_be_cancelled_does_not_hold_up_the_close(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests_module, "END_OF_HANDLERS_SECONDS", 0.05)
    started, release, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def stubborn(_request: object) -> CommandExecutionRequestApprovalResponse:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return CommandExecutionRequestApprovalResponse(decision="accept")

    async with ScriptedAppServer([*HELLO, AskClient(COMMAND, SAMPLES[COMMAND])]) as server:
        client = CodexClient(server.link)
        client.handle({COMMAND: stubborn})
        with anyio.fail_after(60):
            async with client:
                await started.wait()
            assert "does not end" in caplog.text
            release.set()
            await ended.wait()


async def test_a_handler_may_close_the_client() -> None:
    closed = anyio.Event()

    async with ScriptedAppServer([*HELLO, AskClient(COMMAND, SAMPLES[COMMAND])]) as server:
        client = CodexClient(server.link)

        async def closes(_request: object) -> CommandExecutionRequestApprovalResponse:
            await client.aclose()
            closed.set()
            return CommandExecutionRequestApprovalResponse(decision="accept")

        client.handle({COMMAND: closes})
        async with client:
            with anyio.fail_after(60):
                await closed.wait()
        await server.wait_for(lambda: bool(server.player.answers))
        assert [a.result for a in server.player.answers] == [{"decision": "decline"}]


async def test_the_end_of_the_server_ends_the_handlers_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def waits(_request: object) -> CommandExecutionRequestApprovalResponse:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError("not reached")

    async with ScriptedAppServer([*HELLO, AskClient(COMMAND, SAMPLES[COMMAND])]) as server:
        client = CodexClient(server.link)
        client.handle({COMMAND: waits})
        async with client:
            with anyio.fail_after(60):
                await started.wait()
                server.link.peer.end_writing()
                await ended.wait()
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
