"""How a session is opened: loaded, resumed or new, and what is kept of the way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.acp import types
from codex_acp.errors import ErrorReply, MisuseError, PeerError, RpcError
from codex_acp.runtime import (
    AgentRuntime,
    AnswerTimeout,
    AuthenticationRequired,
    MethodNotOffered,
    SessionBusy,
    SessionStore,
    Update,
    kind_of,
)
from tests.runtime.scripted_agent import ScriptedAgent, chunk

WAIT = 60.0
BOTH: dict[str, Any] = {"resume": {}}


async def test_without_an_id_a_session_is_new_and_in_the_directory_that_was_named(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent(load=True, session=BOTH)
    seen: list[types.NewSessionRequest] = []

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        seen.append(request)
        return types.NewSessionResponse(session_id="n")

    agent.on(new=new)
    async with AgentRuntime() as runtime:
        async with runtime.open(agent.spec(), cwd=tmp_path / "a" / "..") as session:
            assert (session.opened.how, session.opened.reason) == ("new", None)
            assert session.cwd == str(tmp_path)
        async with runtime.open(agent.spec()) as session:
            assert session.cwd == os.getcwd()  # noqa: PTH109
    assert [request.cwd for request in seen] == [str(tmp_path), os.getcwd()]  # noqa: PTH109
    assert seen[0].mcp_servers == []


@pytest.mark.parametrize(
    ("load", "resume", "how"),
    [(True, True, "load"), (True, False, "load"), (False, True, "resume")],
)
async def test_an_earlier_session_is_loaded_else_resumed(
    load: bool, resume: bool, how: str
) -> None:
    agent = ScriptedAgent(load=load, session=BOTH if resume else {})
    async with (
        AgentRuntime() as runtime,
        runtime.open(agent.spec(), session_id="old", cwd="/") as session,
    ):
        assert session.opened.how == how
        assert session.opened.reason is None
        assert session.session_id == "old"
    assert agent.calls == ["initialize", f"session/{how}"]


async def test_an_agent_that_can_do_neither_gives_a_new_session_and_the_reason() -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime, runtime.open(agent.spec(), session_id="old") as session:
        assert session.opened.how == "new"
        assert session.opened.reason is not None
        assert "does not offer session/load or session/resume" in session.opened.reason
        assert session.session_id == "s1"


@pytest.mark.parametrize("how", ["load", "resume"])
async def test_a_way_back_that_fails_gives_a_new_session_and_the_reason(how: str) -> None:
    agent = ScriptedAgent(load=how == "load", session=BOTH)

    async def gone(_request: object) -> Any:
        agent.say("old", "half of ")
        raise RpcError(-32002, "no such session")

    agent.on(load=gone, resume=gone)
    async with AgentRuntime() as runtime, runtime.open(agent.spec(), session_id="old") as session:
        assert session.opened.how == "new"
        assert session.opened.reason == f"session/{how} failed: no such session (-32002)"
        assert session.session_id == "s1"
        assert session.history == ()
        assert (await session.run("Go.")).text == "Hello."


async def test_a_load_that_is_never_answered_is_an_error_since_the_session_may_be_there() -> None:
    agent = ScriptedAgent(load=True)

    async def never(_request: object) -> types.LoadSessionResponse:
        await asyncio.Event().wait()
        raise AssertionError

    agent.on(load=never)
    async with AgentRuntime(answer_seconds=0.05) as runtime:
        with pytest.raises(AnswerTimeout, match="session/load"):
            await runtime.open(agent.spec(), session_id="old")
    assert "session/new" not in agent.calls


@pytest.mark.parametrize("data", [None, {"reason": "agentLost"}])
async def test_an_agent_that_fails_to_load_a_session_gets_no_new_one_in_its_place(
    data: Any,
) -> None:
    agent = ScriptedAgent(load=True)

    async def fails(_request: object) -> types.LoadSessionResponse:
        raise RpcError(-32603, "the disk is full", data)

    agent.on(load=fails)
    async with AgentRuntime() as runtime:
        with pytest.raises(ErrorReply, match="the disk is full"):
            await runtime.open(agent.spec(), session_id="old")
    assert "session/new" not in agent.calls


def busy(times: int | None, reason: str = "session_busy") -> Callable[[object], Any]:
    """``session/load`` of a session that is busy the first times, or always."""
    left = iter(range(times)) if times is not None else iter(int, 1)

    async def load(_request: object) -> types.LoadSessionResponse:
        for _ in left:
            data = {"reason": reason, "holder": {"pid": 7, "name": "an editor"}}
            raise RpcError(-32600, "something runs in the session 'old'", data)
        return types.LoadSessionResponse()

    return load


@pytest.mark.parametrize("reason", ["session_busy", "thread_active_writer"])
async def test_a_busy_session_is_waited_for_and_loaded(reason: str) -> None:
    agent = ScriptedAgent(load=True)
    agent.on(load=busy(2, reason))
    async with AgentRuntime() as runtime, runtime.open(agent.spec(), session_id="old") as session:
        assert (session.opened.how, session.session_id) == ("load", "old")
        assert (await session.run("Go.")).text == "Hello."
    assert agent.calls[:4] == ["initialize", *["session/load"] * 3]


@pytest.mark.parametrize("or_new", [True, False])
async def test_a_session_that_stays_busy_is_an_error_and_never_a_new_one(or_new: bool) -> None:
    agent = ScriptedAgent(load=True)
    agent.on(load=busy(None))
    async with AgentRuntime(busy_seconds=0.15) as runtime:
        with pytest.raises(SessionBusy, match="something runs in") as caught:
            await runtime.open(agent.spec(), session_id="old", or_new=or_new)
    assert isinstance(caught.value.data, dict)
    assert caught.value.data["holder"] == {"pid": 7, "name": "an editor"}
    assert agent.calls[:3] == ["initialize", "session/load", "session/load"]
    assert "session/new" not in agent.calls


async def test_a_session_that_stays_busy_is_forked_where_the_program_said_so(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent(load=True, session={"fork": {}})
    agent.on(load=busy(None))
    store = SessionStore(tmp_path / "sessions.json")
    async with (
        AgentRuntime(busy_seconds=0, store=store) as runtime,
        runtime.open(
            agent.spec(), session_id="old", key="chat", fork_if_busy=True, cwd="/"
        ) as session,
    ):
        assert (session.opened.how, session.session_id) == ("fork", "fork-of-old")
        assert session.opened.reason is not None
        assert "something runs in the session 'old'" in session.opened.reason
        assert (await session.run("Go.")).text == "Hello."
    assert [(asked.session_id, asked.cwd) for asked in agent.forks] == [("old", "/")]
    found = store.find("scripted", "chat")
    assert found is not None
    assert found.session_id == "fork-of-old"


@pytest.mark.parametrize("or_new", [True, False])
async def test_an_agent_that_cannot_fork_says_so_where_a_copy_was_wanted(or_new: bool) -> None:
    agent = ScriptedAgent(load=True)
    agent.on(load=busy(None))
    async with AgentRuntime(busy_seconds=0) as runtime:
        with pytest.raises(MethodNotOffered, match="session/fork"):
            await runtime.open(agent.spec(), session_id="old", fork_if_busy=True, or_new=or_new)
    assert "session/new" not in agent.calls


async def test_no_more_sessions_are_opened_at_once_than_the_program_said() -> None:
    agent = ScriptedAgent()
    opening: list[object] = []
    ids = iter("abcdef")
    most = 0

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        nonlocal most
        opening.append(request)
        most = max(most, len(opening))
        for _ in range(100):
            await asyncio.sleep(0)
        opening.remove(request)
        return types.NewSessionResponse(session_id=next(ids))

    agent.on(new=new)
    async with AgentRuntime(opening_at_once=2) as runtime:
        spec = agent.spec(shared=True)
        sessions = await asyncio.gather(*(runtime.open(spec) for _ in range(6)))
        assert {session.session_id for session in sessions} == set("abcdef")
    assert most == 2
    with pytest.raises(MisuseError, match="opening_at_once"):
        AgentRuntime(opening_at_once=0)


async def test_who_waits_for_a_busy_session_holds_up_nobody_else() -> None:
    agent = ScriptedAgent(load=True)
    asked = asyncio.Event()

    async def load(_request: object) -> types.LoadSessionResponse:
        asked.set()
        raise RpcError(-32600, "something runs", {"reason": "session_busy"})

    agent.on(load=load)
    async with AgentRuntime(opening_at_once=1, busy_seconds=WAIT) as runtime:
        waiting = asyncio.ensure_future(runtime.open(agent.spec(), session_id="old"))
        with anyio.fail_after(WAIT):
            await asked.wait()
            async with runtime.open(agent.spec()) as session:
                assert session.opened.how == "new"
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_who_wants_that_session_or_none_gets_the_error() -> None:
    agent = ScriptedAgent(load=True)

    async def gone(_request: object) -> types.LoadSessionResponse:
        raise RpcError(-32002, "no such session")

    agent.on(load=gone)
    async with AgentRuntime() as runtime:
        with pytest.raises(ErrorReply, match="no such session"):
            await runtime.open(agent.spec(), session_id="old", or_new=False)
        with pytest.raises(MethodNotOffered):
            await runtime.open(ScriptedAgent().spec(), session_id="old", or_new=False)
    assert "session/new" not in agent.calls


async def test_replayed_history_is_kept_apart_from_live_updates() -> None:
    agent = ScriptedAgent(load=True)

    async def load(request: types.LoadSessionRequest) -> types.LoadSessionResponse:
        asked = types.UserMessageChunkSessionUpdate(content=types.TextContentBlock(text="Earlier?"))
        agent.say(request.session_id, asked, "Earlier.")
        loop = asyncio.get_running_loop()
        # Right behind the answer, in the same breath.
        loop.call_soon(lambda: loop.call_soon(lambda: agent.say(request.session_id, "Now.")))
        return types.LoadSessionResponse()

    agent.on(load=load)
    async with AgentRuntime() as runtime, runtime.open(agent.spec(), session_id="old") as session:
        live: list[Update] = []
        news = asyncio.Event()
        session.listen(live.append)
        session.listen(lambda _: news.set())
        with anyio.fail_after(WAIT):
            await news.wait()
        assert [kind_of(update) for update in session.history] == [
            "user_message_chunk",
            "agent_message_chunk",
        ]
        assert session.history[1] == chunk("Earlier.")
        assert live == [chunk("Now.")]
        assert (await session.run("Go.")).text == "Hello."


@pytest.mark.attack("agent")
async def test_an_agent_whose_history_never_stops_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("codex_acp.runtime.results.ANSWER_LIMIT", 100_000)
    agent = ScriptedAgent(load=True)

    async def load(request: types.LoadSessionRequest) -> types.LoadSessionResponse:
        for number in range(100):
            agent.say(request.session_id, f"{number} " + "x" * 10_000)
            await agent.side.drain()
        return types.LoadSessionResponse()

    agent.on(load=load)
    async with AgentRuntime() as runtime, runtime.open(agent.spec(), session_id="old") as session:
        texts = [update.content.text for update in session.history]  # type: ignore[union-attr] # chunks
        assert 5 <= len(texts) < 10
        assert texts[-1].startswith("99 ")
        assert f"its first {100 - len(texts)} updates are left out" in caplog.text


async def test_updates_that_come_before_the_answer_to_session_new_are_not_lost() -> None:
    agent = ScriptedAgent()
    command = types.AvailableCommand(name="plan", description="Make a plan")

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        agent.say("s1", types.AvailableCommandsUpdateSessionUpdate(available_commands=[command]))
        return types.NewSessionResponse(session_id="s1")

    agent.on(new=new)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert session.commands == (command,)


@pytest.mark.attack("agent")
async def test_huge_updates_that_come_before_the_answer_to_session_new_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codex_acp.runtime.agent_process.HELD_BYTES", 1_000)
    agent = ScriptedAgent()
    titles = ["a" * 600, "b" * 600, "c" * 600]

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        agent.say("s1", *(types.SessionInfoUpdateSessionUpdate(title=title) for title in titles))
        return types.NewSessionResponse(session_id="s1")

    agent.on(new=new)
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert session.title == titles[1]


async def test_title_and_usage_are_what_the_agent_last_said() -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        news = asyncio.Event()
        session.listen(lambda u: news.set() if kind_of(u) == "usage_update" else None)
        agent.say(
            "s1",
            types.SessionInfoUpdateSessionUpdate(title="A title"),
            types.SessionInfoUpdateSessionUpdate(updated_at="2026-01-01T00:00:00Z"),
            types.UsageUpdateSessionUpdate(used=10, size=100),
        )
        with anyio.fail_after(WAIT):
            await news.wait()
        assert session.title == "A title"
        assert session.usage is not None
        assert session.usage.used == 10


async def test_a_key_finds_the_session_again_after_a_restart(tmp_path: Path) -> None:
    agent = ScriptedAgent(session=BOTH)
    path = tmp_path / "sessions.json"
    async with AgentRuntime(store=SessionStore(path)) as runtime:
        async with runtime.open(agent.spec(), key="chat 1", cwd=tmp_path) as session:
            assert session.opened.how == "new"
            first = session.session_id
        async with runtime.open(agent.spec(), key="chat 2", cwd=tmp_path) as session:
            assert session.opened.how == "new"
    async with (
        AgentRuntime(store=SessionStore(path)) as runtime,
        runtime.open(agent.spec(), key="chat 1", cwd=tmp_path) as session,
    ):
        assert (session.opened.how, session.session_id) == ("resume", first)


async def test_a_key_whose_session_is_gone_names_the_new_one(tmp_path: Path) -> None:
    agent = ScriptedAgent(session=BOTH)
    store = SessionStore(tmp_path / "sessions.json")
    async with AgentRuntime(store=store) as runtime:
        await (await runtime.open(agent.spec(), key="chat")).aclose()

        async def gone(_request: types.ResumeSessionRequest) -> types.ResumeSessionResponse:
            raise RpcError(-32002, "no such session")

        agent.on(resume=gone)
        async with runtime.open(agent.spec(), key="chat") as session:
            assert session.opened.reason is not None
            found = store.find("scripted", "chat")
            assert found is not None
            assert found.session_id == session.session_id == "s2"


async def test_a_key_without_a_store_is_a_misuse() -> None:
    async with AgentRuntime() as runtime:
        with pytest.raises(MisuseError, match="needs a store"):
            runtime.open("codex", key="chat")


async def test_what_the_agent_cannot_take_is_an_error_before_anything_is_opened() -> None:
    agent = ScriptedAgent()
    server = types.HttpMcpServer(name="m", url="http://127.0.0.1:9", headers=[])
    async with AgentRuntime() as runtime:
        with pytest.raises(MethodNotOffered, match="additional directories"):
            await runtime.open(agent.spec(), additional_directories=["/tmp"])
        with pytest.raises(MethodNotOffered, match="HttpMcpServer"):
            await runtime.open(agent.spec(), mcp_servers=[server])
    assert "session/new" not in agent.calls


async def test_one_session_cannot_be_opened_twice_on_one_process() -> None:
    agent = ScriptedAgent(session=BOTH)
    spec = agent.spec(shared=True)
    async with AgentRuntime() as runtime, runtime.open(spec, session_id="old"):
        with pytest.raises(MisuseError, match="open already"):
            await runtime.open(spec, session_id="old")


async def test_a_login_that_is_wanted_is_a_typed_error_with_the_methods() -> None:
    agent = ScriptedAgent()

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        raise RpcError(-32000, "log in first")

    agent.on(new=new)
    async with AgentRuntime() as runtime:
        with pytest.raises(AuthenticationRequired, match="log in first") as raised:
            await runtime.open(agent.spec())
    assert raised.value.code == -32000
    assert raised.value.methods == ()


async def test_with_an_auth_method_the_runtime_logs_in_once() -> None:
    agent = ScriptedAgent()
    logins: list[str] = []

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        if not logins:
            raise RpcError(-32000, "log in first")
        return types.NewSessionResponse(session_id="s1")

    async def authenticate(request: types.AuthenticateRequest) -> types.AuthenticateResponse:
        logins.append(request.method_id)
        return types.AuthenticateResponse()

    agent.on(new=new, authenticate=authenticate)
    async with AgentRuntime() as runtime, runtime.open(agent.spec(auth_method="key")) as session:
        assert session.session_id == "s1"
    assert logins == ["key"]


async def test_all_pages_of_the_list_are_read() -> None:
    agent = ScriptedAgent(session={"list": {}})
    asked: list[types.ListSessionsRequest] = []

    async def listed(request: types.ListSessionsRequest) -> types.ListSessionsResponse:
        asked.append(request)
        number = len(asked)
        page = types.ListSessionsResponse(
            sessions=[types.SessionInfo(session_id=f"{number}", cwd="/w")]
        )
        if number < 3:
            page.next_cursor = f"c{number}"
        return page

    agent.on(list=listed)
    async with AgentRuntime() as runtime:
        found = await runtime.sessions(agent.spec(), cwd="/w")
    assert [session.session_id for session in found] == ["1", "2", "3"]
    assert [request.cursor for request in asked] == [None, "c1", "c2"]
    assert {request.cwd for request in asked} == {"/w"}


async def test_a_list_that_goes_round_in_circles_is_an_error() -> None:
    agent = ScriptedAgent(session={"list": {}})

    async def listed(request: types.ListSessionsRequest) -> types.ListSessionsResponse:
        del request
        return types.ListSessionsResponse(sessions=[], next_cursor="same")

    agent.on(list=listed)
    async with AgentRuntime() as runtime:
        with pytest.raises(PeerError, match="same cursor"):
            await runtime.sessions(agent.spec())


async def test_list_and_delete_that_are_not_offered_are_typed_errors() -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime:
        with pytest.raises(MethodNotOffered, match="session/list"):
            await runtime.sessions(agent.spec())
        with pytest.raises(MethodNotOffered, match="session/delete"):
            await runtime.delete(agent.spec(), "old")
        async with runtime.open(agent.spec()) as session:
            with pytest.raises(MethodNotOffered, match="session/delete"):
                await session.delete()
    assert set(agent.calls) == {"initialize", "session/new"}


async def test_delete_and_close_are_sent_where_they_are_offered(tmp_path: Path) -> None:
    agent = ScriptedAgent(session={"delete": {}, "close": {}})
    store = SessionStore(tmp_path / "sessions.json")
    deleted: list[str] = []

    async def delete(request: types.DeleteSessionRequest) -> types.DeleteSessionResponse:
        deleted.append(request.session_id)
        return types.DeleteSessionResponse()

    agent.on(delete=delete)
    async with AgentRuntime(store=store) as runtime:
        session = await runtime.open(agent.spec())
        await session.delete()
        assert session.closed
        assert store.all() == []
        await runtime.open(agent.spec(), key="k")
        await runtime.delete(agent.spec(), "s2")
    assert deleted == ["s1", "s2"]
    assert agent.calls.count("session/close") == 2
    assert store.all() == []


async def test_an_answer_that_never_comes_is_a_typed_error() -> None:
    agent = ScriptedAgent()

    async def never(_request: object) -> types.NewSessionResponse:
        await asyncio.Event().wait()
        raise AssertionError

    agent.on(new=never)
    async with AgentRuntime(answer_seconds=0.05) as runtime:
        with pytest.raises(AnswerTimeout, match=r"did not answer session/new within 0\.05 s"):
            await runtime.open(agent.spec())
