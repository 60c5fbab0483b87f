"""The input of a Codex turn → blocks: how a person's message is shown again.

Source: Codex schema ``UserInput``; ACP page "Content". The other way is ``mapping.prompt.message``.
"""

from __future__ import annotations

import re
from typing import Final, assert_never

from codex_acp.codex._generated import models
from codex_acp.mapping.events.content import AudioBlock, Block, ImageBlock, LinkBlock, TextBlock
from codex_acp.mapping.messages.question_replies import shown_replies
from codex_acp.routing.display import visible
from codex_acp.wire.model import UnknownVariant

_DATA_URL: Final = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)(?:;[^,;]*)*;base64,", re.ASCII)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""At least two characters: one would be the drive of a Windows path."""

_PLAIN_IN_URI: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:@!$&'()*+,;="
)
"""Bytes that a URI's path may hold unescaped. Source: RFC 3986, ``pchar``."""


def content_block(part: models.UserInput) -> Block:
    """One part of a message; a path becomes a link to it, since nothing is read here."""
    match part:
        case models.TextUserInput():
            return TextBlock(shown_replies(part.text))
        case models.UrlImageUserInput():
            return _media(part.url, ImageBlock, "image")
        case models.AudioUserInput():
            return _media(part.url, AudioBlock, "audio")
        case models.FileIdImageUserInput():
            return TextBlock(f"[image {part.file_id}]")
        case models.FileIdAudioUserInput():
            return TextBlock(f"[audio {part.file_id}]")
        case models.LocalImageUserInput() | models.LocalAudioUserInput():
            return _link(_name_of(part.path), part.path)
        case models.SkillUserInput():
            return _link(f"${part.name}", part.path)
        case models.MentionUserInput():
            return _link(part.name, part.path)
        case UnknownVariant():
            return TextBlock(f"[{part.wire().get('type', 'unknown content')}]")
        case _:
            assert_never(part)


def file_uri(path: str) -> str:
    """An absolute path as a ``file:`` URI; what has a scheme already is left alone."""
    if _SCHEME.match(path):
        return path
    slashed = path.replace("\\", "/") if re.match(r"[A-Za-z]:\\", path) else path
    quoted = "".join(
        chr(byte) if byte in _PLAIN_IN_URI else f"%{byte:02X}"
        for byte in slashed.encode("utf-8", "surrogateescape")
    )
    return f"file://{quoted}" if quoted.startswith("/") else f"file:///{quoted}"


def _media(url: str, block: type[ImageBlock | AudioBlock], name: str) -> Block:
    """Data that the URL holds itself, or else a link."""
    found = _DATA_URL.match(url)
    if found is None:
        return _link(name, url)
    return block(url[found.end() :], found["mime"])


def _link(name: str, path: str) -> LinkBlock:
    return LinkBlock(visible(name), file_uri(path))


def _name_of(path: str) -> str:
    return re.split(r"[/\\]", path)[-1] or path
