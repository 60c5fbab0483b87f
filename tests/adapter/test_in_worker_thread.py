"""A file is read beside the event loop, and never holds up whoever gives it up."""

from __future__ import annotations

import threading

import anyio
import pytest

from codex_acp.transport.shielding import in_worker_thread


def _broken() -> None:
    raise OSError("no such disk")


async def test_it_gives_what_the_function_gives() -> None:
    assert await in_worker_thread(threading.current_thread) is not threading.current_thread()
    with pytest.raises(OSError, match="no such disk"):
        await in_worker_thread(_broken)


async def test_what_is_given_up_is_not_waited_for() -> None:
    go_on = threading.Event()
    with anyio.move_on_after(0.01) as limit:
        await in_worker_thread(go_on.wait)
    assert limit.cancelled_caught
    go_on.set()
    assert await in_worker_thread(lambda: "the next one") == "the next one"
