"""The scripted model and the throw-away home, with the real Codex between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from codex_acp.testing import (
    CodexHome,
    Delay,
    Disconnect,
    Fail,
    Failed,
    Gate,
    Incomplete,
    ModelResponse,
    Reasoning,
    ScriptedModel,
    Step,
    Text,
    Usage,
    When,
    add_file,
    exec_command,
    request_permissions,
    request_user_input,
    update_plan,
    words,
)
from tests.testing.codex_driver import CodexDriver, Message

FEATURES = {"default_mode_request_user_input": True, "request_permissions_tool": True}


@dataclass
class Run:
    """A Codex with one thread, and what it talks to."""

    model: ScriptedModel
    home: CodexHome
    codex: CodexDriver
    thread_id: str

    def turn(self, text: str = "Go.") -> Message:
        self.codex.start_turn(self.thread_id, text)
        return self.codex.finish_turn(self.thread_id)


@contextmanager
def running(script: Sequence[ModelResponse | Sequence[Step]], **options: Any) -> Iterator[Run]:
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel(script))
        home = stack.enter_context(CodexHome(model.base_url, **options))
        codex = stack.enter_context(CodexDriver(home.env, home.workspace))
        yield Run(model, home, codex, codex.start_thread(home.workspace))


def test_a_text_turn_arrives_as_the_scripted_deltas() -> None:
    with running([[Text("Hel", "lo", " you"), Usage(10, 5, 4, 3)]]) as run:
        turn = run.turn("Say hello.")
        assert turn["status"] == "completed"
        deltas = [p["delta"] for p in run.codex.params_of("item/agentMessage/delta")]
        assert deltas == ["Hel", "lo", " you"]
        usage = run.codex.params_of("thread/tokenUsage/updated")[-1]["tokenUsage"]["last"]
        assert (usage["inputTokens"], usage["cachedInputTokens"]) == (10, 4)
        assert (usage["outputTokens"], usage["reasoningOutputTokens"]) == (5, 3)
        (request,) = run.model.requests
        assert request.last_user_text == "Say hello."
        assert {"exec_command", "apply_patch", "update_plan"} <= set(request.tool_names)


def test_reasoning_arrives_as_summary_deltas() -> None:
    with running([[Reasoning("First ", "think."), Text("Done.")]]) as run:
        assert run.turn()["status"] == "completed"
        deltas = [p["delta"] for p in run.codex.params_of("item/reasoning/summaryTextDelta")]
        assert deltas == ["First ", "think."]


def test_a_command_runs_and_its_output_goes_back_to_the_model() -> None:
    with running([[exec_command("echo from-shell", call_id="run")], [Text("Done.")]]) as run:
        assert run.turn()["status"] == "completed"
        assert "from-shell" in run.model.requests[1].tool_outputs["run"]
        items = [p["item"] for p in run.codex.params_of("item/completed")]
        (command,) = [item for item in items if item["type"] == "commandExecution"]
        assert (command["id"], command["exitCode"]) == ("run", 0)


def test_a_command_with_a_justification_is_asked_about() -> None:
    ask = exec_command("touch made", justification="May I?", call_id="ask")
    with running([[ask], [Text("Done.")]]) as run:
        run.codex.start_turn(run.thread_id)
        request = run.codex.wait_for_method("item/commandExecution/requestApproval")
        assert request["params"]["reason"] == "May I?"
        run.codex.send({"id": request["id"], "result": {"decision": "accept"}})
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert (run.home.workspace / "made").exists()


@pytest.mark.parametrize(("decision", "exists"), [("accept", True), ("decline", False)])
def test_a_patch_is_asked_about_in_a_read_only_sandbox(decision: str, exists: bool) -> None:
    with running([[add_file("new.txt", "one\ntwo\n", call_id="patch")], [Text("Done.")]]) as run:
        run.codex.start_turn(run.thread_id)
        request = run.codex.wait_for_method("item/fileChange/requestApproval")
        assert request["params"]["itemId"] == "patch"
        run.codex.send({"id": request["id"], "result": {"decision": decision}})
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert (run.home.workspace / "new.txt").exists() is exists
        assert "patch" in run.model.requests[1].tool_outputs


def test_a_workspace_write_sandbox_patches_unasked() -> None:
    script: list[list[Step]] = [[add_file("new.txt", "one\n")], [Text("Done.")]]
    with running(script, sandbox_mode="workspace-write") as run:
        assert run.turn()["status"] == "completed"
        assert (run.home.workspace / "new.txt").read_text() == "one\n"
        assert not run.codex.params_of("item/fileChange/requestApproval")


def test_a_plan_is_shown() -> None:
    plan = update_plan(("Look", "completed"), ("Write", "in_progress"), explanation="So far.")
    with running([[plan], [Text("Done.")]]) as run:
        assert run.turn()["status"] == "completed"
        (shown,) = run.codex.params_of("turn/plan/updated")
        assert [step["status"] for step in shown["plan"]] == ["completed", "inProgress"]


def test_questions_and_permissions_reach_the_client() -> None:
    question = {
        "id": "color",
        "header": "Color",
        "question": "Which?",
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}],
    }
    script: list[list[Step]] = [
        [request_user_input(question, call_id="ask")],
        [request_permissions("need net", network=True, call_id="perm")],
        [Text("Done.")],
    ]
    with running(script, config={"features": FEATURES}) as run:
        run.codex.start_turn(run.thread_id)
        request = run.codex.wait_for_method("item/tool/requestUserInput")
        answers = {"answers": {"color": {"answers": ["Red"]}}}
        run.codex.send({"id": request["id"], "result": answers})
        request = run.codex.wait_for_method("item/permissions/requestApproval")
        assert request["params"]["permissions"]["network"] == {"enabled": True}
        grant = {"permissions": {"network": {"enabled": True}}, "scope": "turn"}
        run.codex.send({"id": request["id"], "result": grant})
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert "Red" in run.model.requests[1].tool_outputs["ask"]


@pytest.mark.parametrize(
    ("response", "info"),
    [
        ([Fail(500, {"error": {"message": "scripted fault"}})], None),
        ([Failed("context_length_exceeded", "too long")], "contextWindowExceeded"),
        ([Failed("insufficient_quota", "no money")], "usageLimitExceeded"),
        ([Text("Half"), Disconnect()], None),
        ([Text("Half"), Incomplete("max_output_tokens")], None),
    ],
    ids=["http-500", "context-length", "quota", "disconnect", "incomplete"],
)
def test_a_failing_model_fails_the_turn(response: list[Step], info: str | None) -> None:
    with running([response, [Text("Again.")]]) as run:
        turn = run.turn()
        assert turn["status"] == "failed"
        assert turn["error"]["message"]
        if info is not None:
            assert turn["error"]["codexErrorInfo"] == info
        assert len(run.model.requests) == 1


def test_after_a_failed_turn_the_thread_goes_on() -> None:
    with running([[Fail(500)], [Text("Again.")]]) as run:
        assert run.turn()["status"] == "failed"
        assert run.turn()["status"] == "completed"


def test_after_a_full_context_codex_asks_for_a_summary_first() -> None:
    full = [Failed("context_length_exceeded", "too long")]
    with running([full, [Text("The summary.")], [Text("Again.")]]) as run:
        assert run.turn()["status"] == "failed"
        assert run.turn("Once more.")["status"] == "completed"
        assert "CHECKPOINT" in run.model.requests[1].last_user_text
        assert run.model.requests[2].last_user_text == "Once more."


def test_a_gate_holds_the_stream_until_it_is_opened() -> None:
    with running([[Text("Before"), Gate("go"), Text("After")]]) as run:
        run.codex.start_turn(run.thread_id)
        run.model.wait_for_gate("go")
        before = run.codex.wait_for_method("item/agentMessage/delta")
        assert before["params"]["delta"] == "Before"
        run.model.open("go")
        run.codex.finish_turn(run.thread_id)
        deltas = [p["delta"] for p in run.codex.params_of("item/agentMessage/delta")]
        assert deltas == ["Before", "After"]


def test_an_interrupt_ends_a_turn_that_stands_at_a_gate() -> None:
    with running([[Text("Before"), Gate("never")]]) as run:
        run.codex.start_turn(run.thread_id)
        started = run.codex.wait_for_method("turn/started")["params"]["turn"]["id"]
        run.model.wait_for_gate("never")
        run.codex.request("turn/interrupt", {"threadId": run.thread_id, "turnId": started})
        assert run.codex.finish_turn(run.thread_id)["status"] == "interrupted"


def test_a_delay_and_a_pause_keep_the_deltas_apart() -> None:
    with running([[Delay(0.2), Text("a", "b", pause=0.3)]]) as run:
        assert run.turn()["durationMs"] >= 500
        at = [
            message["emittedAtMs"]
            for message in run.codex.messages
            if message.get("method") == "item/agentMessage/delta"
        ]
        assert at[1] - at[0] >= 200


def test_an_exhausted_script_fails_the_turn_and_is_recorded() -> None:
    with running([[Text("Only one.")]]) as run:
        assert run.turn()["status"] == "completed"
        turn = run.turn("One more.")
        assert turn["status"] == "failed"
        assert "no response left" in turn["error"]["message"]
        (request,) = run.model.unanswered
        assert request.last_user_text == "One more."


def test_conditions_tell_parallel_threads_apart() -> None:
    script = [
        ModelResponse(Text("for two"), when=When(user_text="second")),
        ModelResponse(Text("for one"), when=When(user_text="first")),
    ]
    with running(script) as run:
        other = run.codex.request("thread/start", {"cwd": str(run.home.workspace)})
        other_id = other["thread"]["id"]
        run.codex.start_turn(run.thread_id, "the first")
        run.codex.start_turn(other_id, "the second")
        waiting = {run.thread_id, other_id}
        while waiting:
            done = run.codex.wait_for_method("turn/completed")
            waiting.discard(done["params"]["threadId"])
        said = {p["threadId"]: p["delta"] for p in run.codex.params_of("item/agentMessage/delta")}
        assert said == {run.thread_id: "for one", other_id: "for two"}


def test_twenty_thousand_deltas_all_arrive() -> None:
    with running([[words(20_000)]]) as run:
        assert run.turn()["status"] == "completed"
        assert len(run.codex.params_of("item/agentMessage/delta")) == 20_000
