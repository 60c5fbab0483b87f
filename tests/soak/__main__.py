"""``python -m tests.soak [KIND] --minutes 5 [--seed S] [--count N]``: prints what was done.

Without a KIND see `tests.soak.soak`; ``chaos`` and ``network-chaos`` are `tests.soak.chaos`, which
tries seed after seed, at most N of them; ``hand-overs`` is `tests.soak.hand_overs`, N times.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.soak.chaos.chaos import Chaos, smallest
from tests.soak.chaos.network_chaos import NetworkChaos
from tests.soak.hand_overs import COUNT, hand_overs
from tests.soak.soak import Soak

CHAOS = {"chaos": Chaos, "network-chaos": NetworkChaos}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=["mixed", "hand-overs", *CHAOS], default="mixed")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--count", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.kind in CHAOS:
        return chaos(CHAOS[options.kind], seed, 60 * options.minutes, options.count)
    if options.kind == "hand-overs":
        told, fine = hand_overs(seed, options.count or COUNT)
        sys.stdout.write(told)
        return int(not fine)
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


def chaos(kind: type[Chaos], seed: int, seconds: float, count: int | None = None) -> int:
    """Run seed after seed; at the first that fails its shortest trace is printed."""
    out, counts, until = sys.stdout.write, Counter[str](), time.monotonic() + seconds
    first = seed
    while True:
        world = kind(seed).run()
        counts += world.counts
        if world.wrong:
            shown = smallest(seed, kind)
            out("\n".join([*shown.trace, "", *(f"NOT HELD: {what}" for what in world.wrong)]))
            out(f"\nseed {seed}, {shown.steps} steps of the client\n")
            return 1
        seed += 1
        if time.monotonic() > until or seed - first == count:
            break
    for name, count in sorted(counts.items()):
        out(f"{count:>9} {name}\n")
    out(f"seeds {first} to {seed - 1}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
