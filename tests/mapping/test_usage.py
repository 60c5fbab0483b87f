"""Tokens: how full the context is, and what one turn has used."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from codex_acp.codex.types import TokenUsageBreakdown
from codex_acp.mapping.session import turn_usage
from codex_acp.mapping.state import SessionState
from tests.support.updates import Json, step

UNSTABLE = Path(__file__).parents[2] / "schema" / "acp" / "v1_unstable.json"


def counts(total: int, *, inputs: int = 0, output: int = 0, written: int = 0) -> Json:
    return {
        "totalTokens": total,
        "inputTokens": inputs,
        "cachedInputTokens": inputs // 2,
        "cacheWriteInputTokens": written,
        "outputTokens": output,
        "reasoningOutputTokens": output // 2,
    }


def updated(state: SessionState, last: int, total: int, window: int | None) -> list[Json]:
    usage = {"last": counts(last), "total": counts(total), "modelContextWindow": window}
    params = {"threadId": "t", "turnId": "u", "tokenUsage": usage}
    return step(state, "thread/tokenUsage/updated", params)


def test_what_the_last_request_held_of_the_models_window_is_the_use_of_the_context() -> None:
    (update,) = updated(SessionState(), 1_000, 5_000, 272_000)
    assert update["sessionUpdate"] == "usage_update"
    assert (update["used"], update["size"]) == (1_000, 272_000)
    assert update["_meta"]["usage"]["totalTokens"] == 5_000, "where acpx reads it"


def test_without_a_known_window_nothing_is_sent_but_the_tokens_are_counted() -> None:
    for window in (None, 0, -1):
        state = SessionState()

        assert updated(state, 1_000, 5_000, window) == []
        assert state.total_usage is not None
        assert state.total_usage.total_tokens == 5_000


def test_a_context_is_never_empty_so_a_count_of_none_is_not_shown() -> None:
    for nothing in (0, -5):
        assert updated(SessionState(), nothing, 5_000, 100) == []


def test_what_has_not_changed_is_not_sent_again() -> None:
    state = SessionState()
    updated(state, 1_000, 5_000, 272_000)

    assert updated(state, 1_000, 5_000, 272_000) == []
    assert updated(state, 1_000, 6_000, 272_000) != []
    assert updated(state, 1_000, 6_000, 400_000) != []
    assert updated(state, 900, 6_900, 400_000) != []


def breakdown(
    total: int, inputs: int = 0, output: int = 0, written: int = 0
) -> TokenUsageBreakdown:
    return TokenUsageBreakdown.model_validate(
        counts(total, inputs=inputs, output=output, written=written)
    )


def test_a_turn_has_used_what_the_total_has_grown_by() -> None:
    before, after = breakdown(100, 80, 20), breakdown(160, 120, 40, 8)

    used, first = turn_usage(before, after), turn_usage(None, after)

    assert used is not None
    assert first is not None
    assert [*used.values()] == [60, 40, 20, 10, 20, 8]
    assert [*first.values()] == [160, 120, 40, 20, 60, 8]


def test_a_turn_without_a_report_has_no_usage() -> None:
    before = breakdown(100)

    assert turn_usage(None, None) is None
    assert turn_usage(before, before) is None


@given(st.tuples(*[st.integers(0, 10**12)] * 4), st.tuples(*[st.integers(0, 10**12)] * 4))
def test_a_turns_usage_always_fits_acps_schema(
    before: tuple[int, int, int, int], after: tuple[int, int, int, int]
) -> None:
    used = turn_usage(breakdown(*before), breakdown(*after))

    assert used is not None
    VALIDATOR.validate(used)


VALIDATOR = Draft202012Validator(
    {"$ref": "#/$defs/Usage", "$defs": json.loads(UNSTABLE.read_text("utf-8"))["$defs"]}
)


def limits(state: SessionState, **news: object) -> list[Json]:
    params = {"rateLimits": {"limitId": "codex", **news}}
    updates = step(state, "account/rateLimits/updated", params)
    return [update for update in updates if update["sessionUpdate"] == "usage_update"]


def told(update: Json) -> list[Json]:
    found: list[Json] = update["_meta"]["codex-acp-sdk"]["rateLimits"]
    return found


def test_limits_are_told_once_the_context_is_known_and_what_is_not_said_stays() -> None:
    state = SessionState()
    window = {"usedPercent": 10, "windowDurationMins": 300, "resetsAt": 5}
    assert limits(state, primary=window, planType="plus") == []
    (first,) = updated(state, 1_000, 5_000, 272_000)
    assert (first["used"], first["size"]) == (1_000, 272_000)
    spans = [{"usedPercent": 10, "windowMinutes": 300, "resetsAt": 5}]
    assert told(first) == [{"id": "codex", "planType": "plus", "windows": spans}]

    assert limits(state, primary=window) == [], "that is known"
    assert limits(state) == [], "nothing is said"
    credit = {"hasCredits": True, "unlimited": False, "balance": "12.5"}
    (second,) = limits(state, credits=credit, limitName="Codex")
    assert (second["used"], second["size"]) == (1_000, 272_000)
    assert told(second) == [
        {
            "id": "codex",
            "planType": "plus",
            "name": "Codex",
            "windows": spans,
            "credits": {"unlimited": False, "balance": "12.5"},
        }
    ]
    (third,) = limits(state, limitId="other", primary={"usedPercent": 1})
    assert [limit["id"] for limit in told(third)] == ["codex", "other"]


def test_a_limit_counts_as_reached_only_where_that_was_said_last() -> None:
    state = SessionState()
    updated(state, 1_000, 5_000, 272_000)
    (full,) = limits(state, rateLimitReachedType="rate_limit_reached")
    assert told(full) == [{"id": "codex", "reached": "rate_limit_reached"}]
    (again,) = limits(state, primary={"usedPercent": 3})
    assert told(again) == [{"id": "codex", "windows": [{"usedPercent": 3}]}]


def test_a_limit_of_which_nothing_is_known_is_none() -> None:
    state = SessionState()
    updated(state, 1_000, 5_000, 272_000)
    assert limits(state) == []
    assert updated(state, 2_000, 6_000, 272_000)[0]["_meta"].keys() == {"usage"}
