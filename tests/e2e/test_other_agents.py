"""What a session's model may reach of other threads: its own session's agents (contract 3.9c)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from codex_acp.testing import CustomToolCall, Gate, Step, Text, ToolCall, exec_command
from codex_acp.testing.codex_home import TomlValue
from tests.e2e.sub_agents_bench import OLD, SubAgentBench
from tests.e2e_contract.contract_bench import Scenes

SCENES = Scenes()

OTHER = "THE-ID-OF-ANOTHER-THREAD"
MADE = "THE-FILE-THAT-IS-MADE"
IN_CODE = {"model": "gpt-5.6-luna"}
"""A model that calls its tools in a script of its own."""

HELLO = SCENES.add("hello", [Text("Hello.")])
MAKES = SCENES.add("makes", [exec_command(f"touch {MADE}", call_id="m1")], [Text("Made.")])
WAITS = SCENES.add("waits", [Text("Working."), Gate("waits"), Text("Done.")])


def _calls(*tools: str) -> list[list[Step]]:
    """A response for each tool, which is called with the other's id; the call's id is its name."""
    arguments: dict[str, dict[str, object]] = {
        "resume_agent": {"id": OTHER},
        "send_input": {"target": OTHER, "message": MAKES},
        "wait_agent": {"targets": [OTHER], "timeout_ms": 10_000},
        "close_agent": {"target": OTHER},
    }
    return [[ToolCall(tool, arguments[tool], OLD, call_id=tool)] for tool in tools]


TOOLS = ("resume_agent", "send_input", "wait_agent", "close_agent")
REACH = SCENES.add("reach", *_calls(*TOOLS), [Text("Tried.")])
SCRIPT = f"""
for (const [tool, given] of [
    ["resume_agent", {{id: "{OTHER}"}}],
    ["send_input", {{target: "{OTHER}", message: "{MAKES}"}}],
    ["close_agent", {{target: "{OTHER}"}}],
]) {{
    const name = Object.keys(tools).find(each => each.endsWith(tool));
    try {{ text(name + ": " + JSON.stringify(await tools[name](given))); }}
    catch (error) {{ text(name + ": " + error); }}
}}
"""
REACH_IN_CODE = SCENES.add("code", [CustomToolCall("exec", SCRIPT, call_id="x")], [Text("Tried.")])
TASK = SCENES.add("task", [Text("Child is done.")])
SPAWN = SCENES.add(
    "spawn",
    [ToolCall("spawn_agent", {"message": TASK}, OLD, call_id="spawned")],
    [Text("Spawned.")],
)
TALK = SCENES.add("talk", *_calls("resume_agent", "send_input", "wait_agent"), [Text("Talked.")])
END = SCENES.add("end", *_calls("close_agent"), [Text("Ended.")])


@contextmanager
def a_victim(
    version: int, prompt: str = HELLO, config: Mapping[str, TomlValue] | None = None
) -> Iterator[tuple[SubAgentBench, str, Path]]:
    """A read-only session's bench, another session with full access, and the file it can make."""
    with SubAgentBench(SCENES, version, config=dict(config or {})) as bench:
        victim = bench.ask("session/new", bench.place)["sessionId"]
        option = {"configId": "mode", "value": "full-access"}
        if version == 2:
            option["type"] = "id"
        bench.ask("session/set_config_option", {"sessionId": victim, **option})
        made = bench.home.root / "made"
        bench.model.put(OTHER, victim)
        bench.model.put(MADE, str(made))
        bench.prompt_in(victim, prompt)
        yield bench, victim, made


def outputs(bench: SubAgentBench) -> dict[str, str]:
    """What the model was told of its calls so far."""
    found: dict[str, str] = {}
    for request in bench.model.requests:
        found.update(request.tool_outputs)
    return found


def refusals(bench: SubAgentBench) -> list[str]:
    """The lines of the session that tell of a refusal."""
    texts = [json.dumps(update) for update in bench.updates()]
    return [text for text in texts if "no sub-agent of this session" in text]


@pytest.mark.attack("model")
@pytest.mark.parametrize("version", [1, 2])
def test_3_9c_a_model_cannot_use_another_sessions_rights(version: int) -> None:
    with a_victim(version) as (bench, victim, made):
        mark = len(bench.adapter.messages)
        bench.prompt(REACH)

        said = outputs(bench)
        assert all("no sub-agent of this session" in said[tool] for tool in TOOLS), said
        assert not made.exists()
        assert len(refusals(bench)) == len(TOOLS)
        assert bench.updates(victim, mark) == []
        bench.prompt_in(victim, WAITS, until="Working.")  # it is still there
        bench.model.open("waits")


@pytest.mark.attack("model")
def test_3_9c_a_model_that_writes_scripts_cannot_either() -> None:
    with a_victim(1, config=IN_CODE) as (bench, _, made):
        bench.prompt(REACH_IN_CODE)

        assert outputs(bench)["x"].count("no sub-agent of this session") == 3, outputs(bench)
        assert not made.exists()


def test_3_9c_a_models_own_sub_agents_are_reached_also_by_a_later_process() -> None:
    with SubAgentBench(SCENES, 1, config={}) as bench:
        bench.model.put(MADE, str(bench.home.workspace / "made"))
        bench.prompt(SPAWN)
        bench.model.put(OTHER, json.loads(outputs(bench)["spawned"])["agent_id"])
        bench.adapter.__exit__(None)
        old, place = bench.session, bench.place
        bench.start()
        bench.session = old
        bench.ask("session/load", {**place, "sessionId": old})
        bench.prompt(TALK)

        said = outputs(bench)
        assert "submission_id" in said["send_input"], said
        assert "Made." in said["wait_agent"], said
        bench.prompt(END)
        assert "previous_status" in outputs(bench)["close_agent"]
        assert refusals(bench) == []


@pytest.mark.attack("model")
@pytest.mark.parametrize("version", [1, 2])
def test_3_9c_a_session_that_was_closed_from_elsewhere_says_so_and_is_opened_again(
    version: int,
) -> None:
    no_hooks: dict[str, TomlValue] = {"features": {"hooks": False}}
    with a_victim(version, config=no_hooks) as (bench, victim, made):
        bench.prompt(END)
        bench.wait(victim, lambda u: "closed this session's thread" in json.dumps(u))
        assert "its model reached for another session" in json.dumps(bench.updates())
        bench.prompt_in(victim, MAKES)
        assert made.exists()  # with its own rights, as its person has chosen
