"""The negative reply of every server request, checked against the schema."""

from __future__ import annotations

import json

import pytest
from jsonschema import ValidationError

from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.codex.approvals.refusals import REFUSALS, has_negative_form, refusal
from codex_acp.errors import MisuseError, RpcError
from codex_acp.wire.codec import encode
from codex_acp.wire.registry import require_rows
from tests.codex.server_request_samples import SAMPLES, assert_fits

EXPECTED = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/call": {
        "success": False,
        "contentItems": [{"type": "inputText", "text": "because"}],
    },
    "applyPatchApproval": {"decision": {"denied": {"rejection": "because"}}},
    "execCommandApproval": {"decision": {"denied": {"rejection": "because"}}},
}
ERRORS = {
    "account/chatgptAuthTokens/refresh",
    "attestation/generate",
    "currentTime/read",
}


def test_every_server_request_has_a_row_and_a_sample() -> None:
    assert set(REFUSALS) == set(SERVER_REQUESTS) == set(SAMPLES) == set(EXPECTED) | ERRORS


@pytest.mark.parametrize("method", sorted(SAMPLES))
def test_the_samples_fit_the_schema(method: str) -> None:
    params = SERVER_REQUESTS[method].params
    assert params is not None
    assert_fits(params, SAMPLES[method])


@pytest.mark.parametrize("method", sorted(EXPECTED))
def test_a_refusal_says_no_and_fits_the_schema_of_the_response(method: str) -> None:
    reply = refusal(method, SAMPLES[method], "because")
    assert not isinstance(reply, RpcError)
    wire = json.loads(encode(reply))
    assert wire == EXPECTED[method]
    result = SERVER_REQUESTS[method].result
    assert result is not None
    assert_fits(result, wire)
    assert has_negative_form(method)


@pytest.mark.parametrize("method", [*sorted(ERRORS), "no/such/request"])
def test_what_has_no_negative_form_is_refused_with_method_not_found(method: str) -> None:
    reply = refusal(method, {}, "because")
    assert isinstance(reply, RpcError)
    assert (reply.code, reply.message) == (-32601, "because")
    assert not has_negative_form(method)


@pytest.mark.parametrize("method", sorted(REFUSALS))
def test_a_refusal_needs_no_readable_params(method: str) -> None:
    unread, read = refusal(method, None, "because"), refusal(method, SAMPLES[method], "because")
    if isinstance(unread, RpcError):
        assert isinstance(read, RpcError)
    else:
        assert encode(unread) == encode(read)


def test_the_schema_check_of_these_tests_can_fail() -> None:
    with pytest.raises(ValidationError):
        assert_fits("ExecCommandApprovalResponse", {"decision": "denied"})


def test_a_table_that_does_not_match_names_the_rows() -> None:
    with pytest.raises(MisuseError, match=r"T does not match.*add a row for 'b'.*remove.*'c'"):
        require_rows("T", ["a", "c"], ["a", "b"])
