"""An event loop for a program whose signals wake it, from its beginning to its end."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on the main thread.

    That closes the socket by which a signal wakes the loop before it has the kernel's handler
    forget it: a child that ends in between had "Bad file descriptor" written to stderr.
    """

    async def run() -> T:
        try:
            return await main
        finally:
            signal.set_wakeup_fd(-1)

    return asyncio.run(run())
