"""Contract 3.7: Codex replays a pending request, or reuses its id; one reply either way."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from codex_acp.codex._generated.server_requests import RequestHandlers
from codex_acp.codex.client import CodexClient
from codex_acp.codex.types import (
    CommandExecutionRequestApprovalResponse,
    ItemCommandExecutionRequestApproval,
)
from codex_acp.testing import (
    AskClient,
    AwaitAnswer,
    Entry,
    Expect,
    ExpectNotification,
    Notify,
    RawLine,
    ScriptedAppServer,
)
from codex_acp.wire.codec import encode
from tests.codex.server_request_samples import COMMAND, SAMPLES


def _again(params: dict[str, Any]) -> Entry:
    line = {"id": 0, "method": COMMAND, "params": params}
    return RawLine(encode(line).decode())


async def _decision(second: dict[str, Any]) -> tuple[object, int]:
    """The one answer's decision, and how many answers there were."""
    first = SAMPLES[COMMAND]
    script: list[Entry] = [
        Expect("initialize"),
        ExpectNotification("initialized"),
        AskClient(COMMAND, first, id=0),
        _again(second),
        Notify("warning", {"message": "all was sent"}),
        AwaitAnswer(COMMAND),
    ]
    seen = anyio.Event()

    async def accept(
        request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        assert request.id == 0
        await seen.wait()
        return CommandExecutionRequestApprovalResponse(decision="accept")

    class Sink:
        def on_notification(self, method: str, params: object) -> None:
            assert (method, params) == ("warning", {"message": "all was sent"})
            seen.set()

        def on_batch_end(self) -> None: ...

        def on_closed(self, error: object) -> None: ...

    async with ScriptedAppServer(script) as server:
        client = CodexClient(server.link)
        client.handle(cast("RequestHandlers", {COMMAND: accept}))
        client.subscribe(None, Sink())
        async with client:
            with anyio.fail_after(60):
                await server.wait_finished()
        (answer,) = server.player.answers
        result = cast("dict[str, Any]", answer.message["result"])
        return result["decision"], len(server.player.answers)


async def test_3_7_the_same_request_again_is_that_request() -> None:
    assert await _decision(SAMPLES[COMMAND]) == ("accept", 1)


@pytest.mark.parametrize("change", [{"command": "rm -rf ."}, {"itemId": "other"}, {"reason": None}])
async def test_3_7_the_same_id_with_another_payload_fails_closed(change: dict[str, Any]) -> None:
    assert await _decision({**SAMPLES[COMMAND], **change}) == ("decline", 1)
