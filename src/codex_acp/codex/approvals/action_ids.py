"""PURE: actions that Codex cannot tell apart, and whether what runs is what was allowed.

Codex (0.147 to 0.169) finds the action that an answer is for by thread and call id alone
(openai/codex#30963), and the model chooses the call id: of several that share one, the last that
was asked about runs, whichever was allowed. So those fail closed together (contract 3.7), in the
adapter and under a policy alike. A sub-command and an input to a running command have ids of
their own, made by Codex, and share nothing with the item they belong to.

An allowed action counts until its item has ended as the one that was shown; one without an item
until Codex has taken the answer. What is left: an answer that crosses a second request on its way
to Codex. That request, which Codex always sends, ends the turn before the command has begun.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from codex_acp.codex._generated.notifications import (
    ItemCompletedEvent,
    ItemStartedEvent,
    ThreadClosedEvent,
    TurnCompletedEvent,
    TurnStartedEvent,
)
from codex_acp.codex.approvals.actions import (
    Place,
    answer_id_of,
    has_item,
    is_network,
    place_of,
    same_action,
)
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.classify import ApprovalRequest

K = TypeVar("K")

SHARED_ID: Final = (
    "the model gave one id to several actions, so that Codex cannot tell which one is allowed"
)
"""Why those fail closed that nobody has allowed."""

ALLOWED_IN_DOUBT: Final = (
    "the model gave one id to several actions, and what Codex runs may not be what was allowed"
)
"""Why a turn is interrupted in which one of them was allowed."""


class Collision(NamedTuple, Generic[K]):
    """Requests that fail closed together."""

    pending: tuple[K, ...]
    """To be declined."""
    allowed: tuple[K, ...]
    """Their turns are to be interrupted: another action may run in their place."""


@dataclass(slots=True)
class _Held(Generic[K]):
    key: K
    approval: ApprovalRequest
    place: Place
    turn_id: str
    allowed: bool = False
    resolved: bool = False
    """Whether Codex has said that it took the answer."""

    @property
    def over(self) -> bool:
        """Whether nothing more will show what it was that ran."""
        return self.allowed and self.resolved and not has_item(self.approval)


@dataclass(slots=True)
class ActionIds(Generic[K]):
    """The approvals of one connection that are pending, or allowed and not seen to end."""

    _held: list[_Held[K]] = field(default_factory=list)
    _barred: dict[tuple[str, str], str] = field(default_factory=dict)
    """Thread and id that were used for several actions → the turn, until it ends."""

    def asked(self, key: K, approval: ApprovalRequest, turn_id: str) -> Collision[K] | None:
        """Enter a request; if it collides it is not entered, and is to be declined as well."""
        asked = _Held(key, approval, place_of(approval), turn_id)
        others = [held for held in self._held if _collide(held, asked)]
        shared = (asked.place.thread_id, asked.place.answer_id)
        if not others and shared not in self._barred and not _another(approval):
            self._held.append(asked)
            return None
        return self._fail_closed(others, shared, turn_id)

    def declined(self, request: ServerRequest) -> Collision[K] | None:
        """A request is declined without being entered: what shares its id is in doubt as well."""
        shared = answer_id_of(request)
        others = [h for h in self._held if (h.place.thread_id, h.place.answer_id) == shared]
        return self._fail_closed(others, None, others[0].turn_id) if others else None

    def allowed(self, key: K) -> None:
        """The accepting reply is made."""
        for held in self._of(key):
            held.allowed = True

    def forget(self, key: K) -> None:
        """Forget an action that was not allowed, and never will be."""
        self._held = [held for held in self._held if held.key != key]

    def resolved(self, key: K) -> None:
        """Codex has taken the answer (``serverRequest/resolved``)."""
        for held in self._of(key):
            held.resolved = True
        self._held = [held for held in self._held if not held.over]

    def holds(self, key: K) -> bool:
        """Whether it is pending, or allowed and not seen to end."""
        return bool(self._of(key))

    def apply(self, event: ServerNotification) -> Collision[K] | None:
        """Learn from one notification; not None if another action stands where one was shown."""
        if isinstance(event, ItemStartedEvent):
            return self._seen(event.params.thread_id, event.params.turn_id, event.params.item)
        if isinstance(event, ItemCompletedEvent):
            thread_id, item = event.params.thread_id, event.params.item
            found = self._seen(thread_id, event.params.turn_id, item, ended=True)
            self._held = [h for h in self._held if not (h.allowed and _is_of(h, thread_id, item))]
            return found
        if isinstance(event, TurnCompletedEvent):
            self._turn_over(event.params.thread_id, event.params.turn.id)
        elif isinstance(event, TurnStartedEvent):
            self._turn_over(event.params.thread_id, None, but=event.params.turn.id)
        elif isinstance(event, ThreadClosedEvent):
            self._turn_over(event.params.thread_id, None)
        return None

    def _seen(
        self, thread_id: str, turn_id: str, item: ThreadItem, *, ended: bool = False
    ) -> Collision[K] | None:
        others = [
            held
            for held in self._held
            if _is_of(held, thread_id, item)
            and (held.allowed or not ended)  # of a pending one no answer is accepted any more
            and not same_action(held.approval, item)
        ]
        return self._fail_closed(others, None, turn_id) if others else None

    def _fail_closed(
        self, others: list[_Held[K]], shared: tuple[str, str] | None, turn_id: str
    ) -> Collision[K]:
        for held in others:
            self._held.remove(held)
            shared = shared or (held.place.thread_id, held.place.answer_id)
        if shared is not None:
            self._barred[shared] = turn_id
        return Collision(
            tuple(held.key for held in others if not held.allowed),
            tuple(held.key for held in others if held.allowed),
        )

    def _turn_over(self, thread_id: str, turn_id: str | None, but: str | None = None) -> None:
        """``turn_id`` None: whatever ran in the thread. What is pending, its owner settles."""

        def over(thread: str, turn: str) -> bool:
            return thread == thread_id and turn != but and turn_id in (None, turn)

        self._held = [
            held
            for held in self._held
            if not (held.allowed and over(held.place.thread_id, held.turn_id))
        ]
        self._barred = {
            shared: turn for shared, turn in self._barred.items() if not over(shared[0], turn)
        }

    def _of(self, key: K) -> list[_Held[K]]:
        return [held for held in self._held if held.key == key]


def _collide(held: _Held[K], asked: _Held[K]) -> bool:
    one, other = held.place, asked.place
    if (one.thread_id, one.answer_id) != (other.thread_id, other.answer_id):
        return False
    # A command that was allowed, and runs in a sandbox, may ask for a connection by its own id.
    follows = held.allowed and held.resolved and is_network(asked.approval)
    return not (follows and has_item(held.approval))


def _another(approval: ApprovalRequest) -> bool:
    """Whether the item of its id was another action already when it was asked about."""
    item = getattr(approval, "item", None)
    return item is not None and has_item(approval) and not same_action(approval, item)


def _is_of(held: _Held[K], thread_id: str, item: ThreadItem) -> bool:
    item_id = str(item.wire().get("id")) if isinstance(item, UnknownVariant) else item.id
    same = (held.place.thread_id, held.place.item_id) == (thread_id, item_id)
    return same and has_item(held.approval)
