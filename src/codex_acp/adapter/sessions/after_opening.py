"""The steps after the answer that opened a session, when the client knows the session."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.sessions.opener import OpeningResult

LOAD_AFTER_SECONDS: Final = 0.002
"""Seconds for the answer to be written before the modules of a prompt are loaded."""


class AfterOpening:
    """Calls functions after each answer that opened a session.

    ``is_open`` is called first, without waiting for modules. When ``ahead`` has loaded the modules
    of a prompt, ``answered`` is called with the session, and the first time ``when_loaded``.
    """

    def __init__(
        self,
        is_open: Callable[[], object],
        answered: Callable[[OpeningResult], None],
        when_loaded: Callable[[], None] | None,
        ahead: LoadAhead | None,
    ) -> None:
        self._is_open = is_open
        self._answered = answered
        self._when_loaded = when_loaded
        self._ahead = ahead
        self._left = False

    def add(self, opened: OpeningResult) -> None:
        """Schedule the calls for a session whose answer is about to be written."""
        loop = asyncio.get_running_loop()
        loop.call_later(LOAD_AFTER_SECONDS, self._is_open)
        run_soon = run = partial(self._run, opened)
        if self._ahead is not None:
            self._ahead.start_within(LOAD_AFTER_SECONDS)
            run_soon = partial(self._ahead.call_when_loaded, run)
        loop.call_later(LOAD_AFTER_SECONDS, run_soon)

    def leave(self) -> None:
        """Stop the calls: the client is gone."""
        self._left = True

    def _run(self, opened: OpeningResult) -> None:
        if self._left:
            return
        self._answered(opened)
        when_loaded, self._when_loaded = self._when_loaded, None
        if when_loaded is not None:
            when_loaded()
