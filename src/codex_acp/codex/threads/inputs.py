"""Makes the input of a turn: text, images, and whatever else Codex takes.

Owns the short forms. The long ones are the members of `UserInput` in `codex_acp.codex.types`:
audio, files that were uploaded.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp.codex._generated import models
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.codex._generated.models import ImageDetail, UserInput

Input: TypeAlias = "str | UserInput | Sequence[str | UserInput]"
"""A text, one part, or several parts of which the plain strings are texts."""

_SKILL_FILE: Final = "SKILL.md"

_URL_SCHEMES: Final = ("http://", "https://", "data:")

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""How files of these types begin; WebP has its name further on."""


def user_input(given: Input) -> list[UserInput]:
    """The parts as Codex takes them. Raises MisuseError for what is none, or if there are none."""
    parts = list(given) if isinstance(given, list | tuple) else [given]
    if not parts:
        raise MisuseError("a turn needs something to begin with: a text or an image")
    return [_part(part) for part in parts]


def image(
    source: str | os.PathLike[str] | bytes, *, detail: ImageDetail | None = None
) -> UserInput:
    """An image: a file, a URL (``https://`` or ``data:``), or its bytes.

    ``detail`` is how closely the model looks. Codex reads a file itself, when the turn starts; for
    one on the machine of a remote app-server use `LocalImageUserInput`.

    Raises MisuseError if there is no such file, or the bytes are no PNG, JPEG, GIF or WebP.
    """
    made = _image(source)
    if detail is not None:
        made.detail = detail
    return made


def skill(path: str | os.PathLike[str], *, name: str | None = None) -> UserInput:
    """A skill that the model is to use: its directory, or the ``SKILL.md`` in it.

    ``name`` is how Codex lists it (``skills_list``), by default the directory's name. Codex reads
    the file itself, when the turn starts. Raises MisuseError if there is no such file.
    """
    file = os.path.abspath(os.fspath(path))  # noqa: PTH100 - a plain string is wanted
    if os.path.isdir(file):  # noqa: PTH112
        file = os.path.join(file, _SKILL_FILE)  # noqa: PTH118
    if not os.path.isfile(file):  # noqa: PTH113
        raise MisuseError(f"there is no skill {file!r}; give its directory or its {_SKILL_FILE}")
    return models.SkillUserInput(name=name or os.path.basename(os.path.dirname(file)), path=file)  # noqa: PTH119, PTH120


def mention(path: str, *, name: str) -> UserInput:
    """An app or a plugin by the path with which Codex lists it, for example ``app://ID``.

    Files are not mentioned this way: Codex tells the model nothing of those; write their path.
    Raises MisuseError for a path without a scheme.
    """
    if "://" not in path:
        message = (
            f"a mention is an app or a plugin ('app://...'), not {path!r}; write paths as text"
        )
        raise MisuseError(message)
    return models.MentionUserInput(name=name, path=path)


def _image(
    source: str | os.PathLike[str] | bytes,
) -> models.UrlImageUserInput | models.LocalImageUserInput:
    if isinstance(source, bytes | bytearray | memoryview):
        return models.UrlImageUserInput(url=data_url(bytes(source)))
    if isinstance(source, str) and source.lower().startswith(_URL_SCHEMES):
        return models.UrlImageUserInput(url=source)
    path = os.path.abspath(os.fspath(source))  # noqa: PTH100 - a plain string is wanted
    if not os.path.isfile(path):  # noqa: PTH113
        raise MisuseError(f"there is no image file {path!r}")
    return models.LocalImageUserInput(path=path)


def data_url(data: bytes) -> str:
    """The bytes of an image as a ``data:`` URL. Raises MisuseError for a type that is not known."""
    is_webp = data.startswith(b"RIFF") and data[8:12] == b"WEBP"
    types = [name for signature, name in _SIGNATURES if data.startswith(signature)]
    media_type = next(iter(types), "image/webp" if is_webp else None)
    if media_type is None:
        message = "these bytes are no PNG, JPEG, GIF or WebP; give a data: URL with their type"
        raise MisuseError(message)
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _part(part: object) -> UserInput:
    if isinstance(part, str):
        return models.TextUserInput(text=part)
    if isinstance(part, _parts()):
        return part  # type: ignore[return-value] # a member of the union
    message = f"a turn takes texts and members of UserInput, not {part!r}; for an image: image(...)"
    raise MisuseError(message)


def _parts() -> tuple[type, ...]:
    return (
        models.TextUserInput,
        models.UrlImageUserInput,
        models.FileIdImageUserInput,
        models.LocalImageUserInput,
        models.AudioUserInput,
        models.FileIdAudioUserInput,
        models.LocalAudioUserInput,
        models.SkillUserInput,
        models.MentionUserInput,
    )
