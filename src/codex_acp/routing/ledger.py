"""Keep the ledger: every approval from its question to its settlement, as a state machine, no IO.

An entry belongs to one pending action (contract 3.1), and is settled exactly once. An accepting
reply is made only if all of contract 3.2 holds. An answer that fails a check declines the approval.

Entries that Codex could take for each other fail closed together (contract 3.7, `ActionIds`):
pending entries are declined, and the turns of accepted entries are interrupted. Remaining risk:
while an acceptance is on its way, Codex may send a second request with the same item id, and take
the acceptance for the second. The second request then ends the turn. Measured on an overloaded
machine, with Codex 0.147, 0.163 and 0.169 and a policy that answers at once: in 14 of 75 pairs of
commands, the second request crossed the acceptance. No second command had started when the
interrupt arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codex_acp.codex.approvals.actions import SHARED_ID, ActionIds, Collision, comparable_looks
from codex_acp.codex.approvals.grants import NotGranted, accepting_reply, allows
from codex_acp.codex.approvals.refusals import cancellation, refusal
from codex_acp.routing.approvals import PermissionChoice, choices

if TYPE_CHECKING:
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals import classify
    from codex_acp.errors import RpcError
    from codex_acp.jsonrpc import RequestId
    from codex_acp.routing.changes import Looks
    from codex_acp.routing.route import Approval
    from codex_acp.transcript.events import ApprovalOutcome, ApprovalSettler
    from codex_acp.wire.model import WireModel


class Key(NamedTuple):
    """Identity of a request: the number of the connection to Codex, the type of the id, and the id.
    The number is needed because the next Codex uses the same ids."""

    generation: int
    id_type: str
    id: RequestId


class Selected(NamedTuple):
    """The client's outcome ``selected``."""

    option_id: str


class OutcomeCancelled(NamedTuple):
    """The client's outcome ``cancelled``."""


class Failed(NamedTuple):
    """No usable outcome: an error, a malformed reply, a time-out, a disconnect."""

    reason: str


Answer: TypeAlias = Selected | OutcomeCancelled | Failed


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    """The reply to one approval. Made in this module only; no elicitation can have one."""

    result: WireModel | RpcError


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One approval, pending or accepted."""

    key: Key
    token: str
    """Prefix of every option id of this entry; no other entry has this prefix."""
    route: Approval
    choices: tuple[PermissionChoice, ...]
    acp_request_id: RequestId | None = None
    """Id of the permission request that asks for the approval."""

    def is_granted_by(self, answer: Answer) -> bool:
        """Return whether an answer chooses a grant of this entry. If so, the caller must look at
        the disk again before it calls `Ledger.answered`."""
        return isinstance(answer, Selected) and any(
            choice.grant is not None
            for choice in self.choices
            if choice.option.option_id == answer.option_id
        )


class Settlement(NamedTuple):
    """An entry that is pending no more."""

    entry: LedgerEntry
    outcome: ApprovalOutcome
    by: ApprovalSettler
    reason: str
    reply: ApprovalReply | None
    """The reply to send to Codex; None only if the connection to Codex is lost."""
    withdraw: bool = False
    """Whether the client's dialog is still open and must be withdrawn."""
    choice: PermissionChoice | None = None
    failed_check: str | None = None
    """The check of contract 3.2 that an answer failed; None if no check failed."""


class FailedClosed(NamedTuple):
    """Entries that Codex cannot tell apart."""

    settled: list[Settlement]
    """Entries that were pending: withdraw their questions."""
    accepted: list[LedgerEntry]
    """Entries that were accepted: interrupt their turns at once."""


@dataclass(slots=True)
class Ledger:
    """All pending approvals of one client, and accepted approvals until their action has ended."""

    _pending: dict[Key, LedgerEntry] = field(default_factory=dict)
    _accepted: dict[Key, LedgerEntry] = field(default_factory=dict)
    _ids: ActionIds[Key] = field(default_factory=ActionIds)
    """Finds actions that Codex could take for each other."""
    _opened: int = 0  # counts all entries, for their tokens

    @property
    def pending(self) -> tuple[LedgerEntry, ...]:
        """Every pending entry, oldest first."""
        return tuple(self._pending.values())

    def open(
        self, key: Key, route: Approval, acp_request_id: RequestId | None = None
    ) -> LedgerEntry | FailedClosed | None:
        """Enter a new approval; return None if ``key`` is pending already. ``acp_request_id`` is
        the id of the permission request. If Codex could take the approval for other entries, the
        approval is not entered, and the other entries fail closed."""
        if key in self._pending:
            return None
        collision = self._ids.enter(key, route.approval, route.turn_id)
        if collision is not None:
            return self._fail_closed(collision)
        self._opened += 1
        token = f"p{self._opened}"
        options = choices(route.offered, route.approval, token)
        entry = self._pending[key] = LedgerEntry(key, token, route, options, acp_request_id)
        return entry

    def set_request_id(self, key: Key, acp_request_id: RequestId | None) -> None:
        """Set the id of the permission request that asks for a pending approval from now on."""
        entry = self._pending.get(key)
        if entry is not None:
            self._pending[key] = replace(entry, acp_request_id=acp_request_id)

    def note_declined(self, request: ServerRequest) -> FailedClosed | None:
        """Note a request that was declined without an entry; entries with this id fail closed."""
        collision = self._ids.note_declined(request)
        return None if collision is None else self._fail_closed(collision)

    def answered(
        self,
        key: Key,
        token: str,
        answer: Answer,
        action_now: classify.ApprovalRequest | None,
        running: bool,
        looks: Looks | None = None,
    ) -> Settlement | None:
        """Settle an approval by the client's answer to the request that was opened as ``token``.

        ``action_now`` is the action as Codex last reported it, None if the action has ended.
        ``running``: the turn of the action still runs. ``looks`` say where the paths of the action
        lead now. Returns None for a stale answer, which settles nothing.
        """
        entry = self._pending.get(key)
        if entry is None or entry.token != token:
            return None
        if isinstance(answer, Failed):
            return self._decline_invalid(entry, "no_outcome", answer.reason)
        if isinstance(answer, OutcomeCancelled):
            return self._decline(entry, "rejected", "client", "the client dismissed the question")
        choice = next((c for c in entry.choices if c.option.option_id == answer.option_id), None)
        if choice is None:
            reason = "the client chose what was not offered"
            return self._decline_invalid(entry, "unknown_option", reason)
        if choice.grant is None:
            return self._decline(entry, "rejected", "client", "the client rejected it", choice)
        offered, digest = entry.route.offered.grants, entry.route.digest
        looks_now = comparable_looks(entry.route.looks, looks or {})
        grant = choice.grant
        result = accepting_reply(grant, offered, digest, action_now, looks_now, running=running)
        if isinstance(result, NotGranted):
            return self._decline_invalid(entry, result.check, result.reason)
        outcome: ApprovalOutcome = "accepted" if allows(grant) else "rejected"
        why = f"the client {'allowed it' if outcome == 'accepted' else 'rejected it for good'}"
        reply = ApprovalReply(result)
        return self._settle(Settlement(entry, outcome, "client", why, reply, choice=choice))

    def reported(self, event: ServerNotification) -> FailedClosed | None:
        """Apply a notification; return the entries that fail closed, None if no entry does. An
        entry fails closed if the action that runs is not the action that the person saw."""
        collision = self._ids.apply(event)
        failed = None if collision is None else self._fail_closed(collision)
        self._forget_ended()
        return failed

    def turn_cancelled(self, thread_ids: frozenset[str]) -> list[Settlement]:
        """Settle all approvals of these threads as cancelled: the client cancelled their prompt."""
        reason, settled = "the prompt was cancelled", []
        for entry in self.pending:
            if entry.route.thread_id in thread_ids:
                request = entry.route.approval.request
                reply = ApprovalReply(cancellation(request.method, request.params, reason))
                end = Settlement(entry, "cancelled", "turn_cancelled", reason, reply, withdraw=True)
                settled.append(self._settle(end))
        return settled

    def turn_ended(self, thread_id: str, turn_id: str) -> list[Settlement]:
        """Settle all approvals of a turn as cancelled: the turn is over."""
        return [
            self._decline(entry, "cancelled", "turn_ended", "its turn is over", withdraw=True)
            for entry in self.pending
            if (entry.route.thread_id, entry.route.turn_id) == (thread_id, turn_id)
        ]

    def resolved(self, key: Key) -> Settlement | None:
        """Settle an approval that Codex settled itself; the reply is the refusal. Returns None if
        the approval was answered before: then Codex has received the answer."""
        entry = self._pending.get(key)
        if entry is None:
            self._ids.note_resolved(key)
            self._forget_ended()
            return None
        why = "Codex settled it itself"
        return self._decline(entry, "cancelled", "codex_resolved", why, withdraw=True)

    def codex_lost(self, generation: int) -> list[Settlement]:
        """Settle all approvals of a lost connection to Codex, without replies."""
        reason = "Codex is gone"
        return [
            self._settle(
                Settlement(entry, "cancelled", "disconnected", reason, None, withdraw=True)
            )
            for entry in self.pending
            if entry.key.generation == generation
        ]

    def abandoned(
        self, key: Key, reason: str, by: ApprovalSettler = "disconnected"
    ) -> Settlement | None:
        """Reject an approval that the client can no longer answer; ``reason`` says why."""
        entry = self._pending.get(key)
        if entry is None:
            return None
        return self._decline(entry, "rejected", by, reason, withdraw=True)

    # How an entry ends.

    def _decline(
        self,
        entry: LedgerEntry,
        outcome: ApprovalOutcome,
        by: ApprovalSettler,
        reason: str,
        choice: PermissionChoice | None = None,
        *,
        withdraw: bool = False,
        failed_check: str | None = None,
    ) -> Settlement:
        request = entry.route.approval.request
        reply = ApprovalReply(refusal(request.method, request.params, reason))
        return self._settle(
            Settlement(entry, outcome, by, reason, reply, withdraw, choice, failed_check)
        )

    def _decline_invalid(self, entry: LedgerEntry, check: str, reason: str) -> Settlement:
        """Decline an entry because an answer to it failed a check."""
        return self._decline(entry, "rejected", "invalid_answer", reason, failed_check=check)

    def _fail_closed(self, collision: Collision[Key]) -> FailedClosed:
        settled = [
            self._decline(
                self._pending[key], "rejected", "superseded", SHARED_ID,
                withdraw=True, failed_check="shared_id",
            )
            for key in collision.pending
        ]  # fmt: skip
        return FailedClosed(settled, [self._accepted.pop(key) for key in collision.allowed])

    def _forget_ended(self) -> None:
        accepted = self._accepted.items()
        self._accepted = {key: entry for key, entry in accepted if self._ids.has(key)}

    def _settle(self, settlement: Settlement) -> Settlement:
        entry = settlement.entry
        del self._pending[entry.key]
        if settlement.outcome == "accepted":
            self._accepted[entry.key] = entry
            self._ids.note_allowed(entry.key)
        else:
            self._ids.forget(entry.key)
        return settlement
