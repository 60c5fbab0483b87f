"""The settings of a thread and of a turn as keyword arguments, and the input of a turn.

Owns the names of these arguments and their conversion to JSON. `image`, `skill` and `mention` make
parts of an input. In `codex_acp.codex.types`, `ThreadStartParams`, `ThreadResumeParams`,
`ThreadForkParams`, `TurnStartParams` and the members of `UserInput` describe the fields; they also
have fields that are no options here. Importing this module loads none of these classes.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from codex_acp._files import absolute
from codex_acp.codex._generated import models
from codex_acp.errors import MisuseError, UnknownOption, refuse_unless

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from codex_acp.codex._generated.models import ImageDetail, UserInput
    from codex_acp.jsonrpc import JsonValue


SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")
"""``SandboxMode`` of the schema."""


class _ThreadOptions(TypedDict, total=False):
    """Options for starting, resuming and forking a thread."""

    cwd: str | os.PathLike[str]
    """The thread's directory; a relative path is relative to this process's directory."""
    model: str
    model_provider: str
    approval_policy: models.AskForApproval
    """When Codex asks: ``on-request``, ``never``, or a granular policy."""
    approvals_reviewer: models.ApprovalsReviewer
    sandbox: models.SandboxMode
    """``read-only``, ``workspace-write`` or ``danger-full-access``."""
    permissions: str
    """Name of a permission profile; not together with ``sandbox``."""
    config: dict[str, Any]
    """Settings of Codex's ``config.toml`` for this thread alone."""
    base_instructions: str
    developer_instructions: str
    service_tier: str
    runtime_workspace_roots: list[str]


class StartOptions(_ThreadOptions, total=False):
    """Keyword arguments of `Threads.start`."""

    ephemeral: bool
    """Whether Codex stores nothing of the thread on the disk."""
    project_id: str
    service_name: str
    """The program's name in Codex's metrics."""
    session_start_source: models.ThreadStartSource
    """``startup`` (the default), or ``clear``, as after Codex's ``/clear``."""
    thread_source: models.ThreadSource
    """The kind of the thread in Codex's analytics."""


class ResumeOptions(_ThreadOptions, total=False):
    """Keyword arguments of `Threads.resume`."""

    exclude_turns: bool
    """Leave the conversation out of `Thread.info`; the model has the conversation anyway."""


class ForkOptions(_ThreadOptions, total=False):
    """Keyword arguments of `Threads.fork`."""

    ephemeral: bool
    exclude_turns: bool
    last_turn_id: str
    """The last turn that the fork keeps; by default the fork keeps all turns."""
    before_turn_id: str
    """The first turn that the fork leaves out."""
    thread_source: models.ThreadSource


class ListOptions(TypedDict, total=False):
    """Keyword arguments of `Threads.list`."""

    archived: bool
    """Whether to list the archived threads instead of the others."""
    cwd: str | os.PathLike[str]
    """List only threads of exactly this directory."""
    search_term: str
    """List only threads whose title contains this text."""
    limit: int
    """Threads of one page; all pages are fetched."""
    sort_key: models.ThreadSortKey
    sort_direction: models.SortDirection
    source_kinds: list[models.ThreadSourceKind]
    model_providers: list[str]
    parent_thread_id: str
    ancestor_thread_id: str
    project_id: str


class TurnOptions(TypedDict, total=False):
    """Keyword arguments of `Thread.run` and `Thread.turn`. For this turn alone are
    ``service_tier_for_turn``, ``additional_context``, ``client_user_message_id`` and
    ``turn_trigger``; all others apply from this turn on. Sub-agents that Codex has started keep
    their sandbox and approval policy."""

    cwd: str | os.PathLike[str]
    model: str
    effort: models.ReasoningEffort
    summary: models.ReasoningSummary
    approval_policy: models.AskForApproval
    approvals_reviewer: models.ApprovalsReviewer
    sandbox_policy: models.SandboxPolicy
    permissions: str
    collaboration_mode: models.CollaborationMode
    service_tier: str
    service_tier_for_turn: str
    runtime_workspace_roots: list[str]
    additional_context: dict[str, Any]
    """Source → object with ``value`` and ``kind``: ``untrusted`` or ``application``."""
    client_user_message_id: str
    turn_trigger: str
    """The kind of the caller that starts the turn."""


def params_of(options: Mapping[str, Any], options_class: type) -> dict[str, JsonValue]:
    """Return the options as JSON, under their names on the wire. Raises UnknownOption for a name
    that ``options_class`` does not have: Codex would ignore it."""
    refuse_unknown(options, options_class.__annotations__)  # a TypedDict lists inherited ones, too
    if options.get("sandbox") not in (None, *SANDBOXES):
        message = f"sandbox={options['sandbox']!r} is no sandbox; use one of {', '.join(SANDBOXES)}"
        raise UnknownOption(message)
    policy = options.get("sandbox_policy")
    wanted = "sandbox_policy is a SandboxPolicy or its JSON, for example {'type': 'readOnly'}"
    refuse_unless(not isinstance(policy, str), wanted, policy)
    return {wire_name(name): _as_json(name, value) for name, value in options.items()}


def refuse_unknown(options: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownOption, with the closest known name, for a name that is not ``known``."""
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            contained = [each for each in known if each in name]  # sandbox_policy → sandbox
            close = get_close_matches(name, known, 1) or contained
            hint = f"use one of {', '.join(known)}"
            if close:
                hint = f"did you mean {close[0]!r}?"
            elif name in TurnOptions.__annotations__:
                hint = "turns have it, as in `thread.run`"
            raise UnknownOption(f"there is no option {name!r}; {hint}")


def wire_name(name: str) -> str:
    """Return the name on the wire: ``approval_policy`` → ``approvalPolicy``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _as_json(name: str, value: Any) -> Any:
    if name == "cwd" and value is not None:
        return absolute(name, value)
    if value is None or isinstance(value, str | bool | int | float | dict):
        return value
    from codex_acp.wire.codec import plain

    return plain(value)


Input: TypeAlias = "str | UserInput | Sequence[str | UserInput]"
"""A text, one part, or several parts; a plain string is a text."""

_SKILL_FILE: Final = "SKILL.md"

_URL_SCHEMES: Final = ("http://", "https://", "data:")

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""First bytes of image files → media type; WebP is recognized in `data_url`."""


def user_input(prompt: Input) -> list[UserInput]:
    """Return the parts for Codex. Raises MisuseError for an invalid part, or without any part."""
    parts = list(prompt) if isinstance(prompt, list | tuple) else [prompt]
    if not parts:
        raise MisuseError("a turn needs something to begin with: a text or an image")
    return [_part(part) for part in parts]


def image(
    source: str | os.PathLike[str] | bytes, *, detail: ImageDetail | None = None
) -> UserInput:
    """Make an image for a prompt from a file, a URL (``https://`` or ``data:``), or its bytes.

    ``detail`` is how closely the model looks. Codex reads the file when the turn starts; for a file
    on the machine of a remote app-server use `LocalImageUserInput`.

    Raises MisuseError if the file does not exist, or the bytes are no PNG, JPEG, GIF or WebP.
    """
    part: models.UrlImageUserInput | models.LocalImageUserInput
    if isinstance(source, bytes | bytearray | memoryview):
        part = models.UrlImageUserInput(url=data_url(bytes(source)))
    elif isinstance(source, str) and source.lower().startswith(_URL_SCHEMES):
        part = models.UrlImageUserInput(url=source)
    else:
        path = absolute("an image", source)
        if not os.path.isfile(path):  # noqa: PTH113
            raise MisuseError(f"there is no image file {path!r}")
        part = models.LocalImageUserInput(path=path)
    if detail is not None:
        part.detail = detail
    return part


def skill(path: str | os.PathLike[str], *, name: str | None = None) -> UserInput:
    """Make a part of a prompt for a skill that the model shall use.

    ``path`` is the skill's directory, or the ``SKILL.md`` in it. ``name`` is the skill's name in
    ``skills_list``, by default the directory's name. Codex reads the file when the turn starts.
    Raises MisuseError if the file does not exist.
    """
    file = absolute("a skill", path)
    if os.path.isdir(file):  # noqa: PTH112
        file = os.path.join(file, _SKILL_FILE)  # noqa: PTH118
    if not os.path.isfile(file):  # noqa: PTH113
        raise MisuseError(f"there is no skill {file!r}; give its directory or its {_SKILL_FILE}")
    return models.SkillUserInput(name=name or os.path.basename(os.path.dirname(file)), path=file)  # noqa: PTH119, PTH120


def mention(path: str, *, name: str) -> UserInput:
    """Make a part of a prompt that mentions an app or a plugin, by its path in Codex (``app://ID``).

    Codex ignores mentions of files: write their paths as text. Raises MisuseError for a path
    without a scheme.
    """
    wanted = "a mention is 'app://...'; write the paths of files as text"
    refuse_unless("://" in str(path), wanted, path)
    refuse_unless(isinstance(name, str), "the name in a mention is a text", name)
    return models.MentionUserInput(name=name, path=path)


def data_url(data: bytes) -> str:
    """Return an image as a ``data:`` URL. Raises MisuseError for an unknown type."""
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
    members = (
        models.TextUserInput | models.UrlImageUserInput | models.FileIdImageUserInput
        | models.LocalImageUserInput | models.AudioUserInput | models.FileIdAudioUserInput
        | models.LocalAudioUserInput | models.SkillUserInput | models.MentionUserInput
    )  # fmt: skip
    if isinstance(part, members):
        return part
    message = f"a turn takes texts and members of UserInput, not {part!r}; for an image: image(...)"
    raise MisuseError(message)
