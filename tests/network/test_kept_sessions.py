"""Sessions that outlive their connection: what runs goes on, and its questions wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.adapter.agent import CodexAgent
from codex_acp.adapter.network import listen
from codex_acp.adapter.network.connection import Hub
from codex_acp.adapter.network.limits import Limits
from codex_acp.transcript import (
    ApprovalDecided,
    ApprovalRequested,
    ElicitationAnswered,
    ElicitationRequested,
)
from codex_acp.transcript.log import Transcript
from tests.network.listening_adapter import WAIT, JsonClient
from tests.network.served import ALICE, BOB, Served, served, several_tokens, until

Json = dict[str, Any]

FORMS: Json = {"elicitation": {"form": {}}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    limits = Limits(keep_seconds=600)
    async with served(tmp_path, tokens=several_tokens(), limits=limits) as running:
        yield running


async def asked_and_cut_off(server: Served, text: str = "ask", **more: Any) -> tuple[str, Json]:
    """A session whose connection broke while it asked, and the question."""
    async with server.connect(ALICE, **more) as client:
        session = await client.new_session(server.cwd)
        await client.prompt(session, text)
        asked = await client.question()
        await client.break_off()
    return session, asked


def where(server: Served, session: str) -> Json:
    return {"sessionId": session, "cwd": str(server.cwd), "mcpServers": []}


def kinds(client: JsonClient) -> list[str]:
    return [each["update"]["sessionUpdate"] for each in client.updates]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_question_waits_for_whoever_comes_back(server: Served, method: str) -> None:
    session, asked = await asked_and_cut_off(server)
    assert server.decisions() == []
    async with server.connect(ALICE, capabilities={"session": {"notices": {}}}) as client:
        assert client.initialized["agentCapabilities"]["_meta"]["codex-acp-sdk"]["keepSeconds"]
        answer = await client.ask(method, where(server, session))
        assert answer["_meta"]["codex-acp-sdk"] == {"running": True, "questions": 1}
        assert answer["configOptions"]
        again = await client.question()
        assert again["params"] == asked["params"]
        order = [each.get("method") or each.get("id") for each in client.received]
        call = asked["params"]["toolCall"]["toolCallId"]
        announced = [each["update"].get("toolCallId") for each in client.updates]
        assert announced.count(call) >= 1
        assert order.index("session/update") < order.index("session/request_permission")
        await client.choose(again, "allow_once")
        await client.until(lambda: "notice" in kinds(client))
        assert client.text(session) == "Heard."
        (notice,) = [
            u["update"] for u in client.updates if u["update"]["sessionUpdate"] == "notice"
        ]
        assert "has ended: end_turn" in notice["title"]
        assert len([line for line in server.decisions() if '"accept"' in line]) == 1
        ended = await client.outcome(await client.prompt(session, "hello"))
        assert ended["result"]["stopReason"] == "end_turn"


@pytest.mark.attack("network")
async def test_a_late_answer_of_the_connection_before_settles_nothing(server: Served) -> None:
    async with server.connect(ALICE) as one, server.connect(ALICE) as two:
        session = await one.new_session(server.cwd)
        running = await one.prompt(session, "ask")
        asked = await one.question()
        await two.ask("session/load", where(server, session))
        again = await two.question()
        await one.until(lambda: one.withdrawn == [asked["id"]])
        await one.choose(asked, "allow_once")
        assert (
            "on another connection"
            in (await one.refused("session/close", {"sessionId": session}))["message"]
        )
        assert server.decisions() == []
        await two.choose(again, "reject_once")
        await two.choose(again, "allow_once")
        assert (await one.outcome(running))["result"]["stopReason"] == "end_turn"
        # Over HTTP a client that is gone may look alive for a minute: who shows it is told, too.
        await two.until(lambda: any("has ended: end_turn" in str(u) for u in two.updates))
        await two.ask("session/list", {})
        assert [("decline" in line, "accept" in line) for line in server.decisions()] == [
            (True, False)
        ]
        assert "Heard." in two.text(session)
        assert "Heard." not in one.text(session)


@pytest.mark.parametrize("keep", [0, 600], ids=["not kept", "kept"])
async def test_a_load_that_fails_takes_nothing_away(tmp_path: Path, keep: float) -> None:
    limits = Limits(keep_seconds=keep)
    running = served(tmp_path, tokens=several_tokens(), limits=limits)
    async with running as server, server.connect(ALICE) as one, server.connect(ALICE) as two:
        session = await one.new_session(server.cwd)
        wrong = {**where(server, session), "cwd": "no/directory"}
        for client in (one, two):
            assert (await client.refused("session/load", wrong))["code"] == -32602
        ended = await one.outcome(await one.prompt(session, "hello"))
        assert ended["result"]["stopReason"] == "end_turn"
        assert one.text(session) == "Hello."
        assert two.updates == []


@pytest.mark.attack("network")
async def test_only_its_owner_comes_back(server: Served) -> None:
    session, _ = await asked_and_cut_off(server)
    async with server.connect(BOB) as bob:
        for method in ("session/load", "session/resume", "session/close", "session/delete"):
            error = await bob.refused(method, where(server, session))
            assert error["code"] == -32002
        assert bob.asked == bob.updates == []
    assert server.decisions() == []


async def test_a_question_is_asked_as_often_as_a_connection_breaks(server: Served) -> None:
    session, asked = await asked_and_cut_off(server)
    for _ in range(3):
        async with server.connect(ALICE) as client:
            await client.ask("session/load", where(server, session))
            assert (await client.question())["params"] == asked["params"]
            await client.break_off()
    async with server.connect(ALICE) as client:
        await client.ask("session/load", where(server, session))
        await client.send({"method": "session/cancel", "params": {"sessionId": session}})
        await client.until(lambda: any("has ended: cancelled" in str(u) for u in client.updates))
    assert '"accept"' not in "".join(server.decisions())


async def test_a_form_waits_too_and_a_client_without_forms_declines_it(server: Served) -> None:
    session, asked = await asked_and_cut_off(server, "form", capabilities=FORMS)
    assert asked["method"] == "elicitation/create"
    async with server.connect(ALICE, capabilities=FORMS) as client:
        await client.ask("session/load", where(server, session))
        again = await client.question()
        assert again["params"] == asked["params"]
        await client.break_off()
    async with server.connect(ALICE) as poor:
        await poor.ask("session/load", where(server, session))
        await until(server.decisions)
        assert '"decline"' in server.decisions()[0]
        assert poor.asked == []


@pytest.mark.parametrize("text", ["ask", "form"])
async def test_the_record_names_the_question_that_was_answered(tmp_path: Path, text: str) -> None:
    transcript = Transcript()
    journaled_turns: list[Any] = []
    transcript.subscribe(lambda entry: journaled_turns.append(entry.event))
    limits = Limits(keep_seconds=600)
    running = served(tmp_path, tokens=several_tokens(), limits=limits, transcript=transcript)
    async with running as server:
        session, first = await asked_and_cut_off(server, text, capabilities=FORMS)
        async with server.connect(ALICE, capabilities=FORMS) as other:
            made = await other.new_session(server.cwd)  # whose question has the first id there
            await other.prompt(made, "ask")
            await other.question()
            await other.ask("session/load", where(server, session))
            again = await other.question(2)
            assert again["id"] != first["id"]
            if text == "ask":
                await other.choose(again, "reject_once")
            else:
                await other.reply(again, {"action": "cancel"})
            await until(server.decisions)
        settled = [
            e for e in journaled_turns if isinstance(e, ApprovalDecided | ElicitationAnswered)
        ]
        asked = [
            e for e in journaled_turns if isinstance(e, ApprovalRequested | ElicitationRequested)
        ]
        assert asked[0].ref.acp_request_id == first["id"]
        assert settled[0].ref.acp_request_id == again["id"]
        assert settled[0].ref.codex_request_id == asked[0].ref.codex_request_id


async def test_two_questions_of_two_sessions_go_to_two_connections(server: Served) -> None:
    first, _ = await asked_and_cut_off(server)
    second, _ = await asked_and_cut_off(server)
    async with server.connect(ALICE) as one, server.connect(ALICE) as two:
        await one.ask("session/load", where(server, first))
        await two.ask("session/load", where(server, second))
        assert (await one.question())["params"]["sessionId"] == first
        assert (await two.question())["params"]["sessionId"] == second
        assert len(one.asked) == len(two.asked) == 1


@pytest.mark.attack("network")
async def test_a_question_that_nobody_comes_back_for_is_answered_no(tmp_path: Path) -> None:
    limits = Limits(keep_seconds=0.1)
    async with served(tmp_path, tokens=several_tokens(), limits=limits) as server:
        session, _ = await asked_and_cut_off(server)
        await until(server.decisions)
        assert '"accept"' not in "".join(server.decisions())
        async with server.connect(ALICE) as client:
            await client.ask("session/load", where(server, session))
            ended = await client.outcome(await client.prompt(session, "hello"))
            assert ended["result"]["stopReason"] == "end_turn"
            assert client.asked == []


async def test_a_step_that_was_to_follow_an_answer_does_not_run_after_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs: list[Hub] = []

    class Noted(Hub):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            hubs.append(self)

    monkeypatch.setattr(listen, "Hub", Noted)
    async with served(tmp_path, tokens=several_tokens()):
        pass
    hubs[0].registry.spawn(anyio.sleep_forever)  # as a timer does that the loop still has


@pytest.mark.attack("network")
async def test_the_end_of_the_server_answers_what_still_waits_with_no(tmp_path: Path) -> None:
    limits = Limits(keep_seconds=600)
    async with served(tmp_path, tokens=several_tokens(), limits=limits) as server:
        await asked_and_cut_off(server)
        assert server.decisions() == []
    (answer,) = server.decisions()
    assert "accept" not in answer


async def test_a_session_at_rest_makes_room_for_others(tmp_path: Path) -> None:
    limits = Limits(keep_seconds=600, sessions=1)
    async with served(tmp_path, tokens=several_tokens(), limits=limits) as server:
        async with server.connect(ALICE) as client:
            await client.new_session(server.cwd)
        async with server.connect(ALICE) as client:
            with anyio.fail_after(WAIT):
                await client.new_session(server.cwd)
            await client.break_off()
        await asked_and_cut_off(server)
        async with server.connect(ALICE) as client:
            params = {"cwd": str(server.cwd), "mcpServers": []}
            assert "sessions are open" in (await client.refused("session/new", params))["message"]


@pytest.mark.attack("app-server")
@pytest.mark.parametrize("method", ["session/resume", "session/load", "session/delete"])
async def test_who_asks_for_a_session_that_codex_never_opens_for_another_is_told(
    server: Served, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with server.connect(ALICE) as client:
        session = await client.new_session(server.cwd)
    begun = anyio.Event()

    async def never(*_: object) -> Json:
        begun.set()
        await anyio.sleep_forever()
        return {}

    monkeypatch.setattr("codex_acp.adapter.tasks.OPEN_SECONDS", 0.1)
    async with server.connect(ALICE) as one, server.connect(ALICE) as two:
        with monkeypatch.context() as hung:
            hung.setattr(CodexAgent, "load_session", never)
            loading = {"id": "hung", "method": "session/load", "params": where(server, session)}
            await one.send(loading)
            with anyio.fail_after(WAIT):
                await begun.wait()
            error = await two.refused(method, where(server, session))
        assert error["code"] == -32600
        assert "another request" in error["message"]
        assert error["data"] == {"sessionId": session}
        await one.send({"method": "$/cancel_request", "params": {"requestId": "hung"}})
        assert await two.ask("session/load", where(server, session))


@pytest.mark.attack("network")
async def test_a_close_ends_the_first_load_of_its_connection(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.connect(ALICE) as client:
        session = await client.new_session(server.cwd)
        await client.ask("session/close", {"sessionId": session})
    begun = anyio.Event()

    async def never(*_: object) -> Json:
        begun.set()
        await anyio.sleep_forever()
        return {}

    async with server.connect(ALICE) as one, server.connect(ALICE) as two:
        with monkeypatch.context() as hung:
            hung.setattr("codex_acp.adapter.sessions.replay.replay_history", never)
            load = await one.start("session/load", where(server, session))
            with anyio.fail_after(WAIT):
                await begun.wait()
            assert (
                "is not open"
                in (await two.refused("session/close", {"sessionId": session}))["message"]
            )
            assert await one.ask("session/close", {"sessionId": session}) == {}
            assert "was closed" in (await one.outcome(load))["error"]["message"]
        assert await two.ask("session/load", where(server, session))


@pytest.mark.parametrize("text", ["hello", "ask"])
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_a_close_ends_the_load_of_an_open_session(
    server: Served, monkeypatch: pytest.MonkeyPatch, method: str, text: str
) -> None:
    begun = anyio.Event()

    async def never(*_: object, **__: object) -> None:
        begun.set()
        await anyio.sleep_forever()

    async with server.connect(ALICE) as client:
        session = await client.new_session(server.cwd)
        prompt = await client.prompt(session, text)
        await client.until(lambda: prompt in client.answers or client.asked)
        module = "network.connection" if text == "ask" else "sessions.replay"
        monkeypatch.setattr(f"codex_acp.adapter.{module}.replay_history", never)
        load = await client.start("session/load", where(server, session))
        with anyio.fail_after(WAIT):
            await begun.wait()
        assert await client.ask(method, {"sessionId": session}) == {}
        assert "was closed" in (await client.outcome(load))["error"]["message"]
