"""The marker ``attack``: a test of a hostile side, and the table of all that were run.

One line marks a module, a class or a test: ``pytestmark = pytest.mark.attack("model")``; the
nearest one says who attacks. The name of the test says what is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

ATTACKERS: Final = (
    "model", "MCP server", "repository", "client", "agent", "app-server", "network", "local user",
)  # fmt: skip
"""Who may be hostile: the rows of SECURITY.md."""

_PROPERTY: Final = "attack by"

_HELD: Final = {"passed": "held", "failed": "NOT HELD", "error": "NOT HELD", "skipped": "not tried"}


def note_attacks(items: list[pytest.Item]) -> None:
    """Have the report of each marked test say who attacks: a worker's items stay with it."""
    for item in items:
        marker = item.get_closest_marker("attack")
        if marker is not None:
            by = marker.args[0] if marker.args else "several"
            if by not in (*ATTACKERS, "several"):
                message = f"{item.nodeid}: {by!r} is no attacker; one of {', '.join(ATTACKERS)}"
                raise ValueError(message)
            item.user_properties.append((_PROPERTY, by))


def table_of_attacks(reporter: pytest.TerminalReporter) -> Iterator[str]:
    """Lines: attacker, attack, whether it was held; then how many of each."""
    rows: dict[tuple[str, str], str] = {}
    for outcome, held in _HELD.items():
        for report in reporter.stats.get(outcome, ()):
            by = dict(getattr(report, "user_properties", ())).get(_PROPERTY)
            if by is not None:
                rows[by, _attack(report.nodeid)] = held
    width = max((len(by) for by, _ in rows), default=0)
    for (by, attack), held in sorted(rows.items()):
        yield f"{by:<{width}}  {held:<9}  {attack}"
    totals = Counter(rows.values())
    yield f"{len(rows)} attacks: " + ", ".join(f"{n} {held}" for held, n in sorted(totals.items()))


def _attack(nodeid: str) -> str:
    """``tests/a/test_b.py::test_c_d[e]`` → ``c d [e]``."""
    name, bracket, case = nodeid.rpartition("::")[2].partition("[")
    return name.removeprefix("test_").replace("_", " ") + (f" [{case}" if bracket else "")
