"""Policies: values that answer approvals in a program without an ACP client (contract 6.2).

A policy gets a question and grants, denies or has no opinion; policies combine, and a question that
none grants is denied. No policy here grants anything that the program did not name.
`grants.accepting_reply` checks each grant and makes the reply. Elicitations never reach a policy.
Must not know the connection to Codex.

`allow_commands` compares whole commands, word by word, never substrings. Codex parses a command
only for display (``commandActions``) and leaves out parts: for ``cat a | awk '{system("rm b")}'``
it lists ``cat a`` alone. A command is therefore allowed only if each of its simple commands was
named, and if its simple commands include all that Codex lists.

Codex's own settings decide whether Codex asks at all. Checked on Codex 0.163: under approval policy
``never`` nobody is asked, and in a sandbox the tool or the escalated command fails; with full
access everything runs. ``on-request`` and each ``granular`` policy ask about MCP tools in every
sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp._files import absolute
from codex_acp.codex._generated.models import DangerFullAccessSandboxPolicy
from codex_acp.codex.approvals.actions import elsewhere
from codex_acp.codex.approvals.callbacks import CallbackFailed, answer_of, call
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    CommandApproval,
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
from codex_acp.codex.approvals.running_items import server_of
from codex_acp.errors import MisuseError, must_be_seconds, refuse_unless, several
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from codex_acp.codex._generated import models
    from codex_acp.codex._generated.models import ApprovalsReviewer, AskForApproval, SandboxPolicy
    from codex_acp.jsonrpc import JsonValue


logger = logging.getLogger(__name__)

GUARDED_DIRECTORIES: Final = frozenset({".agents", ".codex", ".git"})
"""Names of directories whose files decide what runs: hooks, filters, MCP servers, skills."""


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """One pending action that Codex wants to run, as a policy sees it."""

    approval: ApprovalRequest
    """The approval with Codex's request: match on its class, such as `CommandApproval`."""
    arguments: Mapping[str, JsonValue]
    """A copy of the action, as plain JSON without the fields that Codex did not send.

    `CommandApproval` has the params of its request: ``command`` (one text), ``cwd``, ``reason``, …;
    if its ``kind`` is ``writeStdin``, also the ``runningCommand`` that gets the text, None if
    unknown.
    `FileChangeApproval` has ``changes`` (a list of ``path``, ``kind``, ``diff``), ``id`` and
    ``grantRoot``.
    `PermissionsApproval` has ``permissions``, `McpToolApproval` and `McpToolQuestion` have
    ``server``, ``tool`` and ``arguments``. `LegacyCommandApproval` and `LegacyPatchApproval` have
    the params of their requests: ``command`` is a list of words, ``fileChanges`` maps paths to
    changes.
    """
    offered: tuple[Grant, ...]
    """The grants to choose from, in Codex's order; never empty."""
    thread_id: str
    root_thread_id: str
    """The root thread above a sub-agent that asks; else equal to ``thread_id``."""
    turn_id: str
    item_id: str
    digest: str
    """SHA-256 of the canonical JSON of the arguments and of where their paths led when asked."""
    real_paths: Mapping[str, str | None] = field(default_factory=dict)
    """Each path that the action names → the real path, links followed. Decide by the real path; it
    is None if nobody could find it out."""
    replaced: tuple[str, ...] = ()
    """Paths at which a file exists that an addition or a move would replace."""

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Return the environment in which the action will run, if it is not this machine; several
        if Codex does not say which. Empty: it runs on this machine.

        This disk says nothing about another machine: ``real_paths`` has None for each path, and
        ``replaced`` is empty. `allow_commands` and `allow_edits` allow nothing there."""
        return elsewhere(self.approval)


@dataclass(frozen=True, slots=True)
class Allow:
    """Let the action run as far as ``grant`` reaches, which must be among the offered grants."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not let the action run; the turn continues. ``reason`` is one sentence for the log."""

    reason: str
    answered: bool = False
    """Whether someone said no; any other denial is logged as a warning (contract 1.6)."""


Decision: TypeAlias = Allow | Deny


class Interest(NamedTuple):
    """The approvals that a policy could ever grant, for `why_never_asked` (contract 6.2)."""

    anything: bool = False
    """Whether the policy could grant more than tools of ``servers``."""
    servers: frozenset[str] = frozenset()
    """MCP servers whose tools the policy could grant."""


class Policy(ABC):
    """A value that decides approvals. ``a | b`` asks ``b`` where ``a`` has no opinion."""

    __slots__ = ()

    @abstractmethod
    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        """Return a grant, a denial, or None for no opinion. An exception is a denial. A plain
        function runs in a thread of its own."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def interest(self) -> Interest:
        """Return the approvals that this policy could ever grant."""
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
"""Denies every approval: the default policy."""


@dataclass(frozen=True, slots=True, repr=False)
class _Ask(Policy):
    callback: Callable[[ApprovalQuestion], Awaitable[Grant | None] | Grant | None]
    timeout: float | None

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        # An untyped callback may return anything.
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

    The callback gets the question and returns one of ``question.offered``, or None to deny. An
    async callback runs on the client's event loop, any other in a thread of its own, so it may
    block. A callback that raises, returns anything else or takes longer than ``timeout`` seconds
    (None: as long as the turn runs) denies. If the turn ends or Codex settles the request itself,
    an async callback is cancelled, and the answer of a blocking callback is ignored.
    Raises MisuseError for a timeout that is not positive.
    """
    refuse_unless(callable(callback), "ask takes the function to call", callback)
    if timeout is not None:
        must_be_seconds("timeout", timeout)
    return _Ask(callback, timeout)


@dataclass(frozen=True, slots=True, repr=False)
class _TrustMcpServers(Policy):
    names: frozenset[str]
    persist: bool

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        approval = question.approval
        if not isinstance(approval, McpToolApproval | McpToolQuestion):
            return None
        if server_of(approval.item) not in self.names:
            return None
        preferred: tuple[Grant, ...] = (Session(), Once()) if self.persist else (Once(),)
        grant = next((g for g in preferred if g in question.offered), None)
        return None if grant is None else Allow(grant)

    @property
    def interest(self) -> Interest:
        return Interest(servers=self.names)

    def __repr__(self) -> str:
        return f"trust_mcp_servers({sorted(self.names)!r}, persist={self.persist!r})"


def trust_mcp_servers(names: Collection[str], *, persist: bool = False) -> Policy:
    """Let the tools of these MCP servers run. ``names`` are names in Codex's configuration; a
    server that an environment registered has the name ``name (environment id)``.

    Allows only calls that Codex itself reports as running (contract 2.7), each once; with
    ``persist``, for the session if Codex offers a session grant. Never answers a server's forms or
    pages (elicitations). Remaining risk: Codex runs a call without asking, and the server sends an
    elicitation that imitates an approval of this call. The imitation is then accepted, without
    content. If the tool only reads, the grant is for once; otherwise Codex ignores what the server
    offered.

    Raises MisuseError for one string instead of a collection.
    """
    return _TrustMcpServers(frozenset(several("the names of MCP servers", names)), persist)


@dataclass(frozen=True, slots=True, repr=False)
class _AllowEdits(Policy):
    within: str

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        approval = question.approval
        if not isinstance(approval, FileChangeApproval) or Once() not in question.offered:
            return None
        if approval.request.params.grant_root is not None or question.replaced:
            return None
        if question.elsewhere:
            return None
        if any(isinstance(change.kind, UnknownVariant) for change in approval.item.changes):
            return None
        paths = question.real_paths.values()
        return Allow(Once()) if paths and all(map(self._may_be_edited, paths)) else None

    def _may_be_edited(self, real: str | None) -> bool:
        if real is None or not _is_below(real, self.within):
            return False
        below = Path(real).relative_to(self.within)
        return GUARDED_DIRECTORIES.isdisjoint(part.casefold() for part in below.parts)

    def __repr__(self) -> str:
        return f"allow_edits(within={self.within!r})"


def _is_below(real: str | None, directory: str) -> bool:
    return real is not None and os.path.commonpath([directory, real]) == directory


def allow_edits(*, within: str | os.PathLike[str]) -> Policy:
    """Let Codex change, add, move and delete files in this directory or below it, each once.

    The real paths decide, links followed, and must not change before the reply is sent. If one
    file is elsewhere, no change of the action is allowed. The policy never allows an
    addition or a move onto an existing file, or a right for the whole session. It never allows
    a change in a directory ``.git``, ``.codex`` or ``.agents``, because their files decide what
    runs, nor in a thread that has another machine (`ApprovalQuestion.elsewhere`).
    """
    return _AllowEdits(os.path.realpath(absolute("within", within)))


@dataclass(frozen=True, slots=True, repr=False)
class _FirstOf(Policy):
    """Decides as the first of some policies that decides."""

    policies: tuple[Policy, ...]

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        for policy in self.policies:
            decision: Decision | None = await call(policy.decide, question)
            if decision is not None:
                return decision
        return None

    @property
    def interest(self) -> Interest:
        interests = [policy.interest for policy in self.policies]
        return Interest(
            anything=any(interest.anything for interest in interests),
            servers=frozenset().union(*(interest.servers for interest in interests)),
        )

    def __repr__(self) -> str:
        return f"first_of({', '.join(map(repr, self.policies))})"


def first_of(*policies: Policy) -> Policy:
    """Combine policies: the first one with an opinion decides. ``a | b`` is ``first_of(a, b)``."""
    flat: list[Policy] = []
    for policy in policies:
        refuse_unless(isinstance(policy, Policy), "first_of wants policies", policy)
        flat += policy.policies if isinstance(policy, _FirstOf) else [policy]
    return _FirstOf(tuple(flat))


# Whether Codex will ever ask.

McpServerConfig = Mapping[str, object]
"""A server's table in Codex's configuration, with Codex's names."""


StartedThread: TypeAlias = (
    "models.ThreadStartResponse | models.ThreadResumeResponse | models.ThreadForkResponse"
)
"""The answer that opened a thread, with the thread's settings."""


def why_never_asked(
    policy: Policy,
    approval_policy: AskForApproval,
    sandbox: SandboxPolicy,
    approvals_reviewer: ApprovalsReviewer = "user",
    mcp_servers: Mapping[str, McpServerConfig] | None = None,
) -> str | None:
    """Return the warning for a policy that Codex never asks under these settings, else None.

    ``mcp_servers`` is the table ``mcp_servers`` of Codex's configuration, if the program knows it.
    Codex runs tools of a server with ``default_tools_approval_mode = "approve"`` without asking, so
    a policy that trusts only such servers needs no warning. A turn can override the settings.
    """
    interest = policy.interest
    if not interest.anything and not interest.servers:
        return None
    servers = mcp_servers or {}
    modes = [servers.get(n, {}).get("default_tools_approval_mode") for n in interest.servers]
    if not interest.anything and all(mode == "approve" for mode in modes):
        return None
    if approvals_reviewer in ("auto_review", "guardian_subagent"):
        return (
            f"the policy will not be asked: approvals of this thread go to Codex's own reviewer "
            f'({approvals_reviewer}); start it with approvals_reviewer "user"'
        )
    if approval_policy != "never":
        return None
    if isinstance(sandbox, DangerFullAccessSandboxPolicy):
        return (
            'the policy will never be asked: under approval policy "never" with full access Codex '
            'runs everything without asking; use approval policy "on-request"'
        )
    ways = 'use approval policy "on-request", or "granular" with mcp_elicitations'
    if interest.servers:
        ways += ', or default_tools_approval_mode = "approve" for the servers that are trusted'
    return (
        'the policy will never be asked: under approval policy "never" in a sandbox Codex asks '
        f"nobody, and what would need an approval fails; {ways}"
    )


def warn_if_never_asked(
    policy: Policy, thread: StartedThread, mcp_servers: Mapping[str, McpServerConfig] | None = None
) -> str | None:
    """Log and return the warning of `why_never_asked`. A client logs it for its policies, too."""
    text = why_never_asked(
        policy, thread.approval_policy, thread.sandbox, thread.approvals_reviewer, mcp_servers
    )
    if text is not None:
        logger.warning("%s", text)
    return text


# Commands.

Words = tuple[str, ...]
"""A simple command: the program and its arguments."""

_SHELLS: Final = frozenset(
    f"{directory}/{name}"
    for directory in ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
    for name in ("bash", "dash", "sh", "zsh")
)
"""Shells whose ``-c`` script is parsed: only a known shell is sure to read it in this way."""

_PIECE: Final = re.compile(r"""'[^']*'|"[^"]*"|[^\s'"();<>|&]+""")
"""A quoted or unquoted piece of a word."""

_TOKEN: Final = re.compile(rf" +|(?P<word>(?:{_PIECE.pattern})+)|(?P<operator>[();<>|&]+)")
"""Blanks, a word or an operator of a shell line; an unclosed quote does not match."""

_SEPARATORS: Final = frozenset({"&&", "||", "|", ";"})
"""Operators that may stand between two simple commands."""

_EXPANSIONS: Final = frozenset("$`\\")
"""Signs by which a shell changes a word."""

_MAX_COMMAND: Final = 64 * 1024
"""Characters of a command; parsing a longer one would block the event loop."""

_ANY_MORE: Final = "*"
"""Last word of a named command that stands for any further words."""


def allow_commands(
    commands: Iterable[str | Sequence[str]], *, within: str | os.PathLike[str] | None = None
) -> Policy:
    """Let these commands run, each once, and no others.

    A command is a string (``"npm test"``) or its words (``["npm", "test"]``), and matches as a
    whole; ``*`` as the last word stands for any further words (``"git diff *"``), options included.
    Each of several commands in one line (``&&``, ``||``, ``|``, ``;``) must be named. The policy
    never allows redirections, substitutions, variables, escapes, a second line, more than 64 Ki
    characters, input for a running command, a network host, or more permissions. With ``within``
    the commands run only in this directory or below it, because what ``npm test`` does depends on
    the directory. Its real path decides, and must not change before the reply is sent. The policy
    never allows a command on another machine (`ApprovalQuestion.elsewhere`).

    Raises MisuseError for one string instead of several commands, and for a command that is empty
    or has shell syntax in it.
    """
    named = frozenset(map(_words_of, several("the commands", commands)))
    return _AllowCommands(
        named, None if within is None else os.path.realpath(absolute("within", within))
    )


@dataclass(frozen=True, slots=True, repr=False)
class _AllowCommands(Policy):
    named: frozenset[Words]
    within: str | None

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        if not isinstance(question.approval, CommandApproval) or Once() not in question.offered:
            return None
        params = question.approval.request.params
        if params.kind != "command" or params.network_approval_context is not None:
            return None
        if question.elsewhere:
            return None
        if params.additional_permissions is not None:
            return None
        real_cwd = question.real_paths.get(params.cwd or "")
        if self.within is not None and not _is_below(real_cwd, self.within):
            return None
        command, parsed_by_codex = params.command or "", []
        for action in params.command_actions or ():
            if isinstance(action, UnknownVariant):
                return None
            parsed_by_codex.append(action.command)
        if max(len(command), sum(map(len, parsed_by_codex))) > _MAX_COMMAND:
            return None
        simple = _simple_commands(command)
        if not simple or not all(map(self._is_named, simple)):
            return None
        for script in parsed_by_codex:
            listed = _split(script)
            if listed is None or not set(listed) <= set(simple):
                return None
        return Allow(Once())

    def __repr__(self) -> str:
        commands = [shlex.join(words) for words in sorted(self.named)]
        return f"allow_commands({commands!r}, within={self.within!r})"

    def _is_named(self, words: Words) -> bool:
        if words in self.named:
            return True
        prefixes = (named[:-1] for named in self.named if named[-1] == _ANY_MORE)
        return any(words[: len(prefix)] == prefix for prefix in prefixes)


def _words_of(command: str | Sequence[str]) -> Words:
    """Return the words of one simple command that a program names. Raises MisuseError."""
    if isinstance(command, str):
        commands = _split(command)
        words = commands[0] if commands is not None and len(commands) == 1 else ()
    else:
        words = several("a command", command)
    if not words or words[0] in ("", _ANY_MORE):
        message = f"allow_commands wants whole simple commands, such as 'npm test', not {command!r}"
        raise MisuseError(message)
    return words


def _simple_commands(command: str) -> list[Words] | None:
    """Return the simple commands of a command line; None if it cannot be parsed with certainty."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc"):
        return _split(words[2])
    return [tuple(words)] if words else None


def _split(script: str) -> list[Words] | None:
    """Return the words of each simple command in a script; None for any other shell syntax."""
    if not script.isprintable() or _EXPANSIONS.intersection(script):
        return None
    commands: list[list[str]] = [[]]
    position = 0
    while position < len(script):
        token = _TOKEN.match(script, position)
        if token is None:
            return None
        position = token.end()
        if token["word"]:
            pieces = _PIECE.findall(token["word"])
            commands[-1].append("".join(p[1:-1] if p[0] in "'\"" else p for p in pieces))
        elif token["operator"]:
            if token["operator"] not in _SEPARATORS:
                return None
            commands.append([])
    return [tuple(words) for words in commands] if all(commands) else None


# Approvals that the same program answers later: from a web page, by a colleague.


class ParkedApproval:
    """A question that waits for its answer; its turn waits as long as the program runs.

    `allow` and `deny` may be called from any thread, any number of times: the first answer counts.
    They return False for an answer that does not count, because another was first, the turn has
    ended, or Codex has settled the request itself.
    """

    __slots__ = ("_answer", "id", "question")

    def __init__(self, question: ApprovalQuestion) -> None:
        import secrets  # not for a program that parks nothing

        self.id: str = secrets.token_urlsafe(12)
        """An id for the program's own records, which nobody can guess."""
        self.question: ApprovalQuestion = question
        self._answer: Future[Decision] = Future()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "over"
        return f"ParkedApproval({self.id!r}, thread_id={self.question.thread_id!r}, {state})"

    @property
    def is_open(self) -> bool:
        """Return whether an answer still counts."""
        return not self._answer.done()

    def allow(self, grant: Grant | None = None) -> bool:
        """Let the action run, by default once. Raises MisuseError for a grant not offered."""
        grant = Once() if grant is None else grant
        if grant not in self.question.offered:
            message = f"{grant!r} is not among what Codex offers: {self.question.offered!r}"
            raise MisuseError(message)
        return self._settle(Allow(grant))

    def deny(self, reason: str = "somebody said no") -> bool:
        """Do not let the action run; ``reason`` is one sentence for the log."""
        return self._settle(Deny(reason, answered=True))

    async def decision(self) -> Decision:
        """Wait for the answer; if the wait is cancelled, no later answer counts."""
        return await asyncio.wrap_future(self._answer)

    def _settle(self, decision: Decision) -> bool:
        try:
            self._answer.set_result(decision)
        except InvalidStateError:  # answered, or the wait was cancelled
            return False
        return True


class ParkedApprovals(Policy):
    """A policy that parks every approval until the program answers it.

    ::

        parked = ParkedApprovals()
        async with CodexClient.start(policy=parked) as codex:
            ...
            approval = await parked.next()      # in one task: show it, store its id
            parked.get(approval_id).allow()     # later, anywhere

    Combines like any policy: ``allow_commands(["npm test"]) | parked``. The policy of a client gets
    the questions of all its threads. A program with several users gives the threads of each user
    their own ``ParkedApprovals``: ``threads.start(policy=parked_of_user)``.
    """

    __slots__ = ("_changed", "_open", "_unseen")

    def __init__(self) -> None:
        self._open: dict[str, ParkedApproval] = {}
        self._unseen: list[ParkedApproval] = []
        self._changed = asyncio.Event()
        """Set by each new question."""

    def __repr__(self) -> str:
        return f"ParkedApprovals({list(self._open)!r})"

    @property
    def waiting(self) -> tuple[ParkedApproval, ...]:
        """Return the open approvals, oldest first."""
        return tuple(self._open.values())

    def get(self, approval_id: str) -> ParkedApproval | None:
        """Return the open approval of this id; None if it is over or the id is unknown."""
        return self._open.get(approval_id)

    async def next(self) -> ParkedApproval:
        """Wait for the next approval, and return it; each is returned once.

        Any thread with this policy can ask: before a person sees or answers the approval, check
        that the thread ``question.root_thread_id`` belongs to this person.
        """
        while True:
            self._unseen = [approval for approval in self._unseen if approval.is_open]
            if self._unseen:
                return self._unseen.pop(0)
            self._changed.clear()
            await self._changed.wait()

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        approval = ParkedApproval(question)
        self._open[approval.id] = approval
        self._unseen.append(approval)
        self._changed.set()
        try:
            return await approval.decision()
        finally:
            del self._open[approval.id]
