"""Run the steps of a session in order, although a step may have to wait for files.

Files are read in a thread. Later steps of the session wait behind the step that needs the files;
other sessions continue. A read that takes too long is given up: its step then runs with every file
marked as not looked at. Owns the order and the wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_regular
from codex_acp.codex.approvals.real_paths import LOOK_SECONDS, look_at, not_looked_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.codex.approvals.running_items import PathLook
    from codex_acp.routing.changes import Looks

logger = logging.getLogger(__name__)

TEXT_LIMIT: Final = 1024 * 1024
"""Bytes of one text."""

STEP_LIMIT: Final = 4 * TEXT_LIMIT
"""Bytes of all texts that one `look_at_files` returns; further files are shown as patches only."""

MAX_FILES: Final = 64
"""Files whose texts one `look_at_files` returns."""

MAX_BEHIND: Final = 2_000
"""Steps that may wait behind a read: with more of them, the read is given up."""


def start_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a thread that does not keep the process alive."""
    Thread(target=work, name="codex-acp files", daemon=True).start()


class OrderedSteps:
    """The steps of one session. At most one thread reads their files, even if a read hangs."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = roots
        self._waiting_step: Callable[[Looks], None] | None = None
        self._wanted: Mapping[str, bool] = {}
        """The files that `_waiting_step` waits for; see `read`."""
        self._later_steps: deque[Callable[[], None]] = deque()
        self._reading = False
        """Whether the thread runs; also after its read was given up."""
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        """Futures of `wait_idle` calls."""

    @property
    def busy(self) -> bool:
        """Whether a step waits for its files, so that later steps must be `put` behind it."""
        return self._waiting_step is not None

    def put(self, step: Callable[..., None], *arguments: object) -> None:
        """Run ``step`` now, or behind the steps that wait."""
        if self._waiting_step is None:
            step(*arguments)
            return
        self._later_steps.append(partial(step, *arguments))
        if len(self._later_steps) > MAX_BEHIND:
            self._run_waiting()

    def read(self, wanted: Mapping[str, bool], step: Callable[[Looks], None]) -> None:
        """Look at the files in a thread, then call ``step`` with the looks.

        If no file is wanted or a thread already reads, call ``step`` at once, with every file
        marked as not looked at. ``wanted`` maps each path to whether its text is read, too (False:
        only where the path leads). Only a step may call this while another step waits."""
        if not wanted or self._reading:
            step(not_looked_at(wanted))
            return
        loop = asyncio.get_running_loop()
        self._waiting_step, self._wanted, self._reading = step, wanted, True
        self._timer = loop.call_later(LOOK_SECONDS, self._give_up)

        def look_in_thread() -> None:
            looks: Looks | None = None
            try:
                looks = look_at_files(wanted, self._roots)
            finally:
                with suppress(RuntimeError):  # the event loop has ended meanwhile
                    loop.call_soon_threadsafe(go_on, looks)

        def go_on(looks: Looks | None) -> None:
            self._reading = False
            if self._waiting_step is step:  # else the step has run without the files
                self._run_waiting(looks)

        start_thread(look_in_thread)

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Look at the files after all steps that wait; return the looks. See `read`."""
        await self.wait_idle()
        looks: dict[str, PathLook] = not_looked_at(wanted)
        self.read(wanted, looks.update)
        await self.wait_idle()
        return looks

    async def wait_idle(self) -> None:
        while self._waiting_step is not None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def run_without_files(self) -> None:
        """Run all steps that wait now, without the files."""
        while self._waiting_step is not None:
            self._run_waiting()

    def drop(self) -> None:
        """Forget all steps that wait."""
        self._later_steps.clear()
        self._waiting_step = None
        self._end_wait()

    def _give_up(self) -> None:
        logger.warning(
            "the files of an action could not be read within %g s: it is shown as Codex reports it",
            LOOK_SECONDS,
        )
        self._run_waiting()

    def _run_waiting(self, looks: Looks | None = None) -> None:
        """Run the waiting step (without ``looks``: without its files), then the later steps."""
        step, self._waiting_step = self._waiting_step, None
        self._end_wait()
        if step is not None:
            _run(partial(step, not_looked_at(self._wanted) if looks is None else looks))
        while self._later_steps and self._waiting_step is None:
            _run(self._later_steps.popleft())

    def _end_wait(self) -> None:
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
        logger.exception("a step that waited for files has failed")


def look_at_files(wanted: Mapping[str, bool], roots: Mapping[str, str]) -> dict[str, PathLook]:
    """Return where each path leads, with the file's text if ``wanted`` maps the path to True. Waits
    for the disk. ``roots`` has the session's directories, as in `look_at`."""
    looks = look_at(wanted, roots)
    bytes_left, count = STEP_LIMIT, 0
    for path, with_text in wanted.items():
        look = looks[path]
        if not with_text or not look.exists:
            continue
        count += 1
        limit = min(bytes_left, TEXT_LIMIT) if count <= MAX_FILES else 0
        if look.size > limit:
            looks[path] = look._replace(unread="it is too large")
            continue
        try:
            content = read_regular(path, limit)
            looks[path] = look._replace(text=content.decode())
            bytes_left -= len(content)
        except UnicodeDecodeError:
            looks[path] = look._replace(unread="it is no UTF-8 text")
        except OSError:
            looks[path] = look._replace(unread="it cannot be read")
        except ValueError as error:
            looks[path] = look._replace(unread=str(error))
    return looks
