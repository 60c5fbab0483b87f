"""Medians and quartiles of samples, as a table for people and as JSON.

Owns the options that every benchmark has. Must not know what was measured.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

NO_SETTINGS = frozenset({"json", "official", "npm", "agent", "openai"})
"""Options that say where something is."""

Samples = dict[str, dict[str, list[float]]]
"""By agent, by measure, one number a repetition."""


@dataclass(frozen=True)
class Spread:
    """Quartiles of some samples."""

    low: float
    median: float
    high: float


def quartiles(samples: list[float]) -> Spread:
    """The quartiles; of one sample, that sample three times. Raises ValueError for none."""
    if not samples:
        message = "there are no samples"
        raise ValueError(message)
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(low, median, high)


def table(samples: Samples, *, reference: str | None = None) -> str:
    """One row an agent: median, quartiles, and the ratio to ``reference`` if that was measured."""
    measures = list(dict.fromkeys(name for rows in samples.values() for name in rows))
    lines = []
    width = max(map(len, samples), default=0)
    for measure in measures:
        lines.append(f"\n{measure}")
        base = samples.get(reference or "", {}).get(measure)
        for name, rows in samples.items():
            if not rows.get(measure):
                continue
            spread = quartiles(rows[measure])
            line = (
                f"  {name:{width}}  {spread.median:9.2f}  ({spread.low:.2f} to {spread.high:.2f})"
            )
            if base:
                line += f"  x {spread.median / quartiles(base).median:.2f}"
            lines.append(line)
    if reference in samples:
        lines.append(f"\nmedian (quartiles) x ratio to {reference}")
    else:
        lines.append("\nmedian (quartiles)")
    return "\n".join(lines).lstrip("\n")


def add_report_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    """How many rounds are measured, and what `report` reads."""
    parser.add_argument("-n", "--rounds", type=int, default=rounds, help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write all samples to FILE")


def report(
    benchmark: str,
    options: argparse.Namespace,
    samples: Samples,
    *,
    reference: str | None = None,
) -> None:
    """Print the table, and write the JSON if it is wanted."""
    print(table(samples, reference=reference))
    if options.json:
        write_json(options.json, as_json(benchmark, _settings(options), samples))


def _settings(options: argparse.Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(options).items() if name not in NO_SETTINGS}


def as_json(benchmark: str, settings: dict[str, object], samples: Samples) -> dict[str, object]:
    """What is measured, how, all samples, and their quartiles."""
    summary = {
        name: {measure: vars(quartiles(values)) for measure, values in rows.items() if values}
        for name, rows in samples.items()
    }
    return {
        "benchmark": benchmark,
        "settings": settings,
        "summary": summary,
        "samples": samples,
    }


def write_json(path: str, report: Mapping[str, object]) -> None:
    """Write ``report`` to ``path``."""
    Path(path).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
