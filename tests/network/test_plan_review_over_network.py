"""Whether a plan is carried out is asked of whoever shows the session, with the tool call."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.network.listening_adapter import Json, JsonClient, ListeningAdapter
from tests.support.processes import processes_of

PROPOSED = [Text("<proposed_plan>\n# Tidy up\n</proposed_plan>\n")]


class Review(NamedTuple):
    """A session with a plan under review: ``first`` shows it and has the ``question``."""

    home: CodexHome
    first: JsonClient
    second: JsonClient
    where: Json
    """Params with which another client loads the session."""
    prompt: int
    question: Json


@asynccontextmanager
async def plan_under_review(folder: Path) -> AsyncIterator[Review]:
    with (
        ScriptedModel([PROPOSED, [Text("Tidied.")]]) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, folder, "--keep", "1h") as adapter,
    ):
        async with adapter.connect() as first, adapter.connect() as second:
            session = await first.new_session(home.workspace)
            await first.outcome(await first.prompt(session, "/plan"))
            prompt = await first.prompt(session, "Tidy up.")
            where: Json = {"sessionId": session, "cwd": str(home.workspace), "mcpServers": []}
            yield Review(home, first, second, where, prompt, await first.question())


async def test_a_plan_is_asked_about_again_of_whoever_takes_the_session_over(
    tmp_path: Path,
) -> None:
    async with plan_under_review(tmp_path) as (_, first, second, where, prompt, stale):
        await second.ask("session/load", where)
        asked = await second.question()
        await first.choose(stale, "reject_once")
        await second.choose(asked, "allow_once")
        assert (await first.outcome(prompt))["result"]["stopReason"] == "end_turn"
        await second.until(lambda: second.text(where["sessionId"]).endswith("Tidied."))
        calls = [u["update"] for u in second.updates if "toolCallId" in u["update"]]
        assert [call["sessionUpdate"] for call in calls] == ["tool_call", "tool_call_update"]
        assert calls[-1]["status"] == "completed"


async def test_a_session_whose_codex_died_under_a_plan_is_loaded_and_asks_about_the_plan_again(
    tmp_path: Path,
) -> None:
    async with plan_under_review(tmp_path) as (home, _, second, where, *_):
        for codex in processes_of("app-server", f"CODEX_HOME={home.env['CODEX_HOME']}"):
            os.kill(codex, signal.SIGKILL)
        with anyio.fail_after(60):  # until the adapter knows that Codex died, a load may fail
            while "error" in await second.outcome(await second.start("session/load", where)):
                pass
        await second.choose(await second.question(), "allow_once")
        await second.until(lambda: second.text(where["sessionId"]).endswith("Tidied."))
