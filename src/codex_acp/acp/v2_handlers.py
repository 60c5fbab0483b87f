"""Hold the handlers with which a side of ACP speaks version 2. Loads no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.acp._generated.v2.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        ClientNotificationHandlers,
        ClientRequestHandlers,
        UnstableAgentNotificationHandlers,
        UnstableAgentRequestHandlers,
        UnstableClientNotificationHandlers,
        UnstableClientRequestHandlers,
    )
    from codex_acp.acp.conventions import ExtensionHandler, QuickHandler


class AgentHandlers(NamedTuple):
    """An agent's handlers of version 2, as `AgentSide` takes those of version 1."""

    requests: AgentRequestHandlers
    notifications: AgentNotificationHandlers
    unstable: UnstableAgentRequestHandlers | None = None
    unstable_notifications: UnstableAgentNotificationHandlers | None = None
    quick: Mapping[str, QuickHandler] | None = None
    extensions: Mapping[str, ExtensionHandler] | None = None


class ClientHandlers(NamedTuple):
    """A client's handlers of version 2, as `ClientSide` takes those of version 1."""

    requests: ClientRequestHandlers
    notifications: ClientNotificationHandlers
    unstable: UnstableClientRequestHandlers | None = None
    unstable_notifications: UnstableClientNotificationHandlers | None = None
