"""Wrong rows of the routing table: for each row every other value that somebody might write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from codex_acp.codex.approvals import classify as classes
from codex_acp.codex.approvals.grants import Always, Once, RememberHost, RememberPrefix, Session
from codex_acp.routing.rows import AnyRow, Row, SentDecision
from codex_acp.routing.table import TABLES

_REQUEST = (
    "approval=(classes.CommandApproval,)",
    "approval=(classes.FileChangeApproval,)",
    "approval=(classes.PermissionsApproval,)",
    "approval=(classes.McpToolApproval,)",
    "approval=(classes.McpToolQuestion,)",
    "approval=(classes.LegacyCommandApproval,)",
    "approval=(classes.LegacyPatchApproval,)",
    "approval=(classes.McpForm,)",
    "elicitation=(classes.McpForm,)",
    "elicitation=(classes.McpUrl,)",
    "elicitation=(classes.McpForm, classes.McpUrl)",
    "elicitation=(classes.UserInput,)",
    "elicitation=(classes.McpToolApproval,)",
    "decline=(classes.Refused,)",
    "decline=(classes.ProgramOnly,)",
)
_DECISION = (
    "",
    "approval=(Once,)",
    "approval=(Session,)",
    "approval=(Always,)",
    "approval=(Once, Session)",
    "approval=(RememberPrefix,)",
    "approval=(RememberHost,)",
    "elicitation=(classes.McpForm, classes.McpUrl)",
    "elicitation=(classes.UserInput,)",
    'decline=("refusal",)',
    'decline=("cancellation",)',
    'decline=("refusal", "cancellation")',
)
_NAMES: dict[str, Any] = {
    each.__name__: each
    for each in (Row, SentDecision, Once, Session, Always, RememberPrefix, RememberHost)
} | {"classes": classes}


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
