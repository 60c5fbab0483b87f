"""Events made by chance, and one plain sample of each."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import get_args

from hypothesis import settings
from hypothesis import strategies as st

from codex_acp.jsonrpc import JsonValue, RequestId
from codex_acp.transcript import (
    AgreementDecided,
    ApprovalDecided,
    ApprovalRefused,
    ApprovalRequested,
    ElicitationAnswered,
    ElicitationRequested,
    OfferedOption,
    PromptEnded,
    PromptStarted,
    RequestDeclined,
    RequestRef,
    SessionClosed,
    SessionOpened,
    SessionRef,
    ToolIdentity,
    TranscriptEvent,
    WireMessage,
)
from codex_acp.transcript import events as types

TIME = "2026-01-31T12:00:00.000Z"
DIGEST = "0123456789abcdef" * 4

quick = settings(max_examples=40)
"""Enough examples for shapes this small; a busy machine must not fail a test."""

text = st.text(max_size=12)
maybe_text = st.none() | text
request_ids: st.SearchStrategy[RequestId] = st.integers() | text
digests = st.text("0123456789abcdef", min_size=64, max_size=64)

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
contents = st.dictionaries(text, json_values, max_size=4)

session_refs = st.builds(
    SessionRef,
    session_id=maybe_text,
    thread_id=maybe_text,
    generation=st.integers(0, 9),
    turn_id=maybe_text,
    acp_request_id=st.none() | request_ids,
)
request_refs = st.builds(
    RequestRef,
    session_id=maybe_text,
    thread_id=maybe_text,
    generation=st.integers(0, 9),
    turn_id=maybe_text,
    acp_request_id=st.none() | request_ids,
    codex_request_id=request_ids,
    method=text,
    item_id=maybe_text,
)


def one_of(literal: object) -> st.SearchStrategy[str]:
    """Any value of a Literal."""
    return st.sampled_from(get_args(literal))


tools = st.builds(ToolIdentity, one_of(types.ToolKind), text)
options = st.builds(OfferedOption, text, one_of(types.OptionKind), text)
approval = {
    "ref": request_refs,
    "tool": tools,
    "arguments_sha256": digests,
    "subject": st.lists(text, max_size=3).map(tuple),
}
elicitation = {
    "ref": request_refs,
    "mode": one_of(types.ElicitationMode),
    "server": maybe_text,
    "fields": st.lists(text, max_size=3).map(tuple),
}

BY_TYPE: dict[str, st.SearchStrategy[TranscriptEvent]] = {
    "approval.requested": st.builds(
        ApprovalRequested, **approval, options=st.lists(options, max_size=3).map(tuple)
    ),
    "approval.decided": st.builds(
        ApprovalDecided,
        **approval,
        outcome=one_of(types.ApprovalOutcome),
        by=one_of(types.ApprovalSettler),
        policy=maybe_text,
        option=st.none() | options,
        decision=text,
    ),
    "approval.refused": st.builds(ApprovalRefused, **approval, code=text, reason=text),
    "agreement.decided": st.builds(
        AgreementDecided,
        ref=session_refs,
        about=one_of(types.AgreementKind),
        subject=st.lists(text, max_size=3).map(tuple),
        outcome=one_of(types.ApprovalOutcome),
        by=one_of(types.ApprovalSettler),
    ),
    "elicitation.requested": st.builds(ElicitationRequested, **elicitation, url=maybe_text),
    "elicitation.answered": st.builds(
        ElicitationAnswered,
        **elicitation,
        action=one_of(types.ElicitationAction),
        by=one_of(types.ElicitationSettler),
        problem=maybe_text,
        content=st.none() | contents,
    ),
    "request.declined": st.builds(
        RequestDeclined,
        ref=request_refs,
        route=one_of(types.RouteName),
        discriminator=maybe_text,
        reason=text,
        asked=st.booleans(),
    ),
    "prompt.started": st.builds(PromptStarted, ref=session_refs),
    "prompt.ended": st.builds(
        PromptEnded, ref=session_refs, stop_reason=maybe_text, error=maybe_text
    ),
    "session.opened": st.builds(
        SessionOpened, ref=session_refs, how=st.sampled_from(("new", "load", "resume", "fork"))
    ),
    "session.closed": st.builds(SessionClosed, ref=session_refs, reason=text),
    "wire.message": st.builds(
        WireMessage,
        ref=session_refs,
        peer=one_of(types.WirePeer),
        direction=one_of(types.WireDirection),
        connection=st.integers(1, 9),
        kind=one_of(types.WireKind),
        id=st.none() | request_ids,
        method=maybe_text,
        size=st.integers(0, 99),
        message=st.none() | contents,
        left_out=maybe_text,
    ),
}
"""Events of each type."""

any_event: st.SearchStrategy[TranscriptEvent] = reduce(or_, BY_TYPE.values())

REF = RequestRef(
    session_id="s",
    thread_id="t",
    turn_id="u",
    generation=1,
    codex_request_id=0,
    method="item/commandExecution/requestApproval",
    item_id="i",
)


def answered(
    content: dict[str, JsonValue] | None, problem: str | None = None
) -> ElicitationAnswered:
    """A form that a person answered."""
    return ElicitationAnswered(
        ref=REF,
        mode="form",
        server="notes",
        action="accept",
        by="client",
        fields=tuple(content or ()),
        problem=problem,
        content=content,
    )


def closed(reason: str) -> SessionClosed:
    """An event that is told apart by its text."""
    return SessionClosed(ref=REF_OF_SESSION, reason=reason)


REF_OF_SESSION = SessionRef(session_id="s", thread_id="t", generation=1)
