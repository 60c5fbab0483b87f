"""Codex notifications that this agent never has a use for.

Codex is asked at the handshake not to send them. Loads no model: the handshake comes first.
"""

from __future__ import annotations

from typing import Final, cast

from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS, ServerNotificationMethod

_NO_REQUEST: Final = "answers a request that ACP has no method for, so it is never sent"
_OTHER_PRODUCT: Final = "belongs to a feature of OpenAI's own clients"

UNWANTED_FAMILIES: Final[dict[str, str]] = {
    "account/gatewayOAuth/": _NO_REQUEST,
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
    "thread/section/": _OTHER_PRODUCT,
    "windows": "belongs to the sandbox of Windows, where this agent does not run",
}
"""Beginning of the method → why it is not wanted."""

UNWANTED_METHODS: Final[dict[str, str]] = {
    "hook/started": "a hook is shown when it ends, if it has something to say",
    "item/reasoning/summaryPartAdded": "each delta of a summary names the part it belongs to",
    "thread/compacted": "the contextCompaction item has taken its place",
    "turn/diff/updated": "the file changes that it adds up are shown as tool calls",
    "turn/moderationMetadata": _OTHER_PRODUCT,
}
"""Method → why it is not wanted; others that begin like it are."""


def why_unwanted(method: str) -> str | None:
    """The reason, or None for a method that is wanted."""
    if method in UNWANTED_METHODS:
        return UNWANTED_METHODS[method]
    families = (why for family, why in UNWANTED_FAMILIES.items() if method.startswith(family))
    return next(families, None)


UNWANTED_NOTIFICATIONS: Final = tuple(
    cast("ServerNotificationMethod", method)
    for method in SERVER_NOTIFICATIONS
    if why_unwanted(method) is not None
)
"""The methods that Codex is asked not to send (``optOutNotificationMethods``)."""
