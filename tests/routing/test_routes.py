"""1.1 to 1.3: every server request has exactly one of three routes; golden files show them all.

``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/routing/test_routes.py`` writes these files anew. They lie
beside the routing table, because the command `routes` prints them.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codegen.route_catalogue import as_json, as_markdown, catalogue, table_as_markdown
from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.codex.approvals.classify import (
    FileChangeApproval,
    McpToolApproval,
    McpToolQuestion,
    PermissionsApproval,
)
from codex_acp.codex.approvals.grants import allows
from codex_acp.codex.approvals.running_items import Items
from codex_acp.mapping.events import PermissionQuestion
from codex_acp.mapping.v1.updates import permission_request
from codex_acp.routing import elicitations
from codex_acp.routing._generated.rows import FIELD_TYPES
from codex_acp.routing.approvals import choices
from codex_acp.routing.route import Approval, Decline, Elicitation
from codex_acp.routing.table import route
from codex_acp.wire.codec import encode
from tests.codex.server_request_samples import assert_fits, schema_of_all_versions
from tests.support.golden import assert_golden
from tests.support.routing_samples import (
    ALL_FEATURES,
    NO_FEATURES,
    PARAMS,
    collab_item,
    command,
    context,
    elicitation,
    file_change,
    file_item,
    item_completed,
    mcp_item,
    permissions,
    request,
    request_of,
    running,
    thread_started,
    tool_approval,
    turn_started,
)
from tests.support.schema_values import ValueMaker
from tests.support.updates import wire

ROOT = Path(__file__).resolve().parents[2]
ROUTING = ROOT / "src" / "codex_acp" / "routing"
URL: dict[str, Any] = {"mode": "url", "url": "https://example.com/", "elicitationId": "e"}


@cache
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = schema_of_all_versions()["definitions"]
    return {**definitions["v2"], **definitions}


def _made_by_schema(method: str, seed: int) -> dict[str, Any]:
    """Params of the schema, with unknown members now and then; half of a turn that runs."""
    name = SERVER_REQUESTS[method].params
    assert name is not None
    value = ValueMaker(_definitions(), random.Random(seed)).make(_definitions()[name])
    known = {"threadId": "root", "turnId": "turn", "conversationId": "root", "itemId": "item"}
    if seed % 2:
        value |= {name: known[name] for name in known.keys() & value.keys()}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("method", sorted(SERVER_REQUESTS))
def test_1_1_whatever_fits_the_schema_is_routed_and_nothing_raises(method: str) -> None:
    for seed in range(200):
        asked = request_of(method, _made_by_schema(method, seed))
        for item in (mcp_item(), file_item()):
            for client in (ALL_FEATURES, NO_FEATURES):
                routed = route(asked, context(running(item), client=client))
                _hold_for_every_route(routed)


def _hold_for_every_route(routed: Approval | Elicitation | Decline) -> None:
    if isinstance(routed, Decline):
        assert routed.reason.strip()
        assert "\n" not in routed.reason
        return
    assert routed.session_id == "root"
    assert routed.thread_id == "root"
    if isinstance(routed, Approval):
        assert routed.turn_id
        kinds = [c.option.kind for c in choices(routed.offered, routed.approval, "p1")]
        assert any(kind.startswith("allow") for kind in kinds)
        assert kinds.count("reject_once") == 1
        options = [c.option for c in choices(routed.offered, routed.approval, "p1")]
        encode(permission_request(PermissionQuestion("s", routed.shown, options)))
        wire(routed.announcement)


APPROVALS = [
    command(),
    file_change(),
    permissions(),
    request("execCommandApproval"),
    request("applyPatchApproval"),
    tool_approval(),
]


@pytest.mark.parametrize("asked", APPROVALS, ids=lambda r: r.method)
@pytest.mark.parametrize("client", [ALL_FEATURES, NO_FEATURES], ids=["all", "none"])
def test_2_1_an_approval_is_one_whatever_the_client_can_do(asked: Any, client: Any) -> None:
    items = running(file_item() if "fileChange" in asked.method else mcp_item())
    assert isinstance(route(asked, context(items, client=client)), Approval)


@pytest.mark.parametrize(
    "asked",
    [elicitation(), elicitation(**URL), request("item/tool/requestUserInput")],
    ids=["form", "url", "questions"],
)
def test_2_2_an_elicitation_the_client_cannot_do_is_declined_and_never_a_permission(
    asked: Any,
) -> None:
    assert isinstance(route(asked, context(running())), Elicitation)
    assert isinstance(route(asked, context(running(), client=NO_FEATURES)), Decline)


def test_2_2_a_form_is_not_converted_for_a_client_that_cannot_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elicitations, "form_elicitation", pytest.fail)
    routed = route(elicitation(), context(running(), client=NO_FEATURES))
    assert isinstance(routed, Decline)
    assert "this client cannot show forms" in routed.reason


@pytest.mark.parametrize("asked", [command(availableDecisions=d) for d in ([], ["cancel"])])
def test_3_4_an_approval_that_offers_no_grant_is_declined(asked: Any) -> None:
    routed = route(asked, context(running()))
    assert isinstance(routed, Decline)
    assert routed.session_id == "root"


def test_3_4_an_approval_that_offers_only_a_lasting_denial_is_declined() -> None:
    deny = {"host": "h", "action": "deny"}
    listed = [{"applyNetworkPolicyAmendment": {"network_policy_amendment": deny}}, "cancel"]
    asked = command(
        availableDecisions=listed,
        proposedNetworkPolicyAmendments=[deny],
        networkApprovalContext={"host": "h", "protocol": "https"},
    )
    assert isinstance(route(asked, context(running())), Decline)


@pytest.mark.parametrize("method", sorted(PARAMS))
def test_a_request_of_a_thread_that_no_session_holds_is_declined(method: str) -> None:
    item = file_item() if "fileChange" in method else mcp_item()
    routed = route(request(method), context(running(item), "another"))
    assert isinstance(routed, Decline)
    assert routed.session_id is None


# --- sub-agents ----------------------------------------------------------------------------------


def _family() -> Items:
    items = running(collab_item("child"))
    items.apply(item_completed(collab_item("child")))
    items.apply(thread_started("grandchild", parent="child"))
    items.apply(turn_started("grandchild", "u"))
    return items


GRANDCHILD = {"threadId": "grandchild", "turnId": "u"}


def test_3_9_a_sub_agents_approval_is_asked_in_its_root_session_with_its_own_turn() -> None:
    routed = route(command(**GRANDCHILD), context(_family()))
    assert isinstance(routed, Approval)
    assert (routed.session_id, routed.thread_id, routed.turn_id) == ("root", "grandchild", "u")
    assert "grandchild" in (routed.shown.title or "")
    assert routed.shown.id == "codex-acp:agent:grandchild:item"
    assert routed.announcement.id == "codex-acp:agent:grandchild:item"


def test_3_9_a_sub_agents_form_is_asked_in_its_root_session() -> None:
    routed = route(elicitation(**GRANDCHILD), context(_family()))
    assert isinstance(routed, Elicitation)
    assert (routed.session_id, routed.thread_id, routed.turn_id) == ("root", "grandchild", "u")


def test_3_9_the_nearest_open_session_is_asked() -> None:
    routed = route(command(**GRANDCHILD), context(_family(), "root", "child"))
    assert isinstance(routed, Approval)
    assert routed.session_id == "child"
    routed = route(command(**GRANDCHILD), context(_family(), "root", "grandchild"))
    assert isinstance(routed, Approval)
    assert (routed.session_id, routed.shown.id) == ("grandchild", "item")


def test_3_9_a_session_that_another_one_writes_to_stays_its_own() -> None:
    items = running()
    items.apply(turn_started("stranger", "u"))
    items.apply(item_completed(collab_item("root", tool="sendInput"), "stranger", "u"))
    assert items.root_of("root") == "stranger"
    routed = route(command(), context(items, "root", "stranger"))
    assert isinstance(routed, Approval)
    assert routed.session_id == "root"


# --- declines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        elicitation(mode="x" * 100_000),
        elicitation(_meta={"codex_approval_kind": ["x" * 100_000]}),
        command(kind="x" * 100_000),
        request("item/tool/call", tool="x" * 100_000),
    ],
    ids=["mode", "approval kind", "kind", "tool"],
)
def test_1_6_a_decline_is_one_short_line_for_the_session(asked: Any) -> None:
    routed = route(asked, context(running()))
    assert isinstance(routed, Decline)
    assert routed.session_id == "root"
    assert len(routed.reason) < 300


def test_1_6_the_names_in_a_decline_are_made_visible() -> None:
    asked = tool_approval({"a": 1}, serverName="no\u202etes\n\x1b[31m")
    routed = route(asked, context(running()))
    assert isinstance(routed, Decline)
    assert "no⟦U+202E⟧tes⏎⟦U+001B⟧[31m" in routed.reason


# --- the catalogue -------------------------------------------------------------------------------


def test_1_2_the_catalogue_has_every_method_mode_and_kind() -> None:
    rows = catalogue()
    assert {row.method for row in rows} == SERVER_REQUESTS.keys()
    cases = " | ".join(row.case for row in rows)
    assert [
        value
        for value in (*FIELD_TYPES["ELICITATION_MODES"], *FIELD_TYPES["COMMAND_KINDS"])
        if value not in cases
    ] == []
    assert len({(row.method, row.case) for row in rows}) == len(rows)
    assert {row.route for row in rows} == {"approval", "elicitation", "decline"}


def test_every_row_of_the_catalogue_is_whole() -> None:
    for row in catalogue():
        asked = row.route != "decline"
        assert row.shown
        assert bool(row.options) is (row.route == "approval")
        assert (row.cancelling is not None) is asked
        name = SERVER_REQUESTS[row.method].result
        assert name is not None
        for reply in (row.negative, row.cancelling):
            if isinstance(reply, dict) and "error" not in reply:
                assert_fits(name, reply)
        if row.route == "approval":
            kinds = [option.kind for option in row.options]
            assert "allow_once" in kinds
            assert "reject_once" in kinds


def test_the_catalogue_as_json_says_the_same() -> None:
    rows = catalogue()
    read = json.loads(as_json(rows))["cases"]
    assert [(r["method"], r["case"], r["route"], r["shown"]) for r in read] == [
        (row.method, row.case, row.route, row.shown) for row in rows
    ]
    assert [r["negativeReply"] for r in read] == [row.negative for row in rows]
    assert as_json(rows).endswith("}\n")


def test_1_1_the_routes_are_those_of_the_golden_file() -> None:
    cases = catalogue()
    assert_golden(ROUTING / "routes.md", f"{table_as_markdown()}\n{as_markdown(cases)}")
    assert_golden(ROUTING / "routes.json", as_json(cases))


def test_a_markdown_cell_holds_no_bar_and_no_line_end_of_others() -> None:
    for line in as_markdown(catalogue()).splitlines():
        assert line.replace("\\|", "").count("|") == 8


def test_an_approval_says_whose_item_it_is() -> None:
    seen = set()
    for asked in APPROVALS:
        item = file_item() if "fileChange" in asked.method else mcp_item()
        routed = route(asked, context(running(item)))
        assert isinstance(routed, Approval)
        assert routed.item_id == "item"
        assert all(allows(grant) for grant in routed.offered.grants)
        seen.add(type(routed.approval))
    assert {FileChangeApproval, McpToolApproval, PermissionsApproval} < seen
    assert McpToolQuestion not in seen
