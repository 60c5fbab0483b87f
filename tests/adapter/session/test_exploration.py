"""Every order of events around a session, as far as time allows: `nox -s explore` goes further.

What must hold in any order stands in `world`: each prompt is answered once, within a bound whatever
Codex does; nothing of a turn is shown behind its answer; no message is given to Codex twice, nor to
another Codex that one may have read; a close leaves nothing. A load begins a machine of its own:
it learns of a turn that runs as of one that Codex begins by itself.
"""

from __future__ import annotations

import os

import pytest

from tests.adapter.session.explorer import explore
from tests.adapter.session.planted import PLANTED, Planted, planted
from tests.adapter.session.world import Budget

MOST = int(os.environ.get("CODEX_ACP_STATES", "4000"))
"""States of each exploration; a million take some minutes."""

WORLDS = {
    "everything": Budget(
        2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, late_begins=1, plans=1, closes=1, firsts=1
    ),
    "a Codex that does not tell what it has read": Budget(
        2, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1
    ),
    "two prompts and a cancel": Budget(2, 1, 0, 0, 0, 2),
    "a prompt that is given up while its neighbour is steered": Budget(2, 0, 1, 0, 0, 0),
    "the end of a given-up turn is lost": Budget(
        prompts=2, cancels=1, give_ups=1, pieces=1, stops=1, mute=1
    ),
    "losses": Budget(2, 1, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "turns that Codex begins by itself": Budget(2, 1, 0, 0, 0, 1, 0, 2, 1, late_begins=1),
    "lost ends and answers": Budget(1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 2, 1),
    "a review and a command": Budget(2, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0),
    "questions": Budget(2, 1, 0, 1, 2, 1, 1, 1, 1, silences=0, stops=2),
    "as recorded: idle before an end, a review whose inside alone begins": Budget(
        2, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, early=1, compactions=1, disorder=1, idles=1
    ),
    "a thread that is being closed refuses interrupts": Budget(2, 1, 0, 0, 0, 1, 0, 1, deaf=2),
    "a close that may be given up": Budget(2, 0, 0, 1, 1, 1, 0, 1, 1, closes=2),
    "questions before a turn": Budget(2, 1, 1, 1, 1, 0, 0, 1, firsts=2),
    "messages that are for a running turn alone": Budget(3, 1, 0, 1, 0, 0, 1, 1, joins=2),
    "plans": Budget(3, 1, 1, 1, 0, 1, 1, 1, plans=2),
    "another mode": Budget(3, 1, 1, 1, 0, 0, 1, 1, modes=1, joins=1),
    "a prompt that is given up": Budget(2, 1, 2, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0),
}


@pytest.mark.attack("app-server")
@pytest.mark.parametrize("world", WORLDS)
def test_3_10_no_order_of_events_breaks_what_holds_of_a_session(world: str) -> None:
    found = explore(WORLDS[world], depth=40, most=MOST)

    assert found.wrong is None, "\n".join([str(found.wrong), *found.trace])


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_the_exploration_finds_a_fault_that_was_planted(fault: Planted) -> None:
    found = explore(fault.budget, fault.depth, make=planted(fault))

    assert found.wrong is not None, f"{found.states} states, and nobody noticed"
