"""The content blocks of a prompt → the input of a Codex turn.

Source: ACP page "Content", Codex schema ``UserInput``. `mapping.agent.capabilities` says which
blocks a client may send. What a file holds that a block names is an input; nothing is read here.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.codex._generated.models import TextUserInput
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.events.content import (
    AudioBlock,
    BlobResource,
    ImageBlock,
    LinkBlock,
    TextBlock,
    TextResource,
)
from codex_acp.mapping.prompt.media import audio_input, decoded, image_input
from codex_acp.routing.display import fenced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.codex._generated.models import UserInput
    from codex_acp.mapping.events.content import Block

_NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})
_NO_AUDIO: Final = "a command takes no audio"

_ESCAPED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_PLAIN_TARGET: Final = re.compile(r"[^\s()<>]+")
"""Target that a Markdown link may have unescaped."""


def user_input(
    blocks: Sequence[Block],
    files: Mapping[str, bytes] = _NO_FILES,
    no_audio: str | None = _NO_AUDIO,
) -> list[UserInput]:
    """One input for each block, in order.

    ``files`` holds the bytes of the `wanted_images` that could be read. ``no_audio`` says why
    audio cannot be taken; None: it can. Raises RpcError -32602 for an empty prompt and for a block
    that cannot be given to the model, naming it.
    """
    if not blocks:
        raise RpcError(INVALID_PARAMS, "prompt: it has no content")
    return [
        _input(block, f"prompt.{number}", files, no_audio) for number, block in enumerate(blocks)
    ]


def wanted_images(blocks: Sequence[Block]) -> list[str]:
    """Absolute paths of the images that blocks name beside, or instead of, their data."""
    images = (block for block in blocks if isinstance(block, ImageBlock))
    paths = (local_path(block.uri) for block in images if block.uri is not None)
    return list(dict.fromkeys(path for path in paths if path is not None))


def has_audio(blocks: Sequence[Block]) -> bool:
    """Whether a block is a recording, which not every model takes."""
    return any(isinstance(block, AudioBlock) for block in blocks)


def local_path(uri: str) -> str | None:
    """The absolute path that a ``file:`` URI names on this machine; None for any other."""
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    rest = rest.partition("#")[0].partition("?")[0]
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            return None
        rest = f"/{rest}"
    raw = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), rest.encode(errors="replace"))
    path = raw.decode(errors="surrogateescape")
    return path if path.startswith("/") and "\0" not in path else None


def _input(block: Block, where: str, files: Mapping[str, bytes], no_audio: str | None) -> UserInput:
    match block:
        case TextBlock():
            return TextUserInput(text=block.text)
        case LinkBlock():
            # Codex has a `mention` for this, but shows it to no model (0.163): a link it can read.
            return TextUserInput(text=_link(block.title or block.name, block.uri))
        case ImageBlock():
            path = None if block.uri is None else local_path(block.uri)
            return image_input(block.data, block.mime_type, path, files, where)
        case AudioBlock():
            if no_audio is not None:
                raise RpcError(INVALID_PARAMS, f"{where}: {no_audio}")
            return audio_input(block.data, block.mime_type, where)
        case TextResource() | BlobResource():
            return _resource(block, where)
        case _:
            assert_never(block)


def _resource(resource: TextResource | BlobResource, where: str) -> UserInput:
    """A file's text below a link to it; an image as one; other bytes are only named."""
    link = _link(_name_of(resource.uri), resource.uri)
    if isinstance(resource, TextResource):
        return TextUserInput(text=f"{link}\n{fenced(resource.text)}")
    mime_type = (resource.mime_type or "").partition(";")[0].strip().lower()
    if mime_type.startswith("image/"):
        return image_input(resource.blob, mime_type, None, _NO_FILES, where)
    content = decoded(resource.blob, where)
    if mime_type.startswith("text/"):
        try:
            return TextUserInput(text=f"{link}\n{fenced(content.decode())}")
        except UnicodeDecodeError:
            pass
    kind = mime_type or "of unknown type"
    return TextUserInput(text=f"{link} ({kind}, {len(content)} bytes, not shown)")


def _link(name: str, uri: str) -> str:
    """A Markdown link; to a local file by its path, which the model's tools take as it is."""
    path = local_path(uri)
    target = uri if path is None else path + uri[len(uri.partition("#")[0]) :]
    if not _PLAIN_TARGET.fullmatch(target):
        target = f"<{target.translate({ord('<'): '%3C', ord('>'): '%3E', ord(chr(10)): '%0A'})}>"
    label = re.sub(r"([\[\]\\])", r"\\\1", " ".join(name.split()))
    return f"[{label}]({target})"


def _name_of(uri: str) -> str:
    """The last part of a URI's path; the URI itself if that has none."""
    path = local_path(uri)
    plain = uri.partition("#")[0].partition("?")[0] if path is None else path
    return plain.rstrip("/").rpartition("/")[2] or uri
