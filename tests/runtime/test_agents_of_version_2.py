"""A program written against the runtime drives an agent of version 2 without a change."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest

from codex_acp.acp import types, v2
from codex_acp.acp.types import TextContentBlock
from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.runtime import AgentRuntime, Update, kind_of
from tests.runtime.scripted_agent_v2 import ScriptedAgentV2

Json = dict[str, Any]
WAIT = 60.0


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def tool_call(**fields: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", **fields}


async def test_a_prompt_ends_when_the_session_is_idle_and_not_when_it_is_inserted() -> None:
    agent = ScriptedAgentV2()
    go = anyio.Event()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        agent.state("running")
        agent.say("One, ")
        await go.wait()
        agent.say("two.")
        agent.state("idle", stopReason="max_tokens")

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            async with session.prompt("Count.") as prompt:
                seen: list[Update] = []
                async for update in prompt:
                    seen.append(update)
                    if kind_of(update) == "agent_message_chunk" and not go.is_set():
                        assert prompt.stop_reason is None
                        go.set()
                assert prompt.stop_reason == "max_tokens"
        assert prompt.messages == ("One, two.",)
        assert [kind_of(update) for update in seen].count("state_update") == 2
        (sent,) = [each for each in agent.asked if isinstance(each, v2.PromptRequest)]
        assert sent.prompt == [v2.TextContentBlock(text="Count.")]


async def test_all_that_a_turn_says_is_put_together() -> None:
    agent = ScriptedAgentV2()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        agent.state("running")
        thought = {"sessionUpdate": "agent_thought", "messageId": "h", "content": [text("Hm.")]}
        entry = {"content": "look", "priority": "high", "status": "completed"}
        given_up = {"content": "fly", "priority": "low", "status": "cancelled"}
        plan = {"type": "items", "planId": "p", "entries": [entry, given_up]}
        agent.say(
            thought,
            {"sessionUpdate": "plan_update", "plan": plan},
            "I ",
            {"sessionUpdate": "agent_message", "messageId": "a", "content": [text("I look.")]},
            tool_call(title="ls", kind="execute", status="pending", rawInput={"c": "ls"}),
            tool_call(status="in_progress", content=[{"type": "content", "content": text("a")}]),
            {
                "sessionUpdate": "tool_call_content_chunk",
                "toolCallId": "t",
                "content": {"type": "content", "content": text("b")},
            },
            tool_call(status="cancelled", title=None),
            {"sessionUpdate": "_weather", "sun": True},
            {"sessionUpdate": "usage_update", "used": 5, "size": 10},
        )
        agent.state("idle", stopReason="end_turn")

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            result = await session.run("Go.")
        (call,) = result.tool_calls
        assert session.usage is not None
        assert session.usage.used == 5
    assert (result.text, result.thoughts) == ("I look.", "Hm.")
    assert [entry.content for entry in result.plan] == ["look"]
    assert (call.title, call.kind, call.status, call.raw_input) == (
        "ls", "execute", "failed", {"c": "ls"},
    )  # fmt: skip
    shown = [c.content for c in call.content if isinstance(c, types.ContentToolCallContent)]
    assert shown == [TextContentBlock(text="a"), TextContentBlock(text="b")]


async def test_a_commands_output_is_in_its_tool_call_when_it_has_ended() -> None:
    agent = ScriptedAgentV2()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        data = [base64.b64encode(part).decode() for part in (b"caf\xc3", b"\xa9\n")]
        terminal = {"type": "terminal", "terminalId": "x"}
        agent.say(
            {"sessionUpdate": "terminal_update", "terminalId": "x", "command": "c", "cwd": "/w"},
            tool_call(title="c", content=[terminal]),
            {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": data[0]},
            {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": data[1]},
            {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "!!"},
            {"sessionUpdate": "terminal_update", "terminalId": "x", "exitStatus": {"exitCode": 0}},
        )
        agent.state("idle", stopReason="end_turn")

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            result = await session.run("Go.")
    (call,) = result.tool_calls
    assert call.content == (
        types.TerminalToolCallContent(terminal_id="x"),
        types.ContentToolCallContent(content=TextContentBlock(text="café\n")),
    )


PATCH = """diff --git a/w/a.txt b/w/a.txt
--- a/w/a.txt
+++ b/w/a.txt
@@ -1,2 +1,2 @@
 one
-two
+2
@@ -9 +9 @@
-nine
+9
diff --git a/w/new.txt b/w/new.txt
new file mode 100644
--- /dev/null
+++ b/w/new.txt
@@ -0,0 +1 @@
+hello
"""


async def test_a_diff_is_one_for_each_hunk() -> None:
    agent = ScriptedAgentV2()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        changes = [
            {"operation": "modify", "path": "/w/a.txt"},
            {"operation": "add", "path": "/w/new.txt"},
            {"operation": "move", "oldPath": "/w/b", "path": "/w/c"},
        ]
        patch = {"format": "git_patch", "text": PATCH}
        agent.say(tool_call(content=[{"type": "diff", "changes": changes, "patch": patch}]))
        agent.state("idle", stopReason="end_turn")

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            result = await session.run("Go.")
    (call,) = result.tool_calls
    *found, moved = call.content
    assert [(d.path, d.old_text, d.new_text) for d in found if d.type == "diff"] == [
        ("/w/a.txt", "one\ntwo\n", "one\n2\n"),
        ("/w/a.txt", "nine\n", "9\n"),
        ("/w/new.txt", None, "hello\n"),
    ]
    assert moved == types.ContentToolCallContent(content=TextContentBlock(text="move: /w/b → /w/c"))


async def test_idle_from_before_is_not_the_end_of_the_prompt() -> None:
    agent = ScriptedAgentV2()
    agent.early = lambda _: agent.state("idle", stopReason="refusal")

    async def work(message_id: str) -> None:
        agent.state("idle", stopReason="refusal")
        await anyio.wait_all_tasks_blocked()
        agent.echo(message_id)
        agent.state("running")
        agent.say("done")
        agent.state("idle", stopReason="end_turn")

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            result = await session.run("Go.")
    assert (result.stop_reason, result.text) == ("end_turn", "done")


async def test_a_state_that_is_not_known_is_not_idle() -> None:
    agent = ScriptedAgentV2()

    def early(message_id: str) -> None:
        agent.state("idle", stopReason="refusal")
        agent.echo(message_id)
        agent.state("_thinking_it_over")

    async def work(_message_id: str) -> None:
        await anyio.wait_all_tasks_blocked()
        agent.state("idle", stopReason="end_turn")

    agent.early, agent.on_prompt = early, work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            assert (await session.run("Go.")).stop_reason == "end_turn"


async def test_an_end_before_the_answer_counts() -> None:
    agent = ScriptedAgentV2()

    def early(message_id: str) -> None:
        agent.echo(message_id)
        agent.state("running")
        agent.state("idle", stopReason="end_turn")

    async def nothing(_message_id: str) -> None:
        """All was said before."""

    agent.early, agent.on_prompt = early, nothing
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            assert (await session.run("Go.")).stop_reason == "end_turn"


async def test_a_turn_that_failed_is_an_error_with_its_cause() -> None:
    agent = ScriptedAgentV2()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        error = {"code": -32000, "message": "no quota", "data": {"left": 0}}
        agent.state("idle", stopReason="error", error=error)

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT), pytest.raises(CodexAcpError, match="no quota"):
            await session.run("Go.")

        async def odd(message_id: str) -> None:
            agent.echo(message_id)
            agent.state("idle", stopReason="_bored")

        agent.on_prompt = odd
        with anyio.fail_after(WAIT), pytest.raises(CodexAcpError, match="_bored"):
            await session.run("Go.")


async def test_a_cancel_ends_the_prompt_as_cancelled() -> None:
    agent = ScriptedAgentV2()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        agent.state("running")
        await agent.cancelled.wait()
        agent.state("idle", stopReason="cancelled")

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            async with session.prompt("Go.") as prompt:
                async for update in prompt:
                    if kind_of(update) == "state_update":
                        prompt.cancel()
                assert prompt.stop_reason == "cancelled"


async def test_an_agent_that_ends_fails_its_prompt() -> None:
    agent = ScriptedAgentV2()

    async def work(message_id: str) -> None:
        agent.echo(message_id)
        agent.state("running")
        await agent.side.aclose()

    agent.on_prompt = work
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT), pytest.raises(TransportError):
            await session.run("Go.")
