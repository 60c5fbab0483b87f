"""One Codex home and several programs: a session that is open in one is asked for in another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import Gate, Step, Text
from tests.cli.command import run
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench
from tests.network.listening_adapter import ListeningAdapter

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


def refusal_of_the_holder(bench: SessionBench, adapter: RawAdapter, session: str) -> Message:
    """Ask for a session until its holder is heard: on a starved machine it may be late."""
    for _ in range(10):
        error: Message = bench.ask(adapter, "session/load", session)["error"]
        if error["data"]["reason"] != "thread_active_writer":
            break
    return error


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


@pytest.mark.parametrize("method", OPENING)
def test_a_session_at_rest_follows_the_person_and_comes_back(method: str) -> None:
    script = [[Text("One.")], [Text("Two.")], [Text("Three.")], [Text("Four.")]]
    with SessionBench(script) as bench, bench.adapter() as here, bench.adapter() as there:
        session = bench.new(here)
        bench.run(here, session, "Begin.")
        assert "result" in bench.ask(there, method, session)
        here.wait_for(lambda m: "This session went to" in str(m))
        assert bench.run(there, session, "Go on.") == "Two."
        assert bench.run(here, session, "Back again.").endswith("Three.")
        there.wait_for(lambda m: "This session went to" in str(m))
        assert bench.run(there, session, "And there.").endswith("Four.")
        heard = str(bench.model.requests[-1].body["input"])
        for said in ("Begin.", "Go on.", "Back again.", "And there."):
            assert heard.count(said) == 1


def test_what_works_is_not_handed_over_unless_it_shall_be_cancelled() -> None:
    script: list[list[Step]] = [[Text("One."), Gate("go"), Text("Never.")], [Text("Two.")]]
    with SessionBench(script) as bench, bench.adapter() as here, bench.adapter() as there:
        session = bench.new(here)
        prompt = here.start_prompt(session, "Begin.")
        here.wait_for(lambda m: "One." in str(m))
        error = refusal_of_the_holder(bench, there, session)
        assert error["code"] == -32600
        assert error["data"]["reason"] == "session_busy", error
        assert error["data"]["holder"]["pid"] == here.pid
        meta = {"codex-acp-sdk": {"cancelElsewhere": True}}
        assert "result" in bench.ask(there, "session/load", session, _meta=meta)
        assert here.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert bench.run(there, session, "Go on.") == "Two."


async def test_8_1_a_network_server_cancels_what_works_and_hands_it_over(tmp_path: Path) -> None:
    script: list[list[Step]] = [[Text("One."), Gate("go"), Text("Never.")]]
    with (
        SessionBench(script) as bench,
        bench.adapter() as there,
        ListeningAdapter(bench.home.env, tmp_path) as server,
    ):
        async with server.connect() as client:
            session = await client.new_session(bench.home.workspace)
            prompt = await client.prompt(session)
            await client.until(lambda: client.text(session) == "One.")
            meta = {"codex-acp-sdk": {"cancelElsewhere": True}}
            load = lambda: bench.ask(there, "session/load", session, _meta=meta)  # noqa: E731
            assert "result" in await to_thread.run_sync(load)
            assert (await client.outcome(prompt))["result"]["stopReason"] == "cancelled"


def test_a_holder_that_does_not_answer_is_named_and_one_that_ends_gives_way() -> None:
    with SessionBench([[Text("One.")], [Text("Two.")]]) as bench, bench.adapter() as there:
        with bench.adapter() as here:
            session = bench.new(here)
            bench.run(here, session, "Begin.")
            here.signal(signal.SIGSTOP)
            error = bench.ask(there, "session/load", session)["error"]
            assert error["data"]["reason"] == "thread_active_writer"
            assert "stopped" in error["message"]
            asked = there.start(
                "session/load",
                {"sessionId": session, "cwd": str(bench.home.workspace), "mcpServers": []},
            )
            here.kill()
        assert "result" in there.answer(asked)
        assert bench.run(there, session, "Go on.") == "Two."


def test_two_that_ask_or_prompt_at_once_lose_nothing() -> None:
    script = [[Text(f"{n}.")] for n in range(30)]
    with SessionBench(script) as bench, bench.adapter() as one, bench.adapter() as two:
        session = bench.new(one)
        bench.run(one, session, "First.")
        bench.ask(two, "session/load", session)
        answered = 0
        for number in range(4):
            asked = [
                (each, each.start_prompt(session, f"Said {number} by {name}."), name)
                for each, name in ((one, "one"), (two, "two"))
            ]
            for each, request, name in asked:
                answer = each.answer(request)
                if "result" in answer:
                    answered += 1
                    text = f"Said {number} by {name}."
                    assert [text in str(r.body["input"]) for r in bench.model.requests].count(True)
                else:
                    assert answer["error"]["data"]["reason"] == "session_busy", answer
        assert answered >= 4
        said = bench.run(one, session, "Last.")
        assert said
