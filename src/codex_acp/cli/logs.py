"""Choose the level of the command's log, and its destination: stderr or a file, never stdout.

Loaded before Codex is spawned, so this module imports little until `start_logging`.
"""

from __future__ import annotations

import os

from codex_acp.cli.process import stderr

TYPE_CHECKING = False  # importing typing would delay the start of Codex
if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
DEFAULT_LEVEL = "WARNING"
"""Default level of ``serve``: an editor keeps the agent's stderr, so only problems belong there."""
COMMANDS_LEVEL = "ERROR"
"""Default level of the commands that a person runs: the commands show problems themselves."""
LEVEL_VARIABLE = "CODEX_ACP_LOG"
"""Environment variable for the level; ``--log-level`` overrides it."""


def chosen_level(option: str | None = None, default: str = DEFAULT_LEVEL) -> str:
    """Return the level in the option, else in the variable, else ``default``. Raises ValueError."""
    source, text = "--log-level", option
    if text is None:
        source, text = LEVEL_VARIABLE, os.environ.get(LEVEL_VARIABLE) or default
    level = text.strip().upper()
    if level not in LEVELS:
        raise ValueError(f"{source}: {text!r} is not a log level; use one of {', '.join(LEVELS)}")
    return level


def open_log(path: str) -> int:
    """Open the ``--log-file`` for appending; only its owner can read it. Raises ValueError."""
    from codex_acp._files import open_private

    try:
        return open_private(path, tighten=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"--log-file: cannot write {path!r}: {reason}") from error


def start_logging(
    level: str, to: int | Callable[[str], None] | None, path: str | None = None
) -> None:
    """Log this library from ``level`` on, and other modules from WARNING on. ``to`` is the
    descriptor of the file ``path``, a function that shows a line, or None for stderr. Lines that
    cannot be written are dropped and counted. Secrets are masked."""
    import logging

    from codex_acp.cli.log_handler import LogHandler

    root = logging.getLogger()
    root.addHandler(LogHandler(stderr() if to is None else to, path))
    logging.captureWarnings(True)
    logging.getLogger("codex_acp").setLevel(level)
