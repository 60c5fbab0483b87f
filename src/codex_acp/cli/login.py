"""``codex-acp-sdk login``: Codex's own login, in the terminal that this process has.

What a client runs for the terminal kind of ``authMethods``: the command it knows, with ``login``
behind it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from codex_acp.codex.connection.launch import find_codex
from codex_acp.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 1
"""Exit code when there is no Codex to log in with."""


def login(codex: str | None, arguments: Sequence[str]) -> int:
    """Become ``codex login ARGUMENTS``; returns (1) only if there is no Codex that runs."""
    try:
        binary = find_codex(codex)
        os.execv(binary.path, [binary.path, "login", *arguments])
    except (LaunchError, OSError) as error:
        sys.stderr.write(f"codex-acp-sdk: {error}\n")
    return FAILED
