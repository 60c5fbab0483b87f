"""`overload` for modules that are loaded before a process is spawned: typing takes long to import.

Checkers see typing's own; at runtime it only has to be there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from typing import overload as overload  # noqa: PLC0414 - passed on
else:

    def overload(function: Any) -> Any:
        """As `typing.overload`, but nothing remembers the signature."""
        return function
