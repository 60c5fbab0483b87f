"""The settings of a thread and of a turn, as keyword arguments.

Owns which fields of the params are offered under their own names, and their way to the wire.
What each means: `ThreadStartParams`, `ThreadResumeParams`, `ThreadForkParams`, `TurnStartParams` in
`codex_acp.codex.types`; whatever is not offered here is there. Loads no model.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from codex_acp.errors import UnknownOption

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from codex_acp.codex._generated.models import (
        ApprovalsReviewer,
        AskForApproval,
        CollaborationMode,
        ReasoningEffort,
        ReasoningSummary,
        SandboxMode,
        SandboxPolicy,
        SortDirection,
        ThreadSortKey,
        ThreadSource,
        ThreadSourceKind,
        ThreadStartSource,
    )
    from codex_acp.jsonrpc.message import JsonValue


SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")
"""``SandboxMode`` of the schema."""


class _ThreadOptions(TypedDict, total=False):
    """Options that a thread may be given whenever it is loaded."""

    cwd: str | os.PathLike[str]
    """The directory it works in; a relative one is made absolute here."""
    model: str
    model_provider: str
    approval_policy: AskForApproval
    """When Codex asks: ``on-request``, ``never``, or a granular policy."""
    approvals_reviewer: ApprovalsReviewer
    sandbox: SandboxMode
    """``read-only``, ``workspace-write`` or ``danger-full-access``."""
    permissions: str
    """A named profile; not together with ``sandbox``."""
    config: dict[str, Any]
    """Settings of Codex's ``config.toml`` for this thread alone."""
    base_instructions: str
    developer_instructions: str
    service_tier: str
    runtime_workspace_roots: list[str]


class StartOptions(_ThreadOptions, total=False):
    """Keyword arguments of `Threads.start`."""

    ephemeral: bool
    """Keep nothing of it on disk."""
    project_id: str
    service_name: str
    session_start_source: ThreadStartSource
    thread_source: ThreadSource


class ResumeOptions(_ThreadOptions, total=False):
    """Keyword arguments of `Threads.resume`."""

    exclude_turns: bool
    """Do not load what was said into ``info``; the model knows it anyway."""


class ForkOptions(_ThreadOptions, total=False):
    """Keyword arguments of `Threads.fork`."""

    ephemeral: bool
    exclude_turns: bool
    last_turn_id: str
    """The last turn that the fork keeps; by default all of them."""
    before_turn_id: str
    """The first turn that the fork leaves out."""
    thread_source: ThreadSource


class ListOptions(TypedDict, total=False):
    """Keyword arguments of `Threads.list`."""

    archived: bool
    """Only those that were archived; by default only the others."""
    cwd: str | os.PathLike[str]
    """Only those that work in this very directory; a relative one is made absolute here."""
    search_term: str
    """Only those whose title has this in it."""
    limit: int
    """How many are fetched at a time; all of them come."""
    sort_key: ThreadSortKey
    sort_direction: SortDirection
    source_kinds: list[ThreadSourceKind]
    model_providers: list[str]
    parent_thread_id: str
    ancestor_thread_id: str
    project_id: str


class TurnOptions(TypedDict, total=False):
    """Keyword arguments of `Thread.run` and `Thread.turn`: they hold from this turn on."""

    cwd: str | os.PathLike[str]
    model: str
    effort: ReasoningEffort
    summary: ReasoningSummary
    approval_policy: AskForApproval
    approvals_reviewer: ApprovalsReviewer
    sandbox_policy: SandboxPolicy
    permissions: str
    collaboration_mode: CollaborationMode
    service_tier: str
    service_tier_for_turn: str
    runtime_workspace_roots: list[str]
    additional_context: dict[str, Any]
    client_user_message_id: str
    turn_trigger: str


def params_of(options: Mapping[str, Any], of: type) -> dict[str, JsonValue]:
    """The options as JSON, under their names on the wire; a model among them as its JSON.

    ``of`` is the class that lists them. Raises UnknownOption for a name that it does not have:
    Codex would take no notice of it.
    """
    refuse_unknown(options, of.__annotations__)
    if options.get("sandbox") not in (None, *SANDBOXES):
        message = f"sandbox={options['sandbox']!r} is none; use one of {', '.join(SANDBOXES)}"
        raise UnknownOption(message)
    return {wire_name(name): _plain(name, value) for name, value in options.items()}


def refuse_unknown(options: Iterable[str], known: Collection[str]) -> None:
    """Raises UnknownOption, with the nearest right name, for one that is not ``known``."""
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            meant = get_close_matches(name, known, 1) or [w for w in known if w in name]
            hint = f"did you mean {meant[0]!r}?" if meant else f"use one of {', '.join(known)}"
            raise UnknownOption(f"there is no option {name!r}; {hint}")


def wire_name(name: str) -> str:
    """``approval_policy`` → ``approvalPolicy``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(name: str, value: Any) -> JsonValue:
    if name == "cwd":
        path: str = os.path.abspath(os.fspath(value))  # noqa: PTH100 - no pathlib here
        return path
    if value is None or isinstance(value, str | bool | int | float | dict):
        return cast("JsonValue", value)
    from codex_acp.wire.codec import plain

    return cast("JsonValue", plain(value))
