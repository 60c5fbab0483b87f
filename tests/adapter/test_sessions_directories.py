"""A directory that is none here may be one where Codex runs: then Codex's word counts."""

from __future__ import annotations

import pytest

from codex_acp.testing import Entry, Expect
from tests.adapter.memory_bench import MemoryBench

NEW = {"cwd": "/nowhere/at/all", "mcpServers": []}
FOUND = {"isFile": False, "isSymlink": False, "createdAtMs": 0, "modifiedAtMs": 0}


@pytest.mark.parametrize(
    ("told", "opens"),
    [
        (Expect("fs/getMetadata", result={**FOUND, "isDirectory": True}), True),
        (Expect("fs/getMetadata", result={**FOUND, "isDirectory": False}), False),
        (Expect("fs/getMetadata", error={"code": -32600, "message": "no such file"}), False),
        (Expect("fs/getMetadata", error={"code": -32601, "message": "no such method"}), True),
        (Expect("fs/getMetadata", result={}), True),
    ],
)
async def test_codex_is_asked_what_is_not_known_here(told: Entry, opens: bool) -> None:
    async with MemoryBench() as bench:
        bench.server.play(told)
        answer = await bench.client.ask("again", "session/new", NEW)
        assert ("result" in answer) is opens
        if not opens:
            assert answer["error"]["code"] == -32602
            assert "'/nowhere/at/all' is not a directory" in answer["error"]["message"]
