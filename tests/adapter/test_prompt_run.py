"""One running prompt: whatever the order of its events, it has the one right end."""

from __future__ import annotations

from itertools import permutations

import anyio
import pytest

from codex_acp.adapter.prompts.run import PromptRun
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptFailure, PromptStop

END = PromptStop("end_turn")
OTHER = PromptFailure(-32603, "another turn's", {})


async def end_of(run: PromptRun) -> PromptEnd:
    with anyio.fail_after(60):
        return await run.wait()


@pytest.mark.parametrize("order", list(permutations(["known", "began", "ended", "other"])))
async def test_every_order_of_events_gives_the_same_end(order: tuple[str, ...]) -> None:
    run = PromptRun()
    for event in order:
        match event:
            case "known":
                run.turn_known("mine")
            case "began":
                run.turn_began("mine")
            case "ended":
                run.turn_ended("mine", END)
            case "other":
                run.turn_began("another")
                run.turn_ended("another", OTHER)

    assert await end_of(run) == END
    assert run.turn_started.is_set()


async def test_another_turns_events_change_nothing() -> None:
    run = PromptRun()
    run.turn_began("another")
    run.turn_ended("another", OTHER)
    run.turn_known("mine")
    run.turn_ended("another", OTHER)

    assert not run.ended
    assert not run.turn_started.is_set()


async def test_only_the_first_end_counts() -> None:
    run = PromptRun()
    run.finish(END)
    run.finish(OTHER)

    assert await end_of(run) == END


async def test_a_cancelled_prompt_ends_cancelled_however_its_turn_did() -> None:
    for early in (True, False):
        run = PromptRun()
        if early:
            run.turn_ended("mine", OTHER)
            run.cancelled = True
            run.turn_known("mine")
        else:
            run.turn_known("mine")
            run.cancelled = True
            run.turn_ended("mine", END)

        assert await end_of(run) == PromptStop("cancelled")


async def test_a_cancelled_wait_leaves_the_prompt_as_it_is() -> None:
    run = PromptRun()
    with anyio.move_on_after(0):
        await run.wait()
    run.finish(END)

    assert await end_of(run) == END
