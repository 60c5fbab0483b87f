"""Who hears a session's sub-agents, and that a flood of them is bounded."""

from __future__ import annotations

from typing import Any, cast

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.adapter.sessions.replay import SubAgentHistories
from codex_acp.adapter.sub_agents import ShownSubAgent, SubAgents
from codex_acp.codex._generated.models import CollabAgentToolCallThreadItem, Turn
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.events import Notice, StateChanged, SubAgentChanged
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.mapping.sub_agents import MAX_SHOWN, MORE_THAN_SHOWN, agents_named_by
from codex_acp.testing.app_server_script import turn_object


class _Codex:
    """Counts who hears what."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.opened_threads = set[str]()

    def subscribe(self, thread_id: str, sink: object) -> None:
        del sink
        self.heard.append(thread_id)

    def unsubscribe(self, thread_id: str, sink: object) -> None:
        del sink
        self.heard.remove(thread_id)


class _Outflow:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []

    def send(self, session_id: str, event: object) -> None:
        self.sent.append((session_id, event))

    def flush(self) -> None:
        """All is sent at once."""


class _Audience:
    outflow = _Outflow()
    features = ClientFeatures(subagents=True)


NAMED: dict[str, Any] = {
    "type": "collabAgentToolCall", "id": "i", "tool": "sendInput", "status": "inProgress",
    "senderThreadId": "root", "agentsStates": {},
}  # fmt: skip
"""An item by which a model talks to any thread that it has heard of."""

ROOT = "/root"
"""Where Codex puts the agent that nobody started."""


def started(child: str, path: str = f"{ROOT}/helper") -> JsonValue:
    """The params of an item that starts a sub-agent."""
    item = {"type": "subAgentActivity", "id": f"i-{child}", "kind": "started"}
    return {"item": {**item, "agentThreadId": child, "agentPath": path}}


class _World:
    def __init__(self, *, knows: bool) -> None:
        self.others = set[str]()
        """Threads that are, or are below, another session."""
        self.codex, self.outflow, self.said = _Codex(), _Outflow(), list[str]()
        self.state = SessionState(ClientFeatures(subagents=knows))
        self.agents = SubAgents(
            "root",
            cast("Any", self.codex),
            cast("Any", self.outflow),
            self.state,
            say=self.said.append,
            may_change_call=lambda: True,
            on_found=lambda *_: None,
            may_be_below=lambda thread: thread not in self.others,
            take_held=lambda _: [],
        )

    def hear(self, thread: str, params: JsonValue) -> None:
        self.agents.follow_named(thread, "item/started", params)


@pytest.mark.attack("model")
@pytest.mark.parametrize("knows", [True, False])
async def test_a_flood_of_sub_agents_is_bounded_and_said_once(knows: bool) -> None:
    world = _World(knows=knows)
    for number in range(1_000):
        world.hear("root", started(f"child-{number}", f"{ROOT}/" + "x" * 10_000))

    assert len(world.codex.heard) == MAX_SHOWN
    assert len(world.said) == 1
    sizes = [len(repr(event)) for _, event in world.outflow.sent]
    assert sum(sizes) < 100_000
    assert "child-999" not in world.agents


async def test_no_agent_is_below_itself_and_none_is_told_twice() -> None:
    world = _World(knows=True)
    world.hear("root", started("root", ROOT))
    world.hear("root", started("root", f"{ROOT}/root"))
    world.hear("root", started("one"))
    world.hear("one", started("one"))
    world.hear("one", started("two"))
    world.hear("two", started("one"))
    world.hear("root", started("two"))

    told = [(session, cast("SubAgentChanged", e).session_id) for session, e in world.outflow.sent]
    assert told == [("root", "one"), ("one", "two")]


async def test_the_end_of_a_turn_is_told_that_began_before_its_thread_was_named() -> None:
    outflow = _Outflow()
    shown = ShownSubAgent(
        SubAgent("child", "root", "call", started=True),
        cast("Any", _Codex()),
        cast("Any", outflow),
        SessionState(ClientFeatures(subagents=True)),
        follow_named=lambda *_: None,
        on_turn_end=lambda: None,
        on_activity=lambda: None,
    )
    shown.turn_ended(Turn.model_validate(turn_object("turn", "completed")))
    told = [cast("StateChanged", e).state for session, e in outflow.sent if session == "child"]
    assert told == ["running", "idle"]
    shown.on_turn_event("turn/started", {"threadId": "child", "turn": {"id": "turn"}})
    assert shown.activity == "idle", "it begins behind its own end"


async def test_3_9_a_question_shows_that_its_sub_agent_waits_whose_turn_began_unheard() -> None:
    world = _World(knows=True)
    world.hear("root", started("one"))
    with world.agents.waiting("one"):
        assert world.agents.state("one") == StateChanged("requires_action")
    assert world.agents.state("one") == StateChanged("running")


@pytest.mark.attack("model")
async def test_what_stands_by_itself_is_below_nobody_whatever_a_model_calls_it() -> None:
    world = _World(knows=True)
    world.others.add("foreign")
    world.hear("root", {"item": {**NAMED, "receiverThreadIds": ["foreign", "child"]}})
    assert "foreign" not in world.agents
    assert ("child" in world.agents, world.agents.has_started("child")) == (True, False)
    world.hear("root", started("child"))
    assert world.agents.has_started("child")

    world.hear("child", started("grandchild"))
    world.agents.forget("child")
    assert world.agents.threads == ("grandchild",)
    assert world.codex.heard == ["grandchild"]
    world.hear("grandchild", {"item": {**NAMED, "receiverThreadIds": ["child"]}})
    world.state.features = ClientFeatures(subagents=False)
    world.agents.announce_again()  # a circle would have no end
    assert world.codex.heard == ["grandchild", "child"]


@pytest.mark.attack("model")
async def test_what_a_session_names_that_is_being_opened_anew_can_be_opened_itself() -> None:
    world = _World(knows=True)
    world.hear("root", {"item": {**NAMED, "receiverThreadIds": ["child"]}})
    world.agents.detach()
    world.agents.forget("child")
    assert (world.agents.threads, world.codex.heard) == ((), [])


@pytest.mark.attack("model")
def test_a_history_shows_only_those_of_which_codex_says_that_they_were_started() -> None:
    histories = SubAgentHistories(cast("Any", _Audience()), "root")
    for tool, child in (("sendInput", "foreign"), ("resumeAgent", "foreign"), ("spawnAgent", "c")):
        item = {**NAMED, "tool": tool, "receiverThreadIds": [child]}
        histories.learn("root", CollabAgentToolCallThreadItem.model_validate(item))
    assert list(histories.agents) == ["c"]


async def test_a_history_says_that_it_names_more_than_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, audience = _World(knows=True), _Audience()
    audience.outflow = _Outflow()
    histories = SubAgentHistories(cast("Any", audience), "root")
    for number in range(MAX_SHOWN + 9):
        item = {**NAMED, "tool": "spawnAgent", "receiverThreadIds": [f"child-{number}"]}
        histories.learn("root", CollabAgentToolCallThreadItem.model_validate(item))

    async def nothing(*_: object) -> None:
        """What they did is not looked at."""

    monkeypatch.setattr(histories, "_show_session", nothing)
    await histories.show(cast("Any", world.codex))
    ((session, notice),) = audience.outflow.sent
    assert (session, cast("Notice", notice).title) == ("root", MORE_THAN_SHOWN)


async def test_another_client_is_told_of_those_that_there_are() -> None:
    world = _World(knows=False)
    world.hear("root", started("one"))
    assert world.outflow.sent == []
    world.state.features = ClientFeatures(subagents=True)
    world.agents.announce_again()

    ((session, event),) = world.outflow.sent
    assert session == "root"
    assert isinstance(event, SubAgentChanged)
    assert event.title == "helper"
    assert world.codex.heard == ["one"]


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "item",
    [
        None,
        [],
        "subAgentActivity",
        {"type": "subAgentActivity"},
        {"type": "subAgentActivity", "agentThreadId": 3, "agentPath": f"{ROOT}/a"},
        {"type": "subAgentActivity", "agentThreadId": "", "agentPath": None},
        {"type": "collabAgentToolCall", "receiverThreadIds": {"a": 1}},
        {"type": "collabAgentToolCall", "receiverThreadIds": [None, 4, ""], "prompt": 5},
        {"type": "commandExecution", "agentThreadId": "one"},
    ],
)
def test_what_names_nobody_names_nobody(item: JsonValue) -> None:
    assert list(agents_named_by("root", item)) == []
