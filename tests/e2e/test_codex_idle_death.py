"""Codex dies while nobody asks it anything: the next prompt runs on another, and never twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_acp.testing import (
    AppServerScript,
    CodexHome,
    Exit,
    Expect,
    ScriptedCodex,
    ScriptedModel,
    Text,
)
from tests.e2e.raw_adapter import RawAdapter
from tests.support.processes import kill_without_a_last_read

TIMES = 3
"""Whether the death is seen before the prompt is written is a matter of microseconds."""


@pytest.mark.attack("app-server")
def test_a_prompt_that_is_sent_as_an_idle_codex_dies_runs_on_the_next() -> None:
    script = [[Text(f"{number}")] for number in range(TIMES + 1)]
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url) as home,
        RawAdapter(home.env) as adapter,
    ):
        adapter.initialize()
        session = adapter.new_session(home.workspace)
        assert "result" in adapter.answer(adapter.start_prompt(session))
        for _ in range(TIMES - 1):  # a third start within a minute is the last
            kill_without_a_last_read(adapter.codex())
            answer = adapter.answer(adapter.start_prompt(session))
            assert answer.get("result", {}).get("stopReason") == "end_turn", answer
        assert len(model.requests) == TIMES


@pytest.mark.parametrize("version", [1, 2])
def test_a_prompt_that_a_dying_codex_has_read_is_not_run_again(
    tmp_path: Path, version: int
) -> None:
    dies = AppServerScript(Expect("thread/start"), Expect("turn/start", silent=True), Exit(3))
    codex = ScriptedCodex(tmp_path, dies)
    env = {**os.environ, "CODEX_PATH": str(codex.path)}
    with RawAdapter(env) as adapter:
        in_v2 = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
        adapter.initialize() if version == 1 else adapter.result("initialize", in_v2)
        session = adapter.new_session(tmp_path)
        error = adapter.answer(adapter.start_prompt(session))["error"]
        assert error["code"] == -32603
        assert "status 3" in error["message"]
        assert error["data"]["reason"] == "agentLost"
        assert "run again" not in adapter.stderr
        assert len(codex.record().requests("turn/start")) == 1
