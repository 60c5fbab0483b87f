"""Whether a plan is carried out is asked of whoever shows the session, with the tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.network.listening_adapter import ListeningAdapter

if TYPE_CHECKING:
    import pytest

PROPOSED = [Text("<proposed_plan>\n# Tidy up\n</proposed_plan>\n")]


async def test_a_plan_is_asked_about_again_of_whoever_takes_the_session_over(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        ScriptedModel([PROPOSED, [Text("Tidied.")]]) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path_factory.mktemp("net"), "--keep", "1h") as adapter,
    ):
        async with adapter.connect() as first, adapter.connect() as second:
            session = await first.new_session(home.workspace)
            await first.outcome(await first.prompt(session, "/plan"))
            prompt = await first.prompt(session, "Tidy up.")
            stale = await first.question()
            where = {"sessionId": session, "cwd": str(home.workspace), "mcpServers": []}
            await second.ask("session/load", where)
            asked = await second.question()
            await first.choose(stale, "reject_once")
            await second.choose(asked, "allow_once")
            assert (await first.outcome(prompt))["result"]["stopReason"] == "end_turn"
            await second.until(lambda: second.text(session).endswith("Tidied."))
            calls = [u["update"] for u in second.updates if "toolCallId" in u["update"]]
            assert [call["sessionUpdate"] for call in calls] == ["tool_call", "tool_call_update"]
            assert calls[-1]["status"] == "completed"
