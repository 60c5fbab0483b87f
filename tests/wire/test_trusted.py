"""Models built without validation are the models that validation would have built."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    NewSessionRequest,
    TextContentBlock,
)
from codex_acp.mapping.messages import message_chunk
from codex_acp.wire.codec import encode, from_json


@given(text=st.text(), message_id=st.text())
def test_a_trusted_chunk_equals_a_validated_one(text: str, message_id: str) -> None:
    made = message_chunk(text, message_id)
    validated = AgentMessageChunkSessionUpdate(
        content=TextContentBlock(text=text), message_id=message_id
    )
    assert made == validated
    assert made.model_fields_set == validated.model_fields_set
    assert from_json(encode(made)) == from_json(encode(validated))
    assert made.model_copy(update={"message_id": "x"}).message_id == "x"


def test_a_class_with_a_default_that_can_change_is_refused() -> None:
    with pytest.raises(TypeError, match="NewSessionRequest"):
        NewSessionRequest.trusted(cwd="/w", mcp_servers=[])
