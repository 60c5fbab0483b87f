"""A first prompt of text goes to Codex while what a prompt needs is still being loaded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from codex_acp.adapter.load_ahead import LoadAhead
from codex_acp.codex._generated.models import TextUserInput, TurnStartParams
from codex_acp.mapping.commands import simple_prompt, simple_turn_params
from codex_acp.mapping.content import TextBlock
from codex_acp.testing import Exit, Expect, Notify, turn_completed, turn_started
from codex_acp.wire.codec import encode
from tests.adapter.memory_bench import THREAD, MemoryBench, turn_note

TURN = "turn-1"

IN_BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


class SlowLoad(LoadAhead):
    """Is loading until `finish`."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())

    def start(self) -> None:
        """It is always at it."""

    @property
    def loading(self) -> bool:
        """See `LoadAhead`."""
        return not self.prompt_ready.is_set()

    def call_when_loaded(self, callback: Any) -> None:
        """See `LoadAhead`; what follows an opening does not matter here."""

    def finish(self) -> None:
        """All is there."""
        self.prompt_ready.set()


def item(kind: str, method: str, **members: object) -> Notify:
    about = {"threadId": THREAD, "turnId": TURN, "startedAtMs": 1, "completedAtMs": 2}
    return Notify(method, {**about, "item": {"type": kind, "id": f"{kind}-1", **members}})


def whole_turn(message_id: str) -> list[Notify]:
    content = [{"type": "text", "text": "hi"}]
    delta = {"threadId": THREAD, "turnId": TURN, "itemId": "agentMessage-1", "delta": "Hello."}
    return [
        turn_note("turn/started", TURN),
        item("userMessage", "item/started", clientId=message_id, content=content),
        item("userMessage", "item/completed", clientId=message_id, content=content),
        item("agentMessage", "item/started", text=""),
        Notify("item/agentMessage/delta", delta),
        item("agentMessage", "item/completed", text="Hello."),
        turn_note("turn/completed", TURN, "completed"),
    ]


@IN_BOTH
@pytest.mark.parametrize("ends", ["before it is loaded", "behind it"])
async def test_the_turn_is_asked_for_at_once_and_nothing_of_it_is_lost(
    ends: str, version: int
) -> None:
    ahead = SlowLoad()
    async with MemoryBench(
        Expect("turn/start", silent=True), ahead=ahead, version=version
    ) as bench:
        bench.start_prompt()
        (asked,) = await bench.asked_codex("turn/start")
        assert ahead.loading
        first, *rest = whole_turn(asked["clientUserMessageId"])
        await bench.answer_turn_start(TURN, first)
        if ends == "behind it":
            ahead.finish()
        bench.server.play(*rest)
        await bench.client.settle()
        ahead.finish()
        assert await bench.end_of() == "end_turn"
        assert bench.said() == "Hello."
        behind = [update["sessionUpdate"] for update in bench.updates_behind("p1")]
        assert behind == ([] if version == 1 else ["agent_message_chunk"])
        assert len(await bench.asked_codex("turn/start")) == 1
        bench.start_prompt("p2")
        assert len(await bench.asked_codex("turn/start", times=2)) == 2


INTERRUPTED = [
    Expect("turn/start"), *turn_started(), Expect("turn/interrupt"), *turn_completed("interrupted")
]  # fmt: skip


@IN_BOTH
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "in one read"])
async def test_a_cancel_that_comes_before_it_is_loaded_ends_the_turn(
    begun: bool, version: int
) -> None:
    ahead = SlowLoad()
    async with MemoryBench(*INTERRUPTED, ahead=ahead, version=version) as bench:
        bench.start_prompt()
        if begun:
            await bench.asked_codex("turn/start")
        bench.cancel()
        await bench.asked_codex("turn/interrupt")
        ahead.finish()
        assert await bench.end_of() == "cancelled"


@IN_BOTH
async def test_a_close_that_comes_before_it_is_loaded_ends_the_turn(version: int) -> None:
    ahead = SlowLoad()
    async with MemoryBench(*INTERRUPTED, ahead=ahead, version=version) as bench:
        bench.start_prompt()
        bench.client.send({"id": "c", "method": "session/close", "params": {"sessionId": THREAD}})
        await bench.asked_codex("turn/interrupt")  # which nothing that still loads holds up
        assert await bench.end_of() == "cancelled"
        assert "result" in await bench.client.reply("c")


@pytest.mark.parametrize(
    ("version", "method", "params"),
    [
        (1, "session/set_mode", {"modeId": "configured"}),
        (1, "session/set_config_option", {"configId": "mode", "value": "configured"}),
        (2, "session/set_config_option", {"configId": "mode", "type": "id", "value": "configured"}),
    ],
)
async def test_what_is_set_before_it_is_loaded_is_set_and_it_ends_well(
    version: int, method: str, params: dict[str, Any]
) -> None:
    ahead = SlowLoad()
    async with MemoryBench(Expect("turn/start"), ahead=ahead, version=version) as bench:
        bench.start_prompt()
        bench.client.send({"id": "s", "method": method, "params": {"sessionId": THREAD, **params}})
        assert "result" in await bench.client.reply("s")
        bench.server.play(*turn_completed())
        ahead.finish()
        assert await bench.end_of() == "end_turn"
        assert len(await bench.asked_codex("turn/start")) == 1


@IN_BOTH
async def test_a_request_that_is_given_up_before_it_is_loaded_ends_the_turn(version: int) -> None:
    ahead = SlowLoad()
    async with MemoryBench(*INTERRUPTED, ahead=ahead, version=version) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p1"}})
        await bench.client.settle()
        ahead.finish()
        await bench.asked_codex("turn/interrupt")
        assert (await bench.end_of())["code"] == -32800


@IN_BOTH
async def test_a_turn_that_codex_refuses_fails_the_prompt_and_the_next_one_runs(
    version: int,
) -> None:
    ahead = SlowLoad()
    error = {"code": -32600, "message": "no model"}
    async with MemoryBench(
        Expect("turn/start", error=error), ahead=ahead, version=version
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        ahead.finish()
        assert "no model" in (await bench.end_of())["message"]
        bench.start_prompt("p2")
        await bench.asked_codex("turn/start", times=2)


@IN_BOTH
@pytest.mark.parametrize("begun", [[], turn_started()], ids=["asked for", "begun"])
async def test_a_codex_that_dies_in_it_ends_the_prompt(begun: list[Any], version: int) -> None:
    ahead = SlowLoad()
    async with MemoryBench(
        Expect("turn/start"), *begun, Exit(3), ahead=ahead, version=version
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        await bench.client.settle()
        ahead.finish()
        assert "Codex" in (await bench.end_of())["message"]
        assert len(await bench.asked_codex("turn/start")) == 1


def dying_turn(message_id: str) -> list[Notify]:
    command = item(
        "commandExecution", "item/started", command="ls", cwd="/scripted/workspace",
        status="inProgress", commandActions=[], source="agent",
    )  # fmt: skip
    return [*whole_turn(message_id)[:-1], command]


@IN_BOTH
async def test_a_codex_that_dies_with_its_answer_ends_the_prompt(version: int) -> None:
    async with MemoryBench(Expect("turn/start", silent=True), version=version) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        await bench.answer_turn_start(TURN, then=[Exit(3)])
        assert "Codex ended" in (await bench.end_of())["message"]


@IN_BOTH
@pytest.mark.parametrize("whole", [True, False])
async def test_what_a_codex_said_before_it_died_counts(whole: bool, version: int) -> None:
    ahead = SlowLoad()
    async with MemoryBench(
        Expect("turn/start", silent=True), ahead=ahead, version=version
    ) as bench:
        bench.start_prompt()
        (asked,) = await bench.asked_codex("turn/start")
        turn = whole_turn if whole else dying_turn
        await bench.answer_turn_start(TURN, *turn(asked["clientUserMessageId"]))
        bench.server.play(Exit(3))
        await bench.client.settle()
        ahead.finish()
        end = await bench.end_of()
        assert bench.said() == "Hello."
        if whole:
            assert end == "end_turn"
        else:
            assert "Codex ended" in end["message"]
            updates = [m["params"]["update"] for m in bench.client.messages if "params" in m]
            assert [u.get("status") for u in updates if "toolCallId" in u] == [
                "in_progress", "failed" if version == 1 else "cancelled",
            ]  # fmt: skip
        assert version == 2 or bench.updates_behind("p1") == []


@IN_BOTH
async def test_a_prompt_behind_it_is_steered_into_its_turn(version: int) -> None:
    ahead = SlowLoad()
    params = {"threadId": THREAD, "turnId": "${turn:id}", "item": {
        "type": "userMessage", "id": "item", "clientId": "${turn/steer:clientUserMessageId}",
        "content": [],
    }}  # fmt: skip
    read = Notify("item/started", params)
    script = Expect("turn/start"), *turn_started(), Expect("turn/steer"), read, *turn_completed()
    async with MemoryBench(*script, ahead=ahead, version=version) as bench:
        bench.start_prompt()
        bench.start_prompt("p2", "and more")
        await bench.asked_codex("turn/start")
        ahead.finish()
        (steered,) = await bench.asked_codex("turn/steer")
        assert steered["input"][0]["text"] == "and more"
        assert len(await bench.asked_codex("turn/start")) == 1
        assert [await bench.end_of(each) for each in ("p1", "p2")] == ["end_turn", "end_turn"]


@IN_BOTH
async def test_a_cancel_takes_back_a_prompt_that_could_not_be_asked_for_early(version: int) -> None:
    ahead = SlowLoad()
    unbegun = [Expect("turn/start"), Expect("turn/interrupt"), *turn_completed("interrupted")]
    async with MemoryBench(*unbegun, ahead=ahead, version=version) as bench:
        bench.start_prompt()
        bench.start_prompt("p2", "second")
        await bench.asked_codex("turn/start")
        bench.cancel()
        await bench.asked_codex("turn/interrupt")
        ahead.finish()
        assert await bench.end_of() == "cancelled"
        second = await bench.end_of("p2")
        assert second == "cancelled" if version == 1 else second["code"] == -32800
        assert len(await bench.asked_codex("turn/start")) == 1


@IN_BOTH
async def test_a_prompt_that_the_models_read_does_not_overtake_one_that_is_simple(
    version: int,
) -> None:
    ahead = SlowLoad()
    script = Expect("turn/start"), *turn_started(), Expect("turn/steer"), Expect("turn/steer")
    async with MemoryBench(*script, ahead=ahead, version=version) as bench:
        bench.start_prompt()
        bench.start_prompt("p2", "second")
        third = {"sessionId": THREAD, "prompt": [{**TEXT, "text": "third"}], "_meta": {}}
        bench.client.send({"id": "p3", "method": "session/prompt", "params": third})
        await bench.asked_codex("turn/start")
        await bench.client.settle()
        ahead.finish()
        steered = await bench.asked_codex("turn/steer", 2)
        assert [each["input"][0]["text"] for each in steered] == ["second", "third"]
        bench.cancel()


@IN_BOTH
async def test_an_unknown_session_is_told_and_a_client_that_goes_leaves_nothing(
    version: int,
) -> None:
    ahead = SlowLoad()
    async with MemoryBench(
        Expect("turn/start", silent=True), ahead=ahead, version=version
    ) as bench:
        params = {"sessionId": "nobody", "prompt": [{"type": "text", "text": "hi"}]}
        bench.client.send({"id": "p0", "method": "session/prompt", "params": params})
        await bench.client.settle()
        ahead.finish()
        assert (await bench.end_of("p0"))["code"] == -32002

    async with MemoryBench(
        Expect("turn/start", silent=True), ahead=SlowLoad(), version=version
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")


def test_what_is_written_is_what_the_model_writes() -> None:
    message = [TextBlock("one"), TextBlock("two")]
    model = TurnStartParams(
        thread_id=THREAD,
        input=[TextUserInput(text=block.text) for block in message],
        client_user_message_id="id",
    )
    assert simple_turn_params(THREAD, message, "id") == json.loads(encode(model))


TEXT = {"type": "text", "text": "hi"}


def request(*blocks: object, **members: object) -> dict[str, Any]:
    return {"sessionId": "s", "prompt": list(blocks), **members}


def test_text_alone_is_simple() -> None:
    assert simple_prompt(request(TEXT, TEXT)) == ("s", [TextBlock("hi"), TextBlock("hi")])


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        request(),
        request(TEXT, _meta={}),
        request({**TEXT, "annotations": {}}),
        request({"type": "text", "text": 1}),
        request({"type": "image", "text": "hi"}),
        request("hi"),
        request({"type": "text", "text": "/plan"}),
        request({"type": "text", "text": "use $skill"}),
        {"sessionId": 1, "prompt": [TEXT]},
        {"sessionId": "s", "prompt": TEXT},
    ],
)
def test_all_else_is_read_by_the_models(params: Any) -> None:
    assert simple_prompt(params) is None
