"""``python -m tests.fuzz --seconds 60 [--seed S] [--only KIND]``, or ``--replay FILE``.

Runs rounds of every kind in turn until the time is over, prints what they did, and stops at the
first invariant that does not hold: it prints the seed and leaves a file that replays the round.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.fuzz import library_rounds, rounds
from tests.fuzz.adapter_process import FuzzFailure
from tests.fuzz.rounds import Round

KINDS: Final[dict[str, Callable[[int, Round], None]]] = {
    "client": rounds.client_round,
    "app-server": rounds.app_server_round,
    "headless": library_rounds.headless_round,
    "runtime": library_rounds.runtime_round,
    "real-codex": rounds.real_codex_round,
}
"""Who speaks badly to whom: see the function of each."""

FAILURE: Final = Path("fuzz-failure.json")
"""Where a failed round is kept, in the current directory."""


def run(kind: str, seed: int, totals: dict[str, Counter[str]]) -> str | None:
    """One round; what was wrong, or None."""
    made = Round()
    wrong = None
    try:
        KINDS[kind](seed, made)
    except FuzzFailure as error:
        wrong = str(error)
        lines = [line.decode("latin-1") for line in made.lines]
        FAILURE.write_text(json.dumps({"kind": kind, "seed": seed, "lines": lines}))
    peak = "most memory in MiB"
    highest = max(totals[kind][peak], made.counts[peak])
    totals[kind].update(made.counts)
    totals[kind][peak] = highest
    totals[kind]["rounds"] += 1
    return wrong


def replay(path: Path) -> str | None:
    """The round of a file again: its lines one by one, then as a whole."""
    kept = json.loads(path.read_text())
    try:
        if kept["kind"] == "client":
            rounds.replay([line.encode("latin-1") for line in kept["lines"]])
        KINDS[kept["kind"]](kept["seed"], Round())
    except FuzzFailure as error:
        return str(error)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args(arguments)
    out = sys.stdout.write
    if options.replay is not None:
        wrong = replay(options.replay)
        out(f"{wrong or 'all holds'}\n")
        return int(wrong is not None)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    kinds = options.only or list(KINDS)
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    out(f"seed {seed}\n")
    until, number, wrong = time.monotonic() + options.seconds, 0, None
    while wrong is None and (number < len(kinds) or time.monotonic() < until):
        kind = kinds[number % len(kinds)]
        wrong = run(kind, seed + number, totals)
        number += 1
    for kind, counts in totals.items():
        out(f"\n{kind}\n")
        for name, count in sorted(counts.items()):
            out(f"{count:>9} {name}\n")
    if wrong is not None:
        again = f"--only {kind} --seed {seed + number - 1}, or --replay {FAILURE}"
        out(f"\nNOT HELD ({kind}): {wrong}\nagain: {again}\n")
    return int(wrong is not None)


if __name__ == "__main__":
    raise SystemExit(main())
