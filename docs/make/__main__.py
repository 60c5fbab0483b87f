"""``python -m docs.make [--check | --pictures]``: write anew the pages that come from the code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs.make import command_pages, diagrams, llms, reference_pages

DOCS = Path(__file__).resolve().parents[1]


def pages() -> dict[str, str]:
    """Return the text of every page and picture from the source, by path below ``docs/``."""
    made = command_pages.pages() | reference_pages.pages() | diagrams.pictures()
    return made | {"llms.txt": llms.page(DOCS)}


def main() -> int:
    """Write or check the pages; return 0, or 1 if ``--check`` finds a page that is not current."""
    parser = argparse.ArgumentParser(prog="python -m docs.make", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only name what is not current")
    parser.add_argument("--pictures", action="store_true", help="record the terminal session, too")
    args = parser.parse_args()
    old = [n for n, t in pages().items() if not (DOCS / n).exists() or (DOCS / n).read_text() != t]
    if args.check:
        print("\n".join(old) or "every page is current")
        return 1 if old else 0
    for name, text in pages().items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(text)
    print(f"{len(old)} pages written: {', '.join(old)}" if old else "every page was current")
    if args.pictures:
        from docs.make.session_picture import record

        (DOCS / "images" / "session.svg").write_text(record())
    return 0


if __name__ == "__main__":
    sys.exit(main())
