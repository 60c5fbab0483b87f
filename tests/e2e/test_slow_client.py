"""A client that stops to read while Codex floods it: memory stays bounded, and nothing is lost.

The peak of the adapter's memory is the kernel's own figure, so it does not matter when it is read.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from codex_acp.adapter.outflow import MAX_WAITING_TEXT
from codex_acp.testing import (
    AppServerScript,
    CodexHome,
    Entry,
    Expect,
    Notify,
    ScriptedCodex,
    turn_completed,
    turn_started,
)
from tests.e2e.adapter_bench import COMMAND
from tests.support.adapter_tap import AdapterTap

pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="they are of Linux")

Json = dict[str, Any]

PIECE: Final = "0123456789abcde\n" * 1024
"""16 KiB."""

PIECES: Final = 3_072
"""48 MiB in all, which no client that keeps up would notice."""

MAX_GROWTH: Final = 24 * 1024 * 1024
"""Bytes above what the adapter needs before the flood."""

WAIT: Final = 60.0
POLL: Final = 0.1
"""Seconds between two looks at the kernel's figures, which tell nobody of their changes."""

SAME: Final = 3
"""Looks that show the same: a process that is only slow makes the test weaker, never fail."""

PLACE: Final = {"threadId": "${turn:threadId}", "turnId": "${turn:id}"}


class Client:
    """A process of the adapter whose output is read only when the test says so."""

    def __init__(self, env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([COMMAND], stdin=pipe, stdout=pipe, env=env)
        self.tap = AdapterTap()
        self._line = self.tap.on("agent")
        self._ids = 0

    def start(self, method: str, params: Json) -> int:
        """Send a request."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        line = json.dumps(message).encode() + b"\n"
        self._line("received", line)
        assert self._process.stdin
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return self._ids

    def read_until_answered(self, request_id: int) -> list[Json]:
        """Read all messages up to the answer."""
        messages = self.read_until(lambda m: "method" not in m and m.get("id") == request_id)
        assert "result" in messages[-1], messages[-1]
        return messages

    def read_until(self, wanted: Callable[[Json], bool]) -> list[Json]:
        """Read all messages up to one that is wanted."""
        assert self._process.stdout
        messages: list[Json] = []
        for line in self._process.stdout:
            self._line("sent", line)
            messages.append(json.loads(line))
            if wanted(messages[-1]):
                return messages
        raise AssertionError(messages[-1:])

    def peak(self) -> int:
        """Bytes that the process has had in memory at most."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def taken(self) -> int:
        """Bytes that the process has read, from Codex nearly all."""
        io = Path(f"/proc/{self._process.pid}/io").read_text()
        return int(io.split()[1])

    def wait_until_it_stops_to_read(self, least: int) -> int:
        """Wait until the process has read ``least`` more bytes, and then reads no more.

        Returns how many it has read.
        """
        end, begin = time.monotonic() + WAIT, self.taken()
        seen = [-1] * SAME
        while time.monotonic() < end:
            seen = [*seen[1:], self.taken()]
            if seen[0] >= begin + least and len(set(seen)) == 1:
                return seen[0] - begin
            time.sleep(POLL)
        raise AssertionError(seen)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(WAIT)
        finally:
            self._process.kill()


@contextmanager
def flooded(tmp_path: Path, *turn: Entry) -> Iterator[tuple[Client, int]]:
    """A prompt whose turn is ``turn`` was sent, and nothing is read; its id."""
    entries = [Expect("turn/start"), *turn_started(), *turn, *turn_completed()]
    codex = ScriptedCodex(tmp_path, AppServerScript(*entries, defaults=True))
    with CodexHome() as home:
        client = Client({**home.env, "CODEX_PATH": str(codex.path)})
        try:
            client.read_until_answered(client.start("initialize", {"protocolVersion": 1}))
            new = client.start("session/new", {"cwd": str(home.workspace), "mcpServers": []})
            session = client.read_until_answered(new)[-1]["result"]["sessionId"]
            # From here on all is loaded, and no call of Codex waits for its answer: while one does,
            # reading goes on, and a scripted Codex answers behind the flood.
            client.read_until(lambda m: "available_commands_update" in str(m))
            prompt = [{"type": "text", "text": "Go."}]
            yield client, client.start("session/prompt", {"sessionId": session, "prompt": prompt})
        finally:
            client.close()
        client.tap.check()


def updates(messages: list[Json], kind: str) -> list[Json]:
    found = [m["params"]["update"] for m in messages if m.get("method") == "session/update"]
    return [update for update in found if update["sessionUpdate"] == kind]


def test_the_text_of_a_message_waits_in_codex_while_nobody_reads_it(tmp_path: Path) -> None:
    delta = {**PLACE, "itemId": "m1", "delta": PIECE}
    flood = Notify("item/agentMessage/delta", delta, times=PIECES)
    with flooded(tmp_path, flood) as (client, prompt):
        before = client.peak()
        taken = client.wait_until_it_stops_to_read(MAX_WAITING_TEXT)
        assert taken < PIECES * len(PIECE) / 2, "Codex has to wait"
        assert client.peak() - before < MAX_GROWTH
        chunks = updates(client.read_until_answered(prompt), "agent_message_chunk")

        assert sum(len(chunk["content"]["text"]) for chunk in chunks) == PIECES * len(PIECE)


def test_the_output_of_a_command_is_taken_in_and_only_its_end_is_kept(tmp_path: Path) -> None:
    item: Json = {
        "type": "commandExecution",
        "id": "run",
        "command": "yes",
        "cwd": "/w",
        "source": "agent",
        "status": "inProgress",
        "commandActions": [],
    }
    started = Notify("item/started", {**PLACE, "startedAtMs": 1, "item": item})
    delta = {**PLACE, "itemId": "run", "delta": PIECE}
    flood = Notify("item/commandExecution/outputDelta", delta, times=PIECES)
    ended = {**item, "status": "completed", "aggregatedOutput": PIECE * 64, "exitCode": 0}
    completed = Notify("item/completed", {**PLACE, "completedAtMs": 2, "item": ended})
    with flooded(tmp_path, started, flood, completed) as (client, prompt):
        before = client.peak()
        client.wait_until_it_stops_to_read(PIECES * len(PIECE))
        assert client.peak() - before < MAX_GROWTH
        messages = client.read_until_answered(prompt)

        assert updates(messages, "tool_call_update")[-1]["status"] == "completed"
        sent = sum(len(json.dumps(update)) for update in updates(messages, "tool_call_update"))
        assert sent < PIECES * len(PIECE) / 4
