"""Files that say what the code does, to be read in review: compared, or written anew."""

from __future__ import annotations

import difflib
import itertools
import os
from pathlib import Path
from typing import Final

import pytest

GOLDEN: Final = Path(__file__).parents[1] / "golden"

MOST_LINES: Final = 100
"""Lines of a difference that are shown."""

UPDATE: Final = "CODEX_ACP_UPDATE_GOLDEN"
"""Environment variable: 1 rewrites the files instead of comparing with them."""


def assert_golden(name: str | Path, text: str) -> None:
    """``golden/NAME``, or the file at an absolute path, has this text."""
    path = GOLDEN / name
    if os.environ.get(UPDATE) == "1":
        path.write_text(text, encoding="utf-8")
    before = path.read_text(encoding="utf-8")
    if text != before:
        changes = difflib.unified_diff(before.split("\n"), text.split("\n"), lineterm="", n=1)
        told = "\n".join(itertools.islice(changes, 2, MOST_LINES))
        pytest.fail(f"{path.name} changes; `nox -s goldens` writes it anew:\n{told}", pytrace=False)
