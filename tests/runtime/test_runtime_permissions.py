"""Permission requests: by policy or callback, and closed where anything is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from codex_acp.acp import types
from codex_acp.errors import ErrorReply
from codex_acp.runtime import AgentRuntime, Permission, PermissionPolicy, allow_kinds
from tests.runtime.scripted_agent import ScriptedAgent

WAIT = 60.0

YES = types.PermissionOption(option_id="y", name="Yes", kind="allow_once")
ALWAYS = types.PermissionOption(option_id="a", name="Always", kind="allow_always")
NO = types.PermissionOption(option_id="n", name="No", kind="reject_once")
NEVER = types.PermissionOption(option_id="x", name="Never", kind="reject_always")
ALL = [YES, ALWAYS, NEVER, NO]

CANCELLED = types.CancelledRequestPermissionOutcome()
REJECTED = types.SelectedRequestPermissionOutcome(option_id="n")


class Asking(ScriptedAgent):
    """Asks for permission in its prompt; ``outcomes`` are what it was told."""

    def __init__(
        self, options: list[types.PermissionOption] | None = None, kind: Any = "execute"
    ) -> None:
        super().__init__()
        self.options = ALL if options is None else options
        self.kind = kind
        self.session_id: str | None = None
        self.outcomes: list[types.RequestPermissionOutcome] = []
        self.asked = asyncio.Event()

    async def on_prompt(self, request: types.PromptRequest) -> types.PromptResponse:
        call = types.ToolCallSessionUpdate(tool_call_id="t", title="rm -rf", raw_input={"c": 1})
        if self.kind is not None:
            call.kind = self.kind
        self.say(request.session_id, call)
        question = types.RequestPermissionRequest(
            session_id=self.session_id or request.session_id,
            tool_call=types.ToolCallUpdate(tool_call_id="t", status="pending"),
            options=self.options,
        )
        self.asked.set()
        answer = await self.side.session_request_permission(question)
        self.outcomes.append(answer.outcome)
        if self.cancelled.is_set():
            return types.PromptResponse(stop_reason="cancelled")
        return types.PromptResponse(stop_reason="end_turn")


async def outcome(
    policy: PermissionPolicy | None,
    options: list[types.PermissionOption] | None = None,
    kind: Any = "execute",
) -> types.RequestPermissionOutcome:
    agent = Asking(options, kind)
    with anyio.fail_after(WAIT):
        if policy is None:
            async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
                await session.run("Go.")
        else:
            async with (
                AgentRuntime(permissions=policy) as runtime,
                runtime.open(agent.spec()) as session,
            ):
                await session.run("Go.")
    (told,) = agent.outcomes
    return told


async def test_without_a_policy_the_option_that_rejects_once_is_chosen_by_its_kind() -> None:
    assert await outcome(None) == REJECTED


@pytest.mark.parametrize("options", [[], [YES], [YES, ALWAYS], [YES, NEVER]])
async def test_without_such_an_option_it_is_cancelled(
    options: list[types.PermissionOption],
) -> None:
    assert await outcome(None, options) == CANCELLED


async def test_an_option_that_only_pretends_to_reject_is_not_chosen() -> None:
    trap = types.PermissionOption(option_id="y", name="No", kind="reject_once")
    assert await outcome(None, [YES, trap]) == CANCELLED
    assert await outcome(None, [YES, trap, NO]) == REJECTED


@pytest.mark.parametrize("kind", ["allow_once", "allow_always", "reject_always"])
async def test_a_callback_chooses_any_option(kind: types.PermissionOptionKind) -> None:
    (wanted,) = [option for option in ALL if option.kind == kind]
    chosen = types.SelectedRequestPermissionOutcome(option_id=wanted.option_id)
    assert await outcome(lambda permission: permission.option(kind)) == chosen
    assert await outcome(lambda _: wanted.option_id) == chosen

    async def slowly(permission: Permission) -> types.PermissionOption | None:
        await asyncio.sleep(0)
        return permission.option(kind)

    assert await outcome(slowly) == chosen


def broken(_permission: Permission) -> str:
    message = "a mistake"
    raise KeyError(message)


@pytest.mark.parametrize(
    "policy",
    [lambda _: None, lambda _: "unheard", lambda _: "", broken, lambda _: 7],
    ids=["nothing", "unknown id", "empty id", "raises", "no id at all"],
)
async def test_whatever_is_no_offered_option_rejects(policy: Callable[[Permission], Any]) -> None:
    assert await outcome(policy) == REJECTED


async def test_an_id_with_two_meanings_rejects() -> None:
    twin = types.PermissionOption(option_id="y", name="Yes, always", kind="allow_always")
    assert await outcome(lambda _: "y", [YES, twin, NO]) == REJECTED


async def test_kinds_that_are_allowed_are_allowed_once_and_all_else_is_asked_further() -> None:
    yes = types.SelectedRequestPermissionOutcome(option_id="y")
    assert await outcome(allow_kinds("execute")) == yes
    assert await outcome(allow_kinds("read", "edit")) == REJECTED
    assert await outcome(allow_kinds("other"), kind=None) == yes
    assert await outcome(allow_kinds("execute"), [ALWAYS, NO]) == REJECTED, "once, or not at all"
    assert await outcome(allow_kinds("read", otherwise=lambda _: "a")) == (
        types.SelectedRequestPermissionOutcome(option_id="a")
    )


async def test_the_question_has_all_that_is_known_of_the_tool_call() -> None:
    seen: list[Permission] = []
    await outcome(seen.append)
    (permission,) = seen
    call = permission.tool_call
    assert (call.title, call.kind, call.status) == ("rm -rf", "execute", "pending")
    assert call.raw_input == {"c": 1}
    assert permission.session_id == "s1"
    assert permission.options == tuple(ALL)


async def test_a_session_may_have_a_policy_of_its_own() -> None:
    agent = Asking()
    async with (
        AgentRuntime() as runtime,
        runtime.open(agent.spec(), permissions=allow_kinds("execute")) as session,
    ):
        await session.run("Go.")
    assert agent.outcomes == [types.SelectedRequestPermissionOutcome(option_id="y")]


async def test_a_cancel_settles_the_open_question_and_no_later_answer_counts() -> None:
    agent = Asking()
    answered = asyncio.Event()

    async def late(_permission: Permission) -> str:
        try:
            await answered.wait()
        finally:
            answered.set()
        return "y"

    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime(permissions=late) as runtime,
            runtime.open(agent.spec()) as session,
            session.prompt("Go.") as prompt,
        ):
            await agent.asked.wait()
            prompt.cancel()
            assert (await prompt.result()).stop_reason == "cancelled"
    assert agent.outcomes == [CANCELLED]


async def test_an_answer_that_comes_in_the_next_prompt_allows_nothing() -> None:
    agent, next_begun = Asking(), asyncio.Event()

    async def deaf(_permission: Permission) -> str:
        with anyio.CancelScope(shield=True):
            await next_begun.wait()
        return "y"

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        if len(agent.prompts) == 1:
            asking.append(asyncio.create_task(Asking.on_prompt(agent, request)))
            return await agent.until_cancelled()
        next_begun.set()
        return await asking[0]

    asking: list[asyncio.Task[types.PromptResponse]] = []
    agent.on(prompt=answer)
    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime(permissions=deaf) as runtime,
            runtime.open(agent.spec()) as session,
        ):
            async with session.prompt("Go."):
                await agent.asked.wait()
                await anyio.wait_all_tasks_blocked()
            await session.run("And now?")
    assert agent.outcomes == [CANCELLED]


async def test_a_question_after_the_cancel_is_not_put_to_anybody() -> None:
    agent = Asking()
    asked: list[Permission] = []

    async def ask_late(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "I start.")
        await agent.cancelled.wait()
        return await Asking.on_prompt(agent, request)

    agent.on(prompt=ask_late)
    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime(permissions=asked.append) as runtime,
            runtime.open(agent.spec()) as session,
            session.prompt("Go.") as prompt,
        ):
            await anext(prompt)
            prompt.cancel()
            await prompt.result()
    assert asked == []
    assert agent.outcomes == [CANCELLED]


async def test_a_question_for_a_foreign_session_is_an_error_and_asks_nobody() -> None:
    agent = Asking()
    agent.session_id = "another"
    asked: list[Permission] = []
    async with (
        AgentRuntime(permissions=asked.append) as runtime,
        runtime.open(agent.spec()) as session,
    ):
        with pytest.raises(ErrorReply):
            await session.run("Go.")
    assert asked == []


async def test_a_policy_may_use_and_even_close_its_own_session() -> None:
    agent = Asking()
    async with AgentRuntime() as runtime:

        async def close(_permission: Permission) -> str:
            await session.aclose()
            return "y"

        session = await runtime.open(agent.spec(), permissions=close)
        with anyio.fail_after(WAIT), pytest.raises(Exception, match="closed"):
            await session.run("Go.")
    assert agent.outcomes == [CANCELLED], "what it says after it has closed does not count"
