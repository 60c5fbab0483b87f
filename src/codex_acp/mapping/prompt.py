"""The content blocks of a prompt → the input of a Codex turn.

Source: ACP page "Content", Codex schema ``UserInput``. `mapping.agent` says which
blocks a client may send. What a file holds that a block names is an input; nothing is read here.
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
from codex_acp.codex._generated.models import TextUserInput
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.call import whole_text
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
from codex_acp.routing.display import fenced, inline, prose, shortened, visible
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.codex._generated.models import UserInput
    from codex_acp.mapping.content import Block, CallContent

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
                raise _invalid(where, no_audio)
            declared = block.mime_type.lower()
            if not declared.startswith("audio/"):
                raise _invalid(where, f"{block.mime_type!r} is not the type of a recording")
            content = decoded(block.data, where)
            if not content:
                raise _invalid(where, "the recording is empty")
            return models.AudioUserInput(url=_data_url(declared, content))
        case TextResource() | BlobResource():
            return _resource(block, where)
        case _:
            assert_never(block)


def _resource(resource: TextResource | BlobResource, where: str) -> UserInput:
    """A file's text below a link to it; an image as one; other bytes are only named."""
    uri = resource.uri
    path = local_path(uri)
    plain_path = uri.partition("#")[0].partition("?")[0] if path is None else path
    link = _link(plain_path.rstrip("/").rpartition("/")[2] or uri, uri)
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


# Images and audio of a prompt: whether the bytes are what they are said to be.


MAX_MEDIA_BYTES: Final = 20 * 1024 * 1024
"""Bytes of one image or recording: above any screenshot, below what model providers take at
once."""
_TOO_LARGE: Final = f"it is larger than {MAX_MEDIA_BYTES // 1024**2} MiB; send a smaller one"
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
    """The bytes of a base64 text, which may be broken into lines. Raises RpcError -32602."""
    if len(data) > MAX_MEDIA_BYTES * 3 // 2:
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


# The input of a Codex turn → blocks: how a person's message is shown again.

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
        return _file_block(name, url)
    return block(url[found.end() :], found["mime"])


def _file_block(name: str, path: str) -> LinkBlock:
    return LinkBlock(visible(name), file_uri(path))


# Pieces of a tool call's content: JSON, links, and blocks of MCP and of the Responses API.

DATA_LIMIT: Final = 8 * 1024 * 1024
"""Characters of base64 in one block: an image of six megabytes, more than models make."""
_NAME_LIMIT: Final = 500
"""Characters of a link's words, and of its host."""
_UNSAFE_IN_URI: Final = re.compile(r"[^\w:/?#@!$&'*+,;=.~%-]+", re.ASCII)
"""Characters that RFC 3986 forbids in a URI, or that would end it in Markdown."""
_DATA_KEYS: Final = ("data", "blob")
"""Where MCP's blocks and resources hold base64."""
_ORDINARY_TEXT: Final = 1_000
"""Characters below which nobody calls a value of these keys data."""
_MAX_DEPTH: Final = 20
"""Levels that are searched for data; tools nest a handful."""


def block_content(block: Block) -> Block:
    """A block as content of a tool call; base64 beyond `DATA_LIMIT` is named, not sent."""
    match block:
        case ImageBlock(data=data):
            name = "image"
        case AudioBlock(data=data):
            name = "audio"
        case BlobResource(blob=data):
            name = "resource"
        case TextBlock() | LinkBlock() | TextResource():
            return block
        case _:
            assert_never(block)
    if len(data) > DATA_LIMIT:
        return TextBlock(f"[{name} of {len(data):,} characters of base64 not shown]")
    return block


def json_content(value: object, heading: str = "", limit: int = CONTENT_LIMIT) -> TextBlock:
    """Any JSON value as a code block of at most ``limit`` characters."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    return code_content(text, "json", heading, limit)


def output_block(output: str) -> TextBlock:
    """The end of what a command, a tool or a server wrote, as a code block.

    Emoji and what scripts need stay as they are: nobody decides by it.
    """
    return TextBlock(fenced(whole_text(prose(output.replace("\r\n", "\n")))))


def link(name: str, uri: str, description: str | None = None) -> Block:
    """A link whose words are others', as those of its target: with the host it leads to.

    What a client could not open, or had better not, is no link.
    """
    shown, uri = inline(name, _NAME_LIMIT), _UNSAFE_IN_URI.sub(_escaped, uri)
    scheme, _, rest = uri.partition(":")
    host = ""
    if scheme.lower() in ("http", "https"):
        host = re.split(r"[/?#]", rest.lstrip("/"))[0].rpartition("@")[2]
    elif scheme.lower() != "file":
        words = "\n".join(filter(None, (name, uri, description)))
        return code_content(words, heading="Resource:")
    told = f"{shown} ({inline(host, _NAME_LIMIT)})" if host and name != uri else shown
    return LinkBlock(told, uri, inline(description) if description else None)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def file_link(path: str) -> Block:
    """A link to a file, by the last part of its name."""
    return link(path.rstrip("/").rsplit("/", 1)[-1] or path, file_uri(path))


def mcp_content(value: object) -> Block:
    """A block of an MCP result: its text as code, data and links as such, all else as JSON."""
    block = block_of_json(plain(value))
    return json_content(value) if block is None else _shown(block)


def _shown(block: Block) -> Block:
    """Made anew of what is shown: nothing else that a server put beside it is passed on."""
    match block:
        case TextBlock():
            return output_block(block.text)
        case ImageBlock():
            return block_content(ImageBlock(block.data, block.mime_type))
        case AudioBlock():
            return block_content(block)
        case LinkBlock():
            return link(block.title or block.name, block.uri, block.description)
        case BlobResource():
            uri = _UNSAFE_IN_URI.sub(_escaped, block.uri)
            return block_content(BlobResource(uri, block.blob, block.mime_type))
        case TextResource():
            text = shortened(block.text, CONTENT_LIMIT).replace("\r\n", "\n")
            return TextBlock(f"{inline(block.uri)}\n{fenced(prose(text))}")
        case _:
            assert_never(block)


def without_data(value: object, depth: int = 0) -> object:
    """``value`` with long base64 in it replaced by its length: the content carries it already."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [without_data(part, depth + 1) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"[{len(part):,} characters]"
        if key in _DATA_KEYS and isinstance(part, str) and len(part) > _ORDINARY_TEXT
        else without_data(part, depth + 1)
        for key, part in value.items()
    }


def size_of(content: Sequence[CallContent]) -> int:
    """Return the bytes (UTF-8) of the texts and diffs in it."""
    texts: list[str] = []
    for part in content:
        if isinstance(part, TextBlock):
            texts.append(part.text)
        elif isinstance(part, FileDiff) and part.text is not None:
            texts.append(part.text.text)
        elif isinstance(part, FileDiff):
            known = part.before is not None or part.after is not None
            patch = "" if known else part.patch or ""
            texts += [part.path, part.before or "", part.after or "", patch]
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


def output_content(
    part: models.DynamicToolCallOutputContentItem | models.FunctionCallOutputContentItem,
) -> Block:
    """A piece of a tool's output as the model gets it."""
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
            return _shown(content_block(models.UrlImageUserInput(url=part.image_url)))
        case (
            models.InputAudioDynamicToolCallOutputContentItem()
            | models.InputAudioFunctionCallOutputContentItem()
        ):
            return _shown(content_block(models.AudioUserInput(url=part.audio_url)))
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


# Answers to the questions that a message asks without waiting, as a message of the person.

_BEGIN: Final = "<send_user_message_question_reply>"
_END: Final = "</send_user_message_question_reply>"
_TOOL: Final = "request_user_input_async"
MAX_QUESTION: Final = 512
"""Characters of a question that are repeated, as Codex does it."""


def replies_text(
    item_id: str,
    questions: Sequence[models.ToolRequestUserInputQuestion],
    answers: Mapping[str, models.ToolRequestUserInputAnswer],
) -> str | None:
    """Return the answers in words, for the model; None: there are none, or the person declined."""
    replies = []
    for index, question in enumerate(questions):
        answer = answers.get(question.id)
        said = [part for part in answer.answers if part.strip()] if answer is not None else ()
        if said:
            asked = question.question[:MAX_QUESTION].replace("\r", " ").replace("\n", " ")
            item = json.dumps([_TOOL, item_id, index], ensure_ascii=False, separators=(",", ":"))
            reply = {"answer": "\n\n".join(said), "question": asked, "questionItemId": item}
            replies.append(reply)
    if not replies:
        return None
    body = json.dumps(replies, ensure_ascii=False, separators=(",", ":"))
    body = body.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"{_BEGIN}\n{body}\n{_END}"


def shown_replies(text: str) -> str:
    """A message of the person as it is to be read: with questions and answers, if it is those."""
    stripped = text.strip()
    if not (stripped.startswith(_BEGIN) and stripped.endswith(_END)):
        return text
    try:
        body = json.loads(stripped[len(_BEGIN) : -len(_END)])
    except (ValueError, RecursionError):
        return text
    replies = body if isinstance(body, list) else [body]
    shown = [(text_at(reply, "question"), text_at(reply, "answer")) for reply in replies]
    read = [f"> {question}\n\n{answer}" for question, answer in shown if question and answer]
    return "\n\n".join(read) if read and len(read) == len(replies) else text
