"""Policies: who answers an approval in a program without an ACP client (contract 6.2).

A policy is a value. It gets a question and grants, denies or has no opinion; policies combine, and
whatever nobody granted is denied. No policy here grants anything that the program did not name.

What a policy grants is checked, and made a reply, by `grants.accepting_reply`. Elicitations never
come here. Nothing here knows the connection.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp.codex.approvals.callbacks import CallbackFailed, answer_of
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    FileChangeApproval,
    McpToolApproval,
    McpToolQuestion,
)
from codex_acp.codex.approvals.grants import (
    Always,
    Grant,
    Once,
    RememberHost,
    RememberPrefix,
    Session,
)
from codex_acp.errors import MisuseError
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from codex_acp.jsonrpc.message import JsonValue

GUARDED: Final = frozenset({".agents", ".codex", ".git"})
"""Directories whose files decide what runs: hooks, filters, MCP servers, skills."""


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """One pending action that Codex wants to run, as a policy sees it."""

    approval: ApprovalRequest
    """The approval with Codex's request: match on its class, such as `CommandApproval`."""
    arguments: Mapping[str, JsonValue]
    """A copy of what would run, as plain JSON; a name that is absent was not sent.

    Of `CommandApproval` the params of its request: ``command`` (one text), ``cwd``, ``reason``, …
    Of `FileChangeApproval` ``changes`` (``path``, ``kind``, ``diff`` each), ``id``, ``grantRoot``.
    Of `PermissionsApproval` ``permissions``. Of `McpToolApproval` and `McpToolQuestion` ``server``,
    ``tool`` and ``arguments``. Of the legacy ones the params of their requests: ``command`` is a
    list of words there, and ``fileChanges`` has a path for each change.
    """
    offered: tuple[Grant, ...]
    """The grants to choose from, in Codex's order; never empty."""
    thread_id: str
    root_thread_id: str
    """The thread at the top, if a sub-agent asks; else the same as ``thread_id``."""
    turn_id: str
    item_id: str
    digest: str
    """SHA-256 of the canonical JSON of the arguments, and of where their paths lead, when asked."""
    real_paths: Mapping[str, str | None] = field(default_factory=dict)
    """Each path that the action names → what it really is, links followed: decide by this one.

    None for one that could not be looked at in time, or leads in a circle.
    """
    replaced: tuple[str, ...] = ()
    """Of these paths the files that are there already, and would be lost: Codex calls them added,
    or moved to."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Let it run, this far. Holds only if ``grant`` is among those offered."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not let it run; the turn goes on. ``reason`` is one sentence for the log."""

    reason: str
    answered: bool = False
    """Whether someone was asked and said no. Otherwise the denial is a warning (contract 1.6)."""


Decision: TypeAlias = Allow | Deny


class Interest(NamedTuple):
    """Decisions that a policy could ever grant: used to warn when Codex will never ask (contract
    6.2)."""

    anything: bool = False
    servers: frozenset[str] = frozenset()
    """MCP servers whose tools it could grant."""


class Policy(ABC):
    """A value that decides approvals. ``a | b`` asks ``b`` where ``a`` has no opinion."""

    __slots__ = ()

    @abstractmethod
    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        """Grant, deny, or None for no opinion. What it raises is a denial."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def interest(self) -> Interest:
        """Return the decisions that this policy could ever grant."""
        return Interest(anything=True)

    def __or__(self, other: Policy) -> Policy:
        """Combine two policies as `first_of` does."""
        return first_of(self, other)


@dataclass(frozen=True, slots=True, repr=False)
class _DenyAll(Policy):
    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        del question
        return Deny("no policy allows it")

    def __repr__(self) -> str:
        return "deny_all"

    @property
    def interest(self) -> Interest:
        return Interest()


deny_all: Final[Policy] = _DenyAll()
"""Denies every approval: the default, and what follows the last policy of every combination."""


@dataclass(frozen=True, slots=True, repr=False)
class _Ask(Policy):
    callback: Callable[[ApprovalQuestion], Awaitable[Grant | None] | Grant | None]
    timeout: float | None

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        # Callbacks are not always typed: what comes back may be anything.
        answer: object = await answer_of(self.callback, question, self.timeout)
        match answer:
            case CallbackFailed(reason=reason):
                return Deny(reason)
            case None:
                return Deny("the callback said no", answered=True)
            case Once() | Session() | Always() | RememberPrefix() | RememberHost():
                return Allow(answer)
        return Deny(f"the callback must return an offered grant or None, not {answer!r}")

    def __repr__(self) -> str:
        name = getattr(self.callback, "__qualname__", type(self.callback).__qualname__)
        return f"ask({name})" if self.timeout is None else f"ask({name}, timeout={self.timeout:g})"


def ask(
    callback: Callable[[ApprovalQuestion], Awaitable[Grant | None] | Grant | None],
    timeout: float | None = None,
) -> Policy:
    """Ask the program about every approval.

    The callback gets the question and returns one of ``question.offered``, or None for no. An
    async one runs on the client's event loop, any other one in a thread of its own: it may block.
    One that raises, returns something else or takes longer than ``timeout`` seconds (None: as long
    as the turn runs) is a denial. If the turn ends or Codex settles the request itself, an async
    callback is cancelled, and a blocking one's answer is not used any more.
    Raises MisuseError for a timeout that is not positive.
    """
    if timeout is not None and not timeout > 0:
        raise MisuseError(f"a timeout must be a positive number of seconds, not {timeout!r}")
    return _Ask(callback, timeout)


@dataclass(frozen=True, slots=True, repr=False)
class _TrustMcpServers(Policy):
    names: frozenset[str]
    persist: bool

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        approval = question.approval
        if not isinstance(approval, McpToolApproval | McpToolQuestion):
            return None
        if approval.item.server not in self.names:
            return None
        wanted: tuple[Grant, ...] = (Session(), Once()) if self.persist else (Once(),)
        grant = next((g for g in wanted if g in question.offered), None)
        return None if grant is None else Allow(grant)

    @property
    def interest(self) -> Interest:
        return Interest(servers=self.names)

    def __repr__(self) -> str:
        return f"trust_mcp_servers({sorted(self.names)!r}, persist={self.persist!r})"


def trust_mcp_servers(names: Collection[str], *, persist: bool = False) -> Policy:
    """Let the tools of these MCP servers run, by their names in Codex's configuration.

    Only calls that Codex itself reports as running (contract 2.7), each once; with ``persist`` for
    the session where Codex offers that. Never the servers' forms or pages: those are elicitations.
    What remains: a server can imitate the approval of a running call of its own that Codex did not
    ask about, and so have its own elicitation accepted, empty. For a tool that only reads it is
    accepted for that once; for another one Codex still takes no notice of what the server offered.

    Raises MisuseError for one string instead of a collection.
    """
    if isinstance(names, str):
        raise MisuseError(f"trust_mcp_servers wants a collection of names: {{{names!r}}}")
    return _TrustMcpServers(frozenset(names), persist)


@dataclass(frozen=True, slots=True, repr=False)
class _AllowEdits(Policy):
    within: str

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        approval = question.approval
        if not isinstance(approval, FileChangeApproval) or Once() not in question.offered:
            return None
        if approval.request.params.grant_root is not None or question.replaced:
            return None
        if any(isinstance(change.kind, UnknownVariant) for change in approval.item.changes):
            return None
        paths = question.real_paths.values()
        return Allow(Once()) if paths and all(map(self._is_within, paths)) else None

    def _is_within(self, real: str | None) -> bool:
        if real is None or os.path.commonpath([self.within, real]) != self.within:
            return False
        below = Path(real).relative_to(self.within)
        return GUARDED.isdisjoint(part.casefold() for part in below.parts)

    def __repr__(self) -> str:
        return f"allow_edits(within={self.within!r})"


def allow_edits(*, within: str | os.PathLike[str]) -> Policy:
    """Let Codex change, add, move and delete files in this directory or below it, each once.

    What counts is where the paths really lead, links followed, and it must be the same when the
    answer goes out; one file elsewhere, and none of the action's changes is allowed here. Nor is an
    addition or a move onto a file that exists, a right for the whole session, or anything in a
    directory ``.git``, ``.codex`` or ``.agents``, whose files decide what runs.
    """
    return _AllowEdits(os.path.realpath(within))


@dataclass(frozen=True, slots=True, repr=False)
class _FirstOf(Policy):
    policies: tuple[Policy, ...]

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        for policy in self.policies:
            decision = await policy.decide(question)
            if decision is not None:
                return decision
        return None

    @property
    def interest(self) -> Interest:
        all_of_them = [policy.interest for policy in self.policies]
        return Interest(
            anything=any(i.anything for i in all_of_them),
            servers=frozenset().union(*(i.servers for i in all_of_them)),
        )

    def __repr__(self) -> str:
        return f"first_of({', '.join(map(repr, self.policies))})"


def first_of(*policies: Policy) -> Policy:
    """The first policy with an opinion decides; if none has one, it is denied. ``a | b``."""
    flat: list[Policy] = []
    for policy in policies:
        if not isinstance(policy, Policy):
            raise MisuseError(f"first_of wants policies; {policy!r} is none")
        flat += policy.policies if isinstance(policy, _FirstOf) else [policy]
    return _FirstOf(tuple(flat))
