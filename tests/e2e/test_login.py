"""Logging in and out with the real Codex: by a key, by a page, and what needs none of it."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.acp import types
from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc import AUTHENTICATION_REQUIRED, INVALID_PARAMS
from codex_acp.testing import Text
from codex_acp.wire.codec import decode
from tests.e2e.adapter_bench import WAIT, AdapterBench

NEEDS_LOGIN = ("-c", "model_providers.scripted.requires_openai_auth=true")
WITH_PAGES = types.ClientCapabilities(
    elicitation=types.ElicitationCapabilities(url=types.ElicitationUrlCapabilities())
)
Ask = Callable[
    [types.RequestUrlCreateElicitationRequest], Awaitable[types.CreateElicitationResponse]
]


@pytest.fixture
def login_port() -> Iterator[None]:
    """Be the only test that shows a login page: each Codex ends the login that has its port."""
    with (Path(tempfile.gettempdir()) / "codex-acp-tests-login-port").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def bench(**more: Any) -> AdapterBench:
    more.setdefault("args", NEEDS_LOGIN)
    return AdapterBench([[Text("Hello.")]], **more)


def with_pages(ask: Ask, **more: Any) -> AdapterBench:
    return bench(capabilities=WITH_PAGES, requests={"elicitation/create": ask}, **more)


def method_ids(adapter: AdapterBench) -> list[str]:
    return [method.id for method in adapter.agent.auth_methods]


async def refused(call: Awaitable[object]) -> ErrorReply:
    with anyio.fail_after(WAIT), pytest.raises(ErrorReply) as caught:
        await call
    return caught.value


async def test_without_a_login_a_session_is_refused_and_with_a_key_it_opens() -> None:
    async with bench(env={"OPENAI_API_KEY": "sk-scripted"}) as adapter:
        error = await refused(adapter.new_session())
        assert error.code == AUTHENTICATION_REQUIRED
        assert "authMethods" in error.message

        await adapter.client.authenticate(types.AuthenticateRequest(method_id="api-key"))
        session = await adapter.new_session()
        assert (await adapter.prompt(session)).stop_reason == "end_turn"

        await adapter.client.logout(types.LogoutRequest())
        assert (await refused(adapter.new_session())).code == AUTHENTICATION_REQUIRED


async def test_a_key_that_the_client_sends_is_taken_before_the_environments() -> None:
    async with bench() as adapter:
        missing = await refused(
            adapter.client.authenticate(types.AuthenticateRequest(method_id="api-key"))
        )
        assert missing.code == AUTHENTICATION_REQUIRED
        assert "OPENAI_API_KEY" in missing.message

        wire = {"methodId": "api-key", "_meta": {"api-key": {"apiKey": "sk-given"}}}
        await adapter.client.authenticate(decode(types.AuthenticateRequest, wire))
        assert await adapter.new_session()


async def test_a_provider_of_ones_own_needs_no_login() -> None:
    async with bench(args=()) as adapter:
        session = await adapter.new_session()
        assert (await adapter.prompt(session)).stop_reason == "end_turn"


async def test_only_what_the_client_can_do_is_offered() -> None:
    async with bench(env={"DISPLAY": ""}) as poor:
        assert method_ids(poor) == ["api-key"]
        for unknown in ("chat-gpt", "chat-gpt-device-code", "codex-login", "magic"):
            error = await refused(
                poor.client.authenticate(types.AuthenticateRequest(method_id=unknown))
            )
            assert error.code == INVALID_PARAMS
            assert unknown in error.message

    terminal = decode(
        types.ClientCapabilities, {"auth": {"terminal": True}, "elicitation": {"url": {}}}
    )
    async with bench(capabilities=terminal) as rich:
        assert method_ids(rich) == ["chat-gpt", "chat-gpt-device-code", "api-key", "codex-login"]
        assert isinstance(rich.agent.auth_methods[0], types.AgentAuthMethod)
        last = rich.agent.auth_methods[-1]
        assert isinstance(last, types.TerminalAuthMethod)
        assert list(last.args) == ["login"]


async def test_zeds_ids_mean_the_same_and_a_login_that_is_not_needed_succeeds() -> None:
    async with bench(env={"CODEX_API_KEY": "sk-scripted", "DISPLAY": ""}) as adapter:
        assert (
            await refused(
                adapter.client.authenticate(types.AuthenticateRequest(method_id="chatgpt"))
            )
        ).code == INVALID_PARAMS, "this client cannot show it"
        await adapter.client.authenticate(types.AuthenticateRequest(method_id="codex-api-key"))
        assert await adapter.new_session()
    async with bench(args=()) as free:
        for method in ("chatgpt", "openai-api-key", "chat-gpt", "api-key"):
            await free.client.authenticate(types.AuthenticateRequest(method_id=method))
        unknown = types.AuthenticateRequest(method_id="nobody-has-it")
        assert (await refused(free.client.authenticate(unknown))).code == INVALID_PARAMS


@pytest.mark.usefixtures("login_port")
async def test_the_login_page_is_shown_and_a_refusal_ends_the_login() -> None:
    seen: list[types.RequestUrlCreateElicitationRequest] = []

    async def ask(
        request: types.RequestUrlCreateElicitationRequest,
    ) -> types.CreateElicitationResponse:
        seen.append(request)
        return types.DeclineCreateElicitationResponse()

    async with with_pages(ask) as adapter:
        for _ in range(2):  # the first has left nothing behind that is in the way of the second
            error = await refused(
                adapter.client.authenticate(types.AuthenticateRequest(method_id="chat-gpt"))
            )
            assert error.code == AUTHENTICATION_REQUIRED
            assert "not opened" in error.message

    assert [page.url.split("?")[0] for page in seen] == [
        "https://auth.openai.com/oauth/authorize"
    ] * 2
    assert len({page.elicitation_id for page in seen}) == 2
    assert seen[0].request_id is not None


@pytest.mark.usefixtures("login_port")
async def test_a_login_that_the_client_gives_up_ends_and_takes_its_page_back() -> None:
    shown = anyio.Event()
    withdrawn = anyio.Event()

    async def ask(_: types.RequestUrlCreateElicitationRequest) -> types.CreateElicitationResponse:
        shown.set()
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()
        raise AssertionError

    async with with_pages(ask) as adapter, anyio.create_task_group() as tasks:
        request = types.AuthenticateRequest(method_id="chat-gpt")
        tasks.start_soon(adapter.client.authenticate, request)
        with anyio.fail_after(WAIT):
            await shown.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await withdrawn.wait()


async def test_a_login_that_fails_at_openai_says_why() -> None:
    async def ask(_: types.RequestUrlCreateElicitationRequest) -> types.CreateElicitationResponse:
        return types.AcceptCreateElicitationResponse()

    async with with_pages(ask) as adapter:
        # There is no network: Codex cannot get a device code.
        request = types.AuthenticateRequest(method_id="chat-gpt-device-code")
        error = await refused(adapter.client.authenticate(request))

        assert error.code == AUTHENTICATION_REQUIRED
        assert "device code" in error.message


async def test_a_login_that_is_there_already_is_not_made_again() -> None:
    """As when the client has run it in its terminal: nothing is left to be shown."""
    async with bench(env={"DISPLAY": ""}) as adapter:
        wire = {"methodId": "api-key", "_meta": {"api-key": {"apiKey": "sk-given"}}}
        await adapter.client.authenticate(decode(types.AuthenticateRequest, wire))

        for method in ("api-key", "codex-login"):
            await adapter.client.authenticate(types.AuthenticateRequest(method_id=method))
        assert (
            await refused(
                adapter.client.authenticate(types.AuthenticateRequest(method_id="chat-gpt"))
            )
        ).code == INVALID_PARAMS


@pytest.mark.parametrize("words", [["login"], ["login", "--device-auth"]])
async def test_the_command_of_a_login_in_a_terminal_is_one_that_codex_knows(
    words: list[str],
) -> None:
    capabilities = decode(types.ClientCapabilities, {"_meta": {"terminal-auth": True}})
    async with bench(capabilities=capabilities, env={"DISPLAY": ""}) as adapter:
        runs = [(method.meta or {}).get("terminal-auth") for method in adapter.agent.auth_methods]
    run = next(run for run in runs if run and run["args"][-len(words) :] == words)
    asked = await anyio.run_process([run["command"], *run["args"], "--help"])
    assert b"codex login" in asked.stdout
