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

from __future__ import annotations

from codex_acp._lazy import lazy
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
