"""The models of the Agent Client Protocol, version 1, unstable parts included: the same classes as
in `codex_acp.acp.types`, under the name that says so.

A side reads and sends what is unstable where it was opened with ``unstable``. What is unstable
may change with any release of the schema; its description begins with **UNSTABLE**.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.acp.types import *  # noqa: F403 - as the schema names them
else:
    from codex_acp.acp.types import __all__, __dir__, __getattr__  # noqa: F401 - passed on
