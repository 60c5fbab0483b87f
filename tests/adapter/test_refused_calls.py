"""What Codex refuses is told to the client without what it quotes of secrets."""

from __future__ import annotations

import pytest

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import JsonValue
from codex_acp.testing import Expect
from codex_acp.transcript.secrets import remember_secrets
from tests.adapter.config_bench import LISTS, ConfigBench

SECRET = "mcp-server-header-9f2b7c41d0"
QUOTED: dict[str, JsonValue] = {
    "code": -32603,
    "message": f"server notes: header {SECRET} refused \x1b[2Jby its policy",
    "data": {"header": SECRET},
}


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
