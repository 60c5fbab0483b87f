"""Where the command's log goes, and from which level on: stderr or a file, never stdout.

Loaded before Codex is spawned, so it imports next to nothing until `start_logging`. Must not
know what is logged.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["DEFAULT_LEVEL", "LEVELS", "LEVEL_VARIABLE", "chosen_level", "open_log", "start_logging"]

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""From the most to the least that is logged."""

DEFAULT_LEVEL = "WARNING"
"""An editor keeps the agent's stderr: only what somebody should look at belongs there."""

LEVEL_VARIABLE = "CODEX_ACP_LOG"
"""Environment variable for the level; the option ``--log-level`` goes before it."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def chosen_level(option: str | None) -> str:
    """The level that the option, else the environment, names. Raises ValueError for no level."""
    source, text = "--log-level", option
    if text is None:
        source, text = LEVEL_VARIABLE, os.environ.get(LEVEL_VARIABLE) or DEFAULT_LEVEL
    level = text.strip().upper()
    if level not in LEVELS:
        message = f"{source}: {text!r} is not a log level; use one of {', '.join(LEVELS)}"
        raise ValueError(message)
    return level


def open_log(path: str) -> TextIO:
    """The file, to be appended to. Raises ValueError that says why it cannot be written."""
    try:
        return open(path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"--log-file: cannot write {path!r}: {reason}"
        raise ValueError(message) from error


def start_logging(level: str, stream: TextIO | None) -> None:
    """Log this library from ``level`` on, and all else from WARNING on, to ``stream``.

    None stands for stderr.
    """
    import logging

    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logging.getLogger().addHandler(handler)
    logging.getLogger("codex_acp").setLevel(level)
