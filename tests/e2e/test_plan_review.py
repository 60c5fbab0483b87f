"""A plan that plan mode has proposed is carried out only if the person says so, behind its turn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.cli.command import COMMAND, WAIT_SECONDS
from tests.e2e.either_version import EitherVersion

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.raw_adapter import Message

EVERY_VERSION = pytest.mark.parametrize("version", [1, 2])

PLAN = "# Tidy up\n\n1. Look at it.\n"
PROPOSED = [Text(f"<proposed_plan>\n{PLAN}</proposed_plan>\n")]


def _asked(it: EitherVersion, session: str) -> tuple[int, Message]:
    """A prompt in plan mode until its plan is asked about: its id, and the question."""
    it.prompt(session, "/plan")
    prompt = it.adapter.start_prompt(session, "Tidy up.")
    return prompt, it.adapter.wait_for(lambda m: m.get("method") == "session/request_permission")


def _call(params: dict[str, Any]) -> dict[str, Any]:
    call: dict[str, Any] = params.get("toolCall") or params["subject"]["toolCall"]
    return call


@EVERY_VERSION
def test_a_plan_that_is_approved_is_carried_out_in_the_same_prompt(
    version: int, tmp_path: Path
) -> None:
    kept = tmp_path / "transcript.jsonl"
    script = [PROPOSED, [Text("Tidied.")]]
    with EitherVersion(version, script, args=("--transcript", str(kept))) as it:
        session = it.new()
        prompt, question = _asked(it, session)
        params = question["params"]
        call = _call(params)
        assert (call["title"], call["kind"]) == ("Implement this plan?", "switch_mode")
        assert call["rawInput"] == {"plan": PLAN}
        assert [(o["optionId"], o["kind"]) for o in params["options"]] == [
            ("implement_plan", "allow_once"),
            ("revise_plan", "reject_once"),
        ]
        if version == 2:
            assert it.updates(session, "state_update")[-1]["state"] == "requires_action"
        it.adapter.send(_yes(question))
        assert _end(it, session, prompt) == "end_turn"
        assert it.said(session).endswith("Tidied.")
        assert _status(it, session, call["toolCallId"]) == "completed"
        _, done = it.model.requests
        assert done.last_user_text == "Implement the approved plan."
        assert "Default mode" in str(done.body["input"]).rpartition("<collaboration_mode>")[2]
    assert _decided(kept) == [("plan", [PLAN], "accepted", "client")]


@EVERY_VERSION
@pytest.mark.attack("model")
def test_3_8_what_a_plan_hides_is_made_visible_in_its_question(version: int) -> None:
    hostile = "# Tidy up \u202e\u200b\U000e0041\x1b[2J\n```\n![x](http://e.v/i)\n"
    proposed = [Text(f"<proposed_plan>\n{hostile}</proposed_plan>\n")]
    with EitherVersion(version, [proposed]) as it:
        session = it.new()
        prompt, question = _asked(it, session)
        call = _call(question["params"])
        it.adapter.send({"id": question["id"], "error": {"code": -32603, "message": "no"}})
        assert _end(it, session, prompt) == "end_turn"
        calls = it.updates(session, "tool_call" if version == 1 else "tool_call_update")
        announced = next(u for u in calls if u["toolCallId"] == call["toolCallId"])
        shown = (
            "````markdown\n# Tidy up \u27e6U+202E\u27e7\u27e6U+200B\u27e7\u27e6U+E0041\u27e7"
            "\u27e6U+001B\u27e7[2J\n```\n![x](http://e.v/i)\n````"
        )
        for told in (call, announced):
            (part,) = told["content"]
            assert part["content"]["text"] == shown
            assert told["rawInput"] == {"plan": hostile}


@EVERY_VERSION
@pytest.mark.parametrize("answer", ["no", "gone", "cancel", "another prompt"])
def test_without_a_yes_the_plan_stays_a_plan(version: int, answer: str, tmp_path: Path) -> None:
    kept = tmp_path / "transcript.jsonl"
    script = [PROPOSED, [Text("A better plan.")]]
    with EitherVersion(version, script, args=("--transcript", str(kept))) as it:
        session = it.new()
        prompt, question = _asked(it, session)
        if answer == "no":
            outcome = {"outcome": "selected", "optionId": "revise_plan"}
            it.adapter.send({"id": question["id"], "result": {"outcome": outcome}})
        elif answer == "gone":
            it.adapter.send({"id": question["id"], "error": {"code": -32603, "message": "no"}})
        elif answer == "cancel":
            it.adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
        else:
            assert it.prompt(session, "Plan better.").endswith("A better plan.")
        if version == 1 or answer != "another prompt":  # whose end was that of the session's work
            ended = "cancelled" if answer == "cancel" else "end_turn"
            assert _end(it, session, prompt) == ended
        status = (
            "cancelled" if version == 2 and answer in ("cancel", "another prompt") else "failed"
        )
        assert _status(it, session, _call(question["params"])["toolCallId"]) == status
        assert len(it.model.requests) == (2 if answer == "another prompt" else 1)
        if answer != "another prompt":
            assert it.prompt(session, "Plan better.") == "A better plan."
        assert "Plan mode is off" in it.prompt(session, "/plan"), "it was on until now"
    decided = "rejected" if answer in ("no", "gone") else "cancelled"
    by = {"no": "client", "gone": "disconnected"}.get(answer, "turn_cancelled")
    assert _decided(kept) == [("plan", [PLAN], decided, by)]


@EVERY_VERSION
def test_what_comes_behind_a_yes_still_ends_it(version: int) -> None:
    with EitherVersion(version, [PROPOSED, PROPOSED, [Text("Tidied.")]]) as it:
        session = it.new()
        prompt, question = _asked(it, session)
        anew = {"sessionId": session, "cwd": str(it.home.workspace), "mcpServers": []}
        refusal = it.adapter.error("session/load" if version == 1 else "session/resume", anew)
        assert "a prompt runs in this session" in refusal["message"]
        it.adapter.send(_yes(question), {"method": "session/cancel", "params": anew})
        assert _end(it, session, prompt) == "cancelled"
        status = _status(it, session, _call(question["params"])["toolCallId"])
        assert status == ("failed" if version == 1 else "cancelled")
        assert "Plan mode is off" in it.prompt(session, "/plan"), "it was on until now"
        it.adapter.messages.clear()
        prompt, question = _asked(it, session)
        close = {"id": "close", "method": "session/close", "params": {"sessionId": session}}
        it.adapter.send(_yes(question), close)
        it.adapter.answer("close")
        told = [*it.adapter.messages]
        assert _end(it, session, prompt) == "cancelled"
        assert told == it.adapter.messages, "it was said before the close was answered"
        assert len(it.model.requests) == 2, "nothing was carried out"


def test_a_yes_outlives_the_codex_that_proposed_the_plan() -> None:
    with EitherVersion(1, [PROPOSED, [Text("Tidied.")]]) as it:
        session = it.new()
        prompt, question = _asked(it, session)
        os.kill(it.adapter.codex(), signal.SIGKILL)
        it.adapter.ask("session/list")  # whatever comes of it: then the adapter knows
        it.adapter.send(_yes(question))
        assert _end(it, session, prompt) == "end_turn"
        assert it.said(session).endswith("Tidied.")


@pytest.mark.parametrize(
    ("allow", "code", "last"), [((), 6, "nobody can be asked"), (("switch_mode",), 0, "Tidied.")]
)
def test_run_that_can_ask_nobody_says_so_and_carries_out_what_was_allowed_before(
    allow: tuple[str, ...], code: int, last: str
) -> None:
    with (
        ScriptedModel([PROPOSED, [Text("Tidied.")]]) as model,
        CodexHome(model.base_url) as home,
    ):
        options = [f"--allow={kind}" for kind in allow]
        done = subprocess.run(
            [*COMMAND, "run", *options, "--cwd", str(home.workspace), "/plan Tidy up."],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=home.env,
            timeout=WAIT_SECONDS,
            check=False,
        )
    assert (done.returncode, last in done.stdout + done.stderr) == (code, True), done.stderr
    assert done.stdout.startswith("# Tidy up\n\n1. Look at it.\n"), "the plan alone"


def _decided(kept: Path) -> list[tuple[Any, ...]]:
    lines = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    return [
        (line["about"], line["subject"], line["outcome"], line["by"])
        for line in lines
        if line["type"] == "agreement.decided"
    ]


def _yes(question: Message) -> Message:
    outcome = {"outcome": "selected", "optionId": "implement_plan"}
    return {"id": question["id"], "result": {"outcome": outcome}}


def _end(it: EitherVersion, session: str, prompt: int) -> str:
    if it.version == 2:
        while (state := it.updates(session, "state_update")[-1])["state"] != "idle":
            it.adapter.wait_for(lambda m: m.get("method") == "session/update")
        return str(state["stopReason"])
    known = [m for m in it.adapter.messages if m.get("id") == prompt and "result" in m]
    answer = known[0] if known else it.adapter.answer(prompt)
    return str(answer["result"]["stopReason"])


def _status(it: EitherVersion, session: str, call_id: str) -> str:
    told = [u for u in it.updates(session, "tool_call_update") if u["toolCallId"] == call_id]
    return str(told[-1]["status"])
