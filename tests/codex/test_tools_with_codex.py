"""Dynamic tools and handlers with the real Codex: one reply whatever they do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.codex import CodexClient, TurnSilent, image, trust_mcp_servers
from codex_acp.codex.types import (
    CommandExecutionRequestApprovalResponse,
    DynamicToolCallThreadItem,
    ItemCommandExecutionRequestApproval,
)
from codex_acp.testing import (
    McpTool,
    ModelResponse,
    ScriptedMcpServer,
    Step,
    Text,
    ToolCall,
    exec_command,
    mcp_call,
)
from tests.codex.codex_bench import WAIT_SECONDS, CodexBench
from tests.codex.test_turns_with_codex import PIXEL

COMMAND = "item/commandExecution/requestApproval"
ASK = exec_command("touch made", justification="May I?", call_id="ask")


def calls(*steps: Step) -> list[ModelResponse | list[Step]]:
    """A response for each step, and a last word."""
    return [*[[step] for step in steps], [Text("Done.")]]


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


async def test_the_model_calls_python_functions() -> None:
    script = calls(
        ToolCall("add", {"left": 2, "right": 3}, call_id="good"),
        ToolCall("add", {"left": "two"}, call_id="bad"),
        ToolCall("look", {}, call_id="look"),
    )
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script, tools=[add]) as bench:

            @bench.codex.tool
            async def look() -> object:
                """Look around."""
                return image(PIXEL)

            thread = await bench.thread()
            result = await thread.run("Add them.")
            items = [i for i in result.items if isinstance(i, DynamicToolCallThreadItem)]
            assert [item.success for item in items] == [True, False, True]
            tools: Any = bench.model.requests[0].body["tools"]
            (offered,) = [t for t in tools if t.get("name") == "add"]
            assert offered["description"] == "Add two numbers."
            outputs = bench.model.requests[-1].tool_outputs
            assert outputs["good"] == "5"
            assert "right" in outputs["bad"]
            assert "input_image" in str(bench.model.requests[-1].body["input"])


async def test_a_tool_of_one_thread_is_not_offered_in_another() -> None:
    script = [*calls(ToolCall("add", {"left": 1, "right": 1}, call_id="c")), [Text("Nothing.")]]
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:
            assert (await (await bench.thread(tools=[add])).run("Add.")).text == "Done."
            assert bench.model.requests[-1].tool_outputs["c"] == "2"
            await (await bench.thread()).run("Add.")
            assert "add" in bench.model.requests[0].tool_names
            assert "add" not in bench.model.requests[-1].tool_names


async def test_a_resumed_thread_has_the_tools_it_was_started_with() -> None:
    again = ToolCall("add", {"left": 4, "right": 4}, call_id="again")
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([[Text("Hello.")], *calls(again)]) as bench:
            thread = await bench.thread(tools=[add])
            await thread.run("Hi.")
            await bench.codex.aclose()
            later = await bench.another_client()
            resumed = await later.threads.resume(thread.id, tools=[add])
            await resumed.run("Add.")
            assert bench.model.requests[-1].tool_outputs["again"] == "8"


async def test_a_tool_that_raises_is_slow_or_calls_back_harms_nobody() -> None:
    names = ("raises", "too_slow", "calls_back", "no_such_tool")
    script = calls(*[ToolCall(name, {}, call_id=name) for name in names])
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script) as bench:

            @bench.codex.tool
            def raises() -> None:
                """Raise."""
                raise RuntimeError("no luck")

            @bench.codex.tool(timeout=0.05)
            async def too_slow() -> None:
                """Sleep."""
                await anyio.sleep_forever()

            @bench.codex.tool
            async def calls_back() -> int:
                """Count the threads, in the middle of a turn of one."""
                return len([thread async for thread in bench.codex.threads.list()])

            thread = await bench.thread()
            assert (await thread.run("Call them all.")).text == "Done."
            outputs = bench.model.requests[-1].tool_outputs
            assert "no luck" in outputs["raises"]
            assert "longer than" in outputs["too_slow"]
            assert outputs["calls_back"].isdigit()
            assert "no_such_tool" in outputs["no_such_tool"]
            assert bench.codex.open_requests == ()


async def test_a_tool_that_still_runs_when_its_turn_is_interrupted_is_ended() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def waits() -> None:
        """Wait."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(calls(ToolCall("waits", {}, call_id="w"))) as bench:
            thread = await bench.thread(tools=[waits])
            async with thread.turn("Wait."):
                await began.wait()
            await ended.wait()
            assert bench.codex.open_requests == ()


async def test_a_handler_that_calls_back_into_the_client_gets_its_answer() -> None:
    seen: list[str] = []
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(calls(ASK)) as bench:

            @bench.codex.handle("item/commandExecution/requestApproval")
            async def decide(
                request: ItemCommandExecutionRequestApproval,
            ) -> CommandExecutionRequestApprovalResponse:
                thread = await bench.codex.threads.get(request.params.thread_id).read()
                seen.append(thread.id)
                return CommandExecutionRequestApprovalResponse(decision="accept")

            thread = await bench.thread()
            assert (await thread.run("Make it.")).text == "Done."
            assert seen == [thread.id]
            assert (bench.home.workspace / "made").exists()


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_handler_that_raises_declines_and_the_turn_goes_on(kind: str) -> None:
    async def breaks(
        _request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        raise ValueError("no screen")

    def breaks_too(
        _request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        raise ValueError("no screen")

    refused: list[Any] = []
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(calls(ASK), on_refused=refused.append) as bench:
            handler = breaks if kind == "async" else breaks_too
            bench.codex.handle("item/commandExecution/requestApproval", handler)
            thread = await bench.thread()
            assert (await thread.run("Make it.")).text == "Done."
            assert "rejected" in bench.model.requests[-1].tool_outputs["ask"]
            assert not (bench.home.workspace / "made").exists()
    (told,) = refused
    assert "no screen" in told.reason


SILENT_AFTER = 3.0
"""Seconds; longer than a busy machine takes from a turn's start to its first question."""


async def test_6_3_a_handler_that_never_answers_is_named_by_the_silence() -> None:
    async def hangs(
        _request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("not reached")

    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench([*calls(ASK), [Text("Fine.")]]) as bench:
            bench.codex.handle("item/commandExecution/requestApproval", hangs)
            thread = await bench.thread()
            with pytest.raises(TurnSilent, match=COMMAND) as caught:
                await thread.run("Make it.", silent_after=SILENT_AFTER)
            (request,) = caught.value.open_requests
            assert (request.method, request.thread_id) == (COMMAND, thread.id)


async def test_a_service_with_its_own_trusted_mcp_server_runs_unattended(tmp_path: Path) -> None:
    """The case that wedged a real service: every turn asks, and nobody sits there."""
    tool = McpTool("act", read_only=False, destructive=True)
    server = ScriptedMcpServer(tmp_path, [tool], name="notes")
    steps = [mcp_call("notes", "act", {"n": n}, call_id=f"c{n}") for n in range(3)]
    script = [response for step in steps for response in calls(step)]
    home = {"mcp_servers": {"notes": server.config}, "approval_policy": "on-request"}
    policy = trust_mcp_servers({"notes"})
    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(script, home, policy=policy) as bench:
            thread = await bench.thread()
            for _ in steps:
                assert (await thread.run("Go on.", silent_after=20)).text == "Done."
    assert len(server.received("tools/call")) == 3


async def test_nothing_of_a_tool_is_left_when_the_client_closes() -> None:
    began = anyio.Event()
    cancelled: list[bool] = []

    async def waits() -> None:
        """Wait."""
        began.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with anyio.fail_after(WAIT_SECONDS):
        async with CodexBench(calls(ToolCall("waits", {}, call_id="w"))) as bench:
            thread = await bench.thread(tools=[waits])
            turn = thread.turn("Wait.")
            async with turn:
                await began.wait()
                await turn.detach()
            client: CodexClient = bench.codex
            await client.aclose()
    assert cancelled == [True]
