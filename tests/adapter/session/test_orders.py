"""Orders of events that the exploration has found, each with the effects that decide."""

from __future__ import annotations

import pytest

from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.machine import DONE, SessionMachine
from codex_acp.adapter.session.states import LateStart
from codex_acp.mapping.events import PromptFailure, PromptStop

GONE = PromptFailure(-32603, "Codex is gone", {})
CANCELLED = PromptStop("cancelled")


def handled(machine: SessionMachine, *events: ev.Event) -> list[ev.Effect]:
    """Effects of the last of the events."""
    effects: list[ev.Effect] = []
    for event in events:
        effects = machine.handle(event)
    return effects


def sent(prompt: str, kind: ev.Kind = "message") -> tuple[ev.Event, ...]:
    return (ev.Prompted(prompt), ev.Prepared(prompt, kind))


def behind_a_given_up_turn(kind: ev.Kind = "message") -> SessionMachine:
    """The turn of the first prompt was given up unnamed, and the second prompt was written."""
    machine = SessionMachine()
    effects = handled(
        machine, *sent("p1", kind), ev.Cancelled(), *sent("p2"), ev.Due("cancel"), ev.Due("free")
    )
    assert ev.Start(2, "p2") in effects
    return machine


def answers(effects: list[ev.Effect]) -> list[ev.Effect]:
    return [each for each in effects if isinstance(each, ev.Answer)]


def starts(effects: list[ev.Effect]) -> list[str]:
    return [each.prompt for each in effects if isinstance(each, ev.Start)]


def test_a_message_added_to_a_given_up_turn_and_not_read_is_the_next_turn() -> None:
    begun, read = ev.TurnBegan("t1"), ev.MessageRead("p1", "t1")
    named, end = ev.Started(2, "t1"), ev.TurnEnded("t1", DONE)
    late_name = ev.Started(1, "t1")
    for order in (
        (named, begun, read, end),
        (begun, named, read, end),
        (begun, read, named, end),
        (begun, read, end, named),
        (named, late_name, begun, read, end),
        (begun, read, named, ev.TurnEnded("t1", CANCELLED)),  # by the interrupt of what was left
    ):
        effects = handled(behind_a_given_up_turn(), *order)

        assert not answers(effects), order
        assert starts(effects) == ["p2"], order


def test_the_message_is_answered_with_the_end_of_the_turn_that_has_read_it() -> None:
    effects = handled(
        behind_a_given_up_turn(), ev.Started(2, "t1"), ev.TurnBegan("t1"),
        ev.MessageRead("p1", "t1"), ev.MessageRead("p2", "t1"), ev.TurnEnded("t1", DONE),
    )  # fmt: skip

    assert answers(effects) == [ev.Answer("p2", DONE, began_turn=True)]


def test_the_message_is_not_repeated_for_a_codex_that_tells_nothing_of_what_it_reads() -> None:
    effects = handled(
        behind_a_given_up_turn(), ev.TurnBegan("t1"), ev.Started(2, "t1"), ev.TurnEnded("t1", DONE)
    )

    assert answers(effects) == [ev.Answer("p2", DONE, began_turn=True)]


def test_the_message_is_not_repeated_where_codex_lists_it_among_those_of_the_turn() -> None:
    machine = behind_a_given_up_turn()
    effects = handled(machine, ev.TurnBegan("t1"), ev.MessageRead("p1", "t1"), ev.Due("answer"))
    call = next(each.call for each in effects if isinstance(each, ev.LookUp))
    effects = handled(machine, ev.LookedUp(call, "t1", DONE, ours=True))

    assert answers(effects) == [ev.Answer("p2", DONE, began_turn=True)]


@pytest.mark.parametrize("end", [DONE, CANCELLED])
def test_a_message_that_codex_skips_a_second_time_fails_and_says_so(end: PromptStop) -> None:
    machine = behind_a_given_up_turn()
    handled(
        machine, ev.TurnBegan("t1"), ev.MessageRead("p1", "t1"), ev.Started(2, "t1"),
        ev.TurnEnded("t1", DONE),
    )  # fmt: skip
    run = machine.run
    assert run is not None
    assert run.call is not None
    effects = handled(machine, ev.Started(run.call, "t1"), ev.TurnEnded("t1", end))

    (answer,) = answers(effects)
    assert isinstance(answer, ev.Answer)
    assert isinstance(answer.end, PromptFailure)
    assert "without reading this message; it can be sent again" in answer.end.message
    assert ev.ShowActivity("idle", answer.end, usage=True) in effects


def test_a_message_waits_for_a_given_up_turn_that_began_behind_the_end_of_its_own() -> None:
    effects = handled(
        behind_a_given_up_turn(), ev.TurnBegan("t1"), ev.TurnEnded("t1", CANCELLED),
        ev.TurnBegan("t2"), ev.MessageRead("p1", "t2"), ev.Started(2, "t1"),
    )  # fmt: skip

    assert starts(effects) == []
    assert ev.SetTimer("free") in effects


def test_a_cancelled_compaction_whose_inside_alone_begins_ends_with_its_turn() -> None:
    effects = handled(
        SessionMachine(), *sent("p1", "turn"), ev.Cancelled(), ev.Started(1, None),
        ev.TurnBegan("i1", "t1"), ev.TurnEnded("t1", CANCELLED),
    )  # fmt: skip

    assert answers(effects) == [ev.Answer("p1", CANCELLED, began_turn=True)]


def test_a_steered_prompt_fails_where_codex_is_lost_before_it_has_answered_the_steering() -> None:
    machine = SessionMachine()
    effects = handled(machine, *sent("p1"), ev.Started(1, "t1"), ev.TurnBegan("t1"), *sent("p2"))
    assert ev.Steer(2, "p2", "t1") in effects
    effects = handled(machine, ev.TurnEnded("t1", DONE), ev.Lost(GONE))

    assert answers(effects) == [ev.Answer("p2", GONE)]


def test_a_session_runs_while_a_turn_runs_that_was_thought_to_be_stale() -> None:
    machine = behind_a_given_up_turn()
    effects = handled(machine, ev.ThreadStopped(), ev.Due("stopped"))
    call = next(each.call for each in effects if isinstance(each, ev.LookUp))
    effects = handled(machine, ev.TurnBegan("t1"), ev.LookedUp(call, "t1", None, ours=True))

    assert ev.ShowActivity("running") in effects


def test_a_prompt_is_answered_whose_steering_codex_takes_behind_a_given_up_turn() -> None:
    machine = SessionMachine()
    handled(machine, *sent("p1"), ev.Started(1, "t1"), ev.TurnBegan("t1"), *sent("p2"))
    effects = handled(
        machine, ev.GivenUp("p1"), ev.Interrupted(3, taken=True), ev.TurnEnded("t1", CANCELLED),
        ev.Steered(2, taken=True),
    )  # fmt: skip

    assert answers(effects) == [ev.Answer("p2", CANCELLED)]


@pytest.mark.parametrize("cancel", [ev.Cancelled(), ev.Cancelled(closing=True), ev.GivenUp("p2")])
@pytest.mark.parametrize("behind_its_end", [False, True])
def test_a_cancelled_message_that_codex_did_not_read_is_not_given_to_it_again(
    cancel: ev.Event, behind_its_end: bool
) -> None:
    machine = behind_a_given_up_turn()
    handled(
        machine, ev.TurnBegan("t1"), ev.MessageRead("p1", "t1"), ev.Started(2, "t1"),
        ev.CommandBegan("c1"),
    )  # fmt: skip
    end = ev.TurnEnded("t1", CANCELLED)
    handled(machine, *((end, cancel) if behind_its_end else (cancel, end)))
    effects = handled(machine, ev.Due("clean_up"))

    assert starts(effects) == []
    assert [each.prompt for each in effects if isinstance(each, ev.Answer)] == ["p2"]


def test_a_session_does_not_rest_while_a_person_is_asked_before_its_next_turn() -> None:
    effects = handled(
        SessionMachine(), ev.TurnBegan("t1"), ev.Prompted("p1"), ev.Asked(1),
        ev.TurnEnded("t1", DONE),
    )  # fmt: skip

    assert not [each for each in effects if isinstance(each, ev.ShowActivity)]


def behind_a_lost_end() -> SessionMachine:
    """The first turn was given up and its end lost; the second prompt was given up unnamed."""
    machine = SessionMachine()
    effects = handled(
        machine, *sent("p1"), ev.Started(1, "t1"), ev.TurnBegan("t1"), ev.Cancelled(),
        ev.Due("cancel"), *sent("p2"), ev.Due("free"),
    )  # fmt: skip
    assert starts(effects) == ["p2"]
    effects = handled(machine, ev.GivenUp("p2"), ev.Due("cancel"))
    assert answers(effects) == [ev.Answer("p2", CANCELLED, began_turn=True)]
    return machine


def test_a_turn_that_begins_behind_its_answer_is_not_shown_though_the_last_end_was_lost() -> None:
    machine = behind_a_lost_end()
    effects = handled(machine, ev.TurnBegan("t2"))

    assert [each.turn for each in effects if isinstance(each, ev.Interrupt)] == ["t2"]
    assert not machine.may_ask("t2")


def test_a_message_that_was_added_to_a_given_up_turn_begins_no_other() -> None:
    machine = behind_a_lost_end()
    (late,) = machine.late_starts
    assert late.call is not None
    handled(machine, ev.Started(late.call, "t1"), ev.TurnEnded("t1", CANCELLED), ev.TurnBegan("t2"))

    assert machine.may_ask("t2")


@pytest.mark.parametrize("end", [(ev.TurnEnded("t1", DONE),), ()], ids=["told", "lost"])
def test_a_given_up_message_that_was_not_added_to_the_turn_of_another_begins_the_next(
    end: tuple[ev.Event, ...],
) -> None:
    machine = SessionMachine()
    handled(
        machine, *sent("p1"), ev.Cancelled(), ev.TurnBegan("t1"), ev.Due("cancel"), *end,
        ev.TurnBegan("t2"),
    )  # fmt: skip

    assert not machine.may_ask("t2")


@pytest.mark.parametrize("ended", [(ev.TurnEnded("t1", CANCELLED),), ()], ids=["ended", "runs"])
def test_a_cancel_withdraws_what_is_asked_before_a_turn_beside_a_cancelled_turn(
    ended: tuple[ev.Event, ...],
) -> None:
    effects = handled(
        SessionMachine(), ev.TurnBegan("t1"), ev.CommandBegan("c1"), ev.Cancelled(), *ended,
        ev.Prompted("p1"), ev.Asked(1), ev.Cancelled(),
    )  # fmt: skip

    assert ev.SettleQuestions() in effects
    assert answers(effects) == [ev.Answer("p1", CANCELLED)]


def test_a_turn_that_began_behind_a_lost_end_runs_on_when_that_end_is_looked_up() -> None:
    machine = SessionMachine()
    handled(machine, *sent("p1"), ev.Prompted("p2"), ev.Due("silence"))
    handled(machine, ev.TurnBegan("t1"), ev.TurnBegan("t2"), ev.LookedUp(2, "t1", DONE, ours=True))

    assert machine.active == "t2"
    assert machine.activity == "running"


def test_a_close_gives_up_a_turn_of_codex_together_with_the_one_whose_end_was_lost() -> None:
    machine = SessionMachine()
    handled(machine, *sent("p1"), ev.Started(1, "t1"), ev.TurnBegan("t1"), ev.Due("silence"))
    doubts = (ev.Due("look_up"), ev.Due("stopped")) * 2
    handled(machine, *doubts, ev.TurnBegan("t2"), ev.Cancelled(closing=True), ev.Due("look_up"))

    assert machine.run is None
    assert not machine.prompts


def test_a_turn_of_codex_that_began_beside_a_refused_one_is_followed_with_its_inner_turn() -> None:
    machine = SessionMachine()
    handled(machine, *sent("p1"), ev.TurnBegan("t1"), ev.TurnBegan("i1", "t1"))
    handled(machine, ev.Refused(1, GONE))
    assert machine.run is not None
    assert machine.run.names == ("t1", "i1")
    handled(machine, ev.Cancelled(), ev.Due("cancel"))

    assert machine.stale == {"t1", "i1"}


def test_a_given_up_prompt_is_not_added_to_the_inner_turn_of_a_turn_that_has_ended() -> None:
    machine = SessionMachine()
    handled(machine, *sent("p1"), ev.Cancelled(), ev.TurnBegan("t1"), ev.TurnBegan("i1", "t1"))
    handled(machine, ev.TurnEnded("t1", DONE), ev.Due("cancel"), ev.TurnBegan("t2"))

    assert not machine.may_ask("t2")


def test_a_question_of_a_turn_that_turns_out_to_be_a_given_up_one_is_withdrawn() -> None:
    machine = behind_a_given_up_turn()
    handled(machine, ev.Started(2, "t1"), ev.TurnBegan("t1"), ev.Asked(1, "t1"))
    effects = handled(machine, ev.Started(1, "t1"))

    interrupt, settle = (
        next(index for index, effect in enumerate(effects) if isinstance(effect, kind))
        for kind in (ev.Interrupt, ev.SettleQuestions)
    )
    assert interrupt < settle  # else Codex would continue the turn
    assert not machine.questions


@pytest.mark.parametrize(
    "end",
    [(ev.TurnEnded("t1", DONE),), (ev.CommandBegan("c1"), ev.TurnEnded("t1", CANCELLED))],
    ids=["ended", "cleaning up"],
)
def test_a_given_up_review_that_begins_behind_the_turn_of_the_next_prompt_is_not_shown(
    end: tuple[ev.Event, ...],
) -> None:
    machine = behind_a_given_up_turn("turn")
    handled(machine, ev.TurnBegan("t1"), ev.MessageRead("p2", "t1"), *end)
    effects = handled(machine, ev.TurnBegan("t2"))

    assert [each.turn for each in effects if isinstance(each, ev.Interrupt)] == ["t2"]
    assert not machine.may_ask("t2")


def test_a_given_up_message_that_a_turn_of_codex_turns_out_to_have_read_ends_that_turn() -> None:
    machine = behind_a_given_up_turn()
    handled(machine, ev.TurnBegan("t1"), ev.MessageRead("p2", "t1"), ev.TurnEnded("t1", DONE))
    handled(machine, ev.TurnBegan("t2"), ev.MessageRead("p1", "t2"), ev.CommandBegan("c1"))
    handled(machine, ev.TurnEnded("t2", CANCELLED))

    assert machine.is_answered("t2")
    assert machine.activity == "idle"


def test_a_given_up_review_of_which_codex_reports_the_inner_turn_alone_ends_as_a_whole() -> None:
    machine = behind_a_given_up_turn("turn")
    machine.late_starts = ()  # so that the review is taken for a turn of Codex's own
    handled(machine, ev.TurnBegan("t1"), ev.MessageRead("p2", "t1"), ev.TurnEnded("t1", DONE))
    handled(machine, ev.TurnBegan("i2", "r2"))
    assert machine.may_ask("i2")
    machine.late_starts = (LateStart(1, None, begins=False),)
    effects = handled(machine, ev.Started(1, "r2"))

    assert [each.turn for each in effects if isinstance(each, ev.Interrupt)] == ["i2"]
    assert not machine.may_ask("i2")
    assert machine.activity == "idle"


def test_a_late_answer_names_no_turn_that_has_ended_and_whose_commands_are_being_ended() -> None:
    machine = behind_a_given_up_turn()
    handled(machine, ev.TurnBegan("t1"), ev.MessageRead("p2", "t1"), ev.TurnEnded("t1", DONE))
    handled(machine, ev.TurnBegan("t2"), ev.CommandBegan("c1"), ev.TurnEnded("t2", CANCELLED))
    effects = handled(machine, ev.Started(1, "t2"))

    assert not [each for each in effects if isinstance(each, ev.Interrupt)]
    assert not machine.stale


@pytest.mark.parametrize("is_late", [True, False])
def test_a_given_up_compaction_that_begins_behind_its_answer_is_not_shown(is_late: bool) -> None:
    machine = SessionMachine()
    given_up, answer = ev.Due("cancel"), ev.Started(1, None)
    order = (given_up, answer) if is_late else (answer, given_up)
    handled(machine, *sent("p1", "turn"), ev.Cancelled(), *order)
    handled(machine, ev.TurnBegan("t1"), ev.CompactionBegan("t1"))
    assert not machine.may_ask("t1")
    handled(machine, ev.TurnEnded("t1", CANCELLED), ev.TurnBegan("t2"))

    assert machine.may_ask("t2")


def test_a_turn_that_was_taken_for_another_is_shown_with_its_inner_turn_once_it_is_named() -> None:
    machine = behind_a_given_up_turn()
    handled(machine, ev.TurnBegan("i1", "t1"), ev.ThreadStopped(), ev.Due("stopped"))
    assert machine.look_up is not None
    assert machine.stale == {"t1", "i1"}
    handled(machine, ev.LookedUp(machine.look_up, "t1", None, ours=True))

    assert not machine.stale
    assert machine.activity == "running"
