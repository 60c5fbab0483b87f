"""``python -m tests.soak --minutes 5 [--seed S]``: see `tests.soak.soak`; prints its counts."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from typing import TYPE_CHECKING

from tests.soak.soak import Soak

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    soak = Soak(seed)
    out = sys.stdout.write
    out(f"seed {seed}\n")
    wrong: AssertionError | None = None
    try:
        asyncio.run(soak.run(60 * options.minutes))
    except AssertionError as error:
        wrong = error
    for name, count in sorted(soak.counts.items()):
        out(f"{count:>9} {name}\n")
    held = soak.highest
    out(f"at most {held.descriptors} descriptors, {held.threads} threads, ")
    out(f"{held.memory >> 20} MiB after an adapter's last operation\n")
    if wrong is not None:
        out(f"\nNOT HELD: {wrong}\n")
    return int(wrong is not None)


if __name__ == "__main__":
    raise SystemExit(main())
