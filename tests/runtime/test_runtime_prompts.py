"""A prompt as an async iterator: what it gives, how it ends, and that leaving it cancels it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys

import anyio
import anyio.lowlevel
import pytest

from codex_acp.acp import types
from codex_acp.errors import ConnectionClosed, ErrorReply, MisuseError, RpcError
from codex_acp.jsonrpc import EncodedJson
from codex_acp.runtime import (
    AgentRuntime,
    AnswerTooLarge,
    MethodNotOffered,
    Prompt,
    PromptResult,
    SessionClosed,
    Update,
)
from codex_acp.runtime.prompt import HIGH_WATER, RunningPrompt
from codex_acp.runtime.results import Record
from tests.runtime.scripted_agent import ScriptedAgent, chunk

WAIT = 60.0


def texts(updates: list[Update]) -> list[str]:
    found = []
    for update in updates:
        assert isinstance(update, types.AgentMessageChunkSessionUpdate)
        assert isinstance(update.content, types.TextContentBlock)
        found.append(update.content.text)
    return found


async def test_the_updates_come_in_order_and_then_the_stop_reason() -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "One, ", "two, ", "three.")
        return types.PromptResponse(stop_reason="max_tokens")

    agent.on(prompt=answer)
    async with (
        AgentRuntime() as runtime,
        runtime.open(agent.spec()) as session,
        session.prompt("Count.") as prompt,
    ):
        before = prompt.stop_reason
        assert texts([update async for update in prompt]) == ["One, ", "two, ", "three."]
        assert (before, prompt.stop_reason) == (None, "max_tokens")
    assert agent.prompts[0].prompt == [types.TextContentBlock(text="Count.")]


async def test_run_gives_text_thoughts_tool_calls_and_plan_put_together() -> None:
    agent = ScriptedAgent()
    entry = types.PlanEntry(content="look", priority="medium", status="completed")

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(
            request.session_id,
            types.AgentThoughtChunkSessionUpdate(content=types.TextContentBlock(text="Hm.")),
            chunk("I ", "m1"),
            chunk("look.", "m1"),
            types.ToolCallSessionUpdate(
                tool_call_id="t", title="ls", kind="execute", raw_input={"a": 1}
            ),
            types.ToolCallUpdateSessionUpdate(
                tool_call_id="t", status="completed", raw_output=["x"]
            ),
            types.PlanSessionUpdate(entries=[entry]),
            chunk("Two files.", "m2"),
        )
        return types.PromptResponse.model_validate(
            {"stopReason": "end_turn", "xTokens": {"total": 7}}
        )

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        result: PromptResult = await session.run("What is here?")
    assert result.stop_reason == "end_turn"
    assert result.messages == ("I look.", "Two files.")
    assert result.text == "I look.\n\nTwo files."
    assert result.thoughts == "Hm."
    (call,) = result.tool_calls
    assert (call.title, call.kind, call.status) == ("ls", "execute", "completed")
    assert (call.raw_input, call.raw_output) == ({"a": 1}, ["x"])
    assert result.plan == (entry,)
    assert result.response.model_extra == {"xTokens": {"total": 7}}


async def test_without_message_ids_a_tool_call_separates_two_messages() -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        call = types.ToolCallSessionUpdate(tool_call_id="t", title="ls")
        agent.say(request.session_id, "I ", "look.", call, "Two ", "files.")
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert (await session.run("?")).messages == ("I look.", "Two files.")


async def test_an_update_of_a_kind_that_the_schema_lacks_is_given_as_it_is() -> None:
    agent = ScriptedAgent()
    update = {"sessionUpdate": "subagent_update", "agentId": "a", "n": 1}

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        body = json.dumps({"sessionId": request.session_id, "update": update}).encode()
        agent.side.session_update_encoded(EncodedJson(body))
        agent.say(request.session_id, "Done.")
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        updates = [update async for update in session.prompt("Go.")]
    assert isinstance(updates[0], types.UnknownVariant)
    assert updates[0].wire() == update
    assert texts(updates[1:]) == ["Done."]


async def test_a_malformed_update_of_a_known_kind_is_dropped_and_the_prompt_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        body = b'{"sessionId":"s1","update":{"sessionUpdate":"tool_call","title":"no id"}}'
        agent.side.session_update_encoded(EncodedJson(body))
        agent.say(request.session_id, "Done.")
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        updates = [update async for update in session.prompt("Go.")]
    assert texts(updates) == ["Done."]
    assert "invalid notification" in caplog.text


async def test_an_error_of_the_agent_is_raised_after_the_updates_before_it() -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "I try.")
        raise RpcError(-32603, "the model is down", {"retry": True})

    agent.on(prompt=answer)
    seen: list[Update] = []
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        prompt = session.prompt("Go.")
        seen.append(await anext(prompt))
        with pytest.raises(ErrorReply, match="the model is down") as raised:
            await anext(prompt)
        assert raised.value.data == {"retry": True}
        assert texts(seen) == ["I try."]
        agent.on(prompt=ScriptedAgent.on_prompt.__get__(agent))
        assert (await session.run("Again.")).text == "Hello."


async def test_cancel_tells_the_agent_and_the_iteration_goes_on_to_its_end() -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "I start.")
        response = await agent.until_cancelled()
        agent.say(request.session_id, "I stop.")
        return response

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        seen = []
        async with session.prompt("Go.") as prompt:
            async for update in prompt:
                seen.append(update)
                prompt.cancel()
    assert texts(seen) == ["I start.", "I stop."]
    assert prompt.stop_reason == "cancelled"
    assert agent.calls.count("session/cancel s1") == 1


async def test_a_prompt_that_is_cancelled_before_it_was_sent_never_is() -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        prompt = session.prompt("Go.")
        prompt.cancel()
        assert (await prompt.result()).stop_reason == "cancelled"
        await session.run("Then this.")
    assert [request.prompt for request in agent.prompts] == [
        [types.TextContentBlock(text="Then this.")]
    ]
    assert "session/cancel s1" not in agent.calls, "it would hit whatever runs by then"


async def fail_in_the_middle(prompt: Prompt) -> None:
    async with prompt:
        async for _ in prompt:
            raise ZeroDivisionError


@pytest.mark.parametrize("how", ["break in a with", "break alone", "error", "aclose"])
async def test_leaving_a_prompt_early_cancels_it(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "I start.")
        return await agent.until_cancelled()

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            if how == "break in a with":
                async with session.prompt("Go.") as prompt:
                    async for _ in prompt:
                        break
                assert prompt.stop_reason == "cancelled"
            elif how == "break alone":
                async for _ in session.prompt("Go."):
                    break
                gc.collect()
            elif how == "error":
                prompt = session.prompt("Go.")
                with pytest.raises(ZeroDivisionError):
                    await fail_in_the_middle(prompt)
                assert prompt.stop_reason == "cancelled"
            else:
                prompt = session.prompt("Go.")
                await anext(prompt)
                await prompt.aclose()
                assert prompt.stop_reason == "cancelled"
            agent.on(prompt=ScriptedAgent.on_prompt.__get__(agent))
            # The next prompt waits for the end of the one that was left.
            assert (await session.run("Again.")).text == "Hello."
    assert agent.calls.count("session/cancel s1") == 1
    assert "has not ended its prompt" not in caplog.text  # its own bound was not needed


@pytest.mark.parametrize("kind", ["task", "scope"])
async def test_a_run_that_is_cancelled_cancels_its_prompt_and_waits_for_its_end(kind: str) -> None:
    agent = ScriptedAgent()
    running = asyncio.Event()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        del request
        running.set()
        return await agent.until_cancelled()

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            if kind == "task":
                task = asyncio.create_task(session.run("Go."))
                await running.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(session.run, "Go.")
                        await running.wait()
                        scope.cancel()
            assert not agent.cancelled.is_set(), "the agent has ended it"
            assert agent.calls[-1] == "session/cancel s1"


async def test_an_agent_that_ignores_a_cancel_does_not_hold_up_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("codex_acp.runtime.prompt.CANCEL_SECONDS", 0.01)
    agent = ScriptedAgent()
    never = asyncio.Event()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "I start.")
        await never.wait()
        raise AssertionError

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            async with session.prompt("Go.") as prompt:
                await anext(prompt)
            assert "has not ended its prompt" in caplog.text
            agent.on(prompt=ScriptedAgent.on_prompt.__get__(agent))
            assert (await session.run("Again.")).text == "Hello."


async def test_a_second_prompt_while_one_runs_is_a_misuse() -> None:
    agent = ScriptedAgent()
    agent.on(prompt=lambda _: agent.until_cancelled())
    async with (
        AgentRuntime() as runtime,
        runtime.open(agent.spec()) as session,
        session.prompt("One."),
    ):
        with pytest.raises(MisuseError, match="a prompt runs"):
            session.prompt("Two.")


async def test_a_prompt_that_was_left_is_not_entered_again() -> None:
    async with AgentRuntime() as runtime, runtime.open(ScriptedAgent().spec()) as session:
        async with session.prompt("Go.") as prompt:
            await prompt.result()
        with pytest.raises(MisuseError, match=r"used only once; call Session\.prompt"):
            await prompt.__aenter__()


async def test_a_second_prompt_that_waits_for_a_cancelled_one_is_a_misuse() -> None:
    agent = ScriptedAgent()
    agent.on(prompt=lambda _: agent.until_cancelled())
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        first = session.prompt("One.")
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        second = session.prompt("Two.")
        with pytest.raises(MisuseError, match="a prompt runs"):
            session.prompt("Three.")
        second.cancel()


async def test_a_prompt_that_is_over_is_not_kept() -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        for _ in range(3):
            await session.run("Go.")
        gc.collect()
        assert sum(isinstance(each, RunningPrompt) for each in gc.get_objects()) == 1


async def test_content_that_the_agent_cannot_take_is_not_sent() -> None:
    agent = ScriptedAgent()
    image = types.ImageContentBlock(data="AAAA", mime_type="image/png")
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with pytest.raises(MethodNotOffered, match="ImageContentBlock"):
            session.prompt(["Look:", image])
        with pytest.raises(MisuseError, match="content"):
            session.prompt([])
    assert agent.prompts == []


async def test_content_that_it_can_take_is_sent_as_blocks() -> None:
    agent = ScriptedAgent(prompt_capabilities={"image": True})
    image = types.ImageContentBlock(data="AAAA", mime_type="image/png")
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        await session.run(["Look:", image])
        await session.run(types.TextContentBlock(text="A block alone."))
    assert agent.prompts[0].prompt == [types.TextContentBlock(text="Look:"), image]
    assert agent.prompts[1].prompt == [types.TextContentBlock(text="A block alone.")]


async def test_closing_a_session_ends_its_prompt_and_later_use_says_so() -> None:
    agent = ScriptedAgent()
    agent.on(prompt=lambda _: agent.until_cancelled())
    async with AgentRuntime() as runtime:
        session = await runtime.open(agent.spec())
        prompt = session.prompt("Go.")
        with anyio.fail_after(WAIT):
            await session.aclose()
            with pytest.raises((SessionClosed, ConnectionClosed)):
                await prompt.result()
        with pytest.raises(SessionClosed):
            session.prompt("More.")


async def test_listeners_hear_of_all_live_updates_also_between_prompts() -> None:
    agent = ScriptedAgent()
    heard: list[Update] = []
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        stop = session.listen(heard.append)
        news = asyncio.Event()
        session.listen(lambda _: news.set())
        session.listen(lambda _: 1 // 0)  # type: ignore[arg-type] # it fails
        agent.say("s1", "By the way.")
        with anyio.fail_after(WAIT):
            await news.wait()
        await session.run("Go.")
        stop()
        await session.run("Go.")
    assert texts(heard) == ["By the way.", "Hello."]


async def test_updates_of_a_foreign_session_reach_nobody_and_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say("another", "Psst.", "Psst.")
        agent.say(request.session_id, "Hello.")
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with caplog.at_level(logging.WARNING):
            assert (await session.run("Go.")).text == "Hello."
    assert caplog.text.count("which is no session here") == 1


async def test_a_slow_reader_pauses_the_agent_but_never_an_answer() -> None:
    agent = ScriptedAgent()
    many = HIGH_WATER * 3

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        for number in range(many):
            agent.say(request.session_id, f"{number} ")
            await agent.side.drain()
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec(shared=True)) as session:
        gate = session._process.gate
        with anyio.fail_after(WAIT):
            async with session.prompt("Count.") as prompt:
                while not gate.paused:
                    await anyio.lowlevel.checkpoint()
                async with runtime.open(agent.spec(shared=True)) as other:
                    assert other.session_id == "s2"
                read = [update async for update in prompt]
    assert texts(read) == [f"{number} " for number in range(many)]


def small(kind: str, number: int) -> types.SessionUpdate:
    """One of many: pieces of one message, messages, thoughts, tool calls, and many values."""
    text = types.TextContentBlock(text="x" * 1000)
    if kind in ("text", "messages"):
        return chunk(text.text, str(number) if kind == "messages" else None)
    if kind == "thoughts":
        return types.AgentThoughtChunkSessionUpdate(content=text)
    data = [[[]] * 20] * 10 if kind == "values" else text.text
    return types.ToolCallSessionUpdate(tool_call_id=str(number), title="t", raw_input=data)


@pytest.mark.attack("agent")
@pytest.mark.parametrize("kind", ["text", "messages", "thoughts", "calls", "values", "questions"])
async def test_an_agent_that_never_stops_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("codex_acp.runtime.results.ANSWER_LIMIT", 100_000)
    agent = ScriptedAgent()
    option = types.PermissionOption(option_id="n", name="No", kind="reject_once")
    stopped = asyncio.Event()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        number = 0
        while not agent.cancelled.is_set():
            number += 1
            assert number < 1000
            if kind == "questions":
                call = types.ToolCallUpdate(tool_call_id=str(number), raw_input="x" * 1000)
                question = types.RequestPermissionRequest(
                    session_id=request.session_id, tool_call=call, options=[option]
                )
                await agent.side.session_request_permission(question)
            else:
                agent.say(request.session_id, small(kind, number))
            await agent.side.drain()
        stopped.set()
        return types.PromptResponse(stop_reason="cancelled")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT), pytest.raises(AnswerTooLarge) as raised:
            await session.run("Go.")
        assert stopped.is_set()
        assert raised.value.limit == 100_000
        update = types.ToolCallUpdate(tool_call_id="later", title="t")
        question = types.RequestPermissionRequest(session_id="s1", tool_call=update, options=[])
        assert session._state._take_tool_call(question).title == "t"
        assert session._state.prompt is not None
        assert "later" not in session._state.prompt.record.tool_calls


async def test_a_prompt_that_waits_is_not_sent_once_its_session_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codex_acp.runtime.prompt.CANCEL_SECONDS", 0.1)
    agent, begun = ScriptedAgent(), asyncio.Event()

    async def answer(_request: types.PromptRequest) -> types.PromptResponse:
        begun.set()
        await anyio.Event().wait()
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime:
        session = await runtime.open(agent.spec(shared=True))
        first = session.prompt("One.")
        await begun.wait()
        first.cancel()
        second = session.prompt("Two.")
        with anyio.fail_after(WAIT):
            await session.aclose()
            with pytest.raises(SessionClosed):
                await second.result()
        assert agent.calls.count("session/prompt") == 1


@pytest.mark.attack("agent")
@pytest.mark.parametrize("stops", [True, False])
async def test_after_too_large_an_answer_the_next_prompt_waits_for_the_agent(
    monkeypatch: pytest.MonkeyPatch, *, stops: bool
) -> None:
    monkeypatch.setattr("codex_acp.runtime.results.ANSWER_LIMIT", 100_000)
    monkeypatch.setattr("codex_acp.runtime.prompt.CANCEL_SECONDS", WAIT if stops else 0.1)
    agent, goes_on, answered = ScriptedAgent(), asyncio.Event(), asyncio.Event()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        if len(agent.prompts) == 2:
            agent.say(request.session_id, "Done.")
            return types.PromptResponse(stop_reason="end_turn")
        agent.say(request.session_id, "x" * 200_000)
        await goes_on.wait()
        call = types.ToolCallUpdate(tool_call_id="flood", title="t")
        agent.say(request.session_id, "flood")
        question = types.RequestPermissionRequest(session_id="s1", tool_call=call, options=[])
        reply = await agent.side.session_request_permission(question)
        assert reply.outcome.outcome == "cancelled"
        answered.set()
        return types.PromptResponse(stop_reason="cancelled")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        first = session.prompt("Go.")
        with anyio.fail_after(WAIT), pytest.raises(AnswerTooLarge):
            await first.result()
        second = session.prompt("And now?")
        await agent.cancelled.wait()
        if stops:
            goes_on.set()
        result = await second.result()
        assert (result.text, result.tool_calls, answered.is_set()) == ("Done.", (), stops)
        with pytest.raises(AnswerTooLarge):
            await first.result()


@pytest.mark.parametrize("value", ["\U0001f600" * 1000, 10**4000], ids=["emoji", "number"])
def test_wide_characters_and_long_numbers_count_as_they_do_in_memory(value: object) -> None:
    record = Record()
    record.take(types.ToolCallSessionUpdate(tool_call_id="c", title="t", raw_input=value))
    assert record.size > sys.getsizeof(value)


async def test_only_the_latest_of_a_tool_call_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_acp.runtime.results.ANSWER_LIMIT", 100_000)
    agent = ScriptedAgent()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        for number in range(200):
            update = types.ToolCallUpdateSessionUpdate(
                tool_call_id="c", raw_output=f"{number} " * 200
            )
            agent.say(request.session_id, update)
            await agent.side.drain()
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert (await session.run("Go.")).tool_calls[0].raw_output == "199 " * 200
