"""What a drift report is made of: plain values, no logic but the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

from codegen.ir import Protocol

Kind: TypeAlias = Literal["added", "removed", "changed"]

Area: TypeAlias = Literal[
    "server request",
    "notification",
    "item",
    "elicitation mode",
    "decision",
    "request",
    "type",
    "field",
    "value",
    "member",
    "generator",
]
"""In the order of a report. ``request`` and ``notification`` are methods of either protocol."""

Flow: TypeAlias = Literal["", "sent", "received", "both"]
"""How a type travels, seen from the adapter: to Codex or the editor, or from them."""


class Verdict(IntEnum):
    """What a change asks of us; the value is the exit code."""

    NOTHING = 0
    COMPATIBLE = 3
    DECISION = 4


@dataclass(frozen=True)
class Change:
    """One thing that is in one schema set and not, or otherwise, in the other."""

    protocol: str
    """``codex``, or a version of ACP: ``v1``, ``v2``."""
    area: Area
    kind: Kind
    owner: str
    """The direction of a method, the type of a field, value or member; empty for a type."""
    name: str
    before: str = ""
    after: str = ""
    flow: Flow = ""
    experimental: bool = False
    """Whether the stable bundle, or stable ACP, does not have it."""


@dataclass(frozen=True)
class Judged:
    """A change, and what it means for this project."""

    change: Change
    verdict: Verdict
    meaning: str = ""
    places: tuple[str, ...] = ()
    """Files and public names that it touches."""


@dataclass(frozen=True)
class Report:
    """The drift from one schema set to another."""

    old: tuple[tuple[str, str], ...]
    """(product, version)."""
    new: tuple[tuple[str, str], ...]
    judged: tuple[Judged, ...]

    @property
    def verdict(self) -> Verdict:
        """The gravest of all changes; its value is the exit code."""
        return max((j.verdict for j in self.judged), default=Verdict.NOTHING)


@dataclass(frozen=True)
class SchemaSet:
    """Schemas as the generator reads them, to be compared."""

    versions: tuple[tuple[str, str], ...]
    protocols: tuple[tuple[str, Protocol], ...]
    stable: tuple[tuple[str, Protocol], ...]
    """The same protocols without their experimental parts."""
    problem: str = ""
    """Why the generator would stop at it; empty if it would not."""
    readable: Protocol | None = None
    """Codex as it is generated, with what older versions still send; None: as it is."""
