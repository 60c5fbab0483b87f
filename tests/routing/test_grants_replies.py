"""2.3, 3.2: what a grant gives, what is digested, and who alone may make an accepting reply."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.codex.approvals.classify import ApprovalRequest, classify
from codex_acp.codex.approvals.grants import (
    Always,
    Grant,
    NotGranted,
    Once,
    RememberPrefix,
    Session,
    accepting_reply,
    arguments_of,
    digest_of,
    granted,
    offered_grants,
)
from codex_acp.wire.codec import digest, encode, same_json
from tests.support.routing_samples import (
    EMPTY_FORM,
    approval_of,
    change,
    command,
    elicitation,
    file_change,
    file_item,
    mcp_item,
    permissions,
    reply_of,
    request,
    running,
    tool_approval,
)

# --- the checks ----------------------------------------------------------------------------------


def test_3_2_a_grant_becomes_the_reply_only_if_every_check_holds() -> None:
    shown, other = approval_of(command()), approval_of(command(command="rm -rf"))
    grants, digest_shown = offered_grants(shown).grants, digest_of(shown)
    reply = accepting_reply(Once(), grants, digest_shown, shown, running=True)
    assert not isinstance(reply, NotGranted)
    assert json.loads(encode(reply)) == {"decision": "accept"}
    cases: list[tuple[Grant, ApprovalRequest | None, bool, str]] = [
        (Always(), shown, True, "unknown_option"),
        (RememberPrefix(("rm",)), shown, True, "unknown_option"),
        (Once(), shown, False, "turn_over"),
        (Once(), None, True, "changed"),
        (Once(), other, True, "changed"),
    ]
    for grant, now, runs, check in cases:
        refused = accepting_reply(grant, grants, digest_shown, now, running=runs)
        assert isinstance(refused, NotGranted)
        assert refused.check == check


def test_3_2_what_a_callback_changed_in_its_question_is_not_granted() -> None:
    approval = approval_of(command())
    grants, shown = offered_grants(approval).grants, digest_of(approval)
    approval.request.params.command = "rm -rf"  # type: ignore[union-attr]
    assert isinstance(accepting_reply(Once(), grants, shown, approval, running=True), NotGranted)


SRC = Path(__file__).resolve().parents[2] / "src" / "codex_acp"

# --- permissions ---------------------------------------------------------------------------------

_paths = st.none() | st.lists(st.sampled_from(["/a", "/b"]), max_size=2)
_place = st.one_of(
    st.builds(lambda p: {"type": "path", "path": p}, st.sampled_from(["/a", "/b"])),
    st.just({"type": "glob_pattern", "pattern": "/a/**"}),
    st.just({"type": "special", "value": {"kind": "root"}}),
    st.just({"type": "hologram", "x": 1}),
)
_entries = st.lists(
    st.builds(
        lambda p, a: {"path": p, "access": a}, _place, st.sampled_from(["read", "write", "deny"])
    ),
    max_size=2,
)
_profile = st.fixed_dictionaries(
    {},
    optional={
        "network": st.none()
        | st.fixed_dictionaries({}, optional={"enabled": st.sampled_from([True, False, None])}),
        "fileSystem": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "read": _paths,
                "write": _paths,
                "entries": st.none() | _entries,
                "globScanMaxDepth": st.none() | st.integers(1, 3),
            },
        ),
    },
)


@settings(max_examples=150)
@given(_profile)
def test_permissions_are_given_as_asked_and_never_widened(profile: dict[str, Any]) -> None:
    approval = approval_of(permissions(permissions=profile))
    assert offered_grants(approval).grants == (Once(), Session())
    for grant, scope in ((Once(), "turn"), (Session(), "session")):
        said = json.loads(encode(granted(approval, grant)))
        asked = {name: value for name, value in profile.items() if value is not None}
        assert same_json(said, {"permissions": asked, "scope": scope})


def test_permissions_of_an_unknown_kind_are_not_given() -> None:
    approval = approval_of(permissions(permissions={"rootShell": True, "network": None}))
    assert reply_of(approval, Once()) == {"permissions": {}, "scope": "turn"}


# --- what is digested ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        (approval_of(file_change(), file_item()), {"changes": [change("/w/a")], "id": "item"}),
        (
            approval_of(file_change(grantRoot="/w"), file_item()),
            {"changes": [change("/w/a")], "id": "item", "grantRoot": "/w"},
        ),
        (
            approval_of(permissions()),
            {"permissions": {"network": {"enabled": True}, "fileSystem": {"write": ["/out"]}}},
        ),
        (
            approval_of(tool_approval({"a": [1]}), mcp_item(arguments={"a": [1]})),
            {"server": "notes", "tool": "write", "arguments": {"a": [1]}},
        ),
    ],
)
def test_3_2_what_is_digested_is_the_action_itself(
    approval: ApprovalRequest, expected: dict[str, Any]
) -> None:
    assert same_json(arguments_of(approval), expected)
    assert digest_of(approval) == digest(expected)


@pytest.mark.parametrize("method", ["execCommandApproval", "applyPatchApproval"])
def test_3_2_an_old_requests_own_params_are_digested(method: str) -> None:
    asked = request(method)
    assert same_json(arguments_of(approval_of(asked)), json.loads(encode(asked.params)))


def test_3_2_every_parameter_of_a_command_counts() -> None:
    plain = digest_of(approval_of(command()))
    for changes in (
        {"command": "ls -l "},
        {"cwd": "/x"},
        {"itemId": "other"},
        {"approvalId": "sub"},
        {"kind": "writeStdin"},
        {"additionalPermissions": {"network": {"enabled": True}}},
        {"networkApprovalContext": {"host": "h", "protocol": "https"}},
        {"somethingNew": 1},
    ):
        assert digest_of(approval_of(command(**changes))) != plain, changes


# --- who may grant -------------------------------------------------------------------------------


@cache
def _sources() -> dict[str, str]:
    """Every handwritten module under src/."""
    paths = [path for path in SRC.rglob("*.py") if "_generated" not in path.parts]
    return {path.relative_to(SRC).as_posix(): path.read_text() for path in paths}


@cache
def _trees(name: str) -> dict[str, ast.Module]:
    """Those that have the name somewhere, without what only the type checker sees."""
    found = {module: ast.parse(text) for module, text in _sources().items() if name in text}
    for tree in found.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []
    return found


def _calls(name: str) -> set[str]:
    """The modules that call ``name``, as a function or as a member of a module."""
    return {
        module
        for module, tree in _trees(name).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and name in (getattr(node.func, "id", None), getattr(node.func, "attr", None))
    }


def _importers(name: str) -> set[str]:
    """The modules that import ``name`` at run time, under whatever name."""
    return {
        module
        for module, tree in _trees(name).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]
    }


@pytest.mark.parametrize(
    ("name", "makers", "importers"),
    [
        ("granted", {"codex/approvals/grants.py"}, set()),
        (
            "accepting_reply",
            {"routing/ledger.py", "codex/approvals/policy_runner.py"},
            {"routing/ledger.py", "codex/approvals/policy_runner.py"},
        ),
        ("ApprovalReply", {"routing/ledger.py"}, set()),
        ("ElicitationReply", {"routing/elicitations.py"}, set()),
    ],
)
def test_2_3_an_accepting_reply_is_made_in_its_own_place_only(
    name: str, makers: set[str], importers: set[str]
) -> None:
    assert _calls(name) == makers
    assert _importers(name) == importers


def test_2_3_an_elicitation_has_no_grants() -> None:
    asked = elicitation(_meta={"persist": "always"}, requestedSchema=EMPTY_FORM)
    assert not isinstance(classify(asked, running(mcp_item())), ApprovalRequest)
