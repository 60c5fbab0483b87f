"""A scope gives up its own block, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import pytest

from codex_acp.adapter.tasks import CancelScope


async def _waits(scope: CancelScope, steps: list[str]) -> str:
    with scope:
        steps.append("in it")
        await asyncio.Event().wait()
        steps.append("never")
    steps.append("behind it")
    await asyncio.sleep(0)
    return "goes on"


@pytest.mark.parametrize("early", [True, False])
async def test_the_block_is_left_and_the_task_goes_on(early: bool) -> None:
    scope, steps = CancelScope(), list[str]()
    if early:
        scope.cancel()
    task = asyncio.create_task(_waits(scope, steps))
    await asyncio.sleep(0)
    scope.cancel()
    scope.cancel()
    assert await task == "goes on"
    assert steps == ["in it", "behind it"]
    assert scope.cancelled_caught
    assert task.cancelling() == 0


async def test_what_is_over_is_not_cancelled() -> None:
    scope = CancelScope()
    with scope:
        await asyncio.sleep(0)
    scope.cancel()
    await asyncio.sleep(0)
    with CancelScope() as another:
        another.cancel()  # by the task itself, which waits no more in it
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (scope.cancelled_caught, another.cancelled_caught) == (False, False)


async def test_an_error_of_the_block_is_raised_also_when_it_was_given_up() -> None:
    scope = CancelScope()

    async def fails() -> None:
        with scope:
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("in the middle")

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    scope.cancel()
    with pytest.raises(ValueError, match="in the middle"):
        await task


@pytest.mark.parametrize("both", [True, False])
async def test_a_cancellation_of_the_task_goes_through_it(both: bool) -> None:
    scope, steps = CancelScope(), list[str]()
    task = asyncio.create_task(_waits(scope, steps))
    await asyncio.sleep(0)
    if both:
        scope.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["in it"]


async def test_it_is_left_at_the_deadline_around_it_and_in_a_scope_of_anyio() -> None:
    steps: list[str] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await _waits(CancelScope(), steps)
    with anyio.move_on_after(0.001) as limit:
        await _waits(CancelScope(), steps)
    assert limit.cancelled_caught
    assert steps == ["in it", "in it"]


async def test_an_inner_one_does_not_end_the_outer_one() -> None:
    outer, inner, steps = CancelScope(), CancelScope(), list[str]()

    async def nested() -> None:
        with outer:
            await _waits(inner, steps)
            steps.append("in the outer one")
            await asyncio.Event().wait()
        steps.append("behind both")

    task = asyncio.create_task(nested())
    await asyncio.sleep(0)
    inner.cancel()
    for _ in range(8):
        await asyncio.sleep(0)
    outer.cancel()
    await task
    assert steps == ["in it", "behind it", "in the outer one", "behind both"]
