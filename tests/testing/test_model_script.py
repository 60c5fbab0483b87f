"""Which response a request gets, and scripts in their JSON form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codex_acp.errors import MisuseError
from codex_acp.testing import (
    Delay,
    Disconnect,
    Fail,
    Gate,
    ModelRequest,
    ModelResponse,
    ModelScript,
    Reasoning,
    Text,
    Usage,
    When,
    add_file,
    exec_command,
    mcp_call,
    update_plan,
    words,
)


def request(text: str = "hello", *outputs: str) -> ModelRequest:
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    answered = [{"type": "function_call_output", "call_id": o, "output": "ok"} for o in outputs]
    tools = [{"type": "function", "name": "exec_command"}, {"type": "web_search"}]
    return ModelRequest(0, {"input": [message, *answered], "tools": tools, "model": "m1"})


def test_a_request_is_read() -> None:
    read = request("hello", "c1")
    assert read.last_user_text == "hello"
    assert read.tool_outputs == {"c1": "ok"}
    assert read.tool_names == ("exec_command", "web_search")


def test_a_request_without_the_usual_members_reads_as_empty() -> None:
    read = ModelRequest(0, {"input": "text"})
    assert (read.items, read.last_user_text, read.tool_outputs, read.tool_names) == ((), "", {}, ())


def test_plain_responses_are_used_in_order_and_once() -> None:
    script = ModelScript(ModelResponse(Text("a")), ModelResponse(Text("b")))
    assert script.choose(request(), set()) == 0
    assert script.choose(request(), {0}) == 1
    assert script.choose(request(), {0, 1}) is None


def test_a_condition_that_holds_goes_before_the_order() -> None:
    meant = ModelResponse(Text("b"), when=lambda r: r.last_user_text == "two")
    script = ModelScript(ModelResponse(Text("a")), meant)
    assert script.choose(request("two"), set()) == 1
    assert script.choose(request("one"), set()) == 0
    assert script.choose(request("one"), {0}) is None


def test_a_repeated_response_is_never_used_up() -> None:
    script = ModelScript(ModelResponse(Text("a"), repeat=True))
    assert script.choose(request(), {0}) == 0


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (When(user_text="ell"), True),
        (When(user_text="bye"), False),
        (When(anywhere="hello"), True),
        (When(tool_output="c1"), True),
        (When(tool_output="c2"), False),
        (When(no_tool_output="c2"), True),
        (When(no_tool_output="c1"), False),
        (When(tool="web_search"), True),
        (When(model="m2"), False),
        (When(user_text="hello", tool_output="c2"), False),
    ],
)
def test_every_condition_must_hold(when: When, holds: bool) -> None:
    assert when(request("hello", "c1")) is holds


def test_an_order_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(MisuseError, match="only step"):
        ModelResponse(Text("a"), Fail())
    with pytest.raises(MisuseError, match="last step"):
        ModelResponse(Disconnect(), Text("a"))


def test_json_and_python_give_the_same_script() -> None:
    text = json.dumps(
        {
            "responses": [
                {
                    "steps": [
                        {"type": "reasoning", "deltas": ["Hm"]},
                        {"type": "text", "deltas": ["a", "b"], "pause": 0.5},
                        {"type": "words", "count": 3},
                        {"type": "exec_command", "cmd": "ls", "justification": "why"},
                        {"type": "add_file", "path": "f", "content": "x\n"},
                        {"type": "update_plan", "plan": [["Look", "pending"]]},
                        {"type": "mcp_call", "server": "notes", "tool": "read"},
                        {"type": "usage", "input_tokens": 3},
                        {"type": "delay", "seconds": 1},
                    ],
                    "when": {"user_text": "x"},
                    "repeat": True,
                },
                {"steps": [{"type": "fail", "status": 503}]},
            ]
        }
    )
    assert ModelScript.from_json(text) == ModelScript(
        ModelResponse(
            Reasoning("Hm"),
            Text("a", "b", pause=0.5),
            words(3),
            exec_command("ls", justification="why"),
            add_file("f", "x\n"),
            # JSON has no tuples; a step of a plan is any pair.
            update_plan(("Look", "pending")),
            mcp_call("notes", "read"),
            Usage(3),
            Delay(1),
            when=When(user_text="x"),
            repeat=True,
        ),
        ModelResponse(Fail(503)),
    )


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('{"responses": [{"steps": [{"type": "gate", "name": "go"}]}]}')
    assert ModelScript.from_file(file) == ModelScript(ModelResponse(Gate("go")))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "not JSON"),
        ("[]", "responses"),
        ('{"responses": [{"steps": 3}]}', r"responses\[0\]"),
        ('{"responses": [{"steps": [{"type": "tekst"}]}]}', r"steps\[0\].*'tekst'"),
        ('{"responses": [{"steps": [{"type": "text", "deltas": "ab"}]}]}', "list 'deltas'"),
        ('{"responses": [{"steps": [{"type": "gate", "nome": "x"}]}]}', r"steps\[0\].*nome"),
        ('{"responses": [{"steps": [], "then": 1}]}', "then"),
        ('{"responses": [{"steps": [], "when": {"text": "a"}}]}', r"responses\[0\]\.when"),
    ],
)
def test_a_mistake_in_json_is_named(text: str, where: str) -> None:
    with pytest.raises(MisuseError, match=where):
        ModelScript.from_json(text)
