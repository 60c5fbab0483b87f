"""The models of the Agent Client Protocol, version 1, unstable parts included: the same classes as
in `codex_acp.acp.types`, under the name that says so.

A side reads and sends what is unstable where it was opened with ``unstable``. What is unstable
may change with any release of the schema; its description begins with **UNSTABLE**.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp._lazy import lazy

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import *  # noqa: F403 - as the schema names them
    from codex_acp.wire.model import UnknownValue as UnknownValue  # noqa: PLC0414 - re-exported
    from codex_acp.wire.model import UnknownVariant as UnknownVariant  # noqa: PLC0414
    from codex_acp.wire.model import WireModel as WireModel  # noqa: PLC0414
else:
    from codex_acp.acp._generated.v1.models import MODULE_OF as _MODULE_OF

    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "codex_acp.acp._generated.v1.models": _MODULE_OF,
            "codex_acp.wire.model": "UnknownValue UnknownVariant WireModel",
        },
    )
