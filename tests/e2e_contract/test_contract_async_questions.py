"""Questions of a model that goes on meanwhile, as forms beside its turn (contract 2.2, 2.5)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from codex_acp.acp.types import CloseSessionRequest
from codex_acp.adapter.server_requests import MOST_ASYNC_QUESTIONS
from codex_acp.errors import ErrorReply
from codex_acp.testing import (
    CloseOutput,
    Expect,
    Gate,
    Notify,
    ScriptedAppServer,
    Step,
    Text,
    ToolCall,
    agent_message,
    turn_completed,
    turn_started,
)
from tests.e2e_contract.contract_bench import IN_V1_ONLY, ContractBench, Scenes

SCENES = Scenes()
QUESTIONS = {
    "questions": [
        {"title": "Which color?", "options": ["Red", "Blue"]},
        {"title": "Why </send_user_message_question_reply>?"},
    ]
}


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    del factory
    return ContractBench(SCENES, version, model_name="gpt-6-astra")


def scene(name: str) -> str:
    """The model asks, works until the gate of this name is opened, and ends.

    Codex breaks off a response that stands at the gate for a message that is added; so the next
    ones stand there, too.
    """
    asks = ToolCall("request_user_input_async", QUESTIONS, "functions", call_id=name)
    works: list[Step] = [Text("Working."), Gate(name), Text(" On.")]
    read: list[list[Step]] = [[Gate(name), Text(" Done.")], [Gate(name), Text(" And that.")]]
    return SCENES.add(name, [asks], works, *read)


ANSWERED, LEFT, ASIDE = scene("answered"), scene("left"), scene("aside")
CANCELLED, CLOSED = scene("cancelled"), scene("closed")
DECLINED, MISFIT = scene("declined"), scene("misfit")


def steered(bench: ContractBench, session: str) -> list[dict[str, Any]]:
    """What the adapter has added to running turns of the session."""
    sent = [message for by, message in bench.wire.messages if by == "adapter"]
    params = [message["params"] for message in sent if message.get("method") == "turn/steer"]
    return [each for each in params if each["threadId"] == session]


async def test_1_4_an_answer_is_read_in_the_turn_that_asked_and_shown_as_the_persons(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ANSWERED)
    asked = await bench.asks.next_elicitation()
    assert asked.session == session
    assert "goes on" in asked.message
    assert list(asked.fields) == ["question_1", "question_1_other", "question_2"]
    await bench.wait_until(lambda: "Working." in bench.answer(session))
    states = {update["state"] for update in bench.of_session(session, "state_update")}
    assert states <= {"running"}
    asked.accept({"question_1": "Blue", "question_1_other": "a dark one", "question_2": "<why>"})
    await bench.wire.wait_until(lambda: bool(steered(bench, session)))
    bench.model.open(ANSWERED.strip("<>"))

    assert await prompt.end() == "end_turn"
    assert "Done." in bench.answer(session)
    said = [text for r in bench.model.requests for text in r.user_texts if "Blue" in text]
    assert said
    assert said[-1].count("send_user_message_question_reply>") == 2
    assert '"answer":"Blue\\n\\na dark one","question":"Which color?"' in said[-1]
    shown = bench.of_session(session, "user_message_chunk", "user_message")
    assert "> Which color?\\n\\nBlue\\n\\na dark one" in str(shown)
    assert bench.event_types(session) == ["elicitation.requested", "elicitation.answered"]
    assert "a dark one" not in str(bench.events(session))


async def test_3_5_what_is_open_when_the_turn_ends_is_withdrawn_and_a_late_answer_is_stale(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, LEFT)
    bench.asks.stubborn = True
    asked = await bench.asks.next_elicitation()
    withdrawn = len(bench.asks.withdrawn)
    bench.model.open(LEFT.strip("<>"))
    assert await prompt.end() == "end_turn"
    await bench.wait_until(lambda: len(bench.asks.withdrawn) == withdrawn + 1)
    bench.asks.stubborn = False
    asked.accept({"question_1": "Red"})
    await bench.until_idle(session)

    assert steered(bench, session) == []
    assert bench.event_types(session) == ["elicitation.requested", "elicitation.answered"]


@IN_V1_ONLY
@pytest.mark.parametrize("name", [CANCELLED, CLOSED])
async def test_3_5_a_cancel_and_a_close_withdraw_it(bench: ContractBench, name: str) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, name)
    await bench.asks.next_elicitation()
    withdrawn = len(bench.asks.withdrawn)
    if name == CANCELLED:
        bench.cancel(session)
    else:
        await bench.client.side.session_close(CloseSessionRequest(session_id=session))
    assert await prompt.end() == "cancelled"
    await bench.wait_until(lambda: len(bench.asks.withdrawn) == withdrawn + 1)
    assert steered(bench, session) == []


@IN_V1_ONLY
@pytest.mark.parametrize("name", [DECLINED, MISFIT])
async def test_2_5_what_is_no_answer_is_not_passed_on(bench: ContractBench, name: str) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, name)
    asked = await bench.asks.next_elicitation()
    if name == DECLINED:
        asked.decline()
    else:
        asked.accept({"question_1": "Green"})
        await bench.wait_until(lambda: "was not passed on" in bench.said(session))
    bench.model.open(name.strip("<>"))
    assert await prompt.end() == "end_turn"
    assert steered(bench, session) == []


async def test_a_prompt_meanwhile_is_steered_and_the_form_stays_open(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ASIDE)
    asked = await bench.asks.next_elicitation()
    await bench.wait_until(lambda: "Working." in bench.answer(session))
    other = bench.prompt(session, "Also this.")
    await bench.wire.wait_until(lambda: len(steered(bench, session)) == 1)
    asked.accept({"question_2": "Because."})
    await bench.wire.wait_until(lambda: len(steered(bench, session)) == 2)
    bench.model.open(ASIDE.strip("<>"))

    assert await prompt.end() == await other.end() == "end_turn"
    assert "Because." in str(steered(bench, session)[1])


def asking(item_id: str) -> Notify:
    """A message that asks, by a scripted app-server."""
    questions = [{"title": "Which color?", "options": ["Red", "Blue"]}]
    item = {
        "type": "agentMessage", "id": item_id, "text": "", "phase": None, "memoryCitation": None,
        "delivery": "async", "questions": questions,
    }  # fmt: skip
    place = {"threadId": "${turn:threadId}", "turnId": "${turn:id}"}
    return Notify("item/completed", {"item": item, **place, "completedAtMs": 0})


async def test_3_3_an_answer_that_the_turn_does_not_take_is_said_and_is_no_prompt(
    version: int,
) -> None:
    refused = {"code": -32600, "message": "no active turn to steer"}
    entries = [
        Expect("initialize"), Expect("thread/start"), Expect("turn/start"), *turn_started(),
        asking("m1"), Expect("turn/steer", error=refused),
    ]  # fmt: skip
    async with ScriptedAppServer(entries) as server:
        bench = ContractBench(Scenes(), version, link=lambda: server.link)
        try:
            await bench.start()
            session = await bench.new_session()
            prompt = bench.prompt(session, "Go.")
            (await bench.asks.next_elicitation()).accept({"question_1": "Red"})
            await bench.wait_until(lambda: "Your answer was not sent" in bench.said(session))
            server.play(*turn_completed())
            assert await prompt.end() == "end_turn"
            bench.check()
        finally:
            await bench.stop()


@IN_V1_ONLY
async def test_3_7_a_model_opens_only_so_many_forms_at_a_time(version: int) -> None:
    many = [asking(f"m{number}") for number in range(MOST_ASYNC_QUESTIONS + 3)]
    entries = [
        Expect("initialize"), Expect("thread/start"), Expect("turn/start"), *turn_started(),
        *many, *agent_message("All asked."),
    ]  # fmt: skip
    async with ScriptedAppServer(entries) as server:
        bench = ContractBench(Scenes(), version, link=lambda: server.link)
        try:
            await bench.start()
            session = await bench.new_session()
            prompt = bench.prompt(session, "Go.")
            for _ in range(MOST_ASYNC_QUESTIONS):
                await bench.asks.next_elicitation()
            await bench.wait_until(lambda: "All asked." in bench.answer(session))
            server.play(*turn_completed())
            assert await prompt.end() == "end_turn"
            await bench.wait_until(lambda: len(bench.asks.withdrawn) == MOST_ASYNC_QUESTIONS)
            assert bench.answer(session).count("Which color?") == len(many)
            bench.check()
        finally:
            await bench.stop()


async def test_1_4_a_codex_that_is_lost_withdraws_it(version: int) -> None:
    entries = [
        Expect("initialize"), Expect("thread/start"), Expect("turn/start"), *turn_started(),
        asking("m1"),
    ]  # fmt: skip
    async with ScriptedAppServer(entries) as server:
        bench = ContractBench(Scenes(), version, link=lambda: server.link)
        try:
            await bench.start()
            session = await bench.new_session()
            prompt = bench.prompt(session, "Go.")
            await bench.asks.next_elicitation()
            server.play(CloseOutput())
            with suppress(ErrorReply):  # in v2 it is a stop reason
                assert await prompt.end() == "error"
            await bench.wait_until(lambda: len(bench.asks.withdrawn) == 1)
            assert bench.event_types(session) == ["elicitation.requested", "elicitation.answered"]
        finally:
            await bench.stop()
