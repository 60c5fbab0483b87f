"""The end of a turn: what was remembered for it is gone, what concerns the session is kept."""

from __future__ import annotations

from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import SAMPLES
from tests.support.updates import ALL, step


def test_the_end_of_the_turn_forgets_its_items_and_keeps_what_was_said() -> None:
    state = SessionState(ALL)
    for sample in SAMPLES:
        for method, params in [*sample.before, (sample.method, sample.params)]:
            step(state, method, params)
    turn = {"id": "turn", "items": [], "status": "completed"}
    step(state, "turn/completed", {"threadId": "thread", "turn": turn})
    kept = SessionState(
        ALL,
        proposed_plan=state.proposed_plan,  # it may be asked about behind the turn
        notices=state.notices,
        has_title=state.has_title,
        goal=state.goal,
        total_usage=state.total_usage,
        context_usage=state.context_usage,
        rate_limits=state.rate_limits,
        turn_errors=state.turn_errors,
        announced=state.announced,
    )

    assert state == kept
    assert state.notices
    assert state.total_usage is not None
