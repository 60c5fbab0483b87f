"""Asks Codex whether a login is missing, before anything is sent to a model that needs one.

Without a login Codex takes a prompt all the same, and tries to reach its model for ever. Loads no
model: a process just started asks it, too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp._json import value_at
from codex_acp.errors import ErrorReply

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

logger = logging.getLogger(__name__)


async def login_is_missing(codex: AppServerConnection) -> bool:
    """Return whether the configured model provider needs a login and nobody is logged in.

    False where Codex does not tell: a turn that needs a login says so itself then. Raises
    ErrorReply if the configuration cannot be read.
    """
    try:
        answer = await codex.call_raw("account/read", {"refreshToken": False})
    except ErrorReply as error:
        logger.info("Codex does not tell whether a login is needed: %s", error)
        return False
    needs_login = value_at(answer, "requiresOpenaiAuth") is True
    if not needs_login or value_at(answer, "account") is not None:
        return False
    # A configuration that cannot be read names no provider: then that is what is wrong.
    await codex.call_raw("config/read", {})
    return True
