"""Every Codex notification has a row, and a person sees in review what becomes of it.

``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/mapping`` rewrites the golden file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from codex_acp.codex._generated.methods import MODELS, SERVER_NOTIFICATIONS
from codex_acp.errors import CodexAcpError
from codex_acp.mapping.agent import UNWANTED_FAMILIES, UNWANTED_NOTIFICATIONS, why_unwanted
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, PIECES, Ignored
from codex_acp.mapping.state import SessionState
from codex_acp.wire.registry import require_rows
from tests.support.golden import UPDATE, assert_golden
from tests.support.notification_samples import ITEM
from tests.support.tool_call_samples import command
from tests.support.tool_calls import start
from tests.support.updates import ALL

ROWS = cast("Mapping[str, Any]", NOTIFICATION_HANDLERS)


def rendered() -> str:
    lines = [
        "# What becomes of each Codex notification",
        "",
        f"Made by `{UPDATE}=1 pytest tests/mapping`; a test compares it with the table.",
        "",
        "| notification | becomes |",
        "| --- | --- |",
    ]
    for method in sorted(ROWS):
        row = ROWS[method]
        if method in UNWANTED_NOTIFICATIONS:
            what = f"not sent: {why_unwanted(method)}"
        elif isinstance(row, Ignored):
            what = f"ignored: {row.reason}"
        else:
            what = f"`{row.__module__.removeprefix('codex_acp.')}.{row.__name__}`"
        lines.append(f"| `{method}` | {what} |")
    return "\n".join(lines) + "\n"


def test_the_golden_table_is_what_the_code_does() -> None:
    assert_golden("notifications.md", rendered())


def test_every_method_of_the_schema_has_one_row() -> None:
    assert set(ROWS) == set(SERVER_NOTIFICATIONS)


@pytest.mark.parametrize("method", PIECES)
def test_pieces_are_told_as_by_their_row(method: str) -> None:
    def running() -> SessionState:
        state = SessionState(ALL)
        start(state, command(status="inProgress"))
        return state

    by_row, by_pieces = running(), running()
    params = {**ITEM, "delta": "one two"}
    model = MODELS.decode(str(SERVER_NOTIFICATIONS[method].params), params, method)
    told = [*ROWS[method](by_row, model)]
    assert told
    assert [*PIECES[method](by_pieces, "item", "one two")] == told
    assert by_pieces.sent_text == by_row.sent_text


def test_a_missing_and_a_needless_row_are_named() -> None:
    rows = [*list(ROWS)[1:], "made/up"]

    with pytest.raises(CodexAcpError, match=rf"{next(iter(ROWS))}(.|\n)*made/up"):
        require_rows("the table", rows, SERVER_NOTIFICATIONS)


def test_every_ignored_row_has_a_reason() -> None:
    assert all(row.reason for row in ROWS.values() if isinstance(row, Ignored))


def test_what_codex_is_asked_not_to_send_is_ignored() -> None:
    assert all(isinstance(ROWS[method], Ignored) for method in UNWANTED_NOTIFICATIONS)


def test_every_unwanted_family_has_members() -> None:
    for family in UNWANTED_FAMILIES:
        assert any(method.startswith(family) for method in UNWANTED_NOTIFICATIONS), family
