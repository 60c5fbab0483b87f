"""Images and audio of a prompt: whether the bytes are what they are said to be.

Codex leaves out an image that it cannot read and tells only the model, so it is refused here,
where the person hears of it. Bytes that are on disk are an input; nothing is read.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated import models
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_MEDIA_BYTES: Final = 20 * 1024 * 1024
"""Of one image or recording: above any screenshot, below what model providers take at once."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_RIFF_WEBP: Final = (b"RIFF", b"WEBP")

_SAME_TYPE: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
}
"""Other names of a type that programs use."""


def image_input(
    data: str, mime_type: str, path: str | None, files: Mapping[str, bytes], where: str
) -> models.UserInput:
    """An image, by its ``path`` if the file there is the same: then the model can name it.

    ``data`` is base64; it may be empty if ``files`` has the bytes at ``path``. ``where`` names the
    block. Raises RpcError -32602 for what is no image, or none that Codex can read.
    """
    declared = _SAME_TYPE.get(mime_type.lower(), mime_type.lower())
    if not declared.startswith("image/"):
        raise _invalid(where, f"{mime_type!r} is not the type of an image")
    on_disk = None if path is None else files.get(path)
    content = decoded(data, where) if data or on_disk is None else on_disk
    if not content:
        raise _invalid(where, "the image is empty")
    actual = _image_type(content)
    if actual is None:
        raise _invalid(where, "this is no PNG, JPEG, GIF or WebP image; Codex reads no others")
    if actual != declared:
        raise _invalid(where, f"the image is said to be {mime_type}, but it is {actual}")
    if path is not None and on_disk == content:
        return models.LocalImageUserInput(path=path)
    return models.UrlImageUserInput(url=_data_url(actual, content))


def audio_input(data: str, mime_type: str, where: str) -> models.UserInput:
    """A recording. Raises RpcError -32602 for what cannot be one."""
    declared = mime_type.lower()
    if not declared.startswith("audio/"):
        raise _invalid(where, f"{mime_type!r} is not the type of a recording")
    content = decoded(data, where)
    if not content:
        raise _invalid(where, "the recording is empty")
    return models.AudioUserInput(url=_data_url(declared, content))


def decoded(data: str, where: str) -> bytes:
    """The bytes of a base64 text, which may be broken into lines. Raises RpcError -32602."""
    if len(data) > MAX_MEDIA_BYTES * 3 // 2:
        raise _too_large(where)
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid(where, f"its data is not base64: {error}") from error
    if len(content) > MAX_MEDIA_BYTES:
        raise _too_large(where)
    return content


def _image_type(content: bytes) -> str | None:
    """The type that the first bytes tell; only those that Codex can read."""
    if content.startswith(_PNG):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if (content[:4], content[8:12]) == _RIFF_WEBP:
        return "image/webp"
    return None


def _data_url(mime_type: str, content: bytes) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(content).decode('ascii')}"


def _too_large(where: str) -> RpcError:
    limit = MAX_MEDIA_BYTES // (1024 * 1024)
    return _invalid(where, f"it is larger than {limit} MiB; send a smaller one")


def _invalid(where: str, message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"{where}: {message}")
