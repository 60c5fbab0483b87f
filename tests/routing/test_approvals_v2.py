"""3.8: what a client of ACP v2 is asked, whose question of a command may be the command alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.mapping.events import PermissionQuestion
from codex_acp.mapping.v2.updates import permission_request
from codex_acp.routing.approvals import choices, command_of, reason_shown
from codex_acp.wire.codec import encode
from tests.support.routing_samples import approval_route, command, request, running

TRICK = "touch a # \u202etxt.exe\u2069 \x1b[2K\u200b"


def asked_in_v2(asked: Any) -> dict[str, Any]:
    """The params of ``session/request_permission``."""
    routed = approval_route(asked, running())
    question = PermissionQuestion(
        session_id="s",
        shown=routed.shown,
        options=[c.option for c in choices(routed.offered, routed.approval, "p1")],
        reason=reason_shown(routed.approval),
        command=command_of(routed.approval, {}),
    )
    params: dict[str, Any] = json.loads(encode(permission_request(question)))
    return params


def test_3_8_a_command_that_can_be_seen_as_it_is_is_the_subject() -> None:
    subject = asked_in_v2(command(command="cd /w &&\n\ttrue", cwd="/w"))["subject"]
    assert (subject["type"], subject["command"]) == ("command", "cd /w &&\n\ttrue")
    assert subject["cwd"] == "/w"


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "asked",
    [
        command(command=TRICK),
        command(cwd="/w/\u202etxt"),
        request("execCommandApproval", command=["touch", TRICK], cwd="/w"),
        request("execCommandApproval", command=["touch"], cwd="/w/\u202etxt"),
    ],
)
def test_3_8_what_a_command_hides_is_made_visible(asked: Any) -> None:
    params = asked_in_v2(asked)
    assert params["subject"]["type"] == "tool_call"
    call = params["subject"]["toolCall"]
    seen = [params["title"], *(c["content"]["text"] for c in call["content"])]
    assert "⟦U+202E⟧" in "".join(seen)
    assert "\u202e" not in "".join(seen)


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "more",
    [
        {"additionalPermissions": {"fileSystem": {"write": ["/etc"]}}},
        {"networkApprovalContext": {"host": "/etc", "protocol": "https"}},
        {"kind": "writeStdin", "approvalId": "i", "command": "/etc"},
    ],
)
def test_3_8_a_command_that_wants_more_is_not_shown_as_the_command_alone(
    more: dict[str, Any],
) -> None:
    params = asked_in_v2(command(**more))
    assert params["subject"]["type"] == "tool_call"
    call = params["subject"]["toolCall"]
    seen = [params["title"], *(c["content"]["text"] for c in call["content"])]
    assert "/etc" in "".join(seen)
