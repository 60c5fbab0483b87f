"""Wrong rows of the routing table: for each row every other value that somebody might write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from codex_acp.codex.approvals import classify as kinds
from codex_acp.codex.approvals.grants import Always, Once, RememberHost, RememberPrefix, Session
from codex_acp.routing.rows import AnyRow, Row, Sent
from codex_acp.routing.table import TABLES

_REQUEST = (
    "approval=(kinds.CommandApproval,)",
    "approval=(kinds.FileChangeApproval,)",
    "approval=(kinds.PermissionsApproval,)",
    "approval=(kinds.McpToolApproval,)",
    "approval=(kinds.McpToolQuestion,)",
    "approval=(kinds.LegacyCommandApproval,)",
    "approval=(kinds.LegacyPatchApproval,)",
    "approval=(kinds.McpForm,)",
    "elicitation=(kinds.McpForm,)",
    "elicitation=(kinds.McpUrl,)",
    "elicitation=(kinds.McpForm, kinds.McpUrl)",
    "elicitation=(kinds.UserInput,)",
    "elicitation=(kinds.McpToolApproval,)",
    "decline=(kinds.Refused,)",
    "decline=(kinds.ProgramOnly,)",
)
_DECISION = (
    "",
    "approval=(Once,)",
    "approval=(Session,)",
    "approval=(Always,)",
    "approval=(Once, Session)",
    "approval=(RememberPrefix,)",
    "approval=(RememberHost,)",
    "elicitation=(kinds.McpForm, kinds.McpUrl)",
    "elicitation=(kinds.UserInput,)",
    'decline=("refusal",)',
    'decline=("cancellation",)',
    'decline=("refusal", "cancellation")',
)
_NAMES: dict[str, Any] = {
    each.__name__: each for each in (Row, Sent, Once, Session, Always, RememberPrefix, RememberHost)
} | {"kinds": kinds}


class Planted(NamedTuple):
    """One wrong row: the table and the key, how it is written, and what that is."""

    table: str
    key: str
    text: str
    row: AnyRow


def planted() -> Iterator[Planted]:
    """Every wrong row; each differs from the one in the table by what it allows."""
    for table, rows in TABLES.items():
        for key, row in rows.items():
            name = type(row).__name__
            for given in _REQUEST if isinstance(row, Row) else _DECISION:
                text = f'{name}(why="Because.", {given})'
                made: AnyRow = eval(text, dict(_NAMES))
                if made._replace(why=row.why) != row:
                    yield Planted(table, key, text, made)
