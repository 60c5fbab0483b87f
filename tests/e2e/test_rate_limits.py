"""The account's limits, as the real Codex hears of them from the model's server."""

from __future__ import annotations

import pytest

from codex_acp.testing import Fail, Text, Usage
from tests.e2e.either_version import EitherVersion

LIMITED = Fail(
    status=429,
    headers={
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1795400000",
        "x-codex-secondary-used-percent": "40",
        "x-codex-secondary-window-minutes": "10080",
    },
    body='{"error": {"type": "usage_limit_reached", "plan_type": "plus"}}',
)


@pytest.mark.parametrize("version", [1, 2])
def test_limits_are_told_with_the_use_of_the_context(version: int) -> None:
    with EitherVersion(version, [[Text("Hi."), Usage(100, 20)], [LIMITED]]) as it:
        session = it.new()
        it.prompt(session, "Begin.")
        (before,) = it.updates(session, "usage_update")
        assert before["_meta"] == {"usage": before["_meta"]["usage"]}
        it.adapter.answer(it.adapter.start_prompt(session, "Go on."))
        while len(told := it.updates(session, "usage_update")) < 2:
            it.adapter.wait_for(lambda m: "usage_update" in str(m.get("params")))
        assert {key: told[-1][key] for key in ("used", "size")} == {
            "used": before["used"], "size": before["size"],
        }  # fmt: skip
        assert told[-1]["_meta"]["codex-acp-sdk"]["rateLimits"] == [
            {
                "id": "codex",
                "windows": [
                    {"usedPercent": 100, "windowMinutes": 300, "resetsAt": 1_795_400_000},
                    {"usedPercent": 40, "windowMinutes": 10_080},
                ],
            }
        ]
