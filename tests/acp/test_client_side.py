"""An ACP client: what it answers, what it is told and in which order, what it survives."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codex_acp.acp import ClientNotificationHandlers, types
from codex_acp.acp._generated.v1.methods import CLIENT_REQUESTS
from codex_acp.errors import ConnectionClosed, InvalidPayload
from codex_acp.wire.codec import plain
from codex_acp.wire.registry import MAX_VALUES
from tests.acp.benches import ClientBench
from tests.acp.raw_peer import WAIT
from tests.acp.tables import NEW_SESSION, PERMISSION, PROMPT, client_notifications, client_requests


async def permit(params: types.RequestPermissionRequest) -> types.RequestPermissionResponse:
    option = params.options[0].option_id
    return types.RequestPermissionResponse(
        outcome=types.SelectedRequestPermissionOutcome(option_id=option)
    )


async def elicit(params: types.CreateElicitationRequest) -> types.CreateElicitationResponse:
    del params
    return types.AcceptCreateElicitationResponse(content={"color": "red"})


async def write(params: types.WriteTextFileRequest) -> types.WriteTextFileResponse:
    del params
    return types.WriteTextFileResponse()


def update(variant: str, **fields: object) -> dict[str, Any]:
    params = {"sessionId": "s1", "update": {"sessionUpdate": variant, **fields}}
    return {"method": "session/update", "params": params}


def text(value: str, **fields: object) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": value}, **fields)


def noting(seen: list[types.SessionNotification]) -> ClientNotificationHandlers:
    notifications = client_notifications()
    notifications["session/update"] = seen.append
    return notifications


async def test_content_of_a_permission_that_does_not_fit_the_schema_is_shown_as_text() -> None:
    seen: list[types.RequestPermissionRequest] = []

    async def note(params: types.RequestPermissionRequest) -> types.RequestPermissionResponse:
        seen.append(params)
        return await permit(params)

    requests = client_requests()
    requests["session/request_permission"] = note
    fits = {"type": "content", "content": {"type": "text", "text": "rm"}}
    odd: list[Any] = [{"type": "chart", "rm": "-rf"}, {"type": "diff"}, "rm -rf", 7]
    async with ClientBench(requests) as bench:
        for number, content in enumerate(([fits, *odd], "rm -rf")):
            call = {"toolCallId": "t1", "content": content}
            reply = await bench.peer.ask(
                number, "session/request_permission", {**PERMISSION, "toolCall": call}
            )
            assert reply["result"]["outcome"]["optionId"] == "y"
    contents: list[Any] = [plain(each.tool_call.content) for each in seen]
    shown = [[piece["content"]["text"] for piece in content] for content in contents]
    assert shown == [
        ["rm", '{"type":"chart","rm":"-rf"}', '{"type":"diff"}', "rm -rf", "7"],
        ["rm -rf"],
    ]


async def test_requests_are_answered_by_the_table() -> None:
    requests = client_requests()
    requests["session/request_permission"] = permit
    requests["elicitation/create"] = elicit
    requests["fs/write_text_file"] = write
    form = {
        "sessionId": "s1",
        "mode": "form",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    async with ClientBench(requests) as bench:
        reply = await bench.peer.ask(1, "session/request_permission", PERMISSION)
        assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": "y"}}
        reply = await bench.peer.ask(2, "elicitation/create", form)
        assert reply["result"] == {"action": "accept", "content": {"color": "red"}}
        params = {"sessionId": "s1", "path": "/x", "content": "y"}
        assert (await bench.peer.ask(3, "fs/write_text_file", params))["result"] == {}


@pytest.mark.parametrize("method", [*sorted(CLIENT_REQUESTS), "_x/y", "session/prompt", "nope"])
async def test_a_request_that_is_not_offered_is_named_in_the_refusal(method: str) -> None:
    async with ClientBench() as bench:
        error = (await bench.peer.ask(1, method, {}))["error"]
        assert error["code"] == -32601
        assert method in error["message"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (None, "sessionId"),
        ({**PERMISSION, "options": "all"}, "options"),
        ({**PERMISSION, "toolCall": {}}, "toolCallId"),
        ({**PERMISSION, "sessionId": 1}, "sessionId"),
    ],
)
async def test_invalid_params_of_the_agent_name_the_field(params: object, field: str) -> None:
    requests = client_requests()
    requests["session/request_permission"] = permit
    async with ClientBench(requests) as bench:
        error = (await bench.peer.ask(1, "session/request_permission", params))["error"]
        assert error["code"] == -32602
        assert field in error["message"]


@pytest.mark.attack("agent")
async def test_a_form_of_an_agent_with_too_many_values_is_refused_before_it_is_read() -> None:
    requests = client_requests()
    requests["elicitation/create"] = elicit
    fields = {f"f{number}": {"type": "boolean"} for number in range(MAX_VALUES // 2)}
    schema = {"type": "object", "properties": fields}
    form = {"sessionId": "s1", "mode": "form", "message": "?", "requestedSchema": schema}
    async with ClientBench(requests) as bench:
        error = (await bench.peer.ask(1, "elicitation/create", form))["error"]
    assert error["code"] == -32602
    assert f"more than {MAX_VALUES} values" in error["message"]


async def test_an_agent_can_cancel_its_request() -> None:
    async def never(params: types.RequestPermissionRequest) -> types.RequestPermissionResponse:
        await anyio.sleep_forever()
        return await permit(params)

    requests = client_requests()
    requests["session/request_permission"] = never
    async with ClientBench(requests) as bench:
        bench.peer.send({"id": "a", "method": "session/request_permission", "params": PERMISSION})
        await bench.peer.settle()
        assert bench.peer.replies("a") == []
        bench.peer.send({"method": "$/cancel_request", "params": {"requestId": "a"}})
        assert (await bench.peer.reply("a"))["error"]["code"] == -32800


async def test_updates_are_read_as_their_variants_and_keep_unknown_fields() -> None:
    seen: list[types.SessionNotification] = []
    async with ClientBench(notifications=noting(seen)) as bench:
        bench.peer.send(
            text("a", novelty={"x": 1}),
            update("agent_thought_chunk", content={"type": "text", "text": "b"}),
            update("tool_call", toolCallId="t", title="T", kind="levitate", status="??"),
        )
        await bench.peer.settle()
    first, second, third = (notification.update for notification in seen)
    assert isinstance(first, types.AgentMessageChunkSessionUpdate)
    assert (first.model_extra or {})["novelty"] == {"x": 1}
    assert isinstance(second, types.AgentThoughtChunkSessionUpdate)
    assert isinstance(third, types.ToolCallSessionUpdate)
    assert "kind" not in third.model_fields_set, "an unknown kind reads as absent"
    assert "status" not in third.model_fields_set


async def test_an_update_that_does_not_fit_is_reported_and_the_next_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[types.SessionNotification] = []
    bad = [
        update("plan_update", plan={}),
        update("agent_message_chunk"),
        update("agent_message_chunk", content={"type": "hologram"}),
        {"method": "session/update", "params": {"sessionId": "s1"}},
        {"method": "session/update"},
    ]
    async with ClientBench(notifications=noting(seen)) as bench:
        bench.peer.send(*bad, text("good"))
        await bench.peer.settle()
        assert [n.params for n, _ in bench.invalid] == [message.get("params") for message in bad]
        assert all(isinstance(error, InvalidPayload) for _, error in bench.invalid)
        assert bench.peer.messages == [], "a notification is never answered"
    assert len(seen) == 1
    assert len(caplog.records) == len(bad)
    assert "session/update" in caplog.text


async def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[types.SessionNotification] = []

    def fail(*_: object) -> None:
        raise ValueError("the callback is broken")

    bench = ClientBench(notifications=noting(seen))
    bench.side._on_invalid_notification = fail
    async with bench:
        bench.peer.send(update("nope"), text("good"))
        await bench.peer.settle()
    assert len(seen) == 1
    assert "the callback is broken" in caplog.text


async def test_unknown_notifications_are_ignored() -> None:
    async with ClientBench() as bench:
        bench.peer.send({"method": "_zed/x", "params": {}}, {"method": "$/x"}, {"method": "nope"})
        await bench.peer.settle()
        assert bench.invalid == []
        assert bench.peer.messages == []


async def test_updates_before_an_answer_are_seen_before_it_and_those_after_it_after() -> None:
    order: list[str] = []

    def note(notification: types.SessionNotification) -> None:
        assert isinstance(notification.update, types.AgentMessageChunkSessionUpdate)
        order.append(notification.update.model_dump()["content"]["text"])

    notifications = client_notifications()
    notifications["session/update"] = note
    async with ClientBench(notifications=notifications) as bench:

        async def call() -> None:
            await bench.client.session_prompt(types.PromptRequest.model_validate(PROMPT))
            order.append("answer")

        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                request = await bench.peer.sent("session/prompt")
                answer = {"id": request["id"], "result": {"stopReason": "end_turn"}}
                bench.peer.send(text("before"), answer, text("after"))
        await bench.peer.settle()
    assert order == ["before", "answer", "after"]


async def test_a_client_that_gives_up_a_prompt_cancels_the_request() -> None:
    async with ClientBench() as bench:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                params = types.PromptRequest.model_validate(PROMPT)
                tasks.start_soon(bench.client.session_prompt, params)
                request = await bench.peer.sent("session/prompt")
                tasks.cancel_scope.cancel()
            cancel = await bench.peer.sent("$/cancel_request")
        assert cancel["params"] == {"requestId": request["id"]}


async def test_params_that_may_be_left_out_are_sent_as_an_empty_object() -> None:
    async with ClientBench() as bench:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bench.client.session_list)
                request = await bench.peer.sent("session/list")
                assert request["params"] == {}
                bench.peer.send({"id": request["id"], "result": {"sessions": []}})


async def test_an_agent_that_dies_fails_the_calls_in_flight() -> None:
    bench = ClientBench()
    async with bench:
        bench.peer_is_gone = True

        async def call() -> None:
            with pytest.raises(ConnectionClosed, match="the peer"):
                await bench.client.session_new(types.NewSessionRequest.model_validate(NEW_SESSION))

        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await bench.peer.sent("session/new")
                await bench.peer.link.aclose()
