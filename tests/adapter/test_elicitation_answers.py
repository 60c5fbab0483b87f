"""An action that is not known: no version of ACP has it taken for consent."""

from __future__ import annotations

from typing import Any, cast

import pytest

from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
from codex_acp.acp._generated.v2.methods import MODELS as MODELS_OF_V2
from codex_acp.adapter.questioner import ConnectionQuestioner

SCHEMA = {"type": "object", "properties": {}}
FORM = {"mode": "form", "sessionId": "s", "message": "Which?", "requestedSchema": SCHEMA}


class Side:
    """Whose client answers so."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    async def call_as(self, version: int, _method: str, _params: object) -> Any:
        models = {1: MODELS_OF_V1, 2: MODELS_OF_V2}[version]
        return models.decode("CreateElicitationResponse", self._answer, "the answer")


@pytest.mark.parametrize("action", ["_later", "accepted"])
async def test_2_5_it_is_passed_on_in_v1_and_a_cancel_in_v2(action: str) -> None:
    said = {"action": action, "content": {"p": 1}}
    v1, v2 = (ConnectionQuestioner(cast("Any", Side(said)), version) for version in (1, 2))
    assert await v1.elicitation_create(FORM) == said
    assert await v2.elicitation_create(FORM) == {"action": "cancel"}


async def test_an_answer_is_read_alike_in_both() -> None:
    said = {"action": "accept", "content": {"p": 1}}
    v1, v2 = (ConnectionQuestioner(cast("Any", Side(said)), version) for version in (1, 2))
    assert await v1.elicitation_create(FORM) == await v2.elicitation_create(FORM) == said
