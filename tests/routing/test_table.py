"""1.2: the routing table is true: each sample becomes what a row allows, each row is reached.

So whatever else a row said would be noticed: wrong rows are planted, every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import get_args

import pytest

from codegen import true_rows
from codegen.true_rows import untrue
from codex_acp.codex.approvals import classify
from codex_acp.codex.approvals.classify import ProgramOnly, Refused
from codex_acp.codex.approvals.grants import Grant, Once
from codex_acp.errors import IncompleteTable
from codex_acp.routing._generated.rows import FIELD_TYPES
from codex_acp.routing.rows import AnyRow, Row, SentDecision, require_possible
from codex_acp.routing.table import TABLES
from tests.support.planted_rows import planted


@pytest.mark.parametrize("table", sorted(TABLES))
def test_1_2_each_sample_becomes_what_its_rows_allow_and_each_row_is_reached(table: str) -> None:
    assert {key: untrue(table, key, row) for key, row in TABLES[table].items()} == dict.fromkeys(
        TABLES[table], ""
    )


def test_1_2_whatever_else_a_row_said_is_noticed() -> None:
    wrong = list(planted())
    assert len({(each.table, each.key) for each in wrong}) == sum(map(len, TABLES.values()))
    assert [each for each in wrong if not untrue(each.table, each.key, each.row)] == []


def test_1_2_no_decision_can_be_said_to_grant_what_it_does_not() -> None:
    """Every other set of grants, for every decision of every list that the schema has."""
    grants = get_args(Grant)
    sets = [each for n in range(len(grants) + 1) for each in combinations(grants, n)]
    wrong = [
        (table, key, row._replace(approval=granting))
        for table, rows in TABLES.items()
        for key, row in rows.items()
        if isinstance(row, SentDecision)
        for granting in sets
        if set(granting) != set(row.approval)
    ]
    assert (
        len(wrong)
        == sum(len(FIELD_TYPES[table]) for table in {t for t, _ in true_rows.DECISIONS.values()})
        * (len(sets) - 1)
        > 700
    )
    assert [each for each in wrong if not untrue(*each)] == []


def test_1_2_a_wrong_grant_stops_regen(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TABLES["COMMAND_DECISIONS"]["decline"]
    wrong = {**TABLES["COMMAND_DECISIONS"], "decline": row._replace(approval=(Once,))}
    monkeypatch.setattr(true_rows, "TABLES", {**TABLES, "COMMAND_DECISIONS": wrong})
    with pytest.raises(IncompleteTable, match="row for 'decline': nothing becomes approval Once"):
        true_rows.require_true()


def _import(table: str, rows: Mapping[str, AnyRow]) -> None:
    require_possible("here", {**TABLES, table: rows}, FIELD_TYPES)


def test_1_2_a_row_that_is_missing_or_superfluous_stops_the_import() -> None:
    for table, rows in TABLES.items():
        for key in rows:
            with pytest.raises(IncompleteTable, match=f"{table} in here .* row for {key!r}"):
                _import(table, {k: row for k, row in rows.items() if k != key})
        with pytest.raises(IncompleteTable, match="remove the row for 'hologram'"):
            _import(table, {**rows, "hologram": SentDecision(why="Because.")})


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row(why="", decline=(Refused,)), "it gives no reason"),
        (Row(why="Because."), "it must either ask or decline"),
        (
            Row(why="B.", elicitation=(classify.McpForm,), decline=(Refused,)),
            "it must either ask or decline",
        ),
        (Row(why="B.", approval=(classify.McpToolApproval,)), "it cannot become McpToolApproval"),
        (Row(why="B.", approval=(classify.McpForm,)), "it cannot become McpForm"),
        (Row(why="B.", elicitation=(classify.UserInput,)), "it cannot become UserInput"),
        (Row(why="B.", decline=(classify.McpForm,)), "it cannot become McpForm"),
        (Row(why="B.", decline=(ProgramOnly,)), "it cannot become ProgramOnly"),
    ],
)
def test_1_2_a_row_that_cannot_be_stops_the_import(row: AnyRow, problem: str) -> None:
    key = "openai/userVerification"
    with pytest.raises(IncompleteTable, match=f"mend the row for '{key}': {problem}"):
        _import("ELICITATION_MODES", {**TABLES["ELICITATION_MODES"], key: row})


def test_no_sentence_of_the_table_is_said_twice() -> None:
    said = [row.why for rows in TABLES.values() for row in rows.values()]
    assert len(set(said)) == len(said)
    assert all(why.endswith(".") for why in said)
