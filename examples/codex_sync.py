"""Codex without async: for scripts and notebooks. Ctrl-C interrupts the turn.

python examples/codex_sync.py [DIRECTORY]
"""

from __future__ import annotations

import sys
from pathlib import Path

from codex_acp.codex.sync import Codex
from codex_acp.codex.types import ItemAgentMessageDeltaEvent


def main(directory: str) -> None:
    with Codex() as codex:

        @codex.tool
        def line_count(path: str) -> int:
            """The number of lines of a file in the project."""
            return len((Path(directory) / path).read_text().splitlines())

        thread = codex.threads.start(cwd=directory, sandbox="read-only")
        print(thread.run("Which file is the longest?").text)
        for event in thread.turn("Why is it so long?"):
            if isinstance(event, ItemAgentMessageDeltaEvent):
                print(event.params.delta, end="", flush=True)
        print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
