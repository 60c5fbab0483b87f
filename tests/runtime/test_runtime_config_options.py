"""Config options: kept as they come, the agent's answer is the truth, late watchers see it all."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from codex_acp.acp import types
from codex_acp.errors import ErrorReply, MisuseError, RpcError
from codex_acp.runtime import AgentRuntime, Choice, OptionNotOffered
from tests.runtime.scripted_agent import ScriptedAgent

WAIT = 60.0

MODEL: dict[str, Any] = {
    "type": "select",
    "id": "m",
    "name": "Model",
    "category": "model",
    "currentValue": "small",
    "options": [
        {"group": "g", "name": "Fast", "options": [{"value": "small", "name": "Small"}]},
        {
            "group": "h",
            "name": "Clever",
            "options": [{"value": "big", "name": "Big", "description": "Slow"}],
        },
    ],
}
LEVEL: dict[str, Any] = {
    "type": "select",
    "id": "effort",
    "name": "Effort",
    "category": "thought_level",
    "currentValue": "low",
    "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
}
ODD: dict[str, Any] = {
    "type": "boolean",
    "id": "web",
    "name": "Web",
    "category": "_acme.search",
    "currentValue": False,
    "future": {"kept": 1},
}
MODES: dict[str, Any] = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}


def option(data: dict[str, Any], **changes: Any) -> types.SessionConfigOption:
    kind = (
        types.SelectSessionConfigOption
        if data["type"] == "select"
        else types.BooleanSessionConfigOption
    )
    return kind.model_validate({**data, **changes})


class Configured(ScriptedAgent):
    """Has these options, and makes what is asked its own; ``heard`` are the requests."""

    def __init__(self, *options: dict[str, Any], modes: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.options = {data["id"]: dict(data) for data in options}
        self.modes = modes
        self.heard: list[types.SetSessionConfigOptionRequest] = []

    @property
    def all(self) -> list[types.SessionConfigOption]:
        return [option(data) for data in self.options.values()]

    async def on_new(self, request: types.NewSessionRequest) -> types.NewSessionResponse:
        response = await super().on_new(request)
        if self.options:
            response.config_options = self.all
        if self.modes is not None:
            response.modes = types.SessionModeState.model_validate(self.modes)
        return response

    async def on_option(
        self, request: types.SetSessionConfigOptionRequest
    ) -> types.SetSessionConfigOptionResponse:
        self.heard.append(request)
        self.options[request.config_id]["currentValue"] = request.value
        return types.SetSessionConfigOptionResponse(config_options=self.all)


async def test_options_are_kept_as_they_come() -> None:
    agent = Configured(MODEL, LEVEL, ODD)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        options = session.options
        assert options.all == (option(MODEL), option(LEVEL), option(ODD))
        web = options.get("web")
        assert web is not None
        assert web.category == "_acme.search"
        assert web.model_extra == {"future": {"kept": 1}}
        assert options.get("none") is None


async def test_model_and_thought_level_are_found_by_category_and_groups_are_flat() -> None:
    agent = Configured(ODD, MODEL, LEVEL)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert session.options.model.current == "small"
        assert session.options.model.choices == (
            Choice("small", "Small", None, "Fast"),
            Choice("big", "Big", "Slow", "Clever"),
        )
        assert session.options.thought_level.current == "low"
        assert session.options.thought_level.choices[1] == Choice("high", "High")
        assert not session.options.mode


async def test_an_option_without_category_is_found_by_its_id() -> None:
    plain = {key: value for key, value in MODEL.items() if key != "category"} | {"id": "model"}
    agent = Configured(ODD | {"id": "mode"}, plain)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert session.options.model.current == "small"
        assert not session.options.mode, "its category says that it is something else"
        with pytest.raises(OptionNotOffered, match="'mode'"):
            await session.options.mode.set(True)
    assert agent.heard == []


async def test_what_the_agent_answers_is_the_truth() -> None:
    agent = Configured(MODEL, LEVEL)

    async def stubborn(_request: object) -> types.SetSessionConfigOptionResponse:
        agent.options["effort"]["currentValue"] = "high"
        return types.SetSessionConfigOptionResponse(config_options=agent.all)

    agent.on(option=stubborn)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        await session.options.model.set("big")
        assert session.options.model.current == "small"
        assert session.options.thought_level.current == "high"


async def test_nothing_changes_before_the_agent_has_answered_nor_if_it_refuses() -> None:
    agent = Configured(MODEL)
    asked, go = asyncio.Event(), asyncio.Event()

    async def refuse(_request: object) -> types.SetSessionConfigOptionResponse:
        asked.set()
        await go.wait()
        raise RpcError(-32602, "no such model")

    agent.on(option=refuse)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        setting = asyncio.create_task(session.options.model.set("huge"))
        with anyio.fail_after(WAIT):
            await asked.wait()
            assert session.options.model.current == "small"
            go.set()
            with pytest.raises(ErrorReply, match="no such model"):
                await setting
        assert session.options.model.current == "small"


async def test_a_boolean_is_set_with_its_type_and_wrong_types_are_a_misuse() -> None:
    agent = Configured(MODEL, ODD)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert await session.options.set("web", True) == (
            option(MODEL),
            option(ODD, currentValue=True),
        )
        (request,) = agent.heard
        assert isinstance(request, types.BooleanSetSessionConfigOptionRequest)
        with pytest.raises(MisuseError, match="true or false"):
            await session.options.set("web", "yes")
        with pytest.raises(MisuseError, match="named values"):
            await session.options.set("m", True)
        with pytest.raises(OptionNotOffered, match="'none'"):
            await session.options.set("none", "x")
        with pytest.raises(OptionNotOffered, match="thought_level"):
            await session.options.thought_level.set("high")
    assert len(agent.heard) == 1


async def test_an_option_can_be_set_while_a_prompt_runs() -> None:
    agent = Configured(MODEL)
    go = asyncio.Event()

    async def answer(request: types.PromptRequest) -> types.PromptResponse:
        agent.say(request.session_id, "Working.")
        await go.wait()
        return types.PromptResponse(stop_reason="end_turn")

    agent.on(prompt=answer)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        with anyio.fail_after(WAIT):
            async for _ in session.prompt("Go."):
                await session.options.model.set("big")
                go.set()
        assert session.options.model.current == "big"


async def test_a_late_watcher_sees_the_full_list_and_then_each_newer_one() -> None:
    agent = Configured(MODEL, LEVEL)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        await session.options.model.set("big")
        with anyio.fail_after(WAIT):
            async with session.options.watch() as lists:
                first = await anext(lists)
                assert first == session.options.all
                changed = option(LEVEL, currentValue="high")
                agent.say("s1", types.ConfigOptionUpdateSessionUpdate(config_options=[changed]))
                assert await anext(lists) == (changed,)
        assert session.options.all == (changed,)
        assert not session.options.model, "the list that came is the complete one"


async def test_a_watcher_ends_with_its_session() -> None:
    agent = Configured(MODEL)
    async with AgentRuntime() as runtime:
        session = await runtime.open(agent.spec())
        lists = session.options.watch()
        await anext(lists)
        await session.aclose()
        with anyio.fail_after(WAIT):
            assert [seen async for seen in lists] == []
            assert [seen async for seen in session.options.watch()] == []


async def test_legacy_modes_stand_in_where_there_is_no_option_of_that_category() -> None:
    agent = Configured(MODEL, modes=MODES)
    asked: list[str] = []

    async def set_mode(request: types.SetSessionModeRequest) -> types.SetSessionModeResponse:
        asked.append(request.mode_id)
        return types.SetSessionModeResponse()

    agent.on(mode=set_mode)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        mode = session.options.mode
        assert mode.current == "ask"
        assert mode.choices == (Choice("ask", "Ask"), Choice("code", "Code"))
        await mode.set("code")
        assert asked == ["code"]
        assert mode.current == "code"
        async with session.options.watch() as lists:
            await anext(lists)
            agent.say("s1", types.CurrentModeUpdateSessionUpdate(current_mode_id="ask"))
            with anyio.fail_after(WAIT):
                await anext(lists)
        assert mode.current == "ask"


async def test_a_mode_that_the_agent_reports_while_it_is_set_is_the_truth() -> None:
    agent = Configured(modes=MODES)

    async def set_mode(request: types.SetSessionModeRequest) -> types.SetSessionModeResponse:
        agent.say(request.session_id, types.CurrentModeUpdateSessionUpdate(current_mode_id="ask"))
        return types.SetSessionModeResponse()

    agent.on(mode=set_mode)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        await session.options.mode.set("code")
        assert session.options.mode.current == "ask"


async def test_an_option_of_category_mode_goes_before_legacy_modes() -> None:
    agent = Configured(LEVEL | {"id": "x", "category": "mode"}, modes=MODES)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        await session.options.mode.set("high")
        assert session.options.mode.current == "high"
    assert "session/set_mode" not in agent.calls
