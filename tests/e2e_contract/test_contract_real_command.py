"""The contract over the real command: a client process, ``codex-acp-sdk``, the real Codex."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import (
    CodexHome,
    McpTool,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    add_file,
    exec_command,
    form_elicitation,
    mcp_call,
)
from codex_acp.transcript import from_json
from codex_acp.transcript.events import Entry
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e_contract.codex_tee import tee_command, wire_of
from tests.e2e_contract.codex_wire import CodexWire
from tests.e2e_contract.invariants import check_transcript

FORM = form_elicitation("Which paint?", {"color": {"type": "string"}}, required=["color"])


class Run:
    """One adapter process; afterwards its wire to Codex and its transcript."""

    def __init__(self, adapter: RawAdapter, home: CodexHome, model: ScriptedModel) -> None:
        self.adapter = adapter
        self.home = home
        self.model = model
        self.wire: CodexWire
        self.entries: list[Entry]

    def begin(self) -> int:
        """Initialize, open a session and send a prompt; the id of the prompt."""
        capabilities: Message = {"elicitation": {"form": {}, "url": {}}}
        params = {"protocolVersion": 1, "clientCapabilities": capabilities}
        assert "result" in self.adapter.ask("initialize", params)
        self.session = self.adapter.new_session(self.home.workspace)
        return self.adapter.start_prompt(self.session)

    def asked(self, method: str) -> Message:
        """The next request of the adapter, which must be of this method."""
        message = self.adapter.wait_for(lambda m: "method" in m and "id" in m)
        assert message["method"] == method
        return message

    def choose(self, request: Message, kind: str) -> None:
        """Answer a permission request with the first option of a kind."""
        option = next(o for o in request["params"]["options"] if o["kind"] == kind)
        outcome = {"outcome": "selected", "optionId": option["optionId"]}
        self.adapter.send({"id": request["id"], "result": {"outcome": outcome}})

    def end(self, prompt: int) -> Any:
        """The stop reason of the prompt."""
        return self.adapter.answer(prompt)["result"]["stopReason"]


@contextmanager
def run(tmp_path: Path, *responses: list[Step]) -> Iterator[Run]:
    """A run; at its end all that must hold is checked."""
    tools = [
        McpTool("write", read_only=False, destructive=True),
        McpTool("ask", read_only=True, elicitations=[FORM]),
    ]
    server = ScriptedMcpServer(tmp_path, tools)
    command, record = tee_command(tmp_path, find_codex().path)
    transcript = tmp_path / "transcript.jsonl"
    with (
        ScriptedModel(responses) as model,
        CodexHome(model.base_url, mcp_servers={"notes": server.config}) as home,
    ):
        env = {**home.env, "CODEX_PATH": str(command), "CODEX_ACP_TRANSCRIPT": str(transcript)}
        with RawAdapter(env) as adapter:
            made = Run(adapter, home, model)
            yield made
            adapter.end_input()
            adapter.wait()
        made.wire = wire_of(record)
        made.wire.check()
        made.entries = [from_json(json.loads(line)) for line in transcript.read_text().splitlines()]
        check_transcript(made.entries, made.wire.asked())


def test_5_1_approvals_and_forms_are_different_things_over_the_wire_and_in_the_transcript(
    tmp_path: Path,
) -> None:
    with run(
        tmp_path,
        [exec_command("touch made", justification="May I?", call_id="c1")],
        [add_file("new.txt", "hello", call_id="c2")],
        [mcp_call("notes", "write", {"n": 1}, call_id="c3")],
        [mcp_call("notes", "ask", call_id="c4")],
        [Text("Done.")],
    ) as made:
        prompt = made.begin()
        for _ in range(3):
            made.choose(made.asked("session/request_permission"), "allow_once")
        form = made.asked("elicitation/create")
        answer = {"action": "accept", "content": {"color": "red"}}
        made.adapter.send({"id": form["id"], "result": answer})
        assert made.end(prompt) == "end_turn"
        assert (made.home.workspace / "made").exists()
        assert (made.home.workspace / "new.txt").read_text() == "hello\n"
        assert "red" in made.model.requests[-1].tool_outputs["c4"]

    types = [e.event.type for e in made.entries if hasattr(e.event.ref, "codex_request_id")]
    approval = ["approval.requested", "approval.decided"]
    assert types == [*approval * 3, "elicitation.requested", "elicitation.answered"]


def test_3_4_a_rejecting_client_never_ends_the_turn(tmp_path: Path) -> None:
    with run(
        tmp_path,
        [exec_command("touch made", justification="May I?", call_id="c1")],
        [add_file("new.txt", "hello", call_id="c2")],
        [mcp_call("notes", "write", {"n": 1}, call_id="c3")],
        [Text("Done.")],
    ) as made:
        prompt = made.begin()
        for _ in range(3):
            made.choose(made.asked("session/request_permission"), "reject_once")
        assert made.end(prompt) == "end_turn"
        outputs = made.model.requests[-1].tool_outputs
        assert all("rejected" in outputs[call] for call in ("c1", "c2", "c3"))
        assert list(made.home.workspace.iterdir()) == []


def test_3_5_a_cancel_does_not_wait_for_a_silent_client_and_its_late_answer_is_stale(
    tmp_path: Path,
) -> None:
    with run(
        tmp_path,
        [exec_command("touch made", justification="May I?", call_id="c1")],
        [Text("Again.")],
    ) as made:
        prompt = made.begin()
        asked = made.asked("session/request_permission")
        made.adapter.send({"method": "session/cancel", "params": {"sessionId": made.session}})
        assert made.end(prompt) == "cancelled"
        withdrawn = [m for m in made.adapter.messages if m.get("method") == "$/cancel_request"]
        assert [m["params"]["requestId"] for m in withdrawn] == [asked["id"]]
        made.choose(asked, "allow_once")
        assert made.end(made.adapter.start_prompt(made.session)) == "end_turn"
        assert not (made.home.workspace / "made").exists()

    (request,) = made.wire.asked()
    assert made.wire.result(request) == {"decision": "cancel"}
