"""What Codex says in its own words is shown without what a client gave as a secret."""

from __future__ import annotations

import json

import pytest

from codex_acp.testing import Notify
from tests.adapter.memory_bench import THREAD, MemoryBench

LINK = "https://docs.example/sandboxing#prerequisites"


@pytest.mark.attack("app-server")
@pytest.mark.parametrize(
    ("method", "field"), [("warning", "message"), ("configWarning", "summary")]
)
async def test_a_warning_quotes_nothing_of_a_gateway_that_is_secret(
    method: str, field: str
) -> None:
    url = "https://gateway.example/v1?tenant=query-s3cret"
    gateway = {"baseUrl": url, "headers": {"Authorization": "Bearer header-s3cret"}}
    words = f"{url} refused header-s3cret, see {LINK}"
    async with MemoryBench(version=2) as bench:
        route = {"providerId": "openai", "apiType": "openai", **gateway}
        assert "result" in await bench.client.ask("set", "providers/set", route)
        bench.server.play(Notify(method, {"threadId": THREAD, field: words, "details": words}))
        await bench.client.until(lambda: LINK in json.dumps(bench.updates))
        shown = json.dumps(bench.updates)
        assert "s3cret" not in shown
        assert "gateway.example/v1?tenant=[redacted] refused [redacted], see" in shown
