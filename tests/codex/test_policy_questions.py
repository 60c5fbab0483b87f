"""What happens while a policy decides: one reply each, whatever comes first (1.4, 3.2, 6.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from codex_acp.codex import Allow, Deny, Once, allow_commands, ask
from codex_acp.codex.approvals import callbacks, policy_runner
from codex_acp.codex.approvals.grants import Grant
from codex_acp.codex.approvals.policies import ApprovalQuestion, Policy
from codex_acp.testing import (
    Entry,
    Expect,
    Notify,
    RawLine,
    file_change_approval,
    request_resolved,
    turn_completed,
)
from codex_acp.wire.codec import encode
from tests.codex.policy_bench import (
    DECLINED,
    TURN,
    Asked,
    PolicyBench,
    ask_command,
    warnings_of,
)
from tests.codex.server_request_samples import COMMAND
from tests.support.routing_samples import command_item

# --- while a callback runs ---------------------------------------------------------------------


ENDS: dict[str, list[Entry]] = {
    "resolved": request_resolved(0),
    "turn ended": turn_completed(),
    "interrupted": turn_completed("interrupted"),
    "thread closed": [Notify("thread/closed", {"threadId": "t"})],
    "next turn": [
        Notify(
            "turn/started",
            {"threadId": "t", "turn": {"id": "u2", "items": [], "status": "inProgress"}},
        )
    ],
}


@pytest.mark.parametrize("entries", ENDS.values(), ids=ENDS)
async def test_3_2_what_ends_the_question_refuses_it_once_and_cancels_the_callback(
    entries: list[Entry],
) -> None:
    asked = Asked()
    async with PolicyBench(ask(asked), ask_command()) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
            bench.server.play(*entries)
            await asked.cancelled.wait()
        assert await bench.answer() == DECLINED


@pytest.mark.parametrize("entries", [request_resolved(0), turn_completed()])
async def test_3_2_a_policy_that_answers_its_cancelling_with_a_grant_gives_none(
    entries: list[Entry],
) -> None:
    called = anyio.Event()

    async def clings(_question: ApprovalQuestion) -> Grant | None:
        called.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return Once()
        return None

    class Clings(Policy):
        async def decide(self, question: ApprovalQuestion) -> Allow | None:
            grant = await clings(question)
            return None if grant is None else Allow(grant)

    for policy in (ask(clings), Clings()):
        async with PolicyBench(policy, ask_command()) as bench:
            with anyio.fail_after(60):
                await called.wait()
            bench.server.play(*entries)
            assert await bench.answer() == DECLINED
        called = anyio.Event()


async def test_3_2_another_request_being_resolved_changes_nothing() -> None:
    asked = Asked()
    others = [*request_resolved("0"), *request_resolved(7), RawLine('{"method":"x"}')]
    async with PolicyBench(ask(asked), ask_command()) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
        bench.server.play(*others)
        await bench.synced()
        asked.release.set()
        assert await bench.answer() == {"decision": "accept"}


async def test_3_2_the_answer_comes_with_the_end_of_the_turn_and_the_end_wins() -> None:
    asked = Asked()
    async with PolicyBench(ask(asked), ask_command()) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
        asked.release.set()
        bench.server.play(*turn_completed())
        assert await bench.answer() == DECLINED


async def test_3_2_a_grant_for_a_turn_that_is_over_is_refused_though_the_question_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_runner.PolicyRunner, "_withdraw_ended", lambda _: None)
    asked = Asked()
    async with PolicyBench(ask(asked), ask_command()) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
        bench.server.play(*turn_completed())
        await bench.synced()
        asked.release.set()
        assert await bench.answer() == DECLINED
        (told,) = bench.refused
        assert "its turn is over" in told.reason


async def test_3_2_a_request_that_was_resolved_before_it_could_be_asked_is_refused() -> None:
    asked = Asked()
    asked.release.set()
    # One line, so that both come in one read.
    async with PolicyBench(ask(asked)) as bench:
        request = ask_command(threadId="t", turnId="turn-1")
        lines = [
            {"id": 0, "method": COMMAND, "params": request.params},
            {"method": "serverRequest/resolved", "params": {"threadId": "t", "requestId": 0}},
        ]
        bench.server.play(RawLine("\n".join(encode(line).decode() for line in lines)))
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        assert [a.result for a in bench.server.player.answers] == [DECLINED]
    assert asked.questions == []


@pytest.mark.parametrize("changed", [True, False])
async def test_3_2_file_changes_that_were_patched_meanwhile_are_refused(changed: bool) -> None:
    asked = Asked()
    async with PolicyBench(ask(asked), *file_change_approval(content="new\n")) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
        diff = "other\n" if changed else "new\n"
        change = {"path": "/scripted/workspace/new.txt", "kind": {"type": "add"}, "diff": diff}
        patch = {**TURN, "itemId": "call-1", "changes": [change]}
        bench.server.play(Notify("item/fileChange/patchUpdated", patch))
        await bench.synced()
        asked.release.set()
        decision = "decline" if changed else "accept"
        assert await bench.answer() == {"decision": decision}


async def test_1_4_two_questions_are_answered_in_any_order() -> None:
    first, second = Asked(), Asked()

    async def one_each(question: ApprovalQuestion) -> Grant | None:
        asked = first if question.arguments["command"] == "one" else second
        return await asked(question)

    two = ask_command("two", itemId="j")
    async with PolicyBench(ask(one_each), ask_command("one"), two) as bench:
        with anyio.fail_after(60):
            await second.called.wait()
            await first.called.wait()
        second.release.set()
        await bench.server.wait_for(lambda: len(bench.server.player.answers) == 1)
        assert bench.server.player.answers[0].id == 1
        first.release.set()
        assert await bench.answers(2) == [{"decision": "accept"}] * 2


async def test_1_4_closing_the_client_refuses_once_and_ends_the_callback() -> None:
    asked = Asked()
    async with PolicyBench(ask(asked), ask_command()) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
            await bench.client.aclose()
        assert asked.cancelled.is_set()
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        assert [a.result for a in bench.server.player.answers] == [DECLINED]


async def test_3_7_an_id_used_for_another_request_is_refused_once() -> None:
    asked = Asked()
    async with PolicyBench(ask(asked), ask_command("one")) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
            other = ask_command("two", threadId="t", turnId="turn-1").params
            line = encode({"id": 0, "method": COMMAND, "params": other}).decode()
            bench.server.play(RawLine(line))
            await asked.cancelled.wait()
        await bench.synced()
        assert [a.result for a in bench.server.player.answers] == [DECLINED]


# --- callbacks and policies that misbehave -----------------------------------------------------


async def test_6_2_a_callback_that_raises_is_one_refusal(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(_question: ApprovalQuestion) -> Grant | None:
        raise ValueError("no screen \udcff")

    async with PolicyBench(ask(breaks), ask_command()) as bench:
        assert await bench.answer() == DECLINED
        (told,) = bench.refused
        assert "ValueError: no screen ?" in told.reason
    assert COMMAND in warnings_of(caplog)[-1]


async def test_6_2_a_callback_that_ignores_its_cancelling_holds_up_no_reply(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(callbacks, "END_OF_CALLBACK_SECONDS", 0.01)
    called, release, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def stubborn(_question: ApprovalQuestion) -> Grant | None:
        called.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return Once()

    async with PolicyBench(ask(stubborn), ask_command()) as bench:
        with anyio.fail_after(60):
            await called.wait()
            bench.server.play(*turn_completed())
            try:
                assert await bench.answer() == DECLINED
            finally:
                release.set()
            await ended.wait()
        assert len(bench.server.player.answers) == 1
    assert "does not end" in caplog.text


class _Odd(Policy):
    def __init__(self, decision: object) -> None:
        self.decision = decision

    async def decide(self, question: ApprovalQuestion) -> Any:
        del question
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (ValueError("broken"), "ValueError: broken"),
        (True, "not True"),
        (Once(), "Once()"),
        (Allow("accept"), "not offered"),  # type: ignore[arg-type]
        (None, "no policy allows it"),
        (Deny("not today"), "not today"),
    ],
)
async def test_6_2_a_policy_that_fails_or_does_not_know_is_a_refusal(
    decision: object, reason: str
) -> None:
    async with PolicyBench(_Odd(decision), ask_command()) as bench:
        assert await bench.answer() == DECLINED
        (told,) = bench.refused
        assert reason in told.reason


async def test_6_2_a_policy_may_decide_in_a_plain_function() -> None:
    class Plain(Policy):
        def decide(self, question: ApprovalQuestion) -> Any:
            return Allow(question.offered[0])

    async with PolicyBench(_Odd(None) | Plain(), ask_command()) as bench:
        assert await bench.answer() == {"decision": "accept"}


async def test_6_2_a_policy_that_does_not_end_holds_up_no_reply(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(policy_runner, "END_OF_DECISION_SECONDS", 0.01)
    called, release = anyio.Event(), anyio.Event()

    class Stubborn(Policy):
        async def decide(self, question: ApprovalQuestion) -> Allow:
            called.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return Allow(question.offered[0])

    async with PolicyBench(Stubborn(), ask_command()) as bench:
        with anyio.fail_after(60):
            await called.wait()
        bench.server.play(*turn_completed())
        try:
            assert await bench.answer() == DECLINED
        finally:
            release.set()
    assert "does not end" in caplog.text


async def test_1_5_a_callback_may_use_the_client() -> None:
    bench: PolicyBench

    async def lists(_question: ApprovalQuestion) -> Grant | None:
        await bench.synced()
        return Once()

    bench = PolicyBench(ask(lists), ask_command())
    async with bench:
        assert await bench.answer() == {"decision": "accept"}


async def test_3_7_another_action_of_the_same_id_is_refused_with_the_open_question() -> None:
    asked = Asked()
    async with PolicyBench(ask(asked), ask_command("one")) as bench:
        with anyio.fail_after(60):
            await asked.called.wait()
            bench.server.play(ask_command("two"))
            await asked.cancelled.wait()
        assert await bench.answers(2) == [DECLINED] * 2
        assert [refused.id for refused in bench.refused] == [1, 0]
        assert "one id to several actions" in bench.refused[0].reason
    assert [question.arguments["command"] for question in asked.questions] == ["one"]


@pytest.mark.parametrize("second", ["request", "item/started", "item/completed"])
async def test_3_7_another_action_in_place_of_the_allowed_one_interrupts_the_turn(
    second: str, caplog: pytest.LogCaptureFixture
) -> None:
    item = {
        "type": "commandExecution",
        "id": "i",
        "command": "two",
        "commandActions": [],
        "cwd": "/w",
        "status": "inProgress",
    }
    report = Notify(second, {**TURN, "item": item, "startedAtMs": 1, "completedAtMs": 1})
    async with PolicyBench(ask(lambda _q: Once()), ask_command("one")) as bench:
        assert await bench.answer() == {"decision": "accept"}
        bench.server.play(
            ask_command("two") if second == "request" else report, Expect("turn/interrupt")
        )
        count = 2 if second == "request" else 1
        assert await bench.answers(count) == [{"decision": "accept"}, DECLINED][:count]
    assert "is interrupted" in caplog.text


@pytest.mark.attack("model")
async def test_3_8_a_policy_sees_the_command_that_an_input_is_for() -> None:
    asked = Asked()
    started = Notify(
        "item/started",
        {**TURN, "startedAtMs": 1, "item": command_item("psql prod", "i")},
    )
    write = ask_command("npm test", kind="writeStdin", approvalId="s")
    async with PolicyBench(allow_commands(["npm test"]) | ask(asked), started, write):
        with anyio.fail_after(60):
            await asked.called.wait()
        assert asked.questions[0].arguments["runningCommand"] == "psql prod"
