"""Commands that ask to leave the sandbox, on the real Codex (contract 3 and 4)."""

from __future__ import annotations

import pytest

from codex_acp.codex import CodexClient, LaunchOptions, deny_all
from codex_acp.errors import RpcError
from codex_acp.testing import Step, Text, ToolCall, exec_command
from codex_acp.transcript import ApprovalDecided as Decided
from codex_acp.transcript import ApprovalRequested as Requested
from tests.e2e_contract.contract_bench import IN_V2_ONLY, ContractBench, Scenes

SCENES = Scenes()


def escalated(cmd: str, call: str) -> ToolCall:
    """A command that asks to leave the sandbox."""
    return exec_command(cmd, justification="May I write here?", call_id=call)


DONE: list[Step] = [Text("Done.")]

APPROVED = SCENES.add("approved", [escalated("touch approved && echo hi-there", "c1")], DONE)
REJECTED = SCENES.add("rejected", [escalated("touch rejected", "c2")], DONE)
BY_KIND = SCENES.add("by kind", [escalated("touch by-kind", "c3")], DONE)
DISMISSED = SCENES.add("dismissed", [escalated("touch dismissed", "c4")], DONE)
CANCELLED = SCENES.add("cancelled", [escalated("touch cancelled", "c5")])
STALE = SCENES.add("stale", [escalated("touch stale", "c6")], [Text("Again.")])
REMEMBERED = SCENES.add(
    "remembered", [escalated("touch remembered", "c7")], [escalated("touch remembered", "c8")], DONE
)
EVERYWHERE = SCENES.add("everywhere", [escalated("touch everywhere", "e1")], DONE)
UNASKED = [
    SCENES.add(f"unasked {n}", [exec_command("touch everywhere", call_id=f"u{n}")], DONE)
    for n in range(2)
]
UNKNOWN_OPTION = SCENES.add("unknown option", [escalated("touch unknown-option", "c9")], DONE)
FOREIGN_ONE = SCENES.add("foreign one", [escalated("touch foreign-one", "c10")], DONE)
FOREIGN_TWO = SCENES.add("foreign two", [escalated("touch foreign-two", "c11")], DONE)
ERROR = SCENES.add("error", [escalated("touch error", "c12")], DONE)
OUTCOMES: list[dict[str, str]] = [
    {"outcome": "allow_everything"},
    {"outcome": "selected", "optionId": "made-up"},
    {"outcome": "_ours", "optionId": "allow"},
]
ODD_OUTCOMES = [
    SCENES.add(f"odd outcome {n}", [escalated(f"touch odd-{n}", f"o{n}")], DONE)
    for n in range(len(OUTCOMES))
]
FIRST = SCENES.add("first", [escalated("touch first", "c13")], DONE)
SECOND = SCENES.add("second", [escalated("touch second", "c14")], DONE)
BOTH = SCENES.add(
    "both", [escalated("touch both-a", "c15"), escalated("touch both-b", "c16")], DONE
)
TRICK = "touch trick # \u202etxt.exe\u2069 \x1b[2K\x1b[1A\u200bharmless"
TRICKED = SCENES.add("tricked", [escalated(TRICK, "c17")], DONE)
LONG = "echo " + "x" * 1_000_000
LONG_ONE = SCENES.add("long", [escalated(LONG, "c18")], DONE)


async def test_3_2_an_approved_command_runs_and_the_model_gets_its_output(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, APPROVED)
    asked = await bench.asks.next_permission()
    assert "touch approved && echo hi-there" in asked.title
    assert not bench.path("approved").exists()
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("approved").exists()
    assert "hi-there" in bench.outputs(APPROVED)["c1"]
    assert bench.statuses(session, "c1") == ["in_progress", "pending", "in_progress", "completed"]
    assert bench.event_types(session) == ["approval.requested", "approval.decided"]


SECRET = "touch secret; echo --password=hunter22hunter"
SECRET_ONE = SCENES.add("secret", [escalated(SECRET, "c19")], DONE)


async def test_5_1_the_record_names_the_command_and_the_client_that_decided_without_secrets(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, SECRET_ONE)
    (await bench.asks.next_permission()).choose("allow_once")
    assert await prompt.end() == "end_turn"
    recorded = [e for e in bench.events(session) if isinstance(e, Requested | Decided)]
    assert [event.type for event in recorded] == ["approval.requested", "approval.decided"]
    for event in recorded:
        (command,) = event.subject
        assert "touch secret; echo --password" in command
        assert "hunter22" not in command
    assert [(e.by, e.policy) for e in recorded if isinstance(e, Decided)] == [("client", None)]


@pytest.mark.attack("model")
async def test_3_4_a_rejected_command_does_not_run_and_the_turn_goes_on(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, REJECTED)
    (await bench.asks.next_permission()).choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert not bench.path("rejected").exists()
    assert "rejected by user" in bench.outputs(REJECTED)["c2"]
    assert bench.statuses(session, "c2") == ["in_progress", "pending", "failed"]
    assert bench.replies(session) == [{"decision": "decline"}]


async def test_3_4_a_client_that_chooses_by_kind_says_no_without_ending_the_turn(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, BY_KIND)
    asked = await bench.asks.next_permission()
    assert {"allow_once", "reject_once"} <= set(asked.kinds)
    noes = [option for option in asked.options if option.kind.startswith("reject")]
    asked.choose_id(noes[-1].option_id)

    assert await prompt.end() == "end_turn"
    assert not bench.path("by-kind").exists()
    assert "rejected by user" in bench.outputs(BY_KIND)["c3"]


async def test_3_4_the_outcome_cancelled_of_a_turn_that_runs_declines_this_action_only(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, DISMISSED)
    (await bench.asks.next_permission()).dismiss()

    assert await prompt.end() == "end_turn"
    assert not bench.path("dismissed").exists()
    assert bench.replies(session) == [{"decision": "decline"}]
    assert bench.statuses(session, "c4") == ["in_progress", "pending", "failed"]


async def test_3_5_a_cancel_while_asked_ends_the_prompt_without_the_clients_answer(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CANCELLED)
    await bench.asks.next_permission()
    withdrawn = len(bench.asks.withdrawn)
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    assert len(bench.asks.withdrawn) == withdrawn + 1
    assert bench.replies(session) == [{"decision": "cancel"}]
    assert bench.statuses(session, "c5") == ["in_progress", "pending", "failed"]
    assert not bench.path("cancelled").exists()


async def test_3_5_the_late_answer_after_a_cancel_changes_nothing(bench: ContractBench) -> None:
    session = await bench.new_session()
    bench.asks.stubborn = True
    prompt = bench.prompt(session, STALE)
    asked = await bench.asks.next_permission()
    bench.cancel(session)
    assert await prompt.end() == "cancelled"
    asked.choose("allow_once")
    bench.asks.stubborn = False

    # The next prompt comes behind the late answer on the same wire.
    assert await bench.prompt(session, STALE).end() == "end_turn"
    assert not bench.path("stale").exists()
    assert bench.replies(session) == [{"decision": "cancel"}]
    assert bench.event_types(session) == ["approval.requested", "approval.decided"]


async def test_3_6_an_amendment_is_shown_whole_and_spares_the_next_question(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, REMEMBERED)
    asked = await bench.asks.next_permission()
    asked.choose("allow_always", '"touch" "remembered"')

    assert await prompt.end() == "end_turn"
    assert len(bench.wire.asked(thread=session)) == 1
    amendment = {"execpolicy_amendment": ["touch", "remembered"]}
    assert bench.replies(session) == [{"decision": {"acceptWithExecpolicyAmendment": amendment}}]
    assert "rejected" not in bench.outputs(REMEMBERED)["c8"]
    assert bench.path("remembered").exists()


async def test_2_6_a_remembered_command_says_that_it_runs_everywhere_and_outside_of_the_sandbox(
    bench: ContractBench,
) -> None:
    prompt = bench.prompt(await bench.new_session(), EVERYWHERE)
    said = "always, in every directory and later session, unasked and outside of the sandbox"
    (await bench.asks.next_permission()).choose("allow_always", said)
    assert await prompt.end() == "end_turn"

    # It is so: in a read-only sandbox, elsewhere, and in the next process of Codex.
    elsewhere, later = bench.path("elsewhere"), bench.path("later")
    elsewhere.mkdir()
    later.mkdir()
    session = await bench.client.new_session(str(elsewhere), ())
    assert await bench.prompt(session, UNASKED[0]).end() == "end_turn"
    assert bench.asked(session) == []
    assert (elsewhere / "everywhere").exists()
    async with CodexClient.start(LaunchOptions(env=bench.home.env), policy=deny_all) as codex:
        thread = await codex.threads.start(cwd=later)
        await thread.run(UNASKED[1])
    assert (later / "everywhere").exists()


async def test_3_2_an_option_that_was_not_offered_fails_closed_and_is_said(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, UNKNOWN_OPTION)
    (await bench.asks.next_permission()).choose_id("allow_once")

    assert await prompt.end() == "end_turn"
    assert not bench.path("unknown-option").exists()
    assert bench.replies(session) == [{"decision": "decline"}]
    assert "Not approved" in bench.said(session)
    assert "approval.refused" in bench.event_types(session)


async def test_3_2_an_option_of_another_request_fails_closed(bench: ContractBench) -> None:
    one, two = await bench.new_session(), await bench.new_session()
    prompt_one = bench.prompt(one, FOREIGN_ONE)
    asked_one = await bench.asks.next_permission()
    prompt_two = bench.prompt(two, FOREIGN_TWO)
    asked_two = await bench.asks.next_permission()
    asked_two.choose_id(asked_one.option("allow_once").option_id)

    assert await prompt_two.end() == "end_turn"
    assert bench.replies(two) == [{"decision": "decline"}]
    asked_one.choose("reject_once")
    assert await prompt_one.end() == "end_turn"
    assert not bench.path("foreign-one").exists()
    assert not bench.path("foreign-two").exists()


async def test_3_3_an_error_for_an_answer_fails_closed_and_is_said(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ERROR)
    (await bench.asks.next_permission()).fail(RpcError(-32603, "the dialog crashed"))

    assert await prompt.end() == "end_turn"
    assert not bench.path("error").exists()
    assert bench.replies(session) == [{"decision": "decline"}]
    assert "the dialog crashed" in bench.said(session)


@IN_V2_ONLY
@pytest.mark.parametrize("number", range(len(OUTCOMES)))
async def test_3_3_an_outcome_that_is_not_known_is_no_consent(
    bench: ContractBench, number: int
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ODD_OUTCOMES[number])
    (await bench.asks.next_permission()).answer.set_result(OUTCOMES[number])

    assert await prompt.end() == "end_turn"
    assert not bench.path(f"odd-{number}").exists()
    assert bench.statuses(session, f"o{number}")[-1] == "failed"


async def test_3_7_two_sessions_approvals_are_answered_in_reverse_order(
    bench: ContractBench,
) -> None:
    one, two = await bench.new_session(), await bench.new_session()
    prompt_one = bench.prompt(one, FIRST)
    asked_one = await bench.asks.next_permission()
    prompt_two = bench.prompt(two, SECOND)
    asked_two = await bench.asks.next_permission()
    asked_two.choose("allow_once")
    assert await prompt_two.end() == "end_turn"
    assert bench.path("second").exists()
    assert not bench.path("first").exists()
    asked_one.choose("reject_once")

    assert await prompt_one.end() == "end_turn"
    assert not bench.path("first").exists()


async def test_3_7_two_approvals_of_one_turn_are_answered_in_reverse_order(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, BOTH)
    first, second = await bench.asks.next_permission(), await bench.asks.next_permission()
    second.choose("allow_once")
    await bench.wait_until(lambda: bench.statuses(session, second.call)[-1] == "in_progress")
    assert bench.statuses(session, first.call) == ["in_progress", "pending"]
    # 0.163 runs neither before both are answered.
    first.choose("reject_once")

    assert await prompt.end() == "end_turn"
    files = {"c15": "both-a", "c16": "both-b"}
    assert bench.path(files[second.call]).exists()
    assert not bench.path(files[first.call]).exists()
    assert bench.statuses(session, second.call)[-1] == "completed"
    assert bench.statuses(session, first.call)[-1] == "failed"


@pytest.mark.attack("model")
async def test_3_8_bidirectional_and_control_characters_of_a_command_are_made_visible(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, TRICKED)
    asked = await bench.asks.next_permission()
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"
    for hidden in ("\u202e", "\u2069", "\x1b", "\u200b"):
        assert not [text for text in asked.texts if hidden in text]
    assert "harmless" in asked.title


async def test_3_8_a_command_of_a_megabyte_says_that_it_is_cut_and_cannot_be_allowed(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, LONG_ONE)
    asked = await bench.asks.next_permission()
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert asked.kinds == ["reject_once"], "what is cut cannot be allowed"
    assert len(asked.title) < 10_000
    assert "characters" in asked.title
    assert LONG in asked.raw_input["command"]
