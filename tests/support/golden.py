"""Files that say what the code does, to be read in review: compared, or written anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).parents[1] / "golden"

UPDATE: Final = "CODEX_ACP_UPDATE_GOLDEN"
"""Environment variable: 1 rewrites the files instead of comparing with them."""


def assert_golden(name: str | Path, text: str) -> None:
    """``golden/NAME``, or the file at an absolute path, has this text."""
    path = GOLDEN / name
    if os.environ.get(UPDATE) == "1":
        path.write_text(text, encoding="utf-8")
    # Without a message, so that the lines that differ are shown; in lines, so that they are found.
    assert text.split("\n") == path.read_text(encoding="utf-8").split("\n")
