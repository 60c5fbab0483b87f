"""The same at the process: the real command between a client on pipes and a Codex that plays a
script."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import (
    AppServerScript,
    CloseOutput,
    Entry,
    Exit,
    Expect,
    ScriptedCodex,
    turn_started,
)
from tests.cli.command import COMMAND, WAIT_SECONDS, environment

STEERED: Sequence[Entry] = [
    Expect("turn/start"),
    *turn_started(),
    Expect("turn/steer", silent=True),
]


class Adapter:
    """The command as a process, in either version of ACP."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, request_id: str, method: str, params: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        line = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()

    def reply(self, request_id: str) -> dict[str, Any]:
        """Read until a request is answered."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == request_id and "method" not in message:
                return message
        raise AssertionError(f"{request_id} was never answered")

    def prompt(self, request_id: str, session: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.send(request_id, "session/prompt", {"sessionId": session, "prompt": content})


@contextmanager
def adapter(tmp_path: Path, codex: ScriptedCodex) -> Iterator[tuple[Adapter, str]]:
    """A running adapter with a session."""
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND], stdin=pipe, stdout=pipe, env=env) as process:
        killer = threading.Timer(WAIT_SECONDS, process.kill)
        killer.start()
        try:
            client = Adapter(process)
            client.send("i", "initialize", {"protocolVersion": 1})
            client.reply("i")
            client.send("n", "session/new", {"cwd": str(tmp_path), "mcpServers": []})
            yield client, str(client.reply("n")["result"]["sessionId"])
        finally:
            killer.cancel()
            process.kill()


@pytest.mark.attack("app-server")
@pytest.mark.parametrize("end", [Exit(0), Exit(9), CloseOutput()], ids=["exits", "fails", "closes"])
def test_3_10_a_steered_message_goes_to_no_second_codex(tmp_path: Path, end: Entry) -> None:
    codex = ScriptedCodex(tmp_path, AppServerScript(*STEERED, end, defaults=True))
    with adapter(tmp_path, codex) as (client, session):
        client.prompt("p1", session, "one")
        client.prompt("p2", session, "two")
        ends = {each: client.reply(each) for each in ("p1", "p2")}

    assert all("error" in answer for answer in ends.values())
    received: list[Any] = list(codex.record().received)
    given = [
        message["params"]["input"][0]["text"]
        for message in received
        if message.get("method") in ("turn/start", "turn/steer")
    ]
    assert given == ["one", "two"]
