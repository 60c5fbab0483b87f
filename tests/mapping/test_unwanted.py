"""What Codex is asked not to send: only what nobody shows or uses."""

from __future__ import annotations

import pytest

from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS
from codex_acp.codex.approvals.running_items import USED_BY_ITEMS
from codex_acp.mapping.agent import (
    UNWANTED_FAMILIES,
    UNWANTED_METHODS,
    UNWANTED_NOTIFICATIONS,
    why_unwanted,
)

USED_BY_THE_ADAPTER = {
    "account/login/completed", "account/updated", "mcpServer/oauthLogin/completed",
    "mcpServer/startupStatus/updated", "serverRequest/resolved", "skills/changed", "thread/closed",
    "thread/name/updated", "thread/settings/updated", "thread/started", "thread/status/changed",
    "turn/started",
}  # fmt: skip
"""Some of these show nothing by themselves."""


def test_what_the_adapter_or_the_routing_uses_is_wanted() -> None:
    assert not (USED_BY_THE_ADAPTER | USED_BY_ITEMS) & set(UNWANTED_NOTIFICATIONS)


def test_every_single_method_exists_and_needs_no_family() -> None:
    for method in UNWANTED_METHODS:
        assert method in SERVER_NOTIFICATIONS
        assert not method.startswith(tuple(UNWANTED_FAMILIES))


def test_every_unwanted_method_has_a_reason_and_no_other_has_one() -> None:
    reasons = {method: why_unwanted(method) for method in SERVER_NOTIFICATIONS}

    assert {method for method, why in reasons.items() if why} == set(UNWANTED_NOTIFICATIONS)


@pytest.mark.parametrize("method", ["turn/diff/updated/more", "hook/startedLate"])
def test_a_method_that_only_begins_like_an_unwanted_one_is_wanted(method: str) -> None:
    assert why_unwanted(method) is None
