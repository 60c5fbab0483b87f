"""1.1, 1.3: what each server request is, over every method and what changes its meaning inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.codex._generated.server_requests import ServerRequest
from codex_acp.codex.approvals.actions import refreshed
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    Classified,
    CommandApproval,
    FileChangeApproval,
    LegacyCommandApproval,
    LegacyPatchApproval,
    McpForm,
    McpToolApproval,
    McpToolQuestion,
    McpUrl,
    PermissionsApproval,
    ProgramOnly,
    Refused,
    UserInput,
    classify,
)
from codex_acp.codex.approvals.running_items import Items
from tests.support.routing_samples import (
    APPROVAL_KIND,
    EMPTY_FORM,
    FORM,
    change,
    command,
    elicitation,
    file_change,
    file_item,
    item_completed,
    item_started,
    mcp_item,
    options,
    patch_updated,
    permissions,
    questions,
    request,
    running,
    tool_approval,
    turn_completed,
)

URL: dict[str, Any] = {"mode": "url", "url": "https://example.com/", "elicitationId": "e"}
VERIFY: dict[str, Any] = {
    "mode": "openai/userVerification",
    "challenge": "c",
    "title": "T",
    "description": "D",
    "requestedSchema": None,
}
QUESTION = {"id": "mcp_tool_call_approval_1", "options": options("Allow", "Cancel")}

Row = tuple[str, ServerRequest, Items, type[Classified]]

TABLE: list[Row] = [
    ("command", command(kind="command"), running(), CommandApproval),
    ("no kind is a command", command(), running(), CommandApproval),
    ("stdin", command(kind="writeStdin", approvalId="a"), running(), CommandApproval),
    ("humanCommand", command(kind="humanCommand"), running(), CommandApproval),
    ("unknown kind", command(kind="hologram"), running(), Refused),
    ("command of no turn", command(), Items(), Refused),
    ("command of another turn", command(turnId="other"), running(), Refused),
    ("command of another thread", command(threadId="other"), running(), Refused),
    ("file change", file_change(), running(file_item()), FileChangeApproval),
    ("file change of no item", file_change(), running(), Refused),
    ("file change of another item", file_change(), running(mcp_item()), Refused),
    ("file change of another turn", file_change(turnId="x"), running(file_item()), Refused),
    ("permissions", permissions(), running(), PermissionsApproval),
    ("permissions of no turn", permissions(), Items(), Refused),
    ("old command", request("execCommandApproval"), running(), LegacyCommandApproval),
    ("old command of no turn", request("execCommandApproval"), Items(), Refused),
    ("old patch", request("applyPatchApproval"), running(), LegacyPatchApproval),
    ("old patch of no turn", request("applyPatchApproval"), Items(), Refused),
    (
        "tool approval",
        tool_approval({"a": 1}),
        running(mcp_item(arguments={"a": 1})),
        McpToolApproval,
    ),
    ("forged tool approval", tool_approval(), running(), Refused),
    ("form", elicitation(requestedSchema=FORM), running(), McpForm),
    ("form of no turn", elicitation(turnId=None), Items(), McpForm),
    ("yes or no", elicitation(requestedSchema=EMPTY_FORM), running(mcp_item()), McpForm),
    ("other _meta", elicitation(_meta={"persist": "always"}), running(mcp_item()), McpForm),
    ("_meta is no object", elicitation(_meta=[APPROVAL_KIND]), running(), McpForm),
    ("url", elicitation(**URL), running(), McpUrl),
    ("openai/form", elicitation(mode="openai/form"), running(), McpForm),
    ("openaiForm", elicitation(mode="openaiForm"), running(), McpForm),
    ("userVerification", elicitation(**VERIFY), running(), Refused),
    ("unknown mode", elicitation(mode="hologram"), running(), Refused),
    ("questions", questions({"id": "q"}, {"id": "r"}), running(), UserInput),
    ("no questions", questions(), running(), UserInput),
    ("tool question", questions(QUESTION), running(mcp_item()), McpToolQuestion),
    ("forged tool question", questions(QUESTION), running(), Refused),
    ("dynamic tool", request("item/tool/call"), running(), ProgramOnly),
    ("tokens", request("account/chatgptAuthTokens/refresh"), running(), ProgramOnly),
    ("attestation", request("attestation/generate"), running(), ProgramOnly),
    ("time", request("currentTime/read"), running(), ProgramOnly),
]


@pytest.mark.parametrize(
    ("asked", "items", "kind"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
def test_1_1_each_request_is_what_the_table_says(
    asked: ServerRequest, items: Items, kind: type[Classified]
) -> None:
    what = classify(asked, items)
    assert type(what) is kind
    assert what.request is asked
    if isinstance(what, Refused | ProgramOnly):
        assert what.reason
        assert "\n" not in what.reason


def test_1_2_the_table_has_every_method_of_the_schema() -> None:
    assert {row[1].method for row in TABLE} == SERVER_REQUESTS.keys()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (command(kind="hologram"), "hologram"),
        (elicitation(mode="hologram"), "hologram"),
        (elicitation(_meta={APPROVAL_KIND: "tool_suggestion"}), "tool_suggestion"),
    ],
)
def test_1_3_a_refusal_names_what_is_not_known(asked: ServerRequest, named: str) -> None:
    what = classify(asked, running())
    assert isinstance(what, Refused)
    assert named in what.reason


@pytest.mark.parametrize("kind", ["tool_suggestion", "", "MCP_TOOL_CALL", None, 1, True, [], {}])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"requestedSchema": EMPTY_FORM},
        URL,
        VERIFY,
        {"mode": "openai/form"},
        {"mode": "openaiForm"},
    ],
)
def test_2_2_whatever_claims_an_unknown_approval_kind_is_refused(
    kind: object, shape: dict[str, Any]
) -> None:
    asked = elicitation(**shape, _meta={APPROVAL_KIND: kind, "tool_params": None})
    assert isinstance(classify(asked, running(mcp_item())), Refused)


# --- the same action, as Codex last reported it ------------------------------------------------


def test_3_2_what_is_approved_is_refreshed_from_the_item() -> None:
    items = running(file_item())
    approval = classify(file_change(), items)
    assert isinstance(approval, FileChangeApproval)
    items.apply(patch_updated([change("/w/other")]))
    now = refreshed(approval, items)
    assert isinstance(now, FileChangeApproval)
    assert [c.path for c in now.item.changes] == ["/w/other"]
    assert now.request is approval.request


def _replaced(items: Items, item: dict[str, Any]) -> None:
    items.apply(item_completed(mcp_item()))
    items.apply(item_started(item))


@pytest.mark.parametrize(
    ("asked", "item", "other"),
    [
        (file_change(), file_item(), mcp_item()),
        (tool_approval(), mcp_item(), file_item()),
        (questions(QUESTION), mcp_item(), file_item()),
    ],
    ids=["file change", "tool", "question"],
)
def test_3_2_an_item_that_is_gone_or_became_another_cannot_be_approved(
    asked: ServerRequest, item: dict[str, Any], other: dict[str, Any]
) -> None:
    def approval(items: Items) -> ApprovalRequest:
        what = classify(asked, items)
        assert isinstance(what, ApprovalRequest)
        return what

    ways: list[Callable[[Items], None]] = [
        lambda items: items.apply(item_completed(item)),
        lambda items: items.apply(turn_completed()),
        lambda items: _replaced(items, other),
    ]
    for way in ways:
        items = running(item)
        what = approval(items)
        assert refreshed(what, items) == what
        way(items)
        assert refreshed(what, items) is None


@pytest.mark.parametrize(
    "asked",
    [command(), permissions(), request("execCommandApproval"), request("applyPatchApproval")],
)
def test_3_2_what_stands_in_the_request_itself_needs_no_item(asked: ServerRequest) -> None:
    what = classify(asked, running())
    assert isinstance(what, ApprovalRequest)
    assert refreshed(what, Items()) is what
