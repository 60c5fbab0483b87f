"""Pages that MCP servers want opened, on the real Codex (contract 2.3 and 2.4)."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.testing import McpTool, ScriptedMcpServer, Step, Text, mcp_call, url_elicitation
from tests.e2e_contract.contract_bench import IN_V1_ONLY, ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]
URL = "https://login.example/consent?state=abc"
UNSAFE = {
    "script": "javascript:alert(1)//https://login.example",
    "file": "file:///etc/passwd",
    "plain": "http://login.example/consent",
}


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    urls = {"open": URL, **UNSAFE}
    tools = [
        McpTool(name, "Opens.", read_only=True, elicitations=[url_elicitation("Please", url)])
        for name, url in urls.items()
    ]
    tools.append(McpTool("write", "Writes.", read_only=False, destructive=True))
    server = ScriptedMcpServer(factory.mktemp("mcp"), tools)
    parallel = {"mcp_servers": {"web": {"supports_parallel_tool_calls": True}}}
    return ContractBench(SCENES, version, servers={"web": server}, config=parallel)


def last_answer(bench: ContractBench) -> Any:
    """What the server's newest elicitation got."""
    return bench.servers["web"].answers()[-1]["result"]


def writes(bench: ContractBench) -> int:
    """How often the destructive tool ran."""
    calls = [call["params"] for call in bench.servers["web"].received("tools/call")]
    return len([p for p in calls if isinstance(p, dict) and p["name"] == "write"])


OPENED = SCENES.add("opened", [mcp_call("web", "open", call_id="u1")], DONE)
REFUSED = SCENES.add("refused", [mcp_call("web", "open", call_id="u2")], DONE)
UNSAFE_SCENES = {
    name: SCENES.add(f"unsafe {name}", [mcp_call("web", name, call_id=f"u3-{name}")], DONE)
    for name in UNSAFE
}
BOTH = {
    first: SCENES.add(
        f"both, {first} first",
        [
            mcp_call("web", "write", {"of": first}, call_id="u4"),
            mcp_call("web", "open", call_id="u5"),
        ],
        DONE,
    )
    for first in ("page", "permission")
}


async def test_2_4_a_page_is_shown_whole_and_agreeing_to_open_it_is_all_that_is_said(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, OPENED)
    asked = await bench.asks.next_elicitation()
    assert asked.url == URL
    assert "login.example" in asked.message
    asked.accept()

    assert await prompt.end() == "end_turn"
    assert last_answer(bench)["action"] == "accept"
    assert not last_answer(bench).get("content")
    assert bench.event_types(session) == ["elicitation.requested", "elicitation.answered"]
    complete = [m for _, m in bench.tap.messages if m.get("method") == "elicitation/complete"]
    assert complete == []


async def test_2_4_a_page_that_is_not_opened_is_declined(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, REFUSED)
    (await bench.asks.next_elicitation()).decline()

    assert await prompt.end() == "end_turn"
    assert last_answer(bench)["action"] == "decline"


@IN_V1_ONLY
@pytest.mark.parametrize("which", list(UNSAFE))
async def test_2_4_a_url_that_must_not_be_opened_is_declined_and_said(
    bench: ContractBench, which: str
) -> None:
    session = await bench.new_session()
    assert await bench.prompt(session, UNSAFE_SCENES[which]).end() == "end_turn"

    assert last_answer(bench)["action"] == "decline"
    assert UNSAFE[which] in bench.said(session)
    assert bench.event_types(session) == ["request.declined"]


@pytest.mark.parametrize("first", list(BOTH))
@pytest.mark.attack("MCP server")
async def test_2_3_a_page_and_a_tool_approval_open_at_once_never_answer_each_other(
    bench: ContractBench, first: str
) -> None:
    session = await bench.new_session()
    before = writes(bench)
    prompt = bench.prompt(session, BOTH[first])
    permission, page = await bench.asks.next_both()
    assert page.url == URL
    if first == "page":
        page.accept({"optionId": permission.option("allow_once").option_id})
        await bench.wait_until_replies(session, 1)
        assert writes(bench) == before
        assert bench.statuses(session, permission.call)[-1] == "pending"
        permission.choose("reject_once")
    else:
        permission.choose("allow_once")
        await bench.wait_until_replies(session, 1)
        (answered,) = [r for r in bench.wire.asked(thread=session) if bench.wire.replies(r)]
        assert answered["params"]["mode"] == "form"
        page.decline()

    assert await prompt.end() == "end_turn"
    accepted = {r["params"]["mode"]: bench.wire.result(r)["action"] for r in bench.asked(session)}
    other = {"url": "accept", "form": "decline"}
    assert accepted == (other if first == "page" else {"url": "decline", "form": "accept"})
    assert writes(bench) == before + (first == "permission")
