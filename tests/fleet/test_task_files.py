"""Task files: what a line may hold, and that a broken one is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_acp.errors import MisuseError
from codex_acp.fleet import Task, TaskFileError, read_tasks
from codex_acp.fleet.task_file import parse_tasks

GOOD = {"id": "a", "prompt": "x", "cwd": "/"}


def problems(*lines: object) -> list[str]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return parse_tasks(text.encode())[1]


def test_every_option_can_be_given(tmp_path: Path) -> None:
    line = {
        "id": "a",
        "prompt": ["one", "two"],
        "repository": "https://example.com/x.git",
        "revision": "main",
        "command": "my-agent --acp",
        "model": "m",
        "mode": "auto",
        "effort": "low",
        "options": {"fast": True},
        "policy": {"allow": ["read"], "otherwise": "deny_all"},
        "output": {"type": "object"},
        "time_limit": 1.5,
        "max_tokens": 100,
    }
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(line) + "\n\n" + json.dumps(GOOD | {"id": "b"}) + "\n")
    first, second = read_tasks(file)
    assert first.prompts == ("one", "two")
    assert first.spec.command == ("my-agent", "--acp")
    assert (first.settings, first.options) == (
        {"model": "m", "mode": "auto", "effort": "low"},
        {"fast": True},
    )
    assert (second.id, second.directory, second.spec.shared) == ("b", "/", True)


WRONG: list[tuple[object, str]] = [
    ('{"id": }', "it is not JSON: Expecting value at column 8"),
    ("[" * 100_000, "it is not JSON"),
    ([1], "it is not an object"),
    ({"prompt": "x", "cwd": "/"}, "it has no 'id'"),
    ({"id": "a", "cwd": "/"}, "it has no 'prompt'"),
    (GOOD | {"promt": "x"}, "there is no key 'promt'; did you mean 'prompt'?"),
    (GOOD | {"repo": "x"}, "did you mean 'repository'?"),
    (GOOD | {"zzz": 1}, "known are id, prompt"),
    (GOOD | {"id": 1}, "'id' is a text, not 1"),
    (GOOD | {"prompt": 3}, "'prompt' is a text or a list of texts"),
    (GOOD | {"prompt": []}, "the prompt is empty"),
    (GOOD | {"prompt": " "}, "the prompt is empty"),
    ({"id": "a", "prompt": "x"}, "give it either a cwd or a repository"),
    (GOOD | {"repository": "x"}, "give it either a cwd or a repository"),
    (GOOD | {"revision": "x"}, "a revision needs a repository"),
    (GOOD | {"agent": "gpt"}, "there is no agent 'gpt'; known are codex, claude"),
    (GOOD | {"agent": "codex", "command": "x"}, "both 'agent' and 'command'"),
    (GOOD | {"command": "'"}, "cannot be split into words"),
    (GOOD | {"time_limit": 0}, "a time limit is more than 0 seconds"),
    (GOOD | {"time_limit": "1"}, "'time_limit' is a number"),
    (GOOD | {"max_tokens": True}, "'max_tokens' is a number"),
    (GOOD | {"options": {"a": 1}}, "'options' maps ids to texts, true or false"),
    (GOOD | {"policy": "allow_all"}, "the policy 'allow_all' is not known"),
    (GOOD | {"policy": "ask"}, "needs a terminal"),
    (GOOD | {"policy": {"allow": ["everything"]}}, "'allow' is a list of kinds"),
    (GOOD | {"policy": {"permit": []}}, "no 'permit'"),
    (GOOD | {"output": "Answer"}, "'output' is a JSON Schema"),
    (GOOD | {"output": {"type": "nonsense"}}, "the output is no JSON Schema"),
    (GOOD | {"output": {"$ref": "https://a.example/b"}}, "it does not contain: https://a"),
    (GOOD | {"output": {"items": {"$ref": "#/$defs/b"}}}, "it does not contain: "),
    (GOOD | {"output": {"$ref": "https://["}}, "it does not contain: https://["),
]


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_line_is_named(line: object, said: str) -> None:
    (problem,) = problems(GOOD | {"id": "good"}, line)
    assert problem.startswith("line 2: ")
    assert said in problem


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"repository": "--upload-pack=touch /tmp/x"}, "takes for an option"),
    ({"repository": "ext::sh -c touch% /tmp/x"}, "names a transport helper"),
    ({"repository": "fd::17"}, "names a transport helper"),
    ({"repository": "http://example.com/x"}, "is fetched by https, ssh, file"),
    ({"repository": "ssh://-oProxyCommand=x/y"}, "takes for an option"),
    ({"repository": "https://example.com/\nx"}, "without control characters"),
    ({"repository": "/x", "revision": "--output=/tmp/x"}, "takes for an option"),
    ({"repository": "/x", "revision": "a..b"}, "is a range"),
    ({"repository": "/x", "revision": "a b"}, "without spaces"),
]


@pytest.mark.attack("repository")
@pytest.mark.parametrize(("where", "said"), HOSTILE, ids=[str(w) for w, _ in HOSTILE])
def test_no_repository_or_revision_is_an_option_or_a_program(
    where: dict[str, Any], said: str
) -> None:
    with pytest.raises(MisuseError, match=said):
        Task(id="a", prompt="x", **where)
    (problem,) = problems({"id": "a", "prompt": "x", **where})
    assert said in problem


def test_a_schema_without_what_checks_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    (problem,) = problems(GOOD | {"output": {"type": "object"}})
    assert "pip install 'codex-acp-sdk[fleet]'" in problem


def test_no_reference_of_a_schema_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.urlopen", lambda *_: pytest.fail("it fetches a schema"))
    behind = {"x": {"a": {"$ref": "http://127.0.0.1:9/"}}, "$ref": "#/x/a"}
    for schema in ({"$ref": "http://127.0.0.1:9/"}, behind):
        (problem,) = problems(GOOD | {"output": schema})
        assert "refers to a schema that it does not contain: http://127.0.0.1:9/" in problem
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}}
    assert problems(GOOD | {"output": circle}) == []


@pytest.mark.parametrize("odd", [{"$schema": ["x"]}, {"$schema": 5}], ids=str)
def test_a_schema_that_the_validator_cannot_take_is_named_with_its_line(odd: object) -> None:
    (problem,) = problems(GOOD | {"output": odd})
    assert problem.startswith("line 1: ")


def test_the_default_agent_is_codex_and_its_tasks_share_processes() -> None:
    from codex_acp.fleet.worker import TASKS_PER_AGENT

    (one,) = parse_tasks(json.dumps(GOOD).encode())[0]
    (other,) = parse_tasks(json.dumps(GOOD | {"agent": "claude"}).encode())[0]
    assert (one.spec.name, one.spec.shared, TASKS_PER_AGENT) == ("codex", True, 8)
    assert (other.spec.name, one.policy) == ("claude", None)


def test_duplicate_ids_are_named_with_their_lines() -> None:
    assert problems(GOOD, "", GOOD, GOOD | {"id": "A"}) == [
        "line 3: the id 'a' is that of line 1",
        "line 4: the id 'A' is that of line 1, but for its case",
    ]


def test_a_broken_line_stops_all_unless_it_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(GOOD) + "\n{\n")
    with pytest.raises(TaskFileError, match="line 2: it is not JSON") as caught:
        read_tasks(file)
    assert caught.value.file == str(file)
    assert [task.id for task in read_tasks(file, skip_broken=True)] == ["a"]
    file.write_bytes(json.dumps(GOOD).encode() + b'\n{"id": "caf\xe9"}\n')
    with pytest.raises(TaskFileError, match=r"line 2: it is not UTF-8: .* at byte 12"):
        read_tasks(file)
    assert [task.id for task in read_tasks(file, skip_broken=True)] == ["a"]


def test_a_file_of_another_kind_is_told_shortly(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("x\n" * 1000)
    with pytest.raises(TaskFileError) as caught:
        read_tasks(file)
    assert len(caught.value.problems) == 22
    assert caught.value.problems[-1] == "each line is a whole task, as a JSON object"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TaskFileError, match="it is not UTF-8"):
        read_tasks(file)
    with pytest.raises(TaskFileError, match="No such file"):
        read_tasks(tmp_path / "gone")
    file.write_text("\n")
    with pytest.raises(TaskFileError, match="it holds no task"):
        read_tasks(file)
