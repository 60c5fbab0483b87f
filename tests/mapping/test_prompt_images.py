"""Images of a prompt: what is one goes to Codex as it is, what is none is refused with a reason."""

from __future__ import annotations

import base64

import pytest

from codex_acp.acp.types import ImageContentBlock, TextContentBlock
from codex_acp.codex.types import LocalImageUserInput, UrlImageUserInput
from codex_acp.errors import RpcError
from codex_acp.mapping import prompt
from codex_acp.mapping.content import blocks_of
from codex_acp.mapping.prompt import user_input, wanted_images

PNG = b"\x89PNG\r\n\x1a\n and the rest"
JPEG = b"\xff\xd8\xff\xe0 and the rest"
GIF = b"GIF89a and the rest"
WEBP = b"RIFF\x10\x00\x00\x00WEBP and the rest"


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def image(content: bytes, mime: str = "image/png", uri: str | None = None) -> ImageContentBlock:
    return ImageContentBlock(data=b64(content), mime_type=mime, uri=uri)


def refusal(block: ImageContentBlock, files: dict[str, bytes] | None = None) -> str:
    with pytest.raises(RpcError) as refused:
        user_input(blocks_of([TextContentBlock(text="hi"), block]), files or {})
    assert refused.value.code == -32602
    assert refused.value.message.startswith("prompt.1: ")
    return refused.value.message


@pytest.mark.parametrize(
    ("content", "mime", "sent"),
    [
        (PNG, "image/png", "image/png"),
        (PNG, "Image/PNG", "image/png"),
        (JPEG, "image/jpeg", "image/jpeg"),
        (JPEG, "image/jpg", "image/jpeg"),
        (GIF, "image/gif", "image/gif"),
        (WEBP, "image/webp", "image/webp"),
    ],
)
def test_an_image_is_a_data_url_of_its_type(content: bytes, mime: str, sent: str) -> None:
    url = f"data:{sent};base64,{b64(content)}"

    assert user_input(blocks_of([image(content, mime)])) == [UrlImageUserInput(url=url)]


def test_base64_may_be_broken_into_lines() -> None:
    data = b64(PNG)
    block = ImageContentBlock(data=f"{data[:8]}\r\n{data[8:]}\n", mime_type="image/png")

    assert user_input(blocks_of([block])) == user_input(blocks_of([image(PNG)]))


def test_an_image_that_is_the_file_it_names_is_sent_by_its_path() -> None:
    block = image(PNG, uri="file:///w/a%20b.png")
    assert wanted_images(blocks_of([block, TextContentBlock(text="x"), block])) == ["/w/a b.png"]

    assert user_input(blocks_of([block]), {"/w/a b.png": PNG}) == [
        LocalImageUserInput(path="/w/a b.png")
    ]


def test_an_image_without_data_is_the_file_it_names() -> None:
    block = ImageContentBlock(data="", mime_type="image/png", uri="file:///a.png")

    assert user_input(blocks_of([block]), {"/a.png": PNG}) == [LocalImageUserInput(path="/a.png")]


@pytest.mark.parametrize("files", [{}, {"/a.png": PNG + b"newer"}], ids=["gone", "changed"])
def test_an_image_whose_file_is_another_is_sent_as_it_was_given(files: dict[str, bytes]) -> None:
    (found,) = user_input(blocks_of([image(PNG, uri="file:///a.png")]), files)

    assert isinstance(found, UrlImageUserInput)


def test_an_image_of_the_web_names_no_file() -> None:
    assert wanted_images(blocks_of([image(PNG, uri="https://example.com/a.png"), image(PNG)])) == []


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (ImageContentBlock(data="not base64!", mime_type="image/png"), "not base64"),
        (ImageContentBlock(data="ZZ\u00e9=", mime_type="image/png"), "not base64"),
        (ImageContentBlock(data=b64(PNG)[:-1], mime_type="image/png"), "not base64"),
        (ImageContentBlock(data="", mime_type="image/png"), "empty"),
        (ImageContentBlock(data="\n", mime_type="image/png"), "empty"),
        (image(b"just words"), "no PNG"),
        (image(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"), "no PNG"),
        (image(PNG, "application/pdf"), "'application/pdf' is not"),
        (image(PNG, ""), "'' is not"),
        (image(JPEG, "image/png"), "it is image/jpeg"),
        (image(PNG[:4]), "no PNG"),
    ],
)
def test_what_is_no_image_is_refused_by_its_place(block: ImageContentBlock, why: str) -> None:
    assert why in refusal(block)


def test_a_file_that_is_no_image_is_refused() -> None:
    block = ImageContentBlock(data="", mime_type="image/png", uri="file:///etc/passwd")

    assert "no PNG" in refusal(block, {"/etc/passwd": b"root:x:0:0"})


def test_an_image_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "MAX_MEDIA_BYTES", len(PNG))
    assert len(user_input(blocks_of([image(PNG)]))) == 1

    assert "larger than" in refusal(image(PNG + b"x"))
    assert "larger than" in refusal(image(PNG * 3))
