"""Turns that begin by another call: a review, whose running turn has a name of its own, and a
compaction, whose call is answered without one.
"""

from __future__ import annotations

import anyio
import pytest

from codex_acp.adapter.prompts.run import PromptRun
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptStop

END = PromptStop("end_turn")


async def end_of(run: PromptRun) -> PromptEnd:
    with anyio.fail_after(60):
        return await run.wait()


@pytest.mark.parametrize("known_first", [True, False])
async def test_a_review_is_interrupted_by_the_name_of_the_turn_inside(known_first: bool) -> None:
    run = PromptRun()
    if known_first:
        run.turn_known("review")
        assert run.active_id == "review"
        run.turn_began("inside", "review")
    else:
        run.turn_began("inside", "review")
        run.turn_known("review")

    assert run.turn_started.is_set()
    assert run.active_id == "inside"
    assert run.is_turn("review")
    assert run.is_turn("inside")
    assert not run.is_turn(None)
    run.turn_ended("review", END)
    assert await end_of(run) == END


async def test_a_turn_of_another_root_is_another_turn() -> None:
    run = PromptRun()
    run.turn_known("mine")
    run.turn_began("other", "someone")

    assert not run.turn_started.is_set()
    assert run.active_id == "mine"


@pytest.mark.parametrize("began_first", [True, False])
async def test_a_call_that_tells_no_turn_takes_the_next_one(began_first: bool) -> None:
    run = PromptRun()
    steps = [lambda: run.turn_began("compaction"), run.takes_next_turn]
    for step in steps if began_first else reversed(steps):
        step()

    assert run.turn_id == "compaction"
    assert run.turn_started.is_set()
    run.turn_began("later")
    run.turn_ended("compaction", END)
    assert await end_of(run) == END


async def test_a_turn_that_ran_before_is_no_next_one() -> None:
    run = PromptRun(active="before")
    run.takes_next_turn()
    assert run.turn_id is None
    run.turn_began("compaction")

    assert run.turn_id == "compaction"
