"""``_session/steering``, in the shapes of the official adapter, on the real Codex."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.testing import Gate, Text, exec_command
from tests.e2e.sub_agents_bench import SubAgentBench
from tests.e2e_contract.contract_bench import Scenes

METHOD = "_session/steering"

SCENES = Scenes()
WORK = SCENES.add(
    "work",
    [Text("One."), exec_command("true", call_id="c1"), Gate("work")],
    [Gate("work"), Text("Two.")],  # Codex may cut an answer off for what came meanwhile,
    [Gate("work"), Text("Three.")],  # and take the two messages one after the other
)
ALONE = SCENES.add("alone", [Text("Alone.")])

DOING = SCENES.add(
    "doing", [Text("One."), exec_command("true", call_id="c2"), Gate("doing")], [Text("Done.")]
)
IMPROVE = SCENES.add("improve", [Text("A plan.")])

PROMPT_REQUIRED = {"steering": {"idleBehavior": "promptRequired"}}


def steer(bench: SubAgentBench, text: str, **more: Any) -> dict[str, Any]:
    """Send it and wait for its result."""
    prompt = [{"type": "text", "text": text}]
    return bench.ask(METHOD, {"sessionId": bench.session, "prompt": prompt, **more})


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_is_injected_into_the_running_turn_or_says_that_none_runs(version: int) -> None:
    with SubAgentBench(SCENES, version) as bench:
        assert bench.introduction["_meta"]["steering"] == {"supported": True}
        idle = steer(bench, "Nobody hears.", _meta=PROMPT_REQUIRED)
        assert idle == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        assert not bench.model.requests

        bench.begin(WORK)
        bench.model.wait_for_gate("work")
        assert steer(bench, "Faster.", _meta=PROMPT_REQUIRED) == {"outcome": "injected"}
        assert steer(bench, "Please.") == {"outcome": "injected"}
        bench.model.open("work")
        assert bench.end() == "end_turn"
        assert bench.model.requests[-1].user_texts[-2:] == ("Faster.", "Please.")
        echoed = [u["content"] for u in bench.updates() if u["sessionUpdate"] == "user_message"]
        assert len(echoed) == (0 if version == 1 else 3)

        mark = len(bench.adapter.messages)
        assert steer(bench, ALONE) == {"outcome": "startedNewTurn"}
        said = "agent_message_chunk"
        bench.wait(bench.session, lambda u: u["sessionUpdate"] == said, since=mark)


@pytest.mark.attack("model")
@pytest.mark.parametrize("idle", [PROMPT_REQUIRED, None], ids=["prompt required", "new turn"])
def test_a_plan_is_never_injected_into_a_turn_that_runs_without_plan_mode(idle: Any) -> None:
    with SubAgentBench(SCENES, 1) as bench:
        bench.begin(DOING)
        bench.model.wait_for_gate("doing")
        message = [{"type": "text", "text": f"/plan {IMPROVE}"}]
        params = {"sessionId": bench.session, "prompt": message}
        asked = bench.adapter.start(METHOD, params if idle is None else {**params, "_meta": idle})
        bench.wait(bench.session, lambda u: "counts from the next turn on" in json.dumps(u))
        if idle is not None:
            outcome = {"outcome": "promptRequired", "reason": "noRunningTurn"}
            assert bench.adapter.answer(asked)["result"] == outcome
        bench.model.open("doing")
        assert bench.end() == "end_turn"
        if idle is None:
            assert bench.adapter.answer(asked)["result"] == {"outcome": "startedNewTurn"}
            bench.wait(bench.session, lambda u: "A plan." in json.dumps(u))
        planned = ["Plan Mode" in json.dumps(each.body) for each in bench.model.requests]
        assert planned == ([False, False, True] if idle is None else [False, False])


def test_what_cannot_be_steered_is_refused() -> None:
    text = [{"type": "text", "text": "Hello."}]
    with SubAgentBench(SCENES, 1) as bench:
        session = {"sessionId": bench.session}
        attacks: list[Any] = [
            None,
            [],
            {"prompt": text},
            {"sessionId": 3, "prompt": text},
            session,
            {**session, "prompt": []},
            {**session, "prompt": "Hello."},
            {**session, "prompt": [{"type": "text"}]},
            {**session, "prompt": text, "_meta": 3},
            {**session, "prompt": text, "_meta": {"steering": []}},
            {**session, "prompt": text, "_meta": {"steering": {"idleBehavior": "begin"}}},
        ]
        for params in attacks:
            error = bench.refused(METHOD, params)
            assert error["code"] == -32602, (params, error)
        assert bench.refused(METHOD, {"sessionId": "none", "prompt": text})["code"] == -32002
        assert bench.refused("_session/other", {**session, "prompt": text})["code"] == -32601
        assert bench.model.requests == ()
