"""Content blocks of a prompt → the input of a turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.types import (
    AgentCapabilities,
    AudioContentBlock,
    ContentBlock,
    ImageContentBlock,
    PromptRequest,
    ResourceLinkContentBlock,
    TextContentBlock,
)
from codex_acp.codex.types import AudioUserInput, TextUserInput, UrlImageUserInput
from codex_acp.errors import RpcError
from codex_acp.mapping.agent import AGENT_CAPABILITIES
from codex_acp.mapping.content import blocks_of
from codex_acp.mapping.prompt import has_audio, local_path, user_input
from codex_acp.wire.codec import decode

LINK = ResourceLinkContentBlock(name="notes", uri="file:///notes.md")
AUDIO = AudioContentBlock(data="AAAA", mime_type="audio/wav")
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def resource(**contents: str) -> ContentBlock:
    """An embedded resource."""
    block = {"type": "resource", "resource": contents}
    return PromptRequest.model_validate({"sessionId": "s", "prompt": [block]}).prompt[0]


def text_of(block: ContentBlock) -> str:
    (found,) = user_input(blocks_of([block]))
    assert isinstance(found, TextUserInput)
    return found.text


def refusal(*blocks: ContentBlock) -> RpcError:
    with pytest.raises(RpcError) as refused:
        user_input(blocks_of(blocks))
    assert refused.value.code == -32602
    return refused.value


def test_text_blocks_are_inputs_in_their_order_and_unchanged() -> None:
    given_texts = ["one", " two\n", "", "👋"]

    found = user_input(blocks_of([TextContentBlock(text=text) for text in given_texts]))

    assert found == [TextUserInput(text=text) for text in given_texts]


def test_a_link_has_its_title_or_else_its_name() -> None:
    titled = LINK.model_copy(update={"title": "My notes"})

    assert text_of(LINK) == "[notes](/notes.md)"
    assert text_of(titled) == "[My notes](/notes.md)"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d"),
        ("file:///a/b.py#L10-20", "/a/b.py#L10-20"),
        ("file:///a/with%20space.md", "</a/with space.md>"),
        ("file:///a/(1).md", "</a/(1).md>"),
        ("file:///a/%3Cb%3E.md", "</a/%3Cb%3E.md>"),
        ("file://server/share/a.md", "file://server/share/a.md"),
        ("zed:///agent/thread", "zed:///agent/thread"),
    ],
)
def test_a_link_to_a_local_file_names_its_path_and_any_other_its_uri(uri: str, shown: str) -> None:
    assert text_of(ResourceLinkContentBlock(name="n", uri=uri)) == f"[n]({shown})"


def test_a_name_does_not_end_its_link() -> None:
    link = ResourceLinkContentBlock(name="a](b)\n[c", uri="file:///x")

    assert text_of(link) == "[a\\](b) \\[c](/x)"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("FILE://localhost/a", "/a"),
        ("file:///%E4%B8%96", "/世"),
        ("file:///a%00b", None),
        ("file:///caf%E9", None),
        ("file://host/a", None),
        ("file:a", None),
        ("/a/b", None),
        ("", None),
    ],
)
def test_a_file_uri_names_a_path_of_this_machine(uri: str, path: str | None) -> None:
    assert local_path(uri) == path


def test_an_embedded_text_is_fenced_below_a_link_that_names_it() -> None:
    block = resource(uri="file:///src/main.py", text="print(1)\n", mimeType="text/x-python")

    assert text_of(block) == "[main.py](/src/main.py)\n```\nprint(1)\n```"


@given(st.text(alphabet="`~ \nx\t", max_size=60))
def test_no_text_ends_its_own_fence(text: str) -> None:
    _, opening, *body, closing = text_of(resource(uri="x:/y", text=text)).split("\n")

    assert set(opening) == {"`"}
    assert closing == opening
    assert "\n".join(body).rstrip("\n") == text.rstrip("\n")
    assert not any(line.strip(" ").startswith(opening) for line in body)


def test_an_embedded_image_is_an_image() -> None:
    block = resource(uri="file:///a.gif", blob=GIF, mimeType="image/gif")

    assert user_input(blocks_of([block])) == [UrlImageUserInput(url=f"data:image/gif;base64,{GIF}")]


def test_an_embedded_blob_of_text_is_text() -> None:
    block = resource(uri="file:///a.txt", blob="aGVsbG8=", mimeType="text/plain; charset=utf-8")

    assert text_of(block) == "[a.txt](/a.txt)\n```\nhello\n```"


@pytest.mark.parametrize(
    ("mime", "shown"),
    [("application/pdf", "application/pdf"), (None, "of unknown type"), ("text/plain", "text/pla")],
)
def test_any_other_blob_is_named_and_not_pasted(mime: str | None, shown: str) -> None:
    kind = {} if mime is None else {"mimeType": mime}
    text = text_of(resource(uri="file:///a.bin", blob="/w==", **kind))

    assert text.startswith(f"[a.bin](/a.bin) ({shown}")
    assert "1 bytes" in text
    assert "/w==" not in text


def test_a_blob_that_is_no_base64_is_refused_by_its_place() -> None:
    bad = resource(uri="file:///a.bin", blob="%%%", mimeType="application/pdf")

    assert "prompt.1: its data is not base64" in refusal(TextContentBlock(text="hi"), bad).message


def test_audio_is_an_input_of_a_model_that_takes_it() -> None:
    assert user_input(blocks_of([AUDIO]), no_audio=None) == [
        AudioUserInput(url="data:audio/wav;base64,AAAA")
    ]
    assert has_audio(blocks_of([TextContentBlock(text="a"), AUDIO]))
    assert not has_audio(blocks_of([TextContentBlock(text="a"), LINK]))


def test_audio_is_refused_by_its_place_where_the_model_takes_none() -> None:
    with pytest.raises(RpcError, match=r"prompt\.1: the model x takes no audio") as refused:
        user_input(
            blocks_of([TextContentBlock(text="hi"), AUDIO]), no_audio="the model x takes no audio"
        )

    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (AudioContentBlock(data="", mime_type="audio/wav"), "empty"),
        (AudioContentBlock(data="AAAA", mime_type="video/mp4"), "video/mp4"),
        (AudioContentBlock(data="AAA", mime_type="audio/wav"), "base64"),
    ],
)
def test_audio_that_is_no_audio_is_refused(block: ContentBlock, why: str) -> None:
    with pytest.raises(RpcError, match=why) as refused:
        user_input(blocks_of([block]), no_audio=None)

    assert refused.value.code == -32602


def test_all_that_can_be_mapped_is_advertised() -> None:
    advertised = decode(AgentCapabilities, AGENT_CAPABILITIES).prompt_capabilities

    assert advertised is not None
    assert advertised.image
    assert not advertised.audio, "which only Codex knows, who is not asked before the answer"
    assert advertised.embedded_context


def test_an_empty_prompt_is_refused() -> None:
    assert "no content" in refusal().message


def test_the_first_block_that_cannot_be_sent_refuses_the_whole_prompt() -> None:
    bad = ImageContentBlock(data="AAAA", mime_type="image/png")

    assert refusal(TextContentBlock(text="hi"), LINK, bad).message.startswith("prompt.2: ")
