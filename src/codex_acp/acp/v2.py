"""The models of the Agent Client Protocol, version 2, by the names of its schema, and its tables.

Version 2 is a draft: models and tables may change with any release of the schema. The parts that
the draft itself calls unstable are here too. A side sends and reads them only if it was given
``unstable`` handlers. `AgentSide` and `ClientSide` take `AgentHandlers` and `ClientHandlers` as
``v2``.

A model's module loads when its name is first used; importing this module loads no model.
`WireModel` is the base of all; `UnknownVariant` and `UnknownValue` stand for members of open
unions and enumerations that the schema does not know. In an update that patches, a set field
replaces the client's value, None clears the value, and a field that is not set changes nothing.
Source: ``schema/acp/v2_unstable.json``.
"""

# ruff: noqa: PLC0414 - names that are re-exported
from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp._lazy import lazy

if TYPE_CHECKING:
    from codex_acp.acp._generated.v2.handlers import (
        AgentNotificationHandlers as AgentNotificationHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import AgentRequestHandlers as AgentRequestHandlers
    from codex_acp.acp._generated.v2.handlers import (
        ClientNotificationHandlers as ClientNotificationHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import ClientRequestHandlers as ClientRequestHandlers
    from codex_acp.acp._generated.v2.handlers import (
        UnstableAgentNotificationHandlers as UnstableAgentNotificationHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import (
        UnstableAgentRequestHandlers as UnstableAgentRequestHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import (
        UnstableClientNotificationHandlers as UnstableClientNotificationHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import (
        UnstableClientRequestHandlers as UnstableClientRequestHandlers,
    )
    from codex_acp.acp._generated.v2.models import *  # noqa: F403 - as the schema names them
    from codex_acp.acp.dialects import AgentHandlers as AgentHandlers
    from codex_acp.acp.dialects import ClientHandlers as ClientHandlers
    from codex_acp.wire.model import UnknownValue as UnknownValue
    from codex_acp.wire.model import UnknownVariant as UnknownVariant
    from codex_acp.wire.model import WireModel as WireModel
else:
    from codex_acp.acp._generated.v2.models import MODULE_OF as _MODULE_OF

    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "codex_acp.acp._generated.v2.models": _MODULE_OF,
            "codex_acp.acp._generated.v2.handlers": (
                "AgentNotificationHandlers AgentRequestHandlers ClientNotificationHandlers "
                "ClientRequestHandlers UnstableAgentNotificationHandlers "
                "UnstableAgentRequestHandlers UnstableClientNotificationHandlers "
                "UnstableClientRequestHandlers"
            ),
            "codex_acp.acp.dialects": "AgentHandlers ClientHandlers",
            "codex_acp.wire.model": "UnknownValue UnknownVariant WireModel",
        },
    )
