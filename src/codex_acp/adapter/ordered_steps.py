"""Does the steps of a session in order, though a step may have to wait for files.

Files are read in a thread: what is heard meanwhile waits behind that step, other sessions go on.
A read that takes too long is given up, and the step is done without: it is told which files could
not be looked at. Owns the order and the wait.
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
from codex_acp.codex.approvals.real_paths import LOOK_SECONDS, too_late

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.codex.approvals.actions import PathLook
    from codex_acp.routing.changes import Looks

logger = logging.getLogger(__name__)

MAX_BEHIND: Final = 2_000
"""Steps that wait for a read: above that it is given up."""


def in_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a thread that does not keep the process alive, however long it takes."""
    Thread(target=work, name="codex-acp files", daemon=True).start()


class OrderedSteps:
    """The steps of one session. At most one thread reads for it, also if that one is stuck."""

    def __init__(self, roots: Sequence[str] = ()) -> None:
        self._texts = FileTexts()
        self._roots = roots
        self.waiting: Callable[[Looks], None] | None = None
        """The step that waits for its files: all that follows has to be `put` behind it."""
        self._wanted: Mapping[str, bool] = {}
        """Files that it waits for."""
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
            self._go_on()

    def read(self, wanted: Mapping[str, bool], step: Callable[[Looks], None]) -> None:
        """Do ``step`` with how the disk has the files, at once if they cannot be looked at now.

        ``wanted`` says of each path whether its text is. To be called by a step only, or while
        nothing waits.
        """
        if not wanted or self._reading:
            step(too_late(wanted))
            return
        loop = asyncio.get_running_loop()
        self.waiting, self._wanted, self._reading = step, wanted, True
        self._timer = loop.call_later(LOOK_SECONDS, self._too_late)
        in_thread(partial(self._work, loop, wanted, step))

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Return how the disk has the files, behind all that waits; see `read`."""
        await self.caught_up()
        found: dict[str, PathLook] = too_late(wanted)
        self.read(wanted, found.update)
        await self.caught_up()
        return found

    async def caught_up(self) -> None:
        """Wait until nothing waits."""
        while self.waiting is not None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def catch_up(self) -> None:
        """Do all that waits now, without the files."""
        while self.waiting is not None:
            self._go_on()

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
        wanted: Mapping[str, bool],
        step: Callable[[Looks], None],
    ) -> None:
        """Look at the files, in the thread, and go on in the loop."""
        looks: Looks | None = None

        def go_on() -> None:
            self._reading = False
            if self.waiting is step:  # else it was done without
                self._go_on(looks)

        try:
            looks = self._texts.look(wanted, self._roots)
        finally:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(go_on)

    def _too_late(self) -> None:
        logger.warning(
            "the files of an action could not be read within %g s: it is shown as Codex reports it",
            LOOK_SECONDS,
        )
        self._go_on()

    def _go_on(self, looks: Looks | None = None) -> None:
        step, self.waiting = self.waiting, None
        self._end_of_wait()
        if step is not None:
            _run(partial(step, too_late(self._wanted) if looks is None else looks))
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
