"""A client that speaks one version of ACP has nothing of the other one loaded, whatever it asks."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codex_acp.acp._generated.v1.methods import AGENT_REQUESTS as REQUESTS_OF_V1
from codex_acp.acp._generated.v2.methods import AGENT_REQUESTS as REQUESTS_OF_V2
from codex_acp.testing import (
    AskClient,
    AwaitAnswer,
    Expect,
    Notify,
    agent_message,
    command_approval,
    file_change_approval,
    turn_completed,
    turn_started,
)
from codex_acp.testing.app_server_script import default_result, entry_to_json
from tests.codex.server_request_samples import SAMPLES as ASKED
from tests.support.notification_samples import SAMPLES as NOTIFIED
from tests.support.tool_call_samples import SAMPLES as ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codex_acp.testing import Entry

ROOT = Path(__file__).parents[2]
IN_TURN = {"threadId": "${turn:threadId}", "turnId": "${turn:id}"}
FORM = {"properties": {"p": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}}}
PAGE = {"mode": "url", "url": "https://page.example/", "elicitationId": "e"}
OTHERWISE_ENDED = ("turn/completed", "error", "thread/closed", "thread/deleted", "thread/archived")
NOT_OFFERED = {"mcp/message", "proxy/initialize", "proxy/successor"}
NOT_DONE = {
    "session/set_mode", "session/set_config_option",  # this Codex has no modes
    "session/delete", "tool_call/cancel", "terminal/cancel",
}  # fmt: skip
"""What is refused: read in its version all the same."""


def _told(method: str, params: dict[str, Any]) -> Entry:
    return Notify(method, params | {key: IN_TURN[key] for key in IN_TURN if key in params})


def _asked(method: str, name: str, **more: Any) -> list[Entry]:
    params = ASKED[method] | {key: IN_TURN[key] for key in IN_TURN if key in ASKED[method]}
    return [AskClient(method, {**params, **more}, name=name), AwaitAnswer(name)]


def _turn() -> list[Entry]:
    """A turn in which Codex tells and asks all that there is."""
    entries: list[Entry] = [Expect("turn/start"), *turn_started()]
    for sample in NOTIFIED:
        if not sample.method.startswith(OTHERWISE_ENDED):
            entries += [_told(*each) for each in (*sample.before, (sample.method, sample.params))]
    for number, item in enumerate(ITEMS):
        for told, when in ((item.started, "started"), (item.completed, "completed")):
            if told is not None:
                params = {**IN_TURN, f"{when}AtMs": 1, "item": {**told, "id": f"item-{number}"}}
                entries.append(Notify(f"item/{when}", params))
    form = {"requestedSchema": {"type": "object", **FORM}}
    return [
        *entries,
        *command_approval("touch x", item_id="command", name="c"), AwaitAnswer("c"),
        *file_change_approval(item_id="file", name="f"), AwaitAnswer("f"),
        *_asked("item/permissions/requestApproval", "permissions"),
        *_asked("mcpServer/elicitation/request", "form", **form),
        *_asked("mcpServer/elicitation/request", "page", **PAGE),
        *_asked("item/tool/requestUserInput", "questions"),
        *agent_message("Done.", item_id="last"), *turn_completed(),
    ]  # fmt: skip


@cache
def script() -> str:
    forked = default_result("thread/start", {}, "t") or {}
    forked["thread"]["id"] = "thread-2"  # type: ignore[index] # it is JSON
    entries = [
        *_turn(),
        Expect("account/login/start", result={"type": "apiKey"}),
        Expect("account/logout", result={}),
        Expect("thread/fork", result=forked),
    ]
    lines = [{"options": {"defaults": True}}, *map(entry_to_json, entries)]
    return "\n".join(json.dumps(line) for line in lines)


@cache
def conversation(version: int) -> tuple[dict[str, Any], list[Any], list[str]]:
    """The answers by method, all messages, and the modules that are loaded."""
    command = [sys.executable, "-m", "tests.adapter.whole_conversation", str(version)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, input=script(), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answers, messages, modules = json.loads(done.stdout.splitlines()[-1])
    return answers, messages, modules


@pytest.mark.parametrize(("version", "other"), [(1, 2), (2, 1)])
def test_a_client_of_one_version_loads_nothing_of_the_other(version: int, other: int) -> None:
    modules = conversation(version)[2]
    assert f"codex_acp.acp._generated.v{version}.models.turn" in modules
    places = ("acp._generated.v{}", "mapping.v{}", "adapter.agent_v{}")
    foreign = tuple(f"codex_acp.{place.format(other)}" for place in places)
    assert [name for name in modules if name.startswith(foreign)] == []


@pytest.mark.parametrize(("version", "known"), [(1, REQUESTS_OF_V1), (2, REQUESTS_OF_V2)])
def test_that_conversation_asks_and_is_asked_all_there_is(
    version: int, known: dict[str, object]
) -> None:
    answers, messages, _ = conversation(version)
    assert known.keys() - answers.keys() <= NOT_OFFERED
    failed = {method: answer["error"] for method, answer in answers.items() if "error" in answer}
    assert failed.keys() <= NOT_DONE, failed
    told = [message for message in messages if message.get("method") == "session/update"]
    kinds = {message["params"]["update"]["sessionUpdate"] for message in told}
    assert {"notice", "tool_call_update", "agent_message_chunk", "subagent_update"} <= kinds
    asked = {json.dumps(message.get("params", {}).get("mode")) for message in messages}
    assert asked == {'"form"', '"url"', "null"}
    assert "session/request_permission" in {message.get("method") for message in messages}


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_only_what_is_of_a_version_names_its_tree(name: str) -> None:
    """Besides, it may be named for types, and where the version is looked at."""
    own = (f"agent_{name}.py", f"{name}/")
    looks = ("adapter/questioner.py", "adapter/serve.py")
    found = []
    for package in ("adapter", "mapping", "routing"):
        for path in sorted((ROOT / "src" / "codex_acp" / package).rglob("*.py")):
            place = path.relative_to(ROOT / "src" / "codex_acp").as_posix()
            if not any(part in place for part in own) and place not in looks:
                tree = ast.parse(path.read_text())
                found += [place for used in _at_run_time(tree) if f"_generated.{name}" in used]
    assert found == []


def _at_run_time(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield f"{node.module}.{node.names[0].name}"
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from _at_run_time(node)
