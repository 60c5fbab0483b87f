"""Interleaved rounds; medians and quartiles of their samples, as a table for people and as JSON.

Owns the options that every benchmark has. Must not know what is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NO_SETTINGS = frozenset({"json", "official", "npm", "agent", "openai"})
"""Options that say where something is."""

Samples = dict[str, dict[str, list[float]]]
"""By agent, by measure, one number a repetition."""


def interleaved(
    measured: Mapping[str, Callable[[], Mapping[str, float]]], rounds: int, *, warm_up: bool = False
) -> Samples:
    """Everything once a round, so that a slow moment of the machine hits all of it.

    ``warm_up``: first one round more, for the caches alone (byte code, disk, Codex's files).
    """
    samples: Samples = {name: {} for name in measured}
    names = list(measured)
    for number in range(-1 if warm_up else 0, rounds):
        turn = number % len(names)  # not always the same one behind the same other
        for name in names[turn:] + names[:turn]:
            found = measured[name]()
            if number >= 0:
                note(samples, name, found)
    return samples


def note(samples: Samples, name: str, found: Mapping[str, float]) -> None:
    """One number more of each measure in ``found``."""
    for measure, value in found.items():
        samples.setdefault(name, {}).setdefault(measure, []).append(value)


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


def report_parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Knows how many rounds are measured, and what `report` reads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-n", "--rounds", type=int, default=rounds, help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write all samples to FILE")
    return parser


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
