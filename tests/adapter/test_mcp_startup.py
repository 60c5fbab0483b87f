"""The wait for a client's MCP servers before the first turn: as long as it helps, and bounded."""

from __future__ import annotations

import anyio
import pytest

from codex_acp.adapter.server import mcp_startup
from codex_acp.adapter.server.mcp_startup import McpStartups
from codex_acp.jsonrpc import JsonValue


def note(startups: McpStartups, name: str, status: str, thread: str = "t") -> None:
    startups.note({"threadId": thread, "name": name, "status": status, "error": None})


async def test_servers_that_have_started_or_failed_before_are_not_waited_for() -> None:
    startups = McpStartups()
    note(startups, "a", "ready")
    note(startups, "b", "failed")
    note(startups, "c", "cancelled")
    assert await startups.wait_started("t", {"a", "b", "c"}) == []


async def test_the_wait_ends_with_the_last_server() -> None:
    startups = McpStartups()
    note(startups, "a", "starting")
    left: list[list[str]] = []

    async def wait() -> None:
        left.append(await startups.wait_started("t", {"a", "b"}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        note(startups, "b", "ready")
        note(startups, "a", "ready", thread="another")
        await anyio.wait_all_tasks_blocked()
        assert left == []
        note(startups, "a", "ready")
    assert left == [[]]


async def test_a_server_that_an_environment_registered_is_another_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_startup, "START_SECONDS", 0.02)
    monkeypatch.setattr(mcp_startup, "UNREPORTED_SECONDS", 0.01)
    startups = McpStartups()
    note(startups, "docs", "starting")
    startups.note(
        {"threadId": "t", "name": "docs", "environmentId": "box", "status": "ready", "error": None}
    )
    assert await startups.wait_started("t", {"docs"}) == ["docs"]


async def test_a_server_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_startup, "START_SECONDS", 0.02)
    monkeypatch.setattr(mcp_startup, "UNREPORTED_SECONDS", 0.01)
    startups = McpStartups()
    note(startups, "slow", "starting")
    assert await startups.wait_started("t", {"slow", "unheard"}) == ["slow"]


async def test_a_server_that_codex_never_names_is_given_up_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_startup, "UNREPORTED_SECONDS", 0.01)
    assert await McpStartups().wait_started("t", {"unheard"}) == []


@pytest.mark.parametrize("params", [None, [], {}, {"threadId": "t", "name": 5, "status": "ready"}])
async def test_what_is_no_status_changes_nothing(params: JsonValue) -> None:
    startups = McpStartups()
    startups.note(params)
    assert await startups.wait_started("t", ()) == []
