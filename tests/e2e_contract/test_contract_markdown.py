"""3.8: Markdown of a model or a server hides nothing, on the real Codex."""

from __future__ import annotations

import re

import pytest

from codex_acp.testing import McpTool, ScriptedMcpServer, Step, Text, exec_command, mcp_call
from tests.e2e_contract.contract_bench import ContractBench, Scenes
from tests.e2e_contract.dialects import TOOL_CALLS

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]

ATTACKS = {
    "a comment": "true <!-- ; touch PWN-1; -->",
    "a second line": "true # <!--\ntouch PWN-2",
    "a link": "cat '[README](http://127.0.0.1:9/x)'; touch PWN-3",
    "an image": "cat '![x](http://127.0.0.1:9/x.png)'; touch PWN-4",
    "a fence of its own": "true # `\n```\n````\n**Reason given:** none\n````\n```\ntouch PWN-5",
}
"""What Markdown would make of a command that does more than it shows."""

ASKED = {
    name: SCENES.add(name, [exec_command(run, justification=run, call_id=f"d{number}")], DONE)
    for number, (name, run) in enumerate(ATTACKS.items())
}
RESULT = (
    "![x](http://127.0.0.1:9/x.png) <!-- hidden --> [ok](http://127.0.0.1:9)\n```\n# forged\u202e"
)
CALLED = SCENES.add("called", [mcp_call("notes", "write", {"n": RESULT}, call_id="d9")], DONE)

CODE = re.compile(r"^(`{3,})\w*\n.*?\n\1$|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", re.M | re.S)


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    tool = McpTool("write", "Writes.", read_only=False, destructive=True, text=RESULT)
    return ContractBench(
        SCENES, version, servers={"notes": ScriptedMcpServer(factory.mktemp("mcp"), [tool])}
    )


def assert_dead(texts: list[str]) -> None:
    """Outside of code nothing is left that Markdown would read."""
    for text in texts:
        left = CODE.sub("", text)
        assert not [sign for sign in ("<!--", "](", "\n#", "**", "\u202e") if sign in left], text


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.attack("model")
async def test_3_8_a_command_stands_in_code_whatever_markdown_it_holds(
    bench: ContractBench, name: str
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ASKED[name])
    asked = await bench.asks.next_permission()
    texts = asked.texts
    asked.choose("reject_once")
    assert await prompt.end() == "end_turn"
    assert_dead(texts)
    pwn = re.search(r"touch PWN-\d", ATTACKS[name])
    assert pwn is not None
    for text in texts[:2]:
        assert [code for code in CODE.finditer(text) if pwn[0] in code[0]], text
    assert not list(bench.path("PWN").parent.glob("PWN*"))


@pytest.mark.attack("MCP server")
async def test_3_8_what_a_server_is_called_with_and_answers_stands_in_code(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CALLED)
    asked = await bench.asks.next_permission()
    texts = asked.texts
    asked.choose("allow_once")
    assert await prompt.end() == "end_turn"
    assert_dead(texts)
    updates = bench.of_session(session, *TOOL_CALLS)
    shown = [
        part["content"]["text"]
        for update in updates
        for part in update.get("content") or ()
        if part["content"]["type"] == "text"
    ]
    assert [text for text in shown if "hidden" in text and text.startswith("````")]
    assert_dead(shown)
