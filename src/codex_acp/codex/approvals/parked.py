"""Approvals that wait to be answered later in the same program: from a web page, by a colleague.

Owns the questions that are open. What an answer may do is checked where every policy's is.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from codex_acp.codex.approvals.grants import Grant, Once
from codex_acp.codex.approvals.policies import Allow, ApprovalQuestion, Decision, Deny, Policy
from codex_acp.errors import MisuseError


class ParkedApproval:
    """One question that waits. Its turn waits with it, for as long as the program runs.

    `allow` and `deny` may be called from any thread, and by any number of people: the first answer
    counts. They return whether this one did: not if somebody was quicker, the turn has ended, or
    Codex has settled the request itself.
    """

    __slots__ = ("_answer", "_loop", "_taken", "id", "question")

    def __init__(self, question: ApprovalQuestion) -> None:
        self.id: str = secrets.token_urlsafe(12)
        """Names it in the program's own records; nobody can guess it."""
        self.question: ApprovalQuestion = question
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Decision] = self._loop.create_future()
        self._taken = [None]  # popped by who answers first, which is atomic in every thread

    def __repr__(self) -> str:
        state = "open" if self.is_open else "over"
        return f"ParkedApproval({self.id!r}, thread_id={self.question.thread_id!r}, {state})"

    @property
    def is_open(self) -> bool:
        """Whether an answer still counts."""
        return bool(self._taken)

    def allow(self, grant: Grant | None = None) -> bool:
        """Let it run: by default this once. Raises MisuseError for a grant that is not offered."""
        grant = Once() if grant is None else grant
        if grant not in self.question.offered:
            message = f"{grant!r} is not among what Codex offers: {self.question.offered!r}"
            raise MisuseError(message)
        return self._settle(Allow(grant))

    def deny(self, reason: str = "somebody said no") -> bool:
        """Do not let it run; ``reason`` is one sentence for the log."""
        return self._settle(Deny(reason, answered=True))

    async def decision(self) -> Decision:
        """Wait for the answer. Cancelling this ends the question."""
        try:
            return await self._answer
        finally:
            self._take()

    def _settle(self, decision: Decision) -> bool:
        if not self._take():
            return False
        with suppress(RuntimeError):  # the program is ending: nobody waits any more
            self._loop.call_soon_threadsafe(self._set, decision)
        return True

    def _set(self, decision: Decision) -> None:
        if not self._answer.done():
            self._answer.set_result(decision)

    def _take(self) -> bool:
        try:
            self._taken.pop()
        except IndexError:
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

    Combines like any policy: ``allow_commands(["npm test"]) | parked``. One of a client gets the
    questions of all of its threads, whoever they belong to: a program with several users gives the
    threads of each a ``ParkedApprovals`` of their own, ``threads.start(policy=parked_of_user)``.
    """

    __slots__ = ("_changed", "_open", "_unseen")

    def __init__(self) -> None:
        self._open: dict[str, ParkedApproval] = {}
        self._unseen: list[ParkedApproval] = []
        self._changed: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"ParkedApprovals({list(self._open)!r})"

    @property
    def waiting(self) -> tuple[ParkedApproval, ...]:
        """Return the open approvals, oldest first."""
        return tuple(self._open.values())

    def get(self, approval_id: str) -> ParkedApproval | None:
        """The open one of this id; None if it is over, or never was."""
        return self._open.get(approval_id)

    async def next(self) -> ParkedApproval:
        """The next that is asked, each given once; waits for it.

        Of whichever thread uses this policy: before somebody sees or answers it, be sure that
        ``question.root_thread_id`` is theirs.
        """
        while True:
            self._unseen = [approval for approval in self._unseen if approval.is_open]
            if self._unseen:
                return self._unseen.pop(0)
            self._changed = self._changed or asyncio.Event()
            self._changed.clear()
            await self._changed.wait()

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        approval = ParkedApproval(question)
        self._open[approval.id] = approval
        self._unseen.append(approval)
        if self._changed is not None:
            self._changed.set()
        try:
            return await approval.decision()
        finally:
            del self._open[approval.id]
