"""Sessions that nobody has prompted yet: opened again, copied, and found after a restart."""

from __future__ import annotations

import pytest

from codex_acp.testing import Text
from tests.e2e.session_bench import SessionBench, shown_history, updates_of
from tests.e2e.v2_bench import V2Bench


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_one_that_is_open_is_opened_again_with_an_empty_history_and_no_title(method: str) -> None:
    with SessionBench([[Text("Hello.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        answer = bench.ask(adapter, method, session)
        assert answer["result"]["configOptions"]
        assert shown_history(updates_of(adapter.messages, session)) == []
        assert adapter.updates("session_info_update") == []
        assert bench.run(adapter, session, "Who is there?") == "Hello."
        (listed,) = adapter.result("session/list", {})["sessions"]
        assert listed["title"] == "Who is there?"


def test_a_copy_of_one_is_a_session_of_its_own() -> None:
    with SessionBench([[Text("Hello.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        copied = bench.ask(adapter, "session/fork", session)["result"]["sessionId"]
        assert copied != session
        assert bench.run(adapter, copied, "Who is there?") == "Hello."


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_one_is_found_by_the_next_adapter(method: str, closed: bool) -> None:
    with SessionBench([[Text("Hello.")]]) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            if closed:
                adapter.result("session/close", {"sessionId": session})
            adapter.end_input()
            adapter.wait()
        with bench.adapter() as adapter:
            assert adapter.result("session/list", {})["sessions"] == []
            assert "result" in bench.ask(adapter, method, session)
            assert shown_history(updates_of(adapter.messages, session)) == []
            assert bench.run(adapter, session, "Who is there?") == "Hello."


@pytest.mark.parametrize("history", [{}, {"replayFrom": {"type": "start"}}])
def test_a_client_of_v2_opens_one_again(history: dict[str, object]) -> None:
    with V2Bench([[Text("Hello.")]]) as bench:
        params = {"sessionId": bench.session, "cwd": str(bench.home.workspace), **history}
        assert bench.ask("session/resume", params)["configOptions"]
        assert not {"user_message", "agent_message"} & {u["sessionUpdate"] for u in bench.updates}
        bench.prompt("Who is there?")
        bench.idle()
        assert bench.text() == "Hello."
