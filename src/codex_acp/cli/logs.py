"""Where the command's log goes, and from which level on: stderr or a file, never stdout.

Loaded before Codex is spawned, so it imports next to nothing until `start_logging`. Must not
know what is logged.
"""

from __future__ import annotations

import os

from codex_acp.cli.process import stderr

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""From the most to the least that is logged."""
DEFAULT_LEVEL = "WARNING"
"""An editor keeps the agent's stderr: only what somebody should look at belongs there."""
LEVEL_VARIABLE = "CODEX_ACP_LOG"
"""Environment variable for the level; the option ``--log-level`` goes before it."""


def chosen_level(option: str | None) -> str:
    """Return the level of the option, else of the environment. Raises ValueError for no level."""
    source, text = "--log-level", option
    if text is None:
        source, text = LEVEL_VARIABLE, os.environ.get(LEVEL_VARIABLE) or DEFAULT_LEVEL
    level = text.strip().upper()
    if level not in LEVELS:
        raise ValueError(f"{source}: {text!r} is not a log level; use one of {', '.join(LEVELS)}")
    return level


class LogFile:
    """The ``--log-file``, open to be appended to, for its owner alone. Raises ValueError that says
    why not."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        from codex_acp._files import open_private

        self.path: str = path
        try:
            self.fd: int = open_private(path, tighten=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ValueError(f"--log-file: cannot write {path!r}: {reason}") from error


def start_logging(level: str, to: LogFile | Callable[[str], None] | None) -> None:
    """Log this library from ``level`` on, and all else from WARNING on, to a file, stderr (None) or
    what shows a line. What nobody reads is dropped and counted; secrets are taken out."""
    import logging

    from codex_acp.cli.log_handler import LogHandler

    root = logging.getLogger()
    if isinstance(to, LogFile):
        root.addHandler(LogHandler(to.fd, to.path))
    else:
        root.addHandler(LogHandler(to or stderr()))
    logging.captureWarnings(True)
    logging.getLogger("codex_acp").setLevel(level)
