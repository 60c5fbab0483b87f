"""The archive of sessions and their status with the real Codex, in both versions of ACP."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.testing import Gate, Text
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench
from tests.e2e.v2_bench import INFO

NOT_FOUND = -32002
INVALID_PARAMS = -32602
INVALID_REQUEST = -32600
INTERNAL = -32603

NOBODY = "01a20182-77c4-7a20-923c-364d64039d61"
"""Looks like an id of Codex, and is none."""

EVERY_VERSION = pytest.mark.parametrize("version", [1, 2])


def introduced(adapter: RawAdapter, version: int) -> Message:
    """The handshake; what the agent says that it can do with sessions."""
    params = {"protocolVersion": version, "info": INFO, "clientInfo": INFO}
    result: Message = adapter.ask("initialize", params)["result"]
    assert result["protocolVersion"] == version
    if version == 1:
        found: Message = result["agentCapabilities"]["sessionCapabilities"]
    else:
        found = result["capabilities"]["session"]
    return found


def prompted(adapter: RawAdapter, session: str, text: str) -> None:
    """Run a prompt until the model has answered."""
    said = lambda m: "agent_message_chunk" in str(m)  # noqa: E731
    request = adapter.start_prompt(session, text)
    adapter.wait_for(said)
    if not any(m.get("id") == request and "method" not in m for m in adapter.messages):
        adapter.answer(request)


def listed(adapter: RawAdapter, **params: object) -> dict[str, bool]:
    """Session → whether it is archived, of all pages."""
    found: dict[str, bool] = {}
    cursor: dict[str, Any] = {}
    while True:
        result = adapter.ask("session/list", {**params, **cursor})["result"]
        found |= {each["sessionId"]: each["archived"] for each in result["sessions"]}
        if result.get("nextCursor") is None:
            return found
        cursor = {"cursor": result["nextCursor"]}


def code_of(answer: Message) -> int:
    code: int = answer["error"]["code"]
    return code


@EVERY_VERSION
def test_an_archived_session_is_hidden_until_it_is_taken_back(version: int) -> None:
    with SessionBench([[Text("One.")], [Text("Two.")]]) as bench, RawAdapter(bench.home.env) as a:
        assert {"archive", "status"} <= introduced(a, version).keys()
        session, other = bench.new(a), bench.new(a)
        prompted(a, session, "Keep this.")
        prompted(a, other, "And this.")
        known = a.ask("session/status", {"sessionId": session})["result"]
        state = {"state": {"state": "idle", "background": []}} if version == 2 else {}
        assert known == {"status": "open", **state}

        assert a.ask("session/archive", {"sessionId": session})["result"] == {}
        assert a.ask("session/status", {"sessionId": session})["result"]["status"] == "saved"
        assert listed(a) == listed(a, archived="exclude") == {other: False}
        assert listed(a, archived="only") == {session: True}
        assert listed(a, archived="include") == {other: False, session: True}
        assert listed(a, archived="include", cwd="/nowhere") == {}
        refused = bench.ask(a, "session/resume", session)
        assert code_of(refused) == INVALID_REQUEST
        assert "session/unarchive" in refused["error"]["message"]
        assert a.ask("session/archive", {"sessionId": session})["result"] == {}, "again is fine"

        assert a.ask("session/unarchive", {"sessionId": session.upper()})["result"] == {}
        assert a.ask("session/unarchive", {"sessionId": session})["result"] == {}, "again is fine"
        assert listed(a, archived="include") == {other: False, session: False}
        assert a.ask("session/status", {"sessionId": session})["result"]["status"] == "saved"
        assert "result" in bench.ask(a, "session/resume", session)
        assert a.ask("session/unarchive", {"sessionId": session})["result"] == {}, "open as it is"


def test_archiving_ends_what_runs_and_keeps_what_nobody_has_prompted() -> None:
    with SessionBench([[Gate("held"), Text("Late.")]]) as bench, bench.adapter() as a:
        session, silent = bench.new(a), bench.new(a)
        prompt = a.start_prompt(session)
        bench.model.wait_for_gate("held", 30)
        archive = a.start("session/archive", {"sessionId": session})
        assert a.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert a.answer(archive)["result"] == {}
        gone = a.ask("session/prompt", {"sessionId": session, "prompt": []})
        assert code_of(gone) == NOT_FOUND
        assert not [m for m in a.messages if "was archived" in str(m)], "who did it knows it"

        answer = a.ask("session/archive", {"sessionId": silent})
        if "error" in answer:  # an older Codex stores a thread with its first turn
            assert code_of(answer) == INTERNAL
            assert "Codex could not archive the session" in answer["error"]["message"]
        else:
            assert listed(a, archived="only") == {session: True, silent: True}


@EVERY_VERSION
def test_what_cannot_be_archived_is_a_clear_error(version: int) -> None:
    with SessionBench() as bench, RawAdapter(bench.home.env) as a:
        introduced(a, version)
        for method in ("session/archive", "session/unarchive", "session/status"):
            for session in (NOBODY, "nonsense", "../../etc", ""):
                answer = a.ask(method, {"sessionId": session})
                assert code_of(answer) == NOT_FOUND, (method, session, answer)
                assert answer["error"]["data"]["sessionId"] == session
            for params in ({}, {"sessionId": None}, {"sessionId": 7}):
                assert code_of(a.ask(method, params)) == INVALID_PARAMS
        for wanted in ("everything", "_mine", True):
            answer = a.ask("session/list", {"archived": wanted})
            assert code_of(answer) == INVALID_PARAMS, answer
            assert "archived" in str(answer["error"])
        answer = a.ask("session/list", {"cursor": "archived:nonsense", "archived": "include"})
        assert code_of(answer) == INVALID_PARAMS
        assert code_of(a.ask("session/list", {"cursor": "archived:"})) == INVALID_PARAMS


def test_a_session_that_another_process_has_open_is_not_archived_under_its_feet() -> None:
    with SessionBench([[Text("One.")], [Text("Two.")]]) as bench, bench.adapter() as mine:
        session = bench.new(mine)
        bench.run(mine, session, "Begin.")
        with bench.adapter() as other:
            answer = other.ask("session/archive", {"sessionId": session})
            if "result" in answer:  # a Codex that knows of no writers
                assert listed(other, archived="only") == {session: True}
                return
            assert code_of(answer) == -32600
            assert answer["error"]["data"]["reason"] == "thread_active_writer"
        assert bench.run(mine, session, "Go on.") == "Two."
