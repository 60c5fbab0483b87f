"""What Codex refuses is told to the client without what it quotes of secrets."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import Expect, turn_completed, turn_started
from codex_acp.transcript.secrets import remember_secrets
from tests.adapter.config_bench import LISTS, ConfigBench
from tests.adapter.memory_bench import MemoryBench

SECRET = "mcp-server-header-9f2b7c41d0"
QUOTED: dict[str, JsonValue] = {
    "code": -32603,
    "message": f"server notes: header {SECRET} refused \x1b[2Jby its policy",
    "data": {"header": SECRET},
}


async def test_a_prompt_that_cannot_be_sent_is_answered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    post = AppServerConnection.post

    def failing_once(codex: AppServerConnection, method: str, *rest: Any) -> Any:
        if method == "turn/start":
            monkeypatch.undo()
            raise MisuseError("a text is not Unicode")
        return post(codex, method, *rest)

    async with MemoryBench(Expect("turn/start"), *turn_started(), *turn_completed()) as bench:
        monkeypatch.setattr(AppServerConnection, "post", failing_once)
        bench.start_prompt("p1")
        assert "not Unicode" in (await bench.end_of("p1"))["message"]
        bench.start_prompt("p2")
        assert await bench.end_of("p2") == "end_turn", "the session goes on"


@pytest.mark.attack("MCP server")
async def test_a_refused_change_quotes_no_secret_and_steers_no_terminal() -> None:
    remember_secrets([SECRET])
    refusal = Expect("thread/settings/update", error=QUOTED)
    async with ConfigBench(*LISTS, refusal) as bench:
        await bench.open()
        with pytest.raises(RpcError) as caught:
            await bench.set("mode", "ask")
    told = f"{caught.value.message} {caught.value.data}"
    assert "refused" in told
    assert SECRET not in told
    assert "\x1b" not in told
