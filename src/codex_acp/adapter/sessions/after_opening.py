"""Does what follows the answer that has opened a session: the client knows it now."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.sessions.opener import OpeningResult

LOAD_AFTER_SECONDS: Final = 0.002
"""The answer is written first, then the modules of a prompt are loaded."""


class AfterOpening:
    """``is_open`` is called behind each answer that has opened a session, whatever is loaded by
    then; ``answered`` with the session, which loads what a prompt needs, and ``when_loaded`` once,
    behind the first of them. ``ahead`` goes before those two.
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
        """A session is open, and the answer that says so is about to be written."""
        loop = asyncio.get_running_loop()
        loop.call_later(LOAD_AFTER_SECONDS, self._is_open)
        tell_soon = tell = partial(self._tell, opened)
        if self._ahead is not None:
            self._ahead.start_within(LOAD_AFTER_SECONDS)
            tell_soon = partial(self._ahead.then, tell)
        loop.call_later(LOAD_AFTER_SECONDS, tell_soon)

    def leave(self) -> None:
        """The client is gone: nothing is begun for it any more."""
        self._left = True

    def _tell(self, opened: OpeningResult) -> None:
        if self._left:
            return
        self._answered(opened)
        when_loaded, self._when_loaded = self._when_loaded, None
        if when_loaded is not None:
            when_loaded()
