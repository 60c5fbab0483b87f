"""Define the plain values of a drift report, which tells what differs between two schema sets."""

from __future__ import annotations

from collections.abc import Mapping
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
"""``request`` and ``notification`` are methods of either protocol."""

Flow: TypeAlias = Literal["", "sent", "received", "both"]
"""Whether the adapter sends a type to Codex or the editor, or receives it from them."""


class Verdict(IntEnum):
    """The work that a change needs; the value is the exit code."""

    NOTHING = 0
    COMPATIBLE = 3
    DECISION = 4


@dataclass(frozen=True)
class Change:
    """One difference between two schema sets."""

    protocol: str
    """``codex``, or a version of ACP: ``v1``, ``v2``."""
    area: Area
    kind: Kind
    owner: str
    """The direction of a method, or the type that has the field, value or member; else empty."""
    name: str
    before: str = ""
    after: str = ""
    flow: Flow = ""
    experimental: bool = False
    """Whether the stable bundle, or stable ACP, lacks what has changed."""


@dataclass(frozen=True)
class Judged:
    """A change and its meaning for this project."""

    change: Change
    verdict: Verdict
    meaning: str = ""
    places: tuple[str, ...] = ()
    """Files and public names that the change touches."""


@dataclass(frozen=True)
class Report:
    """The drift from one schema set to another."""

    old: Mapping[str, str]
    """Product → version."""
    new: Mapping[str, str]
    judged: tuple[Judged, ...]

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of all changes."""
        return max((j.verdict for j in self.judged), default=Verdict.NOTHING)


@dataclass(frozen=True)
class SchemaSet:
    """Schemas as the generator reads them, to be compared."""

    versions: Mapping[str, str]
    """Product → version."""
    protocols: Mapping[str, Protocol]
    """``codex``, ``v1`` or ``v2`` → protocol."""
    stable: Mapping[str, Protocol]
    """The same protocols without their experimental parts."""
    problem: str = ""
    """Why the generator would stop at these schemas; empty if it would not."""
    readable: Protocol | None = None
    """Codex's protocol extended by `codegen.older`; None without older versions."""
