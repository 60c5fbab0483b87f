"""``python -m tests.mutants [NAME...] [--workers 2]``: plants each fault and runs its tests.

Each is planted in a copy of the tree, never in the checkout. First the tests run without any, since
those that fail anyhow notice nothing; ``--only-faults`` leaves that out. Ends with 1 if a fault
passed every test that should notice.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]

SECONDS = 600.0
"""For the tests of one fault: those that hang have noticed it."""


def planted(text: str, mutant: Mutant) -> str:
    """Return a file's text with the fault in it. Raises ValueError unless it fits exactly once."""
    count = text.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has {mutant.old!r} {count} times, not once")
    return text.replace(mutant.old, mutant.new)


def copy_tree(to: Path) -> None:
    """Copy what git knows of the checkout, as it is now."""
    named = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in named.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def failure(tree: Path, tests: Sequence[str]) -> str | None:
    """Return the end of what pytest says if one of the tests fails in a tree, or hangs."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*words, *tests], cwd=tree, env=env, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the tests have not ended after {SECONDS:g} s"
    said = done.stdout.decode()[-2000:]
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {done.returncode}: {said}")
    return said if done.returncode else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only-faults", action="store_true")
    options = parser.parse_args(arguments)
    chosen = [each for each in MUTANTS if not options.names or each.name in options.names]
    out, began = sys.stdout.write, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            tree = Path(place) / str(number)
            copy_tree(tree)
            trees.put(tree)

        def of(mutant: Mutant | None, tests: Sequence[str]) -> str | None:
            tree = trees.get()
            try:
                if mutant is None:  # a test that fails now and then is given a second chance
                    return failure(tree, tests) and failure(tree, tests)
                file = tree / "src" / "codex_acp" / mutant.file
                text = file.read_text(encoding="utf-8")
                file.write_text(planted(text, mutant), encoding="utf-8")
                try:
                    return failure(tree, tests)
                finally:
                    file.write_text(text, encoding="utf-8")
            finally:
                trees.put(tree)

        used = list(dict.fromkeys(test for each in chosen for test in each.tests.split()))
        with ThreadPoolExecutor(options.workers) as pool:
            halves = [used[number :: options.workers] for number in range(options.workers)]
            if not options.only_faults:
                before = pool.map(lambda tests: of(None, tests) if tests else None, halves)
                failed = [said for said in before if said is not None]
                if failed:
                    out("\n".join([*failed, "the tests fail without any fault\n"]))
                    return 2
            found = pool.map(lambda each: of(each, each.tests.split()), chosen)
            passed: list[Mutant] = []
            for mutant, said in zip(chosen, found, strict=True):
                out(f"{'PASSED ' if said is None else 'noticed'}  {mutant.name}: {mutant.why}\n")
                sys.stdout.flush()
                passed += (mutant,) if said is None else ()
    out(f"{len(chosen) - len(passed)} of {len(chosen)} faults were noticed")
    out(f", in {time.monotonic() - began:.0f} s\n")
    return int(bool(passed))


if __name__ == "__main__":
    raise SystemExit(main())
