"""What a newer Codex may say instead never raises, and never becomes an update that is wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.errors import InvalidPayload
from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import SAMPLES, Sample
from tests.support.updates import ALL, NONE, step

UNKNOWN = "notYetInvented"


def variants(value: Any) -> Iterator[Any]:
    """``value`` with one string, or one tagged object, replaced by one that nobody knows."""
    if isinstance(value, str):
        yield UNKNOWN
    elif isinstance(value, dict):
        if "type" in value:
            yield {"type": UNKNOWN, "id": value.get("id", "item"), "more": [1, None]}
        for key, inner in value.items():
            for other in variants(inner):
                yield {**value, key: other}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for other in variants(inner):
                yield [*value[:place], other, *value[place + 1 :]]


@pytest.mark.parametrize("client", [NONE, ALL], ids=["none", "all"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.method} {s.case}")
def test_any_value_may_be_one_that_this_schema_does_not_know(
    sample: Sample, client: ClientFeatures
) -> None:
    read = 0
    for params in variants(sample.params):
        state = SessionState(client)
        for method, before in sample.before:
            step(state, method, copy.deepcopy(before))
        try:
            step(state, sample.method, params)
        except InvalidPayload:
            continue  # what cannot be read reaches no row
        read += 1

    assert read
