"""The scripted MCP server as a process."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_acp.errors import MisuseError
from codex_acp.testing import (
    McpScript,
    McpTool,
    ScriptedMcpServer,
    form_elicitation,
    url_elicitation,
)

BOUND = 60.0
"""Seconds; the server ends in a fraction of one."""

FORM = form_elicitation("m", {"a": {"type": "string"}}, required=["a"], meta={"k": 1})
PAGE = url_elicitation("m", "https://127.0.0.1/x", elicitation_id="e1", meta={"k": 2})


class Client:
    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._stdin, self._stdout = child.stdin, child.stdout

    def send(self, **message: object) -> None:
        self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._stdin.flush()

    def read(self) -> Any:
        return json.loads(self._stdout.readline())

    def call(self, method: str, **params: object) -> Any:
        self.send(id=1, method=method, params=params)
        return self.read()


@contextmanager
def running(server: ScriptedMcpServer) -> Iterator[Client]:
    child = subprocess.Popen(server.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        with child:
            client = Client(child)
            yield client
            client._stdin.close()
            assert child.wait(BOUND) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def test_tools_are_listed_with_their_annotations(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = McpTool(
        "t", "d", read_only=True, destructive=False, annotations={"title": "T"}, input_schema=schema
    )
    with running(ScriptedMcpServer(tmp_path, [tool, McpTool("plain")])) as client:
        opened = client.call("initialize", protocolVersion="2025-11-25")
        assert opened["result"]["protocolVersion"] == "2025-11-25"
        first, second = client.call("tools/list")["result"]["tools"]
    assert first["annotations"] == {"title": "T", "readOnlyHint": True, "destructiveHint": False}
    assert (first["description"], first["inputSchema"]) == ("d", schema)
    assert "annotations" not in second


def test_a_tool_answers_with_its_text_or_its_result(tmp_path: Path) -> None:
    result = {"content": [], "isError": True}
    tools = [McpTool("a", text="hello"), McpTool("b", result=result, delay=0.01)]
    with running(ScriptedMcpServer(tmp_path, tools)) as client:
        called = client.call("tools/call", name="a", arguments={})
        assert called["result"]["content"] == [{"type": "text", "text": "hello"}]
        assert client.call("tools/call", name="b")["result"] == result
        assert client.call("tools/call", name="c")["error"]["code"] == -32602
        assert client.call("no/method")["error"]["code"] == -32601
        assert client.call("ping")["result"] == {}


def test_a_tool_asks_one_thing_after_the_other_and_reports_the_answers(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, [McpTool("a", elicitations=[FORM, PAGE])])
    with running(server) as client:
        client.send(id=9, method="tools/call", params={"name": "a"})
        form = client.read()
        assert (form["method"], form["params"]) == ("elicitation/create", FORM)
        # Not blocked while the form is open.
        assert client.call("ping")["result"] == {}
        client.send(id=form["id"], result={"action": "accept", "content": {"a": "x"}})
        page = client.read()
        assert page["params"] == PAGE
        client.send(id=page["id"], error={"code": -1, "message": "no"})
        done = client.read()
    assert done["id"] == 9
    assert json.loads(done["result"]["content"][0]["text"]) == [
        {"action": "accept", "content": {"a": "x"}},
        {"error": {"code": -1, "message": "no"}},
    ]
    assert [answer["id"] for answer in server.answers()] == [form["id"], page["id"]]
    assert len(server.received("tools/call")) == 1


def test_elicitations_outside_a_call(tmp_path: Path) -> None:
    script = McpScript(after_initialize=[FORM], triggers={"page": PAGE})
    server = ScriptedMcpServer(tmp_path, script)
    with running(server) as client:
        client.call("initialize")
        client.send(method="notifications/initialized")
        assert client.read()["params"] == FORM
        for _ in range(2):
            server.trigger("page")
            assert client.read()["params"] == PAGE
        with pytest.raises(MisuseError, match="no trigger"):
            server.trigger("other")


def test_a_server_ends_with_its_input_while_a_thread_still_answers(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, [McpTool("much", text="x" * 1_000_000)])
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(server.argv, stdin=pipe, stdout=pipe, env=env) as child:
        client = Client(child)
        client.send(id=1, method="tools/call", params={"name": "much"})
        readable, _, _ = select.select([client._stdout], [], [], BOUND)
        assert readable, "it answers, more than a pipe holds"
        client._stdin.close()
        assert child.wait(BOUND) == 0


def test_a_server_that_fails_to_start(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, McpScript(fail_status=3, fail_text="no database"))
    done = subprocess.run(server.argv, capture_output=True, timeout=BOUND, check=False)
    assert (done.returncode, done.stderr) == (3, b"no database\n")


def test_json_gives_back_the_same_script() -> None:
    script = McpScript((McpTool("a", elicitations=[FORM]),), [FORM], {"p": PAGE}, 0.5, 1, "t")
    assert McpScript.from_json(script.to_json()) == script


@pytest.mark.parametrize("text", ["{", "[]", '{"tols": []}', '{"tools": [{"nam": "a"}]}'])
def test_a_mistake_in_json_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="script is wrong"):
        McpScript.from_json(text)
