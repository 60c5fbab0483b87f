"""One Codex home and several programs: a session that is open in one is asked for in another."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from codex_acp.codex.connection.codex_binary import find_codex
from codex_acp.testing import Text
from tests.cli.command import run
from tests.e2e.raw_adapter import Message
from tests.e2e.session_bench import SessionBench

OPENING = ("session/load", "session/resume")


class OtherProgram:
    """Codex as another program runs it, which hands nothing over."""

    def __init__(self, bench: SessionBench) -> None:
        self.process = subprocess.Popen(
            [find_codex().path, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=bench.home.env,
        )
        self._id = 0
        info = {"name": "another", "version": "1"}
        self.call("initialize", {"clientInfo": info, "capabilities": {"experimentalApi": True}})

    def call(self, method: str, params: Message) -> Any:
        """Ask it something, and wait for the result."""
        assert self.process.stdin
        assert self.process.stdout
        self._id += 1
        request = {"id": self._id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self._id and "method" not in message:
                return message["result"]
        raise AssertionError("it has ended")


@contextmanager
def other_program(bench: SessionBench) -> Iterator[OtherProgram]:
    it = OtherProgram(bench)
    try:
        yield it
    finally:
        it.process.kill()
        it.process.communicate()


@pytest.mark.parametrize("method", OPENING)
def test_what_is_closed_here_is_opened_elsewhere_at_once(method: str) -> None:
    script = [[Text("One.")], [Text("Two.")], [Text("Three.")]]
    with SessionBench(script) as bench, bench.adapter() as here, bench.adapter() as there:
        session = bench.new(here)
        bench.run(here, session, "Begin.")
        here.result("session/close", {"sessionId": session})
        assert "result" in bench.ask(there, method, session)
        assert bench.run(there, session, "Go on.") == "Two."
        there.result("session/close", {"sessionId": session})
        assert "result" in bench.ask(here, method, session)
        assert bench.run(here, session, "And now?") == "Three."
        heard = str(bench.model.requests[-1].body["input"])
        assert heard.index("Begin.") < heard.index("Go on.") < heard.index("And now?")


@pytest.mark.parametrize(
    "method", [*OPENING, "session/delete", "session/archive"], ids=lambda name: name[8:]
)
def test_what_another_program_has_open_is_refused_by_its_name(method: str) -> None:
    with SessionBench([[Text("One.")], [Text("Two.")]]) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Begin.")
        with other_program(bench) as other, bench.adapter() as adapter:
            other.call("thread/resume", {"threadId": session})
            error = bench.ask(adapter, method, session)["error"]
            assert error["code"] == -32600
            assert error["data"]["reason"] == "thread_active_writer"
            assert error["data"]["holder"]["pid"] == other.process.pid
            assert str(other.process.pid) in error["message"]
            assert "session/fork" in error["message"]
            copied = bench.ask(adapter, "session/fork", session)["result"]["sessionId"]
            assert bench.run(adapter, copied, "Go on.") == "Two."


def test_the_doctor_names_which_process_has_which_session_open() -> None:
    with SessionBench([[Text("One.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        bench.run(adapter, session, "Begin.")
        done = run(["doctor", "--json"], {**os.environ, **bench.home.env})
        (found,) = [one for one in json.loads(done.stdout)["checks"] if one["check"] == "sessions"]
        assert found["level"] == "ok"
        assert found["text"].startswith(f"session {session} is open in codex (process ")
        assert f"process {adapter.codex()}" in found["text"]
        assert str(adapter.pid) in found["text"]
