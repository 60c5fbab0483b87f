"""``nox -s tck -- [--agent COMMAND]... [--npm] [ID...]``: which requirements an agent meets."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.agents import npm_agent
from tests.e2e.adapter_bench import COMMAND
from tests.tck.requirements import REQUIREMENTS
from tests.tck.world import Skipped, World

Outcomes = dict[tuple[int, str], str]


def outcomes(command: Sequence[str], only: Sequence[str] = ()) -> Outcomes:
    """Version and id → ``yes``, ``-`` (not offered), or why not."""
    found: Outcomes = {}
    for version in (1, 2):
        with World(command, version) as world:
            for each in REQUIREMENTS:
                ids = [i for i in each.ids.get(version, ()) if not only or i in only]
                if not ids:
                    continue
                try:
                    each.check(world)
                    outcome = "yes"
                except Skipped:
                    outcome = "-"
                except Exception as error:  # noqa: BLE001 - whatever goes wrong, it is not met
                    outcome = f"no: {type(error).__name__} {error}".splitlines()[0][:90]
                found.update({(version, i): outcome for i in ids})
    return found


def main() -> int:
    """Print the table; 1 if the first agent fails anything."""
    parser = argparse.ArgumentParser(prog="nox -s tck --", description=__doc__)
    parser.add_argument("--agent", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--npm", action="store_true", help="the official adapter beside it")
    parser.add_argument("only", nargs="*", metavar="ID")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        commands = [shlex.split(text) for text in given.agent] or [[COMMAND]]
        if given.npm and (official := npm_agent(Path(directory))):
            commands.append(list(official))
        columns = [outcomes(command, given.only) for command in commands]
    for number, command in enumerate(commands, 1):
        print(f"{number}: {shlex.join(command)}")
    for key in columns[0]:
        cells = [column[key].partition(":")[0] for column in columns]
        print(f"v{key[0]} ACP-{key[1]:<15}" + "".join(f"{cell:>6}" for cell in cells))
    for number, column in enumerate(columns, 1):
        failed = {key: why for key, why in column.items() if why.startswith("no")}
        count = sum(why == "yes" for why in column.values())
        print(f"{number}: {count} met, {len(failed)} not, of {len(column)}")
        for (version, name), why in failed.items():
            print(f"   v{version} ACP-{name} {why}")
    return int(any(why.startswith("no") for why in columns[0].values()))


if __name__ == "__main__":
    sys.exit(main())
