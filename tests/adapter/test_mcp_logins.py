"""An MCP server that wants a login: the page is shown once, to a client that can show pages."""

from __future__ import annotations

from typing import Any

from codex_acp.testing import Expect, Notify
from tests.adapter.memory_bench import THREAD, MemoryBench

START = Expect("thread/start")
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
PAGE = "https://login.example.org/authorize?x=1"
WANTED = Notify(
    "mcpServer/startupStatus/updated",
    {
        "name": "notes",
        "status": "failed",
        "threadId": THREAD,
        "error": "401",
        "failureReason": "reauthenticationRequired",
    },
)
LOGIN = Expect("mcpServer/oauth/login", {"authorizationUrl": PAGE, "loginId": "l1"})


def completed(**more: Any) -> Notify:
    done = {"name": "notes", "success": True, "loginId": "l1", "threadId": THREAD, **more}
    return Notify("mcpServer/oauthLogin/completed", done)


async def test_the_page_is_shown_and_the_servers_start_again_after_the_login() -> None:
    async with MemoryBench(START, WANTED, LOGIN, capabilities=PAGES) as bench:
        asked = await bench.client.sent("elicitation/create")
        assert asked["params"]["sessionId"] == THREAD
        assert asked["params"]["mode"] == "url"
        assert asked["params"]["url"] == PAGE
        assert "login.example.org" in asked["params"]["message"]

        bench.client.send({"id": asked["id"], "result": {"action": "accept"}})
        bench.server.play(WANTED, completed())
        ended = await bench.client.sent("elicitation/complete")
        assert ended["params"] == {"elicitationId": asked["params"]["elicitationId"]}
        await bench.server.wait_for_message("config/mcpServer/reload")
        assert len(await bench.asked_codex("mcpServer/oauth/login")) == 1, "asked once"


async def test_a_login_that_is_done_before_the_answer_takes_the_page_back() -> None:
    async with MemoryBench(START, WANTED, LOGIN, capabilities=PAGES) as bench:
        asked = await bench.client.sent("elicitation/create")
        bench.server.play(completed())
        withdrawn = await bench.client.sent("$/cancel_request")
        assert withdrawn["params"] == {"requestId": asked["id"]}
        await bench.server.wait_for_message("config/mcpServer/reload")


async def test_a_page_that_is_not_opened_or_a_login_that_fails_is_said() -> None:
    for answer, end in (({"action": "decline"}, None), ({"action": "accept"}, "denied")):
        async with MemoryBench(START, WANTED, LOGIN, capabilities=PAGES) as bench:
            asked = await bench.client.sent("elicitation/create")
            bench.client.send({"id": asked["id"], "result": answer})
            if end is not None:
                bench.server.play(completed(success=False, error=end))
            await bench.until_said("not logged in: " + (end or "the page was not opened"))


async def test_a_login_page_that_leads_nowhere_good_is_not_shown() -> None:
    login = Expect("mcpServer/oauth/login", {"authorizationUrl": "http://evil.example.org/"})
    async with MemoryBench(START, WANTED, login, capabilities=PAGES) as bench:
        await bench.until_said("its login page was refused")
        methods = [message.get("method") for message in bench.client.messages]
        assert "elicitation/create" not in methods


async def test_a_client_without_pages_is_told_what_the_server_wants() -> None:
    async with MemoryBench(START, WANTED) as bench:
        await bench.until_said("notes")
        received = [message.get("method") for message in bench.server.player.received]
        assert "mcpServer/oauth/login" not in received
