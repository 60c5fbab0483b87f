"""Who asks without end and never reads an answer is held up, and ends like any other."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import pytest

from codex_acp.testing import CodexHome
from tests.e2e.adapter_bench import COMMAND
from tests.e2e.spawned_adapter import MARKER, marked_processes
from tests.fuzz.fuzzed_codex import FuzzedCodex

pytestmark = [pytest.mark.e2e, pytest.mark.attack("client")]

WAIT: Final = 90.0
"""Seconds; what is waited for takes a fraction of one."""

STALLED: Final = 1.5
"""Seconds without one byte being taken: it is read no more."""

MOST: Final = 120_000_000
"""Bytes of requests, each answered with as many: far above what is kept."""

PADDING: Final = "x" * 30_000

INITIALIZE = {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


class DeafClient:
    """A client of the command that writes, and reads only when it is told to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sent = 0
        self.left = b""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            home = stack.enter_context(CodexHome())
            self.marker = uuid.uuid4().hex
            codex = FuzzedCodex(self._folder).path
            env = {**home.env, "CODEX_PATH": str(codex), MARKER: self.marker}
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen([COMMAND], stderr=subprocess.DEVNULL, env=env, **pipes)
            stack.callback(self._kill)
            assert self.process.stdin
            assert self.process.stdout
            self.stdin, self.stdout = self.process.stdin, self.process.stdout
            self.stdin.write(line(INITIALIZE))
            self.stdin.flush()
            assert b"result" in self.stdout.readline()
            os.set_blocking(self.stdin.fileno(), False)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()

    def flood(self) -> int:
        """Write until nothing is taken any more; gives how many bytes were."""
        taken = 0
        while taken < MOST:
            if not self.left:
                self.sent += 1
                self.left = line({"id": f"{self.sent} {PADDING}", "method": "no/such"})
            if not select.select([], [self.stdin], [], STALLED)[1]:
                break
            written = os.write(self.stdin.fileno(), self.left)
            taken, self.left = taken + written, self.left[written:]
        return taken


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def end_input(client: DeafClient) -> None:
    client.stdin.close()


def terminate(client: DeafClient) -> None:
    client.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("end", [end_input, terminate])
def test_a_client_that_never_reads_is_held_up_and_can_end_it(
    end: Callable[[DeafClient], None], tmp_path: Path
) -> None:
    with DeafClient(tmp_path) as client:
        assert client.flood() < MOST / 2
        end(client)
        client.process.wait(WAIT)
        assert marked_processes(client.marker) == []


def test_a_client_that_reads_later_gets_every_answer_once(tmp_path: Path) -> None:
    with DeafClient(tmp_path) as client:
        assert client.flood() < MOST / 2
        answered: list[int] = []
        while len(answered) < client.sent:
            rest = [client.stdin] if client.left else []
            readable, writable, _ = select.select([client.stdout], rest, [], WAIT)
            assert readable or writable
            if writable:
                written = os.write(client.stdin.fileno(), client.left)
                client.left = client.left[written:]
            if not readable:
                continue
            message = json.loads(client.stdout.readline())
            answered.append(int(message["id"].split()[0]))
        assert answered == list(range(1, client.sent + 1))
