"""Families of Codex notifications that this agent never has a use for.

Codex is asked at the handshake not to send them. Loads no model: the handshake comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS

if TYPE_CHECKING:
    from codex_acp.codex._generated.methods import ServerNotificationMethod

__all__ = ["UNWANTED_FAMILIES", "UNWANTED_NOTIFICATIONS"]

_NO_REQUEST: Final = "answers a request that ACP has no method for, so it is never sent"
_OTHER_PRODUCT: Final = "belongs to a feature of OpenAI's own clients"

UNWANTED_FAMILIES: Final[dict[str, str]] = {
    "app/": _OTHER_PRODUCT,
    "command/exec/": _NO_REQUEST,
    "externalAgentConfig/": _OTHER_PRODUCT,
    "fs/": _NO_REQUEST,
    "fuzzyFileSearch/": _NO_REQUEST,
    "mcpServer/event/": _OTHER_PRODUCT,
    "process/": _NO_REQUEST,
    "project/": _OTHER_PRODUCT,
    "remoteControl/": _OTHER_PRODUCT,
    "thread/attachment/": _OTHER_PRODUCT,
    "thread/environment/": _OTHER_PRODUCT,
    "thread/prediction/": _OTHER_PRODUCT,
    "thread/project/": _OTHER_PRODUCT,
    "thread/queue/": _OTHER_PRODUCT,
    "thread/readState/": _OTHER_PRODUCT,
    "thread/realtime/": "belongs to realtime voice, which this agent never starts",
    "windows": "belongs to the sandbox of Windows, where this agent does not run",
}
"""Beginning of the method → why it is not wanted."""

UNWANTED_NOTIFICATIONS: Final = tuple(
    cast("ServerNotificationMethod", method)
    for method in SERVER_NOTIFICATIONS
    if method.startswith(tuple(UNWANTED_FAMILIES))
)
"""The methods of those families (``optOutNotificationMethods``)."""
