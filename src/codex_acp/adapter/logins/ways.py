"""What this process can do for a login: open a browser, and say how it is started again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codex_acp.adapter.logins.browser import NO_BROWSER, can_open_pages
from codex_acp.mapping.agent.auth_methods import LoginWays

if TYPE_CHECKING:
    from collections.abc import Mapping


def login_ways(environment: Mapping[str, str], codex: str | None) -> LoginWays:
    """``codex`` is the binary that this agent was given, if any; a login must use the same."""
    named = () if codex is None else ("--codex", codex)
    return LoginWays(
        browser=can_open_pages(environment),
        command=(sys.executable, "-m", "codex_acp", *named),
        no_browser=bool(environment.get(NO_BROWSER)),
    )
