"""Content blocks of a prompt → the input of a turn."""

from __future__ import annotations

import pytest

from codex_acp.acp.types import (
    AudioContentBlock,
    ContentBlock,
    ImageContentBlock,
    PromptRequest,
    ResourceLinkContentBlock,
    TextContentBlock,
)
from codex_acp.codex.types import TextUserInput
from codex_acp.errors import RpcError
from codex_acp.mapping.capabilities import agent_capabilities
from codex_acp.mapping.prompt import user_input

LINK = ResourceLinkContentBlock(name="notes", uri="file:///notes.md")
IMAGE = ImageContentBlock(data="AAAA", mime_type="image/png")
AUDIO = AudioContentBlock(data="AAAA", mime_type="audio/wav")
RESOURCE = PromptRequest.model_validate(
    {
        "sessionId": "s",
        "prompt": [{"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}],
    }
).prompt[0]


def test_text_blocks_are_inputs_in_their_order_and_unchanged() -> None:
    given = ["one", " two\n", "", "👋"]

    found = user_input([TextContentBlock(text=text) for text in given])

    assert found == [TextUserInput(text=text) for text in given]


def test_a_resource_link_is_a_link_with_its_title_or_else_its_name() -> None:
    titled = LINK.model_copy(update={"title": "My notes"})

    assert user_input([LINK, titled]) == [
        TextUserInput(text="[notes](file:///notes.md)"),
        TextUserInput(text="[My notes](file:///notes.md)"),
    ]


@pytest.mark.parametrize(
    ("block", "kind"), [(IMAGE, "image"), (AUDIO, "audio"), (RESOURCE, "resource")]
)
def test_a_block_that_was_not_advertised_is_refused_by_its_place(
    block: ContentBlock, kind: str
) -> None:
    with pytest.raises(RpcError, match=rf"prompt\.1: {kind} ") as refused:
        user_input([TextContentBlock(text="hi"), block])

    assert refused.value.code == -32602


def test_what_is_refused_is_what_is_not_advertised() -> None:
    advertised = agent_capabilities().prompt_capabilities

    assert advertised is not None
    assert not advertised.image
    assert not advertised.audio
    assert not advertised.embedded_context


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(RpcError, match="no content") as refused:
        user_input([])

    assert refused.value.code == -32602
