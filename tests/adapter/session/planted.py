"""Faults to plant in a session's machine, one at a time: the exploration has to find each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from codex_acp.adapter.session import machine
from codex_acp.adapter.session.machine import SessionMachine
from tests.adapter.session.world import NOTHING, Budget


class Planted(NamedTuple):
    """``old`` stands exactly once in the machine's file, and ``new`` in its place is the fault."""

    name: str
    old: str
    new: str
    budget: Budget
    depth: int = 12


_STEER: Final = Budget(pieces=0, cancels=0)
_LOSS: Final = Budget(losses=1, pieces=0, cancels=0)
_CANCEL: Final = Budget(prompts=1, pieces=1)
_PLAN: Final = Budget(prompts=1, pieces=0, plans=1)
_ASKS: Final = Budget(prompts=1, pieces=0, questions=1)
_MODES: Final = Budget(pieces=0, cancels=0, modes=1)
_FOREIGN: Final = Budget(prompts=1, own_turns=1, pieces=1)

PLANTED: Final = (
    Planted(
        "a steered message may go to the next Codex",
        "            skipped = prompt.place.unread or prompt.place.call in unread\n",
        "            skipped = True\n",
        _LOSS,
    ),
    Planted(
        "a message that Codex may have read may go to the next one",
        "self._end_turn(failure, unread=run.call in unread)",
        "self._end_turn(failure, unread=True)",
        _LOSS,
    ),
    Planted(
        "a steered message is forgotten when Codex is lost",
        "        for prompt in steered:\n            assert",
        "        for prompt in steered[1:]:\n            assert",
        _LOSS,
    ),
    Planted(
        "a message is steered twice",
        "self._set_place(prompt, Steers(call, run.target))",
        "self._set_place(prompt, Waits())",
        _STEER,
    ),
    Planted(
        "an unread message is answered with the turn's end",
        "                case InTurn() if skipped or (again and not prompt.returned):\n",
        "                case InTurn() if again and not prompt.returned:\n",
        _STEER._replace(prompts=2),
    ),
    Planted(
        "a message that was added to a given-up turn is answered with its end",
        '            again = added and unread and prompt.kind == "message"\n',
        "            again = False\n",
        Budget(prompts=2, cancels=1, pieces=0),
        14,
    ),
    Planted(
        "a steered message has the end of its turn though nobody knows whether it was taken",
        "            self._answer(prompt.id, failure, unread=skipped)\n",
        "            self._answer(prompt.id, prompt.place.end or failure, unread=skipped)\n",
        _LOSS._replace(mute=1),
    ),
    Planted(
        "a cancel has no bound",
        '        self._set_timer("cancel")\n',
        "",
        _CANCEL,
    ),
    Planted(
        "a cancel interrupts nothing and ends at once",
        "                self.turn = Cancelling(run)\n                self._interrupt_run()\n",
        "                self._end_turn(CANCELLED)\n                return\n",
        _CANCEL,
    ),
    Planted(
        "a turn that begins behind its cancel's bound is shown",
        "        if any(late.begins or unasked for late in self.late_starts):",
        "        if False:",
        _CANCEL._replace(mute=1),
    ),
    Planted(
        "a late answer of turn/start is not noted",
        "            elif not self._has_ended(turn):\n",
        "            elif False:\n",
        Budget(prompts=1, own_turns=1, pieces=1),
        13,
    ),
    Planted(
        "what comes behind the prompt's answer is shown",
        "        self.answered.update(dict.fromkeys(name for name in ended"
        " if name not in self.stale))\n",
        "",
        Budget(prompts=1, cancels=0),
    ),
    Planted(
        "a turn that Codex began by itself is taken for the one asked for",
        "                if isinstance(self.turn, Starting):\n"
        '                    self._set_timer("answer")\n',
        "                self._name_turn(turn)\n",
        _FOREIGN._replace(cancels=0),
    ),
    Planted(
        "the turn that runs is forgotten when Codex is lost",
        "        if run is not None:\n            self._end_turn(failure,",
        "        if run is None:\n            self._end_turn(failure,",
        _LOSS,
    ),
    Planted(
        "a prompt waits for a Codex that is gone",
        "        if self.codex_gone is not None:\n",
        "        if self.codex_gone is not None and self.turn is None:\n",
        _LOSS,
    ),
    Planted(
        "a turn of Codex's own has no bound",
        "            case Running():\n                self.turn = Cancelling(run)\n",
        "            case Running() if run.starter:\n                self.turn = Cancelling(run)\n",
        _FOREIGN._replace(prompts=0),
    ),
    Planted(
        "the end of a turn answers its prompt twice",
        "            self._effects.append(answer)\n",
        "            self._effects += [answer] * 2\n",
        Budget(prompts=1),
    ),
    Planted(
        "a refused turn leaves its prompt open",
        "            self._set_run(replace(run, call=None))\n            self._end_turn(failure)\n",
        "            self._set_run(replace(run, call=None))\n            self.turn = Idle()\n",
        Budget(prompts=1, refusals=1),
    ),
    Planted(
        "an end that came before the answer is forgotten",
        "                self._run_ended(self.run, end)\n                return\n",
        "                return\n",
        Budget(prompts=1, cancels=0, mute=1),
    ),
    Planted(
        "the timer of the commands of an interrupted turn is lost",
        '            self._set_timer("clean_up")\n',
        '            self._clear_timer("cancel")\n',
        Budget(prompts=1, commands=1, pieces=0),
        14,
    ),
    Planted(
        "an interrupt that Codex refused is never repeated",
        "        if turn.tries < INTERRUPT_ATTEMPTS and (turn.tries == 0 or turn.run.started):\n",
        "        if turn.tries < 0:\n",
        Budget(prompts=1, pieces=0),
    ),
    Planted(
        "prompts that wait are kept at a cancel",
        "            if not isinstance(prompt.place, InTurn):\n                self._answer(",
        "            if isinstance(prompt.place, Local):\n                self._answer(",
        Budget(prompts=2, pieces=0),
    ),
    Planted(
        "a prompt has its place told each time",
        "        if not prompt.inserted:\n",
        "        if prompt.id:\n",
        Budget(prompts=1, cancels=0),
    ),
    Planted(
        "a prompt that was given up is kept",
        "        else:\n            self._forget_prompt(prompt_id)\n",
        "",
        Budget(prompts=2, give_ups=1, cancels=0, pieces=0),
    ),
    Planted(
        "a close waits for a turn that Codex begins meanwhile",
        "        if self.closing:\n            self._cancel_run(run)\n",
        "",
        Budget(prompts=0, own_turns=1, cancels=0, closes=1),
    ),
    Planted(
        "a turn that begins behind its own end runs for ever",
        "        if self._has_ended(turn):",
        "        if False:",
        Budget(prompts=1, cancels=0, late_begins=1, pieces=0),
    ),
    Planted(
        "a cancel leaves the question about a plan open",
        "                self._effects += [] if prompt.approved else [ev.EndReview(None)]\n",
        "",
        _PLAN,
    ),
    Planted(
        "a plan that the person refuses is carried out",
        "                if approved:\n                    call = self._next_call()",
        "                if prompt:\n                    call = self._next_call()",
        _PLAN,
    ),
    Planted(
        "a plan is carried out though a cancel stands behind the yes",
        "            if not isinstance(prompt.place, InTurn):\n",
        "            if not isinstance(prompt.place, InTurn | Reviews):\n",
        _PLAN,
    ),
    Planted(
        "a plan is asked about while the next prompt runs",
        "            if isinstance(prompt.place, Reviews) and not prompt.approved:\n",
        "            if prompt.place == Reviews(0):\n",
        _PLAN._replace(prompts=2),
    ),
    Planted(
        "the next prompt overtakes an approved plan while its message is prepared",
        "            return False  # the message that carries the plan out is first",
        "            pass  # the message that carries the plan out is first",
        _PLAN._replace(prompts=2),
    ),
    Planted(
        "a plan is said to be carried out behind the yes, and a cancel may still come",
        "                    self._effects.append(ev.TakePlan(",
        "                    self._effects.append(ev.EndPlan(True))\n"
        "                    self._effects.append(ev.TakePlan(",
        _PLAN,
    ),
    Planted(
        "a cancel leaves the tool call of an approved plan open",
        "ev.EndPlan(None if end == CANCELLED else False))",
        "ev.Abandon(0))",
        _PLAN,
    ),
    Planted(
        "an approved plan is carried out in a turn that is in plan mode",
        "            case Running() if prompt.approved:  # that turn is in plan mode\n"
        "                return False\n",
        "",
        _PLAN._replace(own_turns=1, cancels=0),
    ),
    Planted(
        "the plan of an interrupted turn is asked about",
        "with_plan = mine[:1] if self.plan and end == DONE and",
        "with_plan = mine[:1] if self.plan and",
        _PLAN,
    ),
    Planted(
        "a late yes to a withdrawn question counts",
        "            asked = Reviews(event.call)\n            prompt = next((each for each in"
        " self.prompts if each.place == asked), None)\n",
        "            prompt = next((each for each in self.prompts if each.kind), None)\n",
        _PLAN._replace(prompts=2),
    ),
    Planted(
        "a prompt whose plan cannot be taken is left open",
        "                self._answer(name, failure)\n",
        "                self._set_place(prompt, Waits())\n",
        _PLAN._replace(refusals=1, cancels=0),
    ),
    Planted(
        "a session that Codex works in by itself is said to rest",
        "any(turn not in self.stale for turn, _outer in run.begun)",
        "run.starter is not None",
        _FOREIGN._replace(prompts=0),
    ),
    Planted(
        "a session is said to rest before its last prompt is answered",
        "            or any(prompt.works for prompt in self.prompts)\n",
        "",
        Budget(prompts=1, locals=1, cancels=0),
    ),
    Planted(
        "a session rests between a plan and its carrying out",
        "place=Waits(), inserted=False)",
        "place=Waits(), inserted=False, works=False)",
        _PLAN,
    ),
    Planted(
        "the end of a turn leaves its session running",
        "        over = mine[len(with_plan) :]\n",
        "        over, self.shown_activity = mine[len(with_plan) :], 'idle'\n",
        Budget(prompts=1, cancels=0),
    ),
    Planted(
        "something is asked behind a cancel",
        "        if self.cancelled or turn in self.stale or self.is_answered(turn):\n",
        "        if turn in self.stale or self.is_answered(turn):\n",
        _ASKS,
    ),
    Planted(
        "something is asked of a turn that was given up",
        "        if self.cancelled or turn in self.stale or self.is_answered(turn):\n",
        "        if self.cancelled or self.is_answered(turn):\n",
        _ASKS,
    ),
    Planted(
        "something is asked of a turn that is over",
        "        if self.cancelled or turn in self.stale or self.is_answered(turn):\n",
        "        if self.cancelled or turn in self.stale:\n",
        _ASKS._replace(cancels=0),
    ),
    Planted(
        "a cancel leaves a question open",
        "        self.questions = ()\n        self._effects.append(ev.SettleQuestions())\n",
        "        return\n",
        _ASKS,
    ),
    Planted(
        "the end of a turn leaves its question open",
        "            self._effects.append(ev.SettleQuestions(turn))\n",
        "",
        _ASKS._replace(cancels=0),
    ),
    Planted(
        "a turn that is given up leaves its question open",
        "        if self.questions and isinstance(self.turn, Starting | Running | Cancelling):\n"
        "            self._settle_all()\n",
        "",
        _ASKS._replace(cancels=0, stops=1, inner_turns=1),
    ),
    Planted(
        "a loss leaves a question open",
        "        if self.questions:\n            self._settle_all()\n",
        "",
        _ASKS._replace(cancels=0, losses=1),
    ),
    Planted(
        "a question that was answered keeps the session waiting",
        "self.questions = tuple(each for each in self.questions if each.id != question)",
        "pass",
        _ASKS._replace(cancels=0),
    ),
    Planted(
        "a session is said to rest while a person is asked before a turn",
        "question.turn is None for question in self.questions",
        "False for question in self.questions",
        Budget(prompts=1, firsts=1, cancels=0),
    ),
    Planted(
        "a message that was not added to a given-up turn begins one that is shown",
        "if after_stale or late.message is None",
        "if late.message is None",
        _ASKS._replace(prompts=2, cancels=0, give_ups=1, own_turns=1),
    ),
    Planted(
        "a turn that nobody asked for is shown, behind one that took the next message",
        "        unasked = isinstance(self.turn, Idle | Freeing)",
        "        unasked = False",
        _ASKS._replace(prompts=2, cancels=0, give_ups=1),
        14,
    ),
    Planted(
        "an old look-up names the new turn",
        "        self._forget_look_up()\n        number =",
        "        number =",
        Budget(prompts=1, own_turns=1, silences=1, cancels=0),
    ),
    Planted(
        "a message is steered into a turn with the rights of before",
        "                self._change_run(lambda run: replace(run, steerable=False))\n"
        "            case ev.Reopened",
        "                pass\n            case ev.Reopened",
        _MODES,
    ),
    Planted(
        "a message joins a turn of Codex's own with the rights of before",
        "if run.starter is None and run.steerable:",
        "if run.starter is None:",
        _MODES._replace(own_turns=1),
    ),
    Planted(
        "a message behind a refused prompt joins a turn with the rights of before",
        "begun or ((turn, None),), steerable=run.steerable)",
        "begun or ((turn, None),))",
        _MODES._replace(own_turns=1, refusals=1),
    ),
)


def planted(fault: Planted) -> Callable[[], SessionMachine]:
    """Return what makes a machine with the fault. Raises ValueError if its place is not found."""
    assert machine.__file__ is not None
    text = Path(machine.__file__).read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: its place stands {text.count(fault.old)} times")
    module = ModuleType("planted_machine")
    sys.modules[module.__name__] = module
    exec(compile(text.replace(fault.old, fault.new), "planted", "exec"), vars(module))
    vars(module)["NO_DATA"] = NOTHING
    made: Callable[[], SessionMachine] = vars(module)["SessionMachine"]
    return made
