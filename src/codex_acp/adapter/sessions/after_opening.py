"""What there is to do behind the answer that has opened a session: load what a prompt needs, tell
the session what was not said in the answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.sessions.opener import Opened
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.sessions.sessions import Sessions

__all__ = ["LOAD_AFTER_SECONDS", "AfterOpening"]

LOAD_AFTER_SECONDS: Final = 0.002
"""What is said is written first, then what a prompt needs is loaded."""


class AfterOpening:
    """``tell`` is called with each session that the client knows; the others as in `CodexAgent`."""

    def __init__(
        self,
        sessions: Sessions,
        tell: Callable[[Session, Opened], None],
        when_loaded: Callable[[], None] | None,
        ahead: LoadAhead | None,
    ) -> None:
        self._sessions = sessions
        self._tell = tell
        self._when_loaded = when_loaded
        self._ahead = ahead
        self._left = False
        self._answered: list[Opened] = []
        """Sessions whose opening is answered, and who have still to hear of it."""

    def add(self, opened: Opened) -> None:
        """A session is about to be known to the client."""
        self._answered.append(opened)
        self.load_soon()

    def load_soon(self) -> None:
        """When what is said now is written."""
        load = self._load if self._ahead is None else partial(self._ahead.then, self._load)
        asyncio.get_running_loop().call_later(LOAD_AFTER_SECONDS, load)

    def leave(self) -> None:
        """The client is gone: nothing is begun for it any more."""
        self._left = True

    def _load(self) -> None:
        """Import what a prompt needs, while nobody waits for this process."""
        if self._left:
            return
        self._sessions.load()
        if self._when_loaded is not None:
            self._when_loaded()
            self._when_loaded = None
        answered, self._answered = self._answered, []
        for opened in answered:
            session = self._sessions.get(opened.session_id)
            if session is not None:
                self._tell(session, opened)
