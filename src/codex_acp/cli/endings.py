"""How a command ends: the exit codes that several have, and what one says that fails.

What else a command can end with is told by its own arguments, whose help lists it.
"""

from __future__ import annotations

import sys
from typing import Final

FAILED: Final = 1
"""It could not be done; an agent could not be started, died, or answered with an error."""

USAGE: Final = 2
"""Arguments that make no sense; the same as the parser's."""

SIGNALLED: Final = 128
"""Plus the signal's number: the exit code after a signal, as shells have it."""


def failed(command: str, error: object, code: int = USAGE) -> int:
    """Say on stderr what is wrong; the exit code."""
    print(f"codex-acp-sdk {command}: error: {error}", file=sys.stderr)
    return code
