"""Opens a browser for a login, and says how this process is started again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from codex_acp.mapping.agent.auth_methods import LoginWays
from codex_acp.transport.orphans import sparing

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_BROWSER: Final = "NO_BROWSER"
"""Set to anything, no browser is opened, and no login is offered whose page comes back here."""

_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Any of these is a sign of a browser; without one, a text browser would take our terminal."""


def can_open_pages(environment: Mapping[str, str]) -> bool:
    """Whether there is a screen for a browser, as far as the environment tells."""
    if environment.get(NO_BROWSER):
        return False
    if sys.platform == "darwin":
        return not environment.get("SSH_CONNECTION")
    return any(environment.get(name) for name in _SCREENS)


async def open_page(url: str) -> bool:
    """Open ``url``, which the person has asked for; whether a browser was found."""
    from anyio import to_thread

    return await to_thread.run_sync(_open, url, abandon_on_cancel=True)


def _open(url: str) -> bool:
    import webbrowser

    with sparing():  # a browser that starts now goes on when this agent has ended
        return webbrowser.open(url)


def login_ways(environment: Mapping[str, str], codex: str | None) -> LoginWays:
    """``codex`` is the binary that this agent was given, if any; a login must use the same."""
    named = () if codex is None else ("--codex", codex)
    return LoginWays(
        browser=can_open_pages(environment),
        command=(sys.executable, "-P", "-m", "codex_acp", *named),
        no_browser=bool(environment.get(NO_BROWSER)),
    )
