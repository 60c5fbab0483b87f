"""Every requirement of ACP's compatibility kit is met by the adapter, with the real Codex."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.adapter_bench import COMMAND
from tests.tck.requirements import NOT_HERE, REQUIREMENTS, Requirement, table
from tests.tck.world import Skipped, World

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
NOT_OFFERED = "PROMPTCAP-002"
ROWS = [(version, each) for each in REQUIREMENTS for version in each.ids]


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[int, World]]:
    with World([COMMAND], 1) as first, World([COMMAND], 2) as second:
        yield {1: first, 2: second}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("version", "requirement"),
    ROWS,
    ids=[f"v{version}-{'-'.join(each.ids[version])}" for version, each in ROWS],
)
def test_the_requirement_is_met(
    worlds: dict[int, World], version: int, requirement: Requirement
) -> None:
    if NOT_OFFERED in requirement.ids[version]:
        with pytest.raises(Skipped):
            requirement.check(worlds[version])
    else:
        requirement.check(worlds[version])


def test_the_page_has_each_requirement_and_each_that_is_left_out() -> None:
    page = PAGE.read_text()
    assert table() in page
    for ids, why in NOT_HERE.items():
        assert f"| {ids} | {why} |" in page
