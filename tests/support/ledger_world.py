"""The ledger, and beside it what is true: the states of its exploration, and the oracle."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from codex_acp.codex.approvals.actions import ActionIds, refreshed
from codex_acp.codex.approvals.running_items import Items
from codex_acp.errors import RpcError
from codex_acp.routing.ledger import Answer, Key, Ledger, LedgerEntry, Settlement
from codex_acp.routing.route import Approval
from codex_acp.wire.codec import encode
from tests.support.routing_samples import (
    approval_route,
    change,
    command,
    command_item,
    file_change,
    file_item,
    item_completed,
    item_started,
    mcp_item,
    running,
    thread_started,
    tool_approval,
    turn_started,
)

CHILD: Final[dict[str, Any]] = {"threadId": "child", "turnId": "u"}

End = Literal["cancelled", "ended", "resolved", "lost", "abandoned", "answered", "superseded"]


class Facts(NamedTuple):
    """What happened to one request, by the events alone."""

    openings: int = 0
    pending: bool = False
    shown: int = 0
    """Version of its item when it was asked."""
    end: End | None = None
    """What settled its last opening."""
    replies: int = 0
    """Replies to its last opening."""
    accepted: bool = False
    held: bool = False
    """It was accepted, and its item was not seen to end; without one: Codex has not taken it."""


@dataclass
class World:
    """The ledger, and beside it what is true."""

    ledger: Ledger
    facts: tuple[Facts, Facts] = (Facts(), Facts())
    version: int = 0
    gone: bool = False
    stopped: frozenset[str] = frozenset()
    """Threads whose turn does not run any more."""
    lost: bool = False
    barred: frozenset[tuple[str, str]] = frozenset()
    """Threads and ids that were used for several actions in the running turn."""
    entries: list[LedgerEntry | None] = field(default_factory=lambda: [None, None])
    stale: list[LedgerEntry | None] = field(default_factory=lambda: [None, None])
    """The entry of each request's opening before the last."""

    def state(self) -> tuple[object, ...]:
        if self.lost:
            return self.facts, "lost"  # nothing is pending or can be opened: the rest is the same
        what = "gone" if self.gone else self.version
        return self.facts, what, self.stopped, self.barred

    def fork(self) -> World:
        ledger = copy(self.ledger)
        ledger._pending = dict(self.ledger._pending)
        ledger._accepted = dict(self.ledger._accepted)
        ids = ledger._ids
        ledger._ids = ActionIds([copy(entry) for entry in ids._entries], dict(ids._barred))
        world = copy(self)
        world.ledger, world.entries, world.stale = ledger, list(self.entries), list(self.stale)
        return world

    def accepts(self, case: Case, number: int, chosen: object) -> bool:
        """The oracle, rule 3.2: an allowing option of this very entry, for what still runs."""
        facts, entry = self.facts[number], self.entries[number]
        assert entry is not None
        allowing = [c.option.option_id for c in entry.choices if c.option.kind.startswith("allow")]
        depends_on_item = case.method(number).startswith(("item/fileChange", "mcpServer"))
        unchanged = not self.gone and self.version == facts.shown
        return (
            facts.pending
            and chosen in allowing
            and (unchanged or not depends_on_item)
            and case.thread(number) not in self.stopped
        )


class Case:
    """Two requests and what Codex reports around them."""

    def __init__(
        self, first: Any, second: Any, openings: int | None, ids: tuple[str, str] = ("a", "b")
    ) -> None:
        self.pair = (first, second)
        self.ids = ids
        self.openings = (openings, 1) if openings else (2, 2)

    def method(self, number: int) -> str:
        return str(self.pair[number].method)

    def thread(self, number: int) -> str:
        return str(self.pair[number].params.thread_id)

    def shared_id(self, number: int) -> tuple[str, str]:
        """What Codex finds the request's action by."""
        return self.thread(number), self.ids[number]

    def sharing(self, number: int) -> list[int]:
        """This request, and the other if Codex cannot tell it from this one."""
        return [n for n in (0, 1) if self.shared_id(n) == self.shared_id(number)]

    def ends_with_item(self, number: int) -> bool:
        """Whether an item of Codex is the action itself."""
        sub_command = getattr(self.pair[number].params, "approval_id", None) is not None
        return not sub_command and not self.method(number).startswith("item/permissions")

    @cache  # noqa: B019 - four cases, for the length of a test
    def report(self, what: str, number: int, version: int, turn: str) -> Any:
        """Codex's report that this item has started, or ended."""
        report = item_completed if what == "item ended" else item_started
        return report(self.item(number, version), self.thread(number), turn)

    def item(self, number: int, version: int) -> dict[str, Any]:
        """The item of the request's action."""
        if self.method(number) == "mcpServer/elicitation/request":
            return mcp_item(arguments={"v": version})
        if self.method(number).startswith("item/fileChange"):
            return file_item(change(f"/w/{version}"))
        return command_item("ls -l" if version == 0 else "rm", self.pair[number].params.item_id)

    def key(self, number: int) -> Key:
        request_id = self.pair[number].id
        return Key(1, type(request_id).__name__, request_id)

    @cache  # noqa: B019 - as above
    def items(self, version: int, gone: bool, stopped: frozenset[str]) -> Items:
        """The real fold, brought to this point."""
        items = running() if "root" not in stopped else Items()
        items.apply(thread_started("child", parent="root"))
        if "child" not in stopped:
            items.apply(turn_started("child", "u"))
        methods = {self.method(number) for number in (0, 1)}
        if not gone and "item/fileChange/requestApproval" in methods:
            items.apply(item_started(file_item(change(f"/w/{version}"))))
        if not gone and "mcpServer/elicitation/request" in methods:
            items.apply(item_started(mcp_item(arguments={"v": version}), "child", "u"))
        return items

    @cache  # noqa: B019 - as above
    def route(self, number: int, version: int) -> Approval:
        asked = self.pair[number]
        if self.method(number) == "mcpServer/elicitation/request":
            asked = tool_approval({"v": version}, asked.id, **CHILD)
        return approval_route(asked, self.items(version, False, frozenset()))


def kind_of(settlement: Settlement) -> str:
    """What a reply does: accept, deny for good, decline, cancel or none; read off the wire."""
    if settlement.reply is None:
        return "none"
    assert not isinstance(settlement.reply.result, RpcError)
    said = json.loads(encode(settlement.reply.result))
    match said:
        case {"decision": "accept" | "acceptForSession"} | {"action": "accept"}:
            return "accept"
        case {"decision": {"acceptWithExecpolicyAmendment": _}}:
            return "accept"
        case {"decision": {"applyNetworkPolicyAmendment": {"network_policy_amendment": rule}}}:
            return "accept" if rule["action"] == "allow" else "deny"
        case {"decision": "decline"} | {"action": "decline"}:
            return "decline"
        case {"decision": "cancel"} | {"action": "cancel"}:
            return "cancel"
        case {"permissions": given}:
            return "accept" if given else "decline"
    raise AssertionError(said)


KEY = Key(1, "int", 0)


def opened(ledger: Ledger, key: Key, route: Approval) -> LedgerEntry:
    """The entry of an approval that shares its id with no other."""
    entry = ledger.open(key, route)
    assert isinstance(entry, LedgerEntry)
    return entry


def independent_routes(count: int) -> list[Approval]:
    """Sub-commands of one item: Codex gives each an id of its own."""
    return [approval_route(command(n, approvalId=f"a{n}"), running()) for n in range(count)]


class Bench:
    """A ledger with one pending approval, and what Codex reports."""

    def __init__(self, asked: Any = None, *items: dict[str, Any]) -> None:
        asked = file_change() if asked is None else asked
        of_files = asked.method == "item/fileChange/requestApproval"
        self.items = running(*(items or ((file_item(),) if of_files else ())))
        self.ledger = Ledger()
        self.route = approval_route(asked, self.items)
        self.entry = opened(self.ledger, KEY, self.route)

    def option(self, kind: str) -> str:
        return next(c.option.option_id for c in self.entry.choices if c.option.kind == kind)

    def answer(self, answer: Answer, token: str | None = None) -> Settlement | None:
        return self.ledger.answered(
            KEY,
            self.entry.token if token is None else token,
            answer,
            refreshed(self.route.approval, self.items),
            self.items.is_running(self.route.thread_id, self.route.turn_id),
        )


def said(settlement: Settlement | None) -> Any:
    assert settlement is not None
    assert settlement.reply is not None
    assert not isinstance(settlement.reply.result, RpcError)
    return json.loads(encode(settlement.reply.result))
