"""What a prompt holds besides text: what the model sees of it, through the real Codex."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, cast

import anyio
import pytest

from codex_acp.acp.types import (
    AudioContentBlock,
    ContentBlock,
    ImageContentBlock,
    PromptRequest,
    PromptResponse,
    ResourceLinkContentBlock,
    TextContentBlock,
)
from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc import INVALID_PARAMS
from codex_acp.testing import ModelResponse, Text
from tests.e2e.adapter_bench import WAIT, AdapterBench

ANYTHING = [ModelResponse(Text("Seen."), repeat=True)]


def png() -> bytes:
    """A picture of four red points."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * 2) * 2
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


PNG = base64.b64encode(png()).decode()


async def send(bench: AdapterBench, session: str, *blocks: ContentBlock) -> PromptResponse:
    with anyio.fail_after(WAIT):
        return await bench.client.session_prompt(
            PromptRequest(session_id=session, prompt=list(blocks))
        )


def seen(bench: AdapterBench) -> list[dict[str, Any]]:
    """The parts of the newest message of the user that the model got."""
    messages = [i for i in bench.model.requests[-1].items if i.get("role") == "user"]
    return cast("list[dict[str, Any]]", messages[-1]["content"])


async def test_an_image_reaches_the_model() -> None:
    async with AdapterBench(ANYTHING) as bench:
        session = await bench.new_session()
        image = ImageContentBlock(data=PNG, mime_type="image/png")
        response = await send(bench, session, TextContentBlock(text="What is it?"), image)

        assert response.stop_reason == "end_turn"
        text, picture = seen(bench)
        assert text["text"] == "What is it?"
        assert picture["type"] == "input_image"
        assert picture["image_url"] == f"data:image/png;base64,{PNG}"


async def test_an_image_of_the_workspace_reaches_the_model_with_its_path() -> None:
    async with AdapterBench(ANYTHING) as bench:
        session = await bench.new_session()
        file = bench.home.workspace / "a picture.png"
        file.write_bytes(png())
        image = ImageContentBlock(data=PNG, mime_type="image/png", uri=file.as_uri())
        await send(bench, session, image)

        kinds = [part["type"] for part in seen(bench)]
        assert kinds == ["input_text", "input_image", "input_text"]
        assert str(file) in seen(bench)[0]["text"]


async def test_links_and_embedded_files_reach_the_model_as_text() -> None:
    resource = {"uri": "file:///w/a.py", "text": "print('```')\n"}
    embedded = PromptRequest.model_validate(
        {"sessionId": "s", "prompt": [{"type": "resource", "resource": resource}]}
    ).prompt[0]
    link = ResourceLinkContentBlock(name="notes", uri="file:///w/notes.md")
    async with AdapterBench(ANYTHING) as bench:
        session = await bench.new_session()
        await send(bench, session, link, embedded)

        first, second = (part["text"] for part in seen(bench))
        assert first == "[notes](/w/notes.md)"
        assert second == "[a.py](/w/a.py)\n````\nprint('```')\n````"


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (ImageContentBlock(data="bm8gaW1hZ2U=", mime_type="image/png"), "no PNG"),
        (ImageContentBlock(data="%%%", mime_type="image/png"), "not base64"),
        (ImageContentBlock(data=PNG, mime_type="image/gif"), "it is image/png"),
        (AudioContentBlock(data="UklGRg==", mime_type="audio/wav"), "gpt-5.5 takes no audio"),
    ],
    ids=["no image", "no base64", "another type", "audio"],
)
async def test_what_the_model_could_not_see_is_refused_and_nothing_is_lost(
    block: ContentBlock, why: str
) -> None:
    async with AdapterBench(ANYTHING) as bench:
        session = await bench.new_session()
        with pytest.raises(ErrorReply, match=why) as refused:
            await send(bench, session, TextContentBlock(text="Look:"), block)

        assert refused.value.code == INVALID_PARAMS
        assert "prompt.1" in refused.value.message
        assert not bench.model.requests
        assert (await bench.prompt(session, "and now")).stop_reason == "end_turn"
        assert "Look:" not in str(bench.model.requests[-1].items)
