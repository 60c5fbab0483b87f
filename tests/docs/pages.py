"""The pages that users read, and the code in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "packaging/README.md")),
    *sorted(DOCS.rglob("*.md")),
)


class Block(NamedTuple):
    """A fenced block: the page's path from the root, the number of its kind there, its text."""

    page: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


@cache
def blocks(language: str) -> list[Block]:
    """Every block of a language, indented ones too."""
    found = []
    for path in PAGES:
        texts = re.findall(rf"^ *```{language}\n(.*?)^ *```$", path.read_text(), re.M | re.S)
        name = path.relative_to(ROOT).as_posix()
        found += [Block(name, number, dedent(text)) for number, text in enumerate(texts)]
    return found


def shell_lines() -> list[tuple[str, str]]:
    """(page, line) of every line of shell, without comments; one that goes on is one line."""
    found = []
    for block in blocks("sh"):
        text = re.sub(r" *\\\n *", " ", block.text)
        lines = (line.split("  #")[0].rstrip() for line in text.splitlines())
        found += [(block.page, line) for line in lines if line]
    return found
