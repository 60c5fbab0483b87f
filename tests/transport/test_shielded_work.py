"""Who gives up waiting takes nothing from the work, and hears nothing of it either."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from codex_acp.errors import ConnectionClosed
from codex_acp.transport.shielding import shielded

pytestmark = pytest.mark.anyio


async def test_what_the_work_gives_or_raises_is_given_or_raised() -> None:
    work = asyncio.get_running_loop().create_future()
    work.set_result("done")
    assert await shielded(work) == "done"
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(ConnectionClosed("the agent"))
    with pytest.raises(ConnectionClosed):
        await shielded(failed)


async def test_work_that_was_given_up_goes_on_and_its_error_reaches_no_handler() -> None:
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(context))
    try:
        go_on = asyncio.Event()

        async def fail() -> None:
            await go_on.wait()
            raise ConnectionClosed("the agent")

        work = asyncio.create_task(fail())
        waiting = asyncio.create_task(shielded(work))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert not work.done()
        go_on.set()
        await asyncio.wait({work})
        del work
        gc.collect()
        await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(before)
    assert told == []
