"""Sessions of the real Codex, each with what may happen to one: what `serve --record` is tried on.

``python -m tests.adapter.session.real_sessions NAME`` keeps what was recorded as ``recordings``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from codex_acp.adapter.session.record import as_test, read_record
from codex_acp.testing import (
    CodexHome,
    Fail,
    Gate,
    ModelResponse,
    ScriptedModel,
    Text,
    When,
    exec_command,
)
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.session_bench import answer_to

RECORDINGS: Final = Path(__file__).parent / "recordings"

SCRIPT = [
    ModelResponse(Fail(400, "no"), when=When("refuse"), repeat=True),
    ModelResponse(Text("A"), Gate("hold"), Text("B"), when=When("hold")),
    ModelResponse(Text("A"), Gate("never"), when=When("never")),
    ModelResponse(Text("A"), Gate("lost"), when=When("be lost")),
    ModelResponse(
        exec_command("sleep 611", call_id="s", yield_time_ms=30_000),
        when=When("sleep", no_tool_output="s"),
    ),
    ModelResponse(
        exec_command("sleep 612", call_id="b", yield_time_ms=250),
        when=When("background", no_tool_output="b"),
    ),
    ModelResponse(exec_command("true", call_id="c"), when=When("command", no_tool_output="c")),
    ModelResponse(Text("Done."), repeat=True),
]


class RealSessions:
    """A client of the adapter with a session for each thing that is tried."""

    def __init__(self, adapter: RawAdapter, model: ScriptedModel, workspace: Path) -> None:
        self.adapter, self.model, self.workspace = adapter, model, workspace
        self.session = ""

    def run(self, *tried: Callable[[], None]) -> None:
        """Try each in a session of its own."""
        for each in tried:
            self.session = self.adapter.new_session(self.workspace)
            each()

    def all(self) -> None:
        """Try everything; the loss of Codex at last."""
        self.run(
            self.prompts, self.steers, self.steers_and_gives_up, self.cancels,
            self.cancels_a_command, self.cancels_at_once, self.gives_up, self.fails,
            self.reviews, self.compacts,
            self.runs_in_background, self.answers_locally, self.closes, self.loses_codex,
        )  # fmt: skip

    def begin(self, text: str, until: str | None = None) -> int:
        """Begin a prompt, and wait for an update of a kind."""
        prompt = self.adapter.start_prompt(self.session, text)
        if until is not None:
            self.adapter.until(until, self.session)
        return prompt

    def end(self, *prompts: int) -> None:
        """Wait for the answers of prompts."""
        for prompt in prompts:
            answer_to(self.adapter, prompt)

    def cancel(self) -> None:
        """Cancel what runs."""
        self.adapter.send({"method": "session/cancel", "params": {"sessionId": self.session}})

    def give_up(self, prompt: int) -> None:
        """Withdraw one prompt."""
        self.adapter.send({"method": "$/cancel_request", "params": {"requestId": prompt}})

    # What is tried.

    def prompts(self) -> None:
        self.end(self.begin("hello"), self.begin("run a command"))

    def steers(self) -> None:
        first = self.begin("hold", "agent_message_chunk")
        more = [self.begin("and this"), self.begin("and that")]
        self.model.open("hold")
        self.end(first, *more)

    def steers_and_gives_up(self) -> None:
        first = self.begin("never", "agent_message_chunk")
        second = self.begin("and this")
        self.give_up(second)
        self.cancel()
        self.end(first, second, self.begin("hello"))

    def cancels(self) -> None:
        first = self.begin("never", "agent_message_chunk")
        self.cancel()
        self.end(first, self.begin("hello"))

    def cancels_a_command(self) -> None:
        first = self.begin("sleep", "tool_call")
        self.cancel()
        self.end(first, self.begin("hello"))

    def cancels_at_once(self) -> None:
        first = self.begin("never")
        self.cancel()
        self.end(first, self.begin("hello"))

    def gives_up(self) -> None:
        first = self.begin("never", "agent_message_chunk")
        self.give_up(first)
        self.end(first)

    def fails(self) -> None:
        self.end(self.begin("refuse"), self.begin("hello"))

    def reviews(self) -> None:
        review = self.begin("/review all")
        self.end(review, self.begin("hello"))

    def compacts(self) -> None:
        self.end(self.begin("hello"), self.begin("/compact"), self.begin("hello"))

    def runs_in_background(self) -> None:
        self.end(self.begin("background"), self.begin("/stop"))

    def answers_locally(self) -> None:
        self.end(self.begin("/status"))

    def closes(self) -> None:
        first = self.begin("never", "agent_message_chunk")
        self.adapter.result("session/close", {"sessionId": self.session})
        self.end(first)

    def loses_codex(self) -> None:
        first = self.begin("be lost", "agent_message_chunk")
        second = self.begin("and this")
        os.kill(self.adapter.codex(), signal.SIGKILL)
        self.end(first, second, self.begin("hello"))


def record_sessions(path: Path) -> None:
    """Have all of them recorded."""
    with (
        ScriptedModel(SCRIPT) as model,
        CodexHome(model.base_url, sandbox_mode="danger-full-access") as home,
        RawAdapter(home.env, "--record", str(path)) as adapter,
    ):
        adapter.initialize()
        RealSessions(adapter, model, home.workspace).all()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        record_sessions(Path(folder, "record"))
        steps = [*read_record(Path(folder, "record"))]
    lines = [
        line.replace('"session": 1', f'"session": {number}')
        for number in sorted({step.session for step in steps})
        for line in list(as_test(steps, number))[number > 1 :]
    ]
    (RECORDINGS / f"{sys.argv[1]}.jsonl").write_text("".join(lines))
