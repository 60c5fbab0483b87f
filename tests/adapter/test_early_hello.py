"""Codex is told for whom it works when the client has said it, before an event loop is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from codex_acp.adapter.early_hello import say_hello
from codex_acp.testing import AppServerScript, ScriptedCodex
from codex_acp.transport.child import ChildProcess

CLIENT = {"name": "zed", "version": "1"}
PARAMS = {"protocolVersion": 1, "clientInfo": CLIENT}
IN_VERSION_2 = {"protocolVersion": 2, "info": CLIENT, "capabilities": {}}


def request(params: object, method: str = "initialize", request_id: int = 7) -> bytes:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


class Codex(ChildProcess):
    """A process that was just spawned, as far as something is written to it."""

    def __init__(self, *, lives: bool = True) -> None:
        self.lives = lives
        self.written = b""

    def write_early(self, line: bytes) -> bool:
        self.written += line
        return self.lives


@pytest.mark.parametrize("params", [PARAMS, IN_VERSION_2], ids=["version 1", "version 2"])
def test_who_has_said_its_name_is_named_to_codex(params: object) -> None:
    codex = Codex()
    hello = say_hello(request(params) + b'{"jsonrpc"', codex)

    assert hello is not None
    said = json.loads(codex.written)
    assert (said["id"], said["method"]) == (0, "initialize")
    assert said["params"]["clientInfo"] == CLIENT
    assert json.loads(hello.params) == said["params"]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\n",
        request(PARAMS)[:-1],
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"null\n",
        request(PARAMS, "session/new"),
        request([]),
        request({"protocolVersion": "1"}),
        request({**PARAMS, "clientInfo": {"name": 1}}),
    ],
    ids=["nothing", "empty", "a part", "deep", "no text", "null", "other", "a list", "bad", "name"],
)
def test_of_anything_else_codex_hears_nothing(first: bytes) -> None:
    codex = Codex()
    assert say_hello(first, codex) is None
    assert codex.written == b""


def test_a_codex_that_cannot_be_told_now_is_told_later() -> None:
    assert say_hello(request(PARAMS), Codex(lives=False)) is None


def test_what_was_read_before_the_event_loop_is_answered_once_and_in_order(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, AppServerScript(defaults=True))
    new = request({"cwd": str(tmp_path), "mcpServers": []}, "session/new", 8)
    listed = request({}, "session/list", 9)
    ours, far = os.pipe()
    os.write(far, request(PARAMS) + new + listed[:20])  # all there before the agent looks
    with subprocess.Popen(
        [sys.executable, "-m", "codex_acp"],
        stdin=ours,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CODEX_PATH": str(codex.path)},
    ) as agent:
        os.close(ours)
        os.write(far, listed[20:])
        assert agent.stdout is not None
        answered: list[int] = []
        while len(answered) < 3:
            line = agent.stdout.readline()
            assert line, agent.communicate()[1]
            message = json.loads(line)
            if "result" in message:
                answered.append(message["id"])
        os.close(far)
        agent.communicate(timeout=60)

    assert sorted(answered) == [7, 8, 9]
    assert answered[0] == 7
    received = [message["method"] for message in codex.record().received]
    assert received[:2] == ["initialize", "initialized"]
    assert received.count("initialize") == 1
    told = cast("dict[str, object]", codex.record().requests("initialize")[0]["params"])
    assert told["clientInfo"] == CLIENT
