"""The classes of `codex_acp.acp.types`, under a name that says that some are unstable.

The description of an unstable class begins with **UNSTABLE**. A side reads and sends the class only
if it was opened with ``unstable``, and any release of the schema may change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.acp.types import *  # noqa: F403 - as the schema names them
else:
    from codex_acp.acp.types import __all__, __dir__, __getattr__  # noqa: F401 - passed on
