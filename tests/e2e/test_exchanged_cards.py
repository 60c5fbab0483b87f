"""No item of another changes the card of a question, nor can one make its id (contract 3.9b)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from codex_acp.testing import Gate, Step, Text, exec_command
from tests.e2e.raw_adapter import POLL, WAIT
from tests.e2e.sub_agents_bench import SubAgentBench, spawn, wait
from tests.e2e_contract.contract_bench import Scenes

SCENES = Scenes()
CHILD = "THE-ID-OF-THE-SUB-AGENT"
SPELT = {"old": f"{CHILD}:k", "new": f"codex-acp:agent:{CHILD}:k"}
"""How an id would read that is that of the sub-agent's call; the first as it once was."""

DANGER = exec_command("rm -rf precious", justification="May I?", call_id="k")


def harmless(spelt: str) -> Step:
    """What a person allows without a thought, under the id of the sub-agent's call."""
    return exec_command("ls -la", call_id=SPELT[spelt])


ASKS = SCENES.add("asks", [DANGER], [Text("Child is done.")])
FIRST = {
    spelt: SCENES.add(
        f"question first, {spelt}",
        [spawn(ASKS, "helper")],
        [Gate("asked"), exec_command("true", call_id="n")],
        [harmless(spelt)],
        [Gate("answered"), Text("Done.")],
        [Text("Noted.")],
    )
    for spelt in SPELT
}
LATE = SCENES.add("late", [Gate("card"), DANGER], [Text("Child is done.")])
SECOND = {
    spelt: SCENES.add(
        f"card first, {spelt}",
        [spawn(LATE, "helper")],
        [Gate("named"), exec_command("true", call_id="n")],
        [harmless(spelt)],
        [wait("w")],
        [Text("Done.")],
    )
    for spelt in SPELT
}


def child_of(bench: SubAgentBench) -> str:
    """The sub-agent's thread, once Codex has started it."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        whole = bench.transcript.read_text().rpartition("\n")[0]
        for line in whole.splitlines():
            item = json.loads(line).get("message", {}).get("params", {}).get("item", {})
            if item.get("type") == "subAgentActivity":
                return str(item["agentThreadId"])
        time.sleep(POLL)
    raise AssertionError("Codex has started no sub-agent")


def question(bench: SubAgentBench) -> tuple[dict[str, Any], str, str]:
    """What is asked next: the request, the id of its card and its title."""
    asked = bench.adapter.wait_for(lambda m: m.get("method") == "session/request_permission")
    params = asked["params"]
    call = params.get("toolCall") or params["subject"].get("toolCall")
    card = call["toolCallId"] if call else params["subject"]["toolCallId"]
    return asked, card, (call or params)["title"]


def of_card(bench: SubAgentBench, card: str, since: int = 0) -> list[dict[str, Any]]:
    """What was told of a card."""
    return [u for u in bench.updates(since=since) if u.get("toolCallId") == card]


VERSIONS = pytest.mark.parametrize("version", [1, 2])


@pytest.mark.attack("model")
@VERSIONS
@pytest.mark.parametrize("spelt", SPELT)
def test_3_9b_the_card_of_a_sub_agents_question_stays_as_it_was_asked(
    version: int, spelt: str
) -> None:
    with SubAgentBench(SCENES, version) as bench:
        precious = bench.home.workspace / "precious"
        precious.mkdir()
        bench.begin(FIRST[spelt])
        asked, card, title = question(bench)
        assert "rm -rf precious" in title
        mark = len(bench.adapter.messages)
        bench.model.put(CHILD, child_of(bench))
        bench.model.open("asked")
        bench.wait(bench.session, lambda u: "ls -la" in json.dumps(u), mark)

        assert of_card(bench, card, mark) == []
        bench.adapter.choose(asked, "reject_once")
        bench.model.open("answered")
        assert bench.end() == "end_turn"
        assert precious.exists()
        assert not any("ls -la" in json.dumps(update) for update in of_card(bench, card))


@pytest.mark.attack("model")
@VERSIONS
@pytest.mark.parametrize("spelt", SPELT)
def test_3_9b_a_sub_agents_question_never_bears_the_card_of_another_call(
    version: int, spelt: str
) -> None:
    with SubAgentBench(SCENES, version) as bench:
        bench.begin(SECOND[spelt])
        bench.model.put(CHILD, child_of(bench))
        bench.model.open("named")
        bench.wait(bench.session, lambda u: "ls -la" in json.dumps(u))
        bench.model.open("card")
        asked, card, _ = question(bench)

        announced = [u for u in of_card(bench, card) if "title" in u]
        assert announced
        assert all("rm -rf precious" in u["title"] for u in announced)
        bench.adapter.choose(asked, "reject_once")
        assert bench.end() == "end_turn"
