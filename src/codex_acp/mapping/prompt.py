"""Map a prompt's blocks to the input of a turn, and back; make the blocks of tool calls.

`mapping.agent` says which blocks a client may send. Reads no files: the caller passes the bytes of
the images that blocks name.
Source: ACP page "Content", Codex schema ``UserInput``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp._json import text_at
from codex_acp.codex._generated import models
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import INVALID_PARAMS
from codex_acp.mapping.call import end_of_output
from codex_acp.mapping.content import (
    AudioBlock,
    BlobResource,
    Block,
    FileDiff,
    ImageBlock,
    LinkBlock,
    TextBlock,
    TextResource,
    block_of_json,
)
from codex_acp.routing.changes import CONTENT_LIMIT, code_content
from codex_acp.routing.display import (
    fenced,
    inline,
    json_text,
    shortened,
    visible,
    visible_controls,
)
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.mapping.content import CallContent

_NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})
_NO_AUDIO: Final = "a command takes no audio"
"""Reason for the blocks of a slash command; for a turn, the caller passes the model's reason."""
_PLAIN_TARGET: Final = re.compile(r"[^\s()<>]+")
"""Target that a Markdown link may have unescaped."""
_IN_BRACKETS: Final = str.maketrans({"<": "%3C", ">": "%3E", "\n": "%0A"})
"""Characters that would end a target in ``< >`` → their escapes."""


def user_input(
    blocks: Sequence[Block],
    files: Mapping[str, bytes] = _NO_FILES,
    no_audio: str | None = _NO_AUDIO,
) -> list[models.UserInput]:
    """Return an input for each block, in order. ``files`` has the bytes of the `wanted_images` that
    could be read. ``no_audio`` is the reason to refuse audio; None: the model takes audio. Raises
    RpcError -32602 for an empty prompt, and for a block that the model cannot get."""
    if not blocks:
        raise RpcError(INVALID_PARAMS, "prompt: it has no content")
    return [
        _input_of(block, f"prompt.{number}", files, no_audio) for number, block in enumerate(blocks)
    ]


def wanted_images(blocks: Sequence[Block]) -> list[str]:
    """Return the absolute paths of images that blocks name, with their data or without."""
    images = (block for block in blocks if isinstance(block, ImageBlock))
    paths = (local_path(block.uri) for block in images if block.uri is not None)
    return list(dict.fromkeys(path for path in paths if path is not None))


def has_audio(blocks: Sequence[Block]) -> bool:
    """Return whether a block is audio, which not every model takes."""
    return any(isinstance(block, AudioBlock) for block in blocks)


def local_path(uri: str) -> str | None:
    """Return the absolute path of a ``file:`` URI on this machine; None for any other URI, and for
    a path that is not UTF-8, which no JSON can have."""
    from urllib.parse import unquote_to_bytes  # here: most prompts name no file

    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    rest = rest.partition("#")[0].partition("?")[0]
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            return None
        rest = f"/{rest}"
    try:
        path = unquote_to_bytes(rest.encode(errors="replace")).decode()
    except UnicodeDecodeError:
        return None
    return path if path.startswith("/") and "\0" not in path else None


def _input_of(
    block: Block, where: str, files: Mapping[str, bytes], no_audio: str | None
) -> models.UserInput:
    match block:
        case TextBlock():
            return models.TextUserInput(text=block.text)
        case LinkBlock():
            # Not Codex's `mention`: Codex 0.163 does not show it to the model.
            return models.TextUserInput(text=_markdown_link(block.title or block.name, block.uri))
        case ImageBlock():
            path = None if block.uri is None else local_path(block.uri)
            return image_input(block.data, block.mime_type, path, files, where)
        case AudioBlock():
            if no_audio is not None:
                raise _invalid(where, no_audio)
            declared = block.mime_type.lower()
            if not declared.startswith("audio/"):
                raise _invalid(where, f"{block.mime_type!r} is not the type of a recording")
            content = decoded(block.data, where)
            if not content:
                raise _invalid(where, "the recording is empty")
            return models.AudioUserInput(url=_data_url(declared, content))
        case TextResource() | BlobResource():
            return _resource_input(block, where)
        case _:
            assert_never(block)


def _resource_input(resource: TextResource | BlobResource, where: str) -> models.UserInput:
    """Return an image, or a link with the resource's text below, or for other bytes only a link."""
    uri = resource.uri
    path = local_path(uri) or re.split("[?#]", uri)[0]
    link = _markdown_link(path.rstrip("/").rpartition("/")[2] or uri, uri)
    if isinstance(resource, TextResource):
        return models.TextUserInput(text=f"{link}\n{fenced(resource.text)}")
    mime_type = (resource.mime_type or "").partition(";")[0].strip().lower()
    if mime_type.startswith("image/"):
        return image_input(resource.blob, mime_type, None, _NO_FILES, where)
    content = decoded(resource.blob, where)
    if mime_type.startswith("text/"):
        try:
            return models.TextUserInput(text=f"{link}\n{fenced(content.decode())}")
        except UnicodeDecodeError:
            pass
    kind = mime_type or "of unknown type"
    return models.TextUserInput(text=f"{link} ({kind}, {len(content)} bytes, not shown)")


def _markdown_link(name: str, uri: str) -> str:
    """Return a Markdown link; a local file's target is its path: the model's tools take paths."""
    path = local_path(uri)
    _, hash_sign, fragment = uri.partition("#")
    target = uri if path is None else path + hash_sign + fragment
    if not _PLAIN_TARGET.fullmatch(target):
        target = f"<{target.translate(_IN_BRACKETS)}>"
    label = re.sub(r"([\[\]\\])", r"\\\1", " ".join(name.split()))
    return f"[{label}]({target})"


# Images and audio of a prompt: check that the bytes have the declared type.


MAX_MEDIA_BYTES: Final = 20 * 1024 * 1024
"""Bytes of one image or recording: more than any screenshot, less than the limit of providers."""
_TOO_LARGE: Final = f"it is larger than {MAX_MEDIA_BYTES // 1024**2} MiB; send a smaller one"
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_RIFF_WEBP: Final = (b"RIFF", b"WEBP")
_SAME_TYPE: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
}
"""Other name of a type → the name that is used here."""


def image_input(
    data: str, mime_type: str, path: str | None, files: Mapping[str, bytes], where: str
) -> models.UserInput:
    """Return the input for an image: its ``path`` if the file has the same bytes, so that the model
    knows the path, else its data.

    ``data`` is base64; it may be empty if ``files`` has the bytes at ``path``. ``where`` names the
    block in errors. Raises RpcError -32602 for data that is no image that Codex can read.
    """
    declared = _SAME_TYPE.get(mime_type.lower(), mime_type.lower())
    if not declared.startswith("image/"):
        raise _invalid(where, f"{mime_type!r} is not the type of an image")
    on_disk = None if path is None else files.get(path)
    content = decoded(data, where) if data or on_disk is None else on_disk
    if not content:
        raise _invalid(where, "the image is empty")
    actual = None
    if content.startswith(_PNG):
        actual = "image/png"
    elif content.startswith(b"\xff\xd8\xff"):
        actual = "image/jpeg"
    elif content.startswith((b"GIF87a", b"GIF89a")):
        actual = "image/gif"
    elif (content[:4], content[8:12]) == _RIFF_WEBP:
        actual = "image/webp"
    if actual is None:
        raise _invalid(where, "this is no PNG, JPEG, GIF or WebP image; Codex reads no others")
    if actual != declared:
        raise _invalid(where, f"the image is said to be {mime_type}, but it is {actual}")
    if path is not None and on_disk == content:
        return models.LocalImageUserInput(path=path)
    return models.UrlImageUserInput(url=_data_url(actual, content))


def decoded(data: str, where: str) -> bytes:
    """Return the bytes of a base64 text, which may have line breaks. Raises RpcError -32602."""
    if len(data) > MAX_MEDIA_BYTES * 3 // 2:  # base64 is longer by a third, and has line breaks
        raise _invalid(where, _TOO_LARGE)
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid(where, f"its data is not base64: {error}") from error
    if len(content) > MAX_MEDIA_BYTES:
        raise _invalid(where, _TOO_LARGE)
    return content


def _data_url(mime_type: str, content: bytes) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(content).decode('ascii')}"


def _invalid(where: str, message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"{where}: {message}")


# The input of a turn as blocks: to show a message of the person again.

_DATA_URL: Final = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)(?:;[^,;]*)*;base64,", re.ASCII)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Scheme of at least two letters: one letter is the drive of a Windows path."""
_PLAIN_IN_URI: Final = "/:@!$&'()*+,;="
"""Signs that the path of a URI may have unescaped. Source: RFC 3986, ``pchar``."""


def content_block(part: models.UserInput) -> Block:
    """Return a part of a message as a block; a path becomes a link to the file."""
    match part:
        case models.TextUserInput():
            return TextBlock(shown_replies(part.text))
        case models.UrlImageUserInput():
            return _media_block(part.url, ImageBlock, "image")
        case models.AudioUserInput():
            return _media_block(part.url, AudioBlock, "audio")
        case models.FileIdImageUserInput():
            return TextBlock(f"[image {part.file_id}]")
        case models.FileIdAudioUserInput():
            return TextBlock(f"[audio {part.file_id}]")
        case models.LocalImageUserInput() | models.LocalAudioUserInput():
            return _file_block(re.split(r"[/\\]", part.path)[-1] or part.path, part.path)
        case models.SkillUserInput():
            return _file_block(f"${part.name}", part.path)
        case models.MentionUserInput():
            return _file_block(part.name, part.path)
        case UnknownVariant():
            return TextBlock(f"[{part.wire().get('type', 'unknown content')}]")
        case _:
            assert_never(part)


def file_uri(path: str) -> str:
    """Return an absolute path as a ``file:`` URI; a text with a scheme unchanged."""
    from urllib.parse import quote  # here: most prompts name no file

    if _SCHEME.match(path):
        return path
    slashed = path.replace("\\", "/") if re.match(r"[A-Za-z]:\\", path) else path
    quoted = quote(slashed, _PLAIN_IN_URI, errors="surrogateescape")
    return f"file://{quoted}" if quoted.startswith("/") else f"file:///{quoted}"


def _media_block(url: str, block: type[ImageBlock | AudioBlock], name: str) -> Block:
    """Return the data of a ``data:`` URL as a ``block``; for another URL a link."""
    data_url = _DATA_URL.match(url)
    if data_url is None:
        return _file_block(name, url)
    return block(url[data_url.end() :], data_url["mime"])


def _file_block(name: str, path: str) -> LinkBlock:
    return LinkBlock(visible(name), file_uri(path))


# Content of tool calls: JSON, output, links, and blocks of MCP and of the Responses API.

DATA_LIMIT: Final = 8 * 1024 * 1024
"""Characters of base64 in one block: an image of 6 MiB, more than models make."""
_NAME_LIMIT: Final = 500
"""Characters of a link's name, and of its host."""
_UNSAFE_IN_URI: Final = re.compile(r"[^\w:/?#@!$&'*+,;=.~%-]+", re.ASCII)
"""Characters that RFC 3986 forbids in a URI, or that would end it in Markdown."""
_DATA_KEYS: Final = ("data", "blob")
"""Keys of MCP's blocks and resources that have base64."""
_SHORT_DATA: Final = 1_000
"""Characters up to which a value of `_DATA_KEYS` is kept: it may be ordinary text."""
_MAX_DEPTH: Final = 20
"""Levels of JSON that are searched for data; results of tools have few levels."""


def bounded_block(block: ImageBlock | AudioBlock | BlobResource) -> Block:
    """Return a block; if its base64 is above `DATA_LIMIT`, a text with its length instead."""
    if isinstance(block, BlobResource):
        name, data = "resource", block.blob
    else:
        name, data = "image" if isinstance(block, ImageBlock) else "audio", block.data
    if len(data) > DATA_LIMIT:
        return TextBlock(f"[{name} of {len(data):,} characters of base64 not shown]")
    return block


def json_content(value: object, heading: str = "", limit: int = CONTENT_LIMIT) -> TextBlock:
    """Return a JSON value as a code block of at most ``limit`` characters."""
    return code_content(json_text(plain(value)), "json", heading, limit)


def output_block(output: str) -> TextBlock:
    """Return the end of the output of a command, tool or server as a code block. Emoji and joiners
    are not escaped: the person approves nothing by this text."""
    return TextBlock(fenced(end_of_output(visible_controls(output.replace("\r\n", "\n")))))


def untrusted_link(name: str, uri: str, description: str | None = None) -> Block:
    """Return a link with an untrusted name and target: the name shows the host of the target. A
    target that is neither http, https nor file becomes text, which a client cannot open."""
    shown, uri = inline(name, _NAME_LIMIT), _UNSAFE_IN_URI.sub(_percent_escaped, uri)
    scheme, _, rest = uri.partition(":")
    host = ""
    if scheme.lower() in ("http", "https"):
        host = re.split(r"[/?#]", rest.lstrip("/"))[0].rpartition("@")[2]
    elif scheme.lower() != "file":
        lines = "\n".join(filter(None, (name, uri, description)))
        return code_content(lines, heading="Resource:")
    if host and name != uri:
        shown = f"{shown} ({inline(host, _NAME_LIMIT)})"
    return LinkBlock(shown, uri, inline(description) if description else None)


def _percent_escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace"))


def file_link(path: str) -> Block:
    """Return a link to a file, named by the last part of its path."""
    return untrusted_link(path.rstrip("/").rsplit("/", 1)[-1] or path, file_uri(path))


def mcp_content(value: object) -> Block:
    """Return a block of an MCP result, its text as a code block; an unknown block as JSON."""
    block = block_of_json(plain(value))
    return json_content(value) if block is None else _safe_block(block)


def _safe_block(block: Block) -> Block:
    """Return an untrusted block with escaped texts, and only the fields that are shown."""
    match block:
        case TextBlock():
            return output_block(block.text)
        case ImageBlock():
            return bounded_block(ImageBlock(block.data, block.mime_type))
        case AudioBlock():
            return bounded_block(block)
        case LinkBlock():
            return untrusted_link(block.title or block.name, block.uri, block.description)
        case BlobResource():
            uri = _UNSAFE_IN_URI.sub(_percent_escaped, block.uri)
            return bounded_block(BlobResource(uri, block.blob, block.mime_type))
        case TextResource():
            text = shortened(block.text, CONTENT_LIMIT).replace("\r\n", "\n")
            return TextBlock(f"{inline(block.uri)}\n{fenced(visible_controls(text))}")
        case _:
            assert_never(block)


def without_data(value: object, depth: int = 0) -> object:
    """Return ``value`` with long base64 replaced by its length: the content shows the data."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [without_data(part, depth + 1) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"[{len(part):,} characters]"
        if key in _DATA_KEYS and isinstance(part, str) and len(part) > _SHORT_DATA
        else without_data(part, depth + 1)
        for key, part in value.items()
    }


def size_of(content: Sequence[CallContent]) -> int:
    """Return the bytes (UTF-8) of the texts and diffs in ``content``."""
    texts: list[str] = []
    for part in content:
        if isinstance(part, TextBlock):
            texts.append(part.text)
        elif isinstance(part, FileDiff) and part.text is not None:
            texts.append(part.text.text)
        elif isinstance(part, FileDiff):
            has_texts = part.before is not None or part.after is not None
            patch = "" if has_texts else part.patch or ""
            texts += [part.path, part.before or "", part.after or "", patch]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def output_content(
    part: models.DynamicToolCallOutputContentItem | models.FunctionCallOutputContentItem,
) -> Block:
    """Return a part of a tool's output as a block."""
    match part:
        case (
            models.InputTextDynamicToolCallOutputContentItem()
            | models.InputTextFunctionCallOutputContentItem()
        ):
            return output_block(part.text)
        case (
            models.InputImageDynamicToolCallOutputContentItem()
            | models.ImageUrlInputImageFunctionCallOutputContentItem()
        ):
            return _safe_block(content_block(models.UrlImageUserInput(url=part.image_url)))
        case (
            models.InputAudioDynamicToolCallOutputContentItem()
            | models.InputAudioFunctionCallOutputContentItem()
        ):
            return _safe_block(content_block(models.AudioUserInput(url=part.audio_url)))
        case models.FileIdInputImageFunctionCallOutputContentItem():
            return TextBlock(f"[image {inline(part.file_id)}]")
        case models.FileIdInputAudioFunctionCallOutputContentItem():
            return TextBlock(f"[audio {inline(part.file_id)}]")
        case models.EncryptedContentFunctionCallOutputContentItem():
            return TextBlock(f"[{len(part.encrypted_content):,} characters, encrypted]")
        case UnknownVariant():
            return json_content(part.wire())
        case _:
            assert_never(part)


# Answers to the questions of a message that does not wait: the person's next message has them.

_BEGIN: Final = "<send_user_message_question_reply>"
_END: Final = "</send_user_message_question_reply>"
_TOOL: Final = "request_user_input_async"
MAX_QUESTION: Final = 512
"""Characters of a question that its answer repeats, as in Codex."""


def replies_text(
    item_id: str,
    questions: Sequence[models.ToolRequestUserInputQuestion],
    answers: Mapping[str, models.ToolRequestUserInputAnswer],
) -> str | None:
    """Return the message for the model that contains the answers, in Codex's format; None without
    answers. An answer's ``questionItemId`` is JSON in a string: ``["TOOL","ITEM ID",0]``."""
    replies = []
    for index, question in enumerate(questions):
        answer = answers.get(question.id)
        given = [part for part in answer.answers if part.strip()] if answer is not None else ()
        if given:
            asked = question.question[:MAX_QUESTION].replace("\r", " ").replace("\n", " ")
            item = json.dumps([_TOOL, item_id, index], ensure_ascii=False, separators=(",", ":"))
            reply = {"answer": "\n\n".join(given), "question": asked, "questionItemId": item}
            replies.append(reply)
    if not replies:
        return None
    body = json.dumps(replies, ensure_ascii=False, separators=(",", ":"))
    body = body.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"{_BEGIN}\n{body}\n{_END}"


def shown_replies(text: str) -> str:
    """Return a message of `replies_text` as questions and answers; any other text unchanged."""
    stripped = text.strip()
    if not (stripped.startswith(_BEGIN) and stripped.endswith(_END)):
        return text
    try:
        body = json.loads(stripped[len(_BEGIN) : -len(_END)])
    except (ValueError, RecursionError):
        return text
    replies = body if isinstance(body, list) else [body]
    pairs = [(text_at(reply, "question"), text_at(reply, "answer")) for reply in replies]
    shown = [f"> {question}\n\n{answer}" for question, answer in pairs if question and answer]
    return "\n\n".join(shown) if shown and len(shown) == len(replies) else text
