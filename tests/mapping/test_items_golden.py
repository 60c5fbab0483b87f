"""What a client is sent for each type of item, to be read in review.

``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/mapping`` rewrites the golden file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.mapping.call import ToolItem
from codex_acp.mapping.state import SessionState
from codex_acp.wire.model import UnknownVariant
from tests.codex.server_request_samples import assert_fits
from tests.support.golden import UPDATE, assert_golden
from tests.support.path_looks import texts
from tests.support.tool_call_samples import FILES, SAMPLES, ItemSample
from tests.support.tool_calls import ZED, Json, complete, item_of, replayed, start
from tests.support.updates import NONE, V2


def updates_of(sample: ItemSample, client: ClientFeatures) -> list[Json]:
    """Live if the item is seen to start, else as it is replayed."""
    state = SessionState(client, looks=texts(FILES))
    if sample.started is None:
        return replayed(state, sample.completed)
    return [*start(state, sample.started), *complete(state, sample.completed)]


def rendered() -> str:
    lines = [
        "# What a client is sent for each type of item",
        "",
        f"Made by `{UPDATE}=1 pytest tests/mapping`: `<` is the item as Codex sends it, started",
        "and completed, or completed alone in a thread's history; `>` is what a client without",
        "any capability gets, `>>` what one of Zed's terminal convention gets where that differs,",
        "`2>` what a client of ACP v2 gets.",
        f"The files that could be read: `{json.dumps(FILES)}`.",
    ]
    for sample in SAMPLES:
        plain, zed = updates_of(sample, NONE), updates_of(sample, ZED)
        lines += ["", f"## {sample.completed['type']} {sample.case}".rstrip(), "", "```"]
        lines += [f"< {json.dumps(i)}" for i in (sample.started, sample.completed) if i is not None]
        lines += [f"> {json.dumps(update, ensure_ascii=False)}" for update in plain]
        if zed != plain:
            lines += [f">> {json.dumps(update, ensure_ascii=False)}" for update in zed]
        newer = updates_of(sample, V2)
        lines += [f"2> {json.dumps(update, ensure_ascii=False)}" for update in newer]
        lines.append("```")
    return "\n".join(lines) + "\n"


def test_the_golden_items_are_what_the_code_does() -> None:
    assert_golden("items.md", rendered())


def test_every_type_of_item_that_is_a_tool_call_has_a_sample() -> None:
    shown = {type(item_of(sample.completed)) for sample in SAMPLES}
    assert shown == set(get_args(ToolItem))
    assert UnknownVariant in shown


def test_the_samples_fit_the_schema_of_codex() -> None:
    for sample in SAMPLES:
        for item in (sample.started, sample.completed):
            if item is not None and item["type"] != "telepathy":
                assert_fits("ThreadItem", item)


def test_a_change_is_told_with_its_lines_and_the_session_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(UPDATE, raising=False)
    (tmp_path / "items.md").write_text("same\nold\n")
    with pytest.raises(pytest.fail.Exception, match="nox -s goldens") as caught:
        assert_golden(tmp_path / "items.md", "same\nnew\n")
    assert "-old\n+new" in str(caught.value)
