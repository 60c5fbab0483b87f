"""Joining a real app-server over a websocket and a unix socket, with every kind of token."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from codex_acp.codex import CodexClient, Token, signed_bearer_token
from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.testing import CodexHome, Gate, ModelResponse, ScriptedModel, Text
from tests.codex.codex_bench import WAIT_SECONDS
from tests.codex.listening_server import ListeningServer

SECRET = "a shared secret of at least thirty-two bytes"
ANY_PORT = "ws://127.0.0.1:0"


@contextmanager
def served(
    *options: str, listen: str = ANY_PORT, gate: bool = False
) -> Iterator[tuple[ListeningServer, ScriptedModel, CodexHome]]:
    steps = [Text("x"), Gate("never")] if gate else [Text("Hello.")]
    with (
        ScriptedModel([ModelResponse(*steps, repeat=True)]) as model,
        CodexHome(model.base_url) as home,
        ListeningServer(home, listen.format(root=home.root), *options) as server,
    ):
        yield server, model, home


async def says_hello(url: str, home: CodexHome, token: Token | None = None) -> None:
    async with CodexClient.connect_to(url, token=token) as codex:
        thread = await codex.threads.start(cwd=home.workspace)
        assert (await thread.run("Hi.")).text == "Hello."


async def test_a_turn_over_a_websocket_and_the_server_lives_on() -> None:
    with anyio.fail_after(WAIT_SECONDS), served() as (server, _model, home):
        for _ in range(2):
            await says_hello(server.url, home)
        assert server.process.poll() is None


async def test_a_turn_over_a_unix_socket() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        with served(listen="unix://{root}/codex.sock") as (server, _model, home):
            await says_hello(server.url, home)


async def test_two_clients_of_one_server() -> None:
    with anyio.fail_after(WAIT_SECONDS), served() as (server, _model, home):
        async with (
            CodexClient.connect_to(server.url) as one,
            CodexClient.connect_to(server.url) as other,
        ):
            thread = await one.threads.start(cwd=home.workspace)
            await thread.run("Hi.")
            there = await other.threads.resume(thread.id)
            assert [t.status for t in there.info.turns] == ["completed"]


@pytest.mark.parametrize("way", ["file", "digest", "function"])
async def test_the_capability_token_is_taken(way: str) -> None:
    with CodexHome() as keys:
        file = keys.root / "token"
        file.write_text("sesame\n")
        digest = hashlib.sha256(b"sesame").hexdigest()
        proof = ("--ws-token-sha256", digest) if way == "digest" else ("--ws-token-file", str(file))
        token: Token = file.read_text if way == "function" else "sesame"
        options = ("--ws-auth", "capability-token", *proof)
        with anyio.fail_after(WAIT_SECONDS), served(*options) as (server, _model, home):
            await says_hello(server.url, home, token)


@pytest.mark.parametrize(("token", "why"), [(None, "missing"), ("wrong", "invalid")])
async def test_a_wrong_token_is_an_error_that_says_so(token: str | None, why: str) -> None:
    digest = hashlib.sha256(b"sesame").hexdigest()
    options = ("--ws-auth", "capability-token", "--ws-token-sha256", digest)
    with anyio.fail_after(WAIT_SECONDS), served(*options) as (server, _model, _home):
        client = CodexClient.connect_to(server.url, token=token)
        with pytest.raises(ConnectionClosed, match=f"refused the token: 401 {why}"):
            await client.connect()
        assert client.closed


async def test_signed_tokens_with_issuer_and_audience() -> None:
    with CodexHome() as keys:
        file = keys.root / "secret"
        file.write_text(SECRET + "\n")
        claims = ("--ws-issuer", "us", "--ws-audience", "codex")
        options = ("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", str(file))
        good = signed_bearer_token(file.read_text(), issuer="us", audience="codex")
        bad = {
            "another issuer": signed_bearer_token(SECRET, issuer="them", audience="codex"),
            "another audience": signed_bearer_token(SECRET, issuer="us", audience="others"),
            "another secret": signed_bearer_token("x" * 40, issuer="us", audience="codex"),
            "expired": signed_bearer_token(
                SECRET, issuer="us", audience="codex", now=time.time() - 9000
            ),
        }
        with anyio.fail_after(WAIT_SECONDS), served(*options, *claims) as (server, _model, home):
            await says_hello(server.url, home, good)
            for token in bad.values():
                with pytest.raises(ConnectionClosed, match="refused the token"):
                    await CodexClient.connect_to(server.url, token=token).connect()


@pytest.mark.attack("network")
async def test_a_server_that_goes_away_ends_the_turn_with_a_typed_error() -> None:
    with anyio.fail_after(WAIT_SECONDS), served(gate=True) as (server, model, home):
        async with CodexClient.connect_to(server.url) as codex:
            thread = await codex.threads.start(cwd=home.workspace)
            async with thread.turn("Go.") as turn:
                await anyio.to_thread.run_sync(model.wait_for_gate, "never")
                server.process.kill()
                with pytest.raises(TransportError):
                    await turn.result()
                assert turn.so_far.status == "inProgress"
            assert codex.closed
            with pytest.raises(TransportError):
                await codex.thread_list()


async def test_nobody_listens() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        with pytest.raises(ConnectionClosed, match=r"nobody can be reached at ws://127\.0\.0\.1:9"):
            await CodexClient.connect_to("ws://127.0.0.1:9").connect()
        with pytest.raises(ConnectionClosed, match="nobody can be reached at unix:///no/such"):
            await CodexClient.connect_to("unix:///no/such/socket").connect()


async def test_large_messages_pass_in_parts() -> None:
    """Codex takes no frame above 16 MiB; a message of several images is larger."""
    with anyio.fail_after(WAIT_SECONDS), served() as (server, _model, _home):
        async with CodexClient.connect_to(server.url) as codex:
            text = "x" * (20 << 20)
            answer = await codex.call_raw("thread/list", {"searchTerm": text})
            assert isinstance(answer, dict)


async def test_a_message_that_is_too_large_for_the_server_ends_the_connection() -> None:
    with anyio.fail_after(WAIT_SECONDS), served() as (server, _model, home):
        async with CodexClient.connect_to(server.url) as codex:
            with pytest.raises(TransportError):
                await codex.call_raw("thread/list", {"searchTerm": "x" * (70 << 20)})
            assert codex.closed
        await says_hello(server.url, home)
