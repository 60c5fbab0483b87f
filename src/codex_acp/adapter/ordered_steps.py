"""What a session does with what it hears, in order, though a step may have to wait for files.

Files are read in a thread: what is heard meanwhile waits behind that step, other sessions go on.
A read that takes too long is given up, and the step is done without. Owns the order and the wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.files import FileTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

logger = logging.getLogger(__name__)

READ_SECONDS: Final = 2.0
"""For the files of one step: a disk at rest needs a tenth of it to wake, a dead one never ends."""

MAX_BEHIND: Final = 2_000
"""Steps that wait for a read: above that it is given up."""


def in_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a thread that does not keep the process alive, however long it takes."""
    Thread(target=work, name="codex-acp files", daemon=True).start()


class OrderedSteps:
    """The steps of one session. At most one thread reads for it, also if that one is stuck."""

    def __init__(self) -> None:
        self._texts = FileTexts()
        self.waiting: Callable[[Mapping[str, str]], None] | None = None
        """The step that waits for its files: all that follows has to be `put` behind it."""
        self._behind: deque[Callable[[], None]] = deque()
        self._reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def put(self, step: Callable[..., None], *arguments: object) -> None:
        """Do ``step`` now, or behind what waits."""
        if self.waiting is None:
            step(*arguments)
            return
        self._behind.append(partial(step, *arguments))
        if len(self._behind) > MAX_BEHIND:
            self._go_on({})

    def read(self, paths: Sequence[str], step: Callable[[Mapping[str, str]], None]) -> None:
        """Do ``step`` with the texts of the files, at once without any if one cannot be read now.

        To be called by a step only, or while nothing waits.
        """
        if not paths or self._reading:
            step({})
            return
        loop = asyncio.get_running_loop()
        self.waiting, self._reading = step, True
        self._timer = loop.call_later(READ_SECONDS, self._too_late)
        in_thread(partial(self._work, loop, paths, step))

    async def caught_up(self) -> None:
        """Wait until nothing waits."""
        while self.waiting is not None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def catch_up(self) -> None:
        """Do all that waits now, without the files."""
        while self.waiting is not None:
            self._go_on({})

    def drop(self) -> None:
        """Do nothing of what waits."""
        self._behind.clear()
        self.waiting = None
        self._end_of_wait()

    def forget_files(self) -> None:
        """Keep nothing of what was read."""
        self._texts.forget()

    def _work(
        self,
        loop: asyncio.AbstractEventLoop,
        paths: Sequence[str],
        step: Callable[[Mapping[str, str]], None],
    ) -> None:
        """In the thread."""
        texts: Mapping[str, str] = {}
        try:
            texts = self._texts.read(paths)
        finally:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._was_read, step, texts)

    def _was_read(
        self, step: Callable[[Mapping[str, str]], None], texts: Mapping[str, str]
    ) -> None:
        self._reading = False
        if self.waiting is step:  # else it was done without
            self._go_on(texts)

    def _too_late(self) -> None:
        logger.warning(
            "the files of an edit could not be read within %g s: it is shown as Codex reports it",
            READ_SECONDS,
        )
        self._go_on({})

    def _go_on(self, texts: Mapping[str, str]) -> None:
        step, self.waiting = self.waiting, None
        self._end_of_wait()
        if step is not None:
            _run(partial(step, texts))
        while self._behind and self.waiting is None:
            _run(self._behind.popleft())

    def _end_of_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _run(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:
        logger.exception("what was heard while files were read could not be shown")
