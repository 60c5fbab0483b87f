"""Incoming server requests: one answer each, whatever the handler does (contract 1.3 to 1.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest
from pydantic_core import from_json

from codex_acp.codex._generated.methods import MODELS, SERVER_REQUESTS
from codex_acp.codex._generated.server_requests import RequestHandlers
from codex_acp.codex._generated.version import SCHEMA_VERSION
from codex_acp.codex.approvals.refusals import has_negative_form, refusal
from codex_acp.codex.client import CodexClient
from codex_acp.codex.connection import server_requests as requests_module
from codex_acp.codex.connection.server_requests import RefusedRequest
from codex_acp.codex.types import (
    ClientInfo,
    CommandExecutionRequestApprovalResponse,
    CurrentTimeRead,
    CurrentTimeReadResponse,
    ItemCommandExecutionRequestApproval,
    ServerRequest,
)
from codex_acp.errors import InvalidPayload, MisuseError, RpcError
from codex_acp.testing import (
    AskClient,
    AwaitAnswer,
    Entry,
    Expect,
    ScriptedAppServer,
)
from codex_acp.wire.codec import encode
from codex_acp.wire.registry import MAX_VALUES
from tests.codex.codex_bench import HELLO
from tests.codex.server_request_samples import COMMAND, SAMPLES

Handlers = dict[str, Callable[[Any], Awaitable[Any]]]


async def answer_to(
    method: str,
    params: dict[str, Any] | None,
    handlers: Handlers | None = None,
    *,
    request_id: int | str = 0,
    refused: list[RefusedRequest] | None = None,
) -> dict[str, Any]:
    """The one answer that a client with these handlers gives to this request."""
    script: list[Entry] = [*HELLO, AskClient(method, params, id=request_id), AwaitAnswer(method)]
    async with ScriptedAppServer(script) as server:
        on_refused = None if refused is None else refused.append
        client = CodexClient(server.link, on_refused=on_refused)
        client.handle(cast("RequestHandlers", handlers or {}))
        async with client:
            await server.wait_finished()
        (answer,) = server.player.answers
        assert (type(answer.id), answer.id) == (type(request_id), request_id)
        return {key: value for key, value in answer.message.items() if key != "id"}


@pytest.mark.parametrize("method", sorted(SAMPLES))
async def test_without_a_handler_the_refusal_is_sent_at_once_with_one_warning(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[RefusedRequest] = []
    answer = await answer_to(method, SAMPLES[method], refused=refused)
    (told,) = refused
    assert (told.id, told.method, told.params) == (0, method, SAMPLES[method])
    expected = refusal(method, SAMPLES[method], told.reason)
    if isinstance(expected, RpcError):
        assert answer == {"error": {"code": -32601, "message": told.reason}}
    else:
        assert answer == {"result": from_json(encode(expected))}
    assert ("`policy=`" in told.reason) == method.endswith("Approval")
    (warning,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert method in warning.getMessage()
    assert "id 0" in warning.getMessage()


@pytest.mark.parametrize("request_id", [0, "0", 7, "a-b"])
async def test_the_answer_has_the_id_of_the_request_with_its_type(request_id: int | str) -> None:
    answer = await answer_to(COMMAND, SAMPLES[COMMAND], request_id=request_id)
    assert answer == {"result": {"decision": "decline"}}


async def test_an_unknown_method_is_refused_with_one_warning_that_names_the_versions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = await answer_to("item/brandNew/ask", {"x": 1})
    assert answer["error"]["code"] == -32601
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "item/brandNew/ask" in warning
    assert f"Codex {SCHEMA_VERSION}" in warning
    assert "scripted/0.163.0" in warning


def _takes_anything(method: str) -> bool:
    """Return whether nothing is required of its params, so that no object fails to fit."""
    params = SERVER_REQUESTS[method].params
    try:
        return params is None or bool(MODELS.decode(params, {}, params))
    except InvalidPayload:
        return False


@pytest.mark.parametrize("method", sorted(m for m in SAMPLES if not _takes_anything(m)))
@pytest.mark.parametrize("params", [{}, None, {"threadId": 7, "reason": 7}])
async def test_params_that_do_not_fit_are_refused_and_no_handler_sees_them(
    method: str, params: dict[str, Any] | None
) -> None:
    async def never(_request: object) -> object:
        raise AssertionError("it must not be called")

    refused: list[RefusedRequest] = []
    answer = await answer_to(method, params, {method: never}, refused=refused)
    (told,) = refused
    assert "does not fit its schema" in told.reason
    if has_negative_form(method):
        expected = refusal(method, None, told.reason)
        assert not isinstance(expected, RpcError)
        assert answer == {"result": from_json(encode(expected))}
    else:
        assert answer["error"]["code"] == -32602


async def test_a_handler_gets_the_typed_request_and_its_model_is_the_result() -> None:
    seen: list[ItemCommandExecutionRequestApproval] = []

    async def accept(
        request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        seen.append(request)
        return CommandExecutionRequestApprovalResponse(decision="accept")

    refused: list[RefusedRequest] = []
    answer = await answer_to(
        COMMAND, SAMPLES[COMMAND], {COMMAND: accept}, request_id="0", refused=refused
    )
    assert answer == {"result": {"decision": "accept"}}
    assert (seen[0].id, seen[0].params.command, seen[0].params.item_id) == ("0", "ls", "i")
    assert refused == []


async def test_a_handler_that_raises_an_rpc_error_answers_with_it() -> None:
    async def fails(_request: object) -> object:
        raise RpcError(-32042, "not today", {"when": "tomorrow"})

    answer = await answer_to(COMMAND, SAMPLES[COMMAND], {COMMAND: fails})
    assert answer == {
        "error": {"code": -32042, "message": "not today", "data": {"when": "tomorrow"}}
    }


async def test_error_data_that_is_not_json_is_left_out() -> None:
    async def fails(_request: object) -> object:
        raise RpcError(-32042, "not today", object())

    answer = await answer_to(COMMAND, SAMPLES[COMMAND], {COMMAND: fails})
    assert answer == {"error": {"code": -32042, "message": "not today"}}


async def raises(_request: object) -> object:
    raise ValueError("broken \udcff")  # such a character comes from a file name, for example


async def gives_nothing(_request: object) -> object:
    return None


async def gives_a_dict(_request: object) -> object:
    return {"decision": "accept"}


async def gives_another_model(_request: object) -> object:
    return ClientInfo(name="not", version="a reply")


def is_not_async(_request: object) -> Awaitable[object]:
    raise KeyError("at once")


async def is_cancelled(_request: object) -> object:
    raise asyncio.CancelledError


FAILING = [raises, gives_nothing, gives_a_dict, gives_another_model, is_not_async, is_cancelled]


@pytest.mark.parametrize("handler", FAILING)
@pytest.mark.parametrize("method", sorted(SAMPLES))
async def test_a_handler_that_fails_is_the_refusal_or_minus_32000(
    method: str, handler: Callable[[Any], Awaitable[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[RefusedRequest] = []
    answer = await answer_to(method, SAMPLES[method], {method: handler}, refused=refused)
    (told,) = refused
    assert "its handler" in told.reason
    if has_negative_form(method):
        expected = refusal(method, None, told.reason)
        assert not isinstance(expected, RpcError)
        assert answer == {"result": from_json(encode(expected))}
    else:
        assert answer == {"error": {"code": -32000, "message": told.reason}}
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


async def test_the_fallback_takes_what_has_no_handler_of_its_own() -> None:
    seen: list[str] = []

    async def read_clock(_request: CurrentTimeRead) -> CurrentTimeReadResponse:
        return CurrentTimeReadResponse(current_time_at=42)

    async def others(request: ServerRequest) -> CommandExecutionRequestApprovalResponse:
        seen.append(request.method)
        return CommandExecutionRequestApprovalResponse(decision="accept")

    asks = [AskClient(m, SAMPLES[m]) for m in ("currentTime/read", COMMAND)]
    script: list[Entry] = [*HELLO, *asks, AwaitAnswer("currentTime/read"), AwaitAnswer(COMMAND)]
    async with ScriptedAppServer(script) as server:
        client = CodexClient(server.link)
        client.handle({"currentTime/read": read_clock})
        client.handle_others(others)
        async with client:
            await server.wait_finished()
        assert [a.result for a in server.player.answers_to(0)] == [{"currentTimeAt": 42}]
        assert [a.result for a in server.player.answers_to(1)] == [{"decision": "accept"}]
        assert seen == [COMMAND]


async def test_a_handler_that_waits_holds_up_nobody() -> None:
    release = anyio.Event()

    async def waits(_request: object) -> CommandExecutionRequestApprovalResponse:
        await release.wait()
        return CommandExecutionRequestApprovalResponse(decision="accept")

    script: list[Entry] = [
        *HELLO,
        AskClient(COMMAND, SAMPLES[COMMAND], name="first"),
        AskClient("currentTime/read", SAMPLES["currentTime/read"]),
        AwaitAnswer("currentTime/read"),
        Expect("thread/list", {"data": [], "nextCursor": None}),
        AwaitAnswer("first"),
    ]
    async with ScriptedAppServer(script) as server:
        client = CodexClient(server.link)
        client.handle({COMMAND: waits})
        async with client:
            await client.thread_list()
            assert not server.player.answers_to(0)
            release.set()
            await server.wait_finished()
        (answer,) = server.player.answers_to(0)
        assert answer.result == {"decision": "accept"}


async def test_a_request_that_is_sent_again_is_answered_once() -> None:
    ask = AskClient(COMMAND, SAMPLES[COMMAND], id=5)
    release = anyio.Event()
    calls = 0

    async def waits(_request: object) -> CommandExecutionRequestApprovalResponse:
        nonlocal calls
        calls += 1
        await release.wait()
        return CommandExecutionRequestApprovalResponse(decision="accept")

    listed = Expect("thread/list", {"data": [], "nextCursor": None})
    async with ScriptedAppServer([*HELLO, ask, ask, listed]) as server:
        client = CodexClient(server.link)
        client.handle({COMMAND: waits})
        async with client:
            await client.thread_list()
            release.set()
            await server.wait_for(lambda: bool(server.player.answers))
        assert calls == 1
        assert [a.result for a in server.player.answers] == [{"decision": "accept"}]


async def test_an_observer_that_raises_harms_nobody() -> None:
    def breaks(_refused: RefusedRequest) -> None:
        raise ValueError("observer")

    script: list[Entry] = [*HELLO, AskClient(COMMAND, SAMPLES[COMMAND]), AwaitAnswer(COMMAND)]
    async with ScriptedAppServer(script) as server, CodexClient(server.link, on_refused=breaks):
        await server.wait_finished()
        assert [a.result for a in server.player.answers] == [{"decision": "decline"}]


async def test_a_reason_is_bounded() -> None:
    async def fails(_request: object) -> object:
        raise ValueError("x" * 100_000)

    answer = await answer_to("item/tool/call", SAMPLES["item/tool/call"], {"item/tool/call": fails})
    text = answer["result"]["contentItems"][0]["text"]
    assert len(text) < 2100
    assert "characters in all" in text


def test_a_handler_for_an_unknown_method_is_a_misuse() -> None:
    handlers = cast("RequestHandlers", {"item/brandNew/ask": gives_nothing})
    with pytest.raises(MisuseError, match="item/brandNew/ask"):
        requests_module.ServerRequests(None, requests_module.UnknownParts()).handle(handlers)


@pytest.mark.attack("MCP server")
async def test_2_5_a_form_of_too_many_values_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {f"f{number}": {"type": "boolean"} for number in range(MAX_VALUES // 2)}
    schema = {"type": "object", "properties": fields}
    method = "mcpServer/elicitation/request"
    large = {**SAMPLES[method], "mode": "form", "requestedSchema": schema}
    monkeypatch.setattr(MODELS, "decode", pytest.fail)  # `decode_request` would call it
    refused: list[RefusedRequest] = []
    answer = await answer_to(method, large, refused=refused)
    assert answer["result"]["action"] == "decline"
    assert f"more than {MAX_VALUES} values" in refused[0].reason
