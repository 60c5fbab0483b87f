"""The models of the Agent Client Protocol, version 1, by the names of its schema.

A model's module loads when its name is first used; importing this module loads no model.
`WireModel` is the base of all; `UnknownVariant` and `UnknownValue` stand for members of open
unions and enumerations that the schema does not know. Unstable classes are here, too: their
description begins with **UNSTABLE**, a side reads and sends them only if it was opened with
``unstable``, and any release may change them.
Source: ``schema/acp/v1_unstable.json``; ``schema/acp/v1.json`` has the stable part.
"""

from __future__ import annotations

from codex_acp._lazy import lazy
from codex_acp.acp._generated.v1.models import MODULE_OF as _MODULE_OF

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "codex_acp.acp._generated.v1.models": _MODULE_OF,
        "codex_acp.wire.model": "UnknownValue UnknownVariant WireModel",
    },
)
