"""What a client is sent for each notification of Codex, to be read in review.

``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/mapping`` rewrites the golden file.
"""

from __future__ import annotations

import json

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS
from codex_acp.mapping.notifications import Ignored
from codex_acp.mapping.state import SessionState
from tests.codex.server_request_samples import assert_fits
from tests.support.golden import UPDATE, assert_golden
from tests.support.notification_samples import SAMPLES, Sample
from tests.support.updates import ALL, NONE, ROWS, V2, Json, step

OF_TOOL_CALLS = {
    "item/commandExecution/outputDelta",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
}
"""What belongs to the tool call of an item; see the tests of the items."""


def updates_of(sample: Sample, client: ClientFeatures) -> list[Json]:
    state = SessionState(client)
    for method, params in sample.before:
        step(state, method, params)
    return step(state, sample.method, sample.params)


def lines_of(updates: list[Json]) -> list[str]:
    return [json.dumps(update, ensure_ascii=False) for update in updates] or ["nothing"]


def name_of(sample: Sample) -> str:
    item = sample.params.get("item", {}).get("type")
    return ", ".join(part for part in (sample.method, item, sample.case) if part)


def rendered() -> str:
    lines = [
        "# What a client is sent for each notification of Codex",
        "",
        f"Made by `{UPDATE}=1 pytest tests/mapping`, from one sample of each case: `<` is what",
        "Codex sends, `>` what a client without any capability gets, `>>` what one with all of",
        "them gets where that differs, `2>` what a client of ACP v2 gets. Notifications that are",
        "ignored are in notifications.md.",
    ]
    for sample in SAMPLES:
        plain, rich = updates_of(sample, NONE), updates_of(sample, ALL)
        lines += ["", f"## {name_of(sample)}", "", "```"]
        lines += [f"< {json.dumps(params)}" for _, params in sample.before]
        lines.append(f"< {json.dumps(sample.params)}")
        lines += [f"> {line}" for line in lines_of(plain)]
        if rich != plain:
            lines += [f">> {line}" for line in lines_of(rich)]
        lines += [f"2> {line}" for line in lines_of(updates_of(sample, V2))]
        lines.append("```")
    return "\n".join(lines) + "\n"


def test_the_golden_events_are_what_the_code_does() -> None:
    assert_golden("events.md", rendered())


def test_every_notification_that_is_shown_has_a_sample() -> None:
    shown = {method for method, row in ROWS.items() if not isinstance(row, Ignored)}

    assert shown - OF_TOOL_CALLS <= {sample.method for sample in SAMPLES}


@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_a_sample_is_what_codex_could_send(sample: Sample) -> None:
    for method, params in [*sample.before, (sample.method, sample.params)]:
        name = SERVER_NOTIFICATIONS[method].params
        assert name is not None
        assert_fits(name, params)
