"""One question of Codex to the client: what becomes of it when something fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from codex_acp.adapter.server_requests import ElicitationRunner
from codex_acp.codex._generated.methods import MODELS
from codex_acp.codex._generated.server_requests import ItemToolRequestUserInput
from codex_acp.routing.elicitations import user_input_elicitation
from codex_acp.routing.ledger import Key
from codex_acp.routing.route import Elicitation


async def test_3_4_a_question_whose_time_is_no_number_of_seconds_does_not_stay_open() -> None:
    params = MODELS.decode(
        "ToolRequestUserInputParams",
        {
            "autoResolutionMs": 10**400, "isBlocking": True,
            "itemId": "i", "threadId": "t", "turnId": "u",
            "questions": [{"id": "q", "header": "h", "question": "?"}],
        },
        "item/tool/requestUserInput",
    )  # fmt: skip
    asked: Any = user_input_elicitation(params)
    routed = Elicitation(ItemToolRequestUserInput(params=params, id=1), "t", "t", "u", asked)
    recorded: list[str] = []
    asks: Any = SimpleNamespace(next_request_id=1)
    transcript: Any = SimpleNamespace(record=lambda event: recorded.append(type(event).__name__))
    runner = ElicitationRunner(lambda _: asks, 1, lambda *_: None, transcript)
    for _ in range(2):
        with pytest.raises(OverflowError):
            await runner.ask(Key(1, "int", 1), routed)
    assert recorded == ["ElicitationRequested", "ElicitationAnswered"] * 2
