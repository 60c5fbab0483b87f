"""The server over TLS, with a certificate of its own for localhost (made for this test alone)."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from codex_acp.adapter.network.access_control import no_token
from codex_acp.adapter.network.listen import Address, NetworkOptions
from codex_acp.errors import MisuseError
from codex_acp.runtime import AgentRuntime
from tests.network.listening_adapter import TOKEN
from tests.network.served import served

CERTIFICATE = str(Path(__file__).with_name("localhost.pem"))


async def test_clients_come_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with served(tmp_path, scheme="wss", certificate=CERTIFICATE) as server:
        assert server.url.startswith("wss://")
        async with server.connect(ssl=trusting) as client:
            session = await client.new_session(server.cwd)
            ended = await client.outcome(await client.prompt(session, "hello"))
            assert ended["result"]["stopReason"] == "end_turn"
        with pytest.raises(ssl.SSLCertVerificationError):
            async with server.connect():
                pass
        monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        runtime = AgentRuntime()
        opening = runtime.open(server.url, token=TOKEN, cwd=tmp_path)
        async with runtime, opening as opened:
            assert (await opened.run("hello")).text == "Hello."


async def test_both_profiles_come_over_tls(tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with served(tmp_path, scheme="https", certificate=CERTIFICATE) as server:
        for http2 in (False, True):
            async with server.over_http(http2=http2, cafile=CERTIFICATE) as client:
                assert client.version == ("HTTP/2" if http2 else "HTTP/1.1")
                session = await client.new_session(server.cwd)
                ended = await client.outcome(await client.prompt(session, "hello"))
                assert ended["result"]["stopReason"] == "end_turn"
        async with server.connect(ssl=trusting) as websocket:
            assert websocket.initialized["protocolVersion"] == 1


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "certificate"
    file.write_text("no certificate")
    address = Address.parse("wss://127.0.0.1:0/acp")
    for path in (str(file), str(tmp_path / "none")):
        options = NetworkOptions(address, no_token(), certificate=path)
        with pytest.raises(MisuseError, match="cannot be used"):
            options.check()
