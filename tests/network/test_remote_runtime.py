"""`AgentRuntime` with an agent that listens on the network."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from codex_acp.adapter.network.limits import Limits
from codex_acp.errors import MisuseError, TransportError
from codex_acp.runtime import AgentRuntime, AgentSpec, Permission, SessionClosed, Update
from tests.network.listening_adapter import TOKEN, WAIT
from tests.network.served import served, until

CERTIFICATE = str(Path(__file__).with_name("localhost.pem"))

PROFILES = pytest.mark.parametrize("scheme", ["ws", "http"])
"""Of ACP over the network."""


def allow(permission: Permission) -> str:
    """The first option that allows."""
    return next(o.option_id for o in permission.options if o.kind == "allow_once")


def is_end(update: Update) -> bool:
    """Whether it says that what ran has ended, in either version of ACP."""
    return "has ended" in repr(update) or "state='idle'" in repr(update)


@PROFILES
async def test_a_remote_agent_is_opened_by_its_url(tmp_path: Path, scheme: str) -> None:
    async with (
        served(tmp_path, scheme=scheme) as server,
        AgentRuntime(permissions=allow) as runtime,
    ):
        async with runtime.open(server.url, token=TOKEN, cwd=tmp_path) as session:
            result = await session.run("hello")
            assert (result.text, result.stop_reason) == ("Hello.", "end_turn")
            assert (await session.run("ask")).text == "Heard."
            assert session.agent == server.url
        assert '"accept"' in server.decisions()[-1]


@PROFILES
async def test_sessions_can_share_a_connection(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, scheme=scheme) as server, AgentRuntime() as runtime:
        spec = AgentSpec.remote(server.url, lambda: TOKEN, name="there", shared=True)
        one = await runtime.open(spec, cwd=tmp_path)
        two = await runtime.open(AgentSpec.remote(server.url, TOKEN, shared=True), cwd=tmp_path)
        three = await runtime.open(spec, cwd=tmp_path)
        assert one.agent == "there"
        assert (await three.run("hello")).text == "Hello."
        with pytest.raises(MisuseError, match="for itself"):
            await three.detach()
        await two.detach()
        assert (await one.run("hello")).text == "Hello."


async def test_sessions_share_a_connection_of_http2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
    async with (
        served(tmp_path, scheme="https", certificate=CERTIFICATE) as server,
        AgentRuntime() as runtime,
    ):
        url = server.url.replace("127.0.0.1", "localhost")
        spec = AgentSpec.remote(url, TOKEN, shared=True)
        with anyio.fail_after(WAIT):
            sessions = [await runtime.open(spec, cwd=tmp_path) for _ in range(12)]
            for session in reversed(sessions):
                assert (await session.run("hello")).text == "Hello."


@PROFILES
async def test_a_wrong_token_is_said(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, scheme=scheme) as server, AgentRuntime() as runtime:
        with pytest.raises(TransportError, match="refused the token: 401 a wrong token"):
            await runtime.open(server.url, token="x" * 20, cwd=tmp_path)
        with pytest.raises(TransportError, match="401 no token"):
            await runtime.open(server.url, cwd=tmp_path)


@PROFILES
async def test_nobody_there_is_said(scheme: str) -> None:
    async with AgentRuntime() as runtime:
        with pytest.raises(TransportError, match="nobody can be reached"):
            await runtime.open(f"{scheme}://127.0.0.1:9/acp", token=TOKEN)


@PROFILES
async def test_a_server_that_ends_fails_the_prompt(tmp_path: Path, scheme: str) -> None:
    async with AgentRuntime() as runtime:
        async with served(tmp_path, scheme=scheme) as server:
            session = await runtime.open(server.url, token=TOKEN, cwd=tmp_path)
            prompt = session.prompt("wait")
            task = prompt.result()
        how = "closed the connection|was lost|can be reached|no longer knows"
        with anyio.fail_after(WAIT), pytest.raises(TransportError, match=how):
            await task
        assert session.closed


@PROFILES
async def test_an_approval_is_parked_and_given_on_another_connection(
    tmp_path: Path, scheme: str
) -> None:
    asked: list[Permission] = []

    async def think(permission: Permission) -> None:
        asked.append(permission)
        await anyio.sleep_forever()

    updates: list[Update] = []
    async with served(tmp_path, scheme=scheme, limits=Limits(keep_seconds=600)) as server:
        async with AgentRuntime(permissions=think) as runtime:
            session = await runtime.open(server.url, token=TOKEN, cwd=tmp_path)
            prompt = session.prompt("ask")
            await until(lambda: asked)
            await session.detach()
            with pytest.raises(SessionClosed):
                await prompt.result()
        assert server.decisions() == []
        async with AgentRuntime(permissions=allow) as runtime:
            opening = runtime.open(
                server.url, token=TOKEN, cwd=tmp_path, session_id=session.session_id, or_new=False
            )
            async with opening as again:
                again.listen(updates.append)
                await until(lambda: any(is_end(update) for update in updates))
                assert again.opened.how == "load"
                assert (await again.run("hello")).text == "Hello."
        assert [line for line in server.decisions() if '"accept"' in line]


@pytest.mark.attack("network")
async def test_a_token_of_the_runtime_never_travels_unencrypted() -> None:
    with pytest.raises(MisuseError, match="unencrypted"):
        AgentSpec.remote("ws://example.com/acp", TOKEN)
    with pytest.raises(MisuseError, match="no address of an agent"):
        AgentSpec.remote("ftp://127.0.0.1/acp", TOKEN)
    with pytest.raises(MisuseError, match="not into the URL"):
        AgentSpec.remote("wss://me:secret@example.com/acp")
    assert TOKEN not in repr(AgentSpec.remote("wss://example.com/acp", TOKEN))
    async with AgentRuntime() as runtime:
        with pytest.raises(MisuseError, match="for the URL"):
            runtime.open("codex", token=TOKEN)
