"""Cards of edits that may be on another machine: of a sub-agent, and after the loss of Codex."""

from __future__ import annotations

import json
import os
import signal

import pytest

from codex_acp.testing import Step, Text, apply_patch
from tests.e2e.sub_agents_bench import SubAgentBench, spawn, wait
from tests.e2e_contract.contract_bench import Scenes
from tests.support.environments import PRODUCTION, attach_environment

pytestmark = [pytest.mark.e2e, pytest.mark.attack("model")]

SCENES = Scenes()


def add(name: str) -> Step:
    """Add a file on the other machine; here there is one of its name."""
    lines = (
        "*** Begin Patch",
        f"*** Environment ID: {PRODUCTION}",
        f"*** Add File: {name}",
        "+new",
    )
    return apply_patch("\n".join((*lines, "*** End Patch", "")), call_id=name)


HELLO = SCENES.add("hello", [Text("Hello.")])
TASK = SCENES.add("task", [add("first")], [Text("Child is done.")])
SPAWN = SCENES.add("spawn", [spawn(TASK, "helper")], [wait("w")], [Text("Done.")])
AGAIN = SCENES.add("again", [add("second")], [Text("Done.")])


def titles(bench: SubAgentBench, prompt: str) -> list[str]:
    """Allow the one edit of a prompt; return the titles of its question and of its cards."""
    mark = len(bench.adapter.messages)
    bench.begin(prompt)
    asked = bench.adapter.wait_for(lambda m: m.get("method") == "session/request_permission")
    option = next(o for o in asked["params"]["options"] if o["kind"] == "allow_once")
    chosen = {"outcome": "selected", "optionId": option["optionId"]}
    bench.adapter.send({"id": asked["id"], "result": {"outcome": chosen}})
    bench.end()
    told = bench.adapter.messages[mark:]
    assert "secret" not in json.dumps(told)
    sessions = (bench.session, *bench.children())
    cards = [u for each in sessions for u in bench.updates(each, mark) if u.get("kind") == "edit"]
    assert cards
    return [asked["params"]["title"], *(card["title"] for card in cards)]


def test_3_8_no_card_of_an_edit_says_what_this_disk_has_where_it_may_be_another_one() -> None:
    with SubAgentBench(SCENES, 2) as bench:
        for name in ("first", "second"):
            (bench.home.workspace / name).write_text("secret of this machine\n")
        bench.prompt(HELLO)  # else there is nothing to resume
        attach_environment(bench.home)  # from the next Codex on
        os.kill(bench.adapter.codex(), signal.SIGKILL)
        told = [titles(bench, prompt) for prompt in (AGAIN, SPAWN)]
    for question, *cards in told:
        assert question.startswith(f"On one of local, {PRODUCTION} (Codex does not say which): ")
        for card in cards:
            assert card.startswith("Write ")
            assert card.endswith("(not looked at: it may be on another machine)")
