"""PURE: an error as one sentence for a person, and the next step where the agent cannot know it."""

from __future__ import annotations

import json
from typing import Final

from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc.message import INTERNAL_ERROR, INVALID_PARAMS
from codex_acp.routing.display import shortened
from codex_acp.runtime import AuthenticationRequired, SessionBusy

LOG_IN: Final = "codex-acp-sdk login"
"""The command that logs in to the agent of this package."""

LOOK_AT_ITS_LOG: Final = "; with CODEX_ACP_LOG=INFO you see what it writes to its standard error"
"""Where an agent does not say why it failed."""

DETAIL_LIMIT: Final = 2_000
"""Characters of what an agent adds to its error; what is cut is stated."""

_TEXTS: Final = ("message", "details", "detail", "error", "reason")
"""Where agents put a sentence into an error's data."""


def sentence(error: Exception, agent: str, *, ours: bool = False) -> str:
    """Describe an error in the words that say most. ``ours``: the agent is that of this package."""
    if isinstance(error, AuthenticationRequired):
        if ours:
            return f"Codex is not logged in; run `{LOG_IN}`, then try again"
        ways = ", ".join(method.name for method in error.methods)
        offers = f" (it offers: {ways})" if ways else ""
        return f"{agent} needs a login first: log in with its own command{offers}"
    if isinstance(error, ErrorReply):
        said = error.message.strip() or "an error without words"
        for_programs = error.code == INVALID_PARAMS or isinstance(error, SessionBusy)
        if ours and for_programs:  # what its data has
            return said
        said = _with_detail(said, error.data)
        if ours:
            return said
        unsaid = error.code == INTERNAL_ERROR and not error.data
        return f"{agent}: {said}{LOOK_AT_ITS_LOG if unsaid else ''}"
    return str(error)


def _with_detail(message: str, data: object) -> str:
    """Some agents say nothing but "internal error" in the message; others say all of it twice."""
    detail = _text_of(data)
    if not detail or detail in message:
        return message
    return detail if message in detail else f"{message}: {shortened(detail, DETAIL_LIMIT)}"


def _text_of(data: object) -> str:
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, dict):
        for name in _TEXTS:
            if isinstance(data.get(name), str):
                return str(data[name]).strip()
    return "" if data in (None, {}, []) else json.dumps(data, default=str)
