"""Transcripts as files, for what shows them: one of every kind, a large one, hostile ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from codex_acp.jsonrpc import JsonValue
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
    to_json,
)
from codex_acp.transcript.redaction import WireTaps

BEGAN = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIGEST = "0123456789abcdef" * 4
ALLOW = OfferedOption("a", "allow_once", "Allow once")
SUBJECT = "touch made"
REJECT = OfferedOption("r", "reject_once", "Reject and go on")

HOSTILE = (
    "</script><script>document.title='hit'</script>",
    "<img src=x onerror=\"document.title='hit'\">", "<!--<script>",
    "]]></style><svg onload=alert(1)>", "\u202egnp.exe\u2066 \u200b\ufeff\u2028",
    "\x1b]0;hit\x07\x1b[2J\r\x00", "${rows} $style {{x}}", "\ud800 lone", "javascript:alert(1)",
    "&lt;b&gt; &amp;",
)  # fmt: skip
"""Texts that a page or a terminal might take for more than text."""


def lines(events: list[TranscriptEvent], step: float = 0.25) -> Iterator[str]:
    """The lines of a file, ``step`` seconds apart."""
    for number, event in enumerate(events):
        when = BEGAN + timedelta(seconds=number * step)
        time = when.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        yield json.dumps(to_json(event, time)) + "\n"


def request(number: int, method: str, session: str = "session-one") -> RequestRef:
    """A server request of Codex, asked as an ACP request."""
    return RequestRef(
        session_id=session, thread_id=session, generation=1, turn_id="turn",
        acp_request_id=number, codex_request_id=number, method=method, item_id=f"item-{number}",
    )  # fmt: skip


def approval(number: int, session: str = "session-one", name: str = "shell") -> ApprovalRequested:
    """A question whether a command may run."""
    ref = request(number, "item/commandExecution/requestApproval", session)
    tool = ToolIdentity("shell", name)
    return ApprovalRequested(
        ref=ref, tool=tool, arguments_sha256=DIGEST, subject=(SUBJECT,), options=(ALLOW, REJECT)
    )


def decided(asked: ApprovalRequested, *, accepted: bool) -> ApprovalDecided:
    """What the client answered."""
    return ApprovalDecided(
        ref=asked.ref, tool=asked.tool, arguments_sha256=DIGEST, subject=asked.subject,
        outcome="accepted" if accepted else "rejected", by="client",
        option=ALLOW if accepted else REJECT, decision="Once" if accepted else "decline",
    )  # fmt: skip


def of_every_kind(text: str = "notes") -> list[TranscriptEvent]:
    """One session with each event, and a second one; ``text`` stands wherever others write."""
    session = SessionRef(session_id="session-one", thread_id="session-one", generation=1)
    other = replace(session, session_id="session-two", thread_id="session-two")
    form = request(3, "mcpServer/elicitation/request")
    page = request(4, "mcpServer/elicitation/request")
    tool = ToolIdentity("mcp_tool", f"{text}/write")
    first, second = approval(1), replace(approval(2), tool=tool, subject=(text,))
    stale = ApprovalRefused(
        ref=first.ref, tool=first.tool, arguments_sha256=DIGEST, code="stale", reason=text
    )
    return [
        SessionOpened(ref=session, how="new"),
        PromptStarted(ref=session),
        first, decided(first, accepted=True), stale,
        second, decided(second, accepted=False),
        ElicitationRequested(ref=form, mode="form", server=text, fields=("city", text)),
        ElicitationAnswered(
            ref=form, mode="form", server=text, action="accept", by="client", fields=("city",)
        ),
        ElicitationRequested(ref=page, mode="url", server=text, url="https://example.org/page"),
        ElicitationAnswered(ref=page, mode="url", server=text, action="decline", by="client"),
        RequestDeclined(
            ref=request(5, "item/tool/requestUserInput"), route="decline", discriminator=text,
            reason=f"it asks for a secret: {text}", asked=False,
        ),
        PromptEnded(ref=session, stop_reason="end_turn"),
        SessionOpened(ref=other, how="load"),
        PromptStarted(ref=other),
        PromptEnded(ref=other, stop_reason=None, error=text),
        AgreementDecided(
            ref=other, about="git_programs", subject=(text,), outcome="accepted", by="client"
        ),
        SessionClosed(ref=session, reason=text),
    ]  # fmt: skip


def with_wire() -> list[TranscriptEvent]:
    """An approval with the four messages behind it, between messages that have the same ids."""
    events: list[TranscriptEvent] = []
    taps = WireTaps(events.append)
    client, codex = taps.new("client"), taps.new("codex")

    def said(tap: object, direction: str, message: JsonValue) -> None:
        assert callable(tap)
        tap(direction, json.dumps(message).encode())

    method = "item/commandExecution/requestApproval"
    asks: JsonValue = {"sessionId": "session-one", "toolCall": {"title": "Run: touch made"}}
    prompt: JsonValue = {"sessionId": "session-one"}
    said(client, "received", {"id": 1, "method": "session/prompt", "params": prompt})
    events.append(
        PromptStarted(ref=SessionRef(session_id="session-one", thread_id=None, generation=1))
    )
    said(codex, "sent", {"id": 1, "method": "turn/start", "params": {"threadId": "session-one"}})
    said(codex, "received", {"id": 1, "result": {}})
    asked = approval(1)
    said(codex, "received", {"id": 1, "method": method, "params": {"threadId": "session-one"}})
    events.append(asked)
    said(client, "sent", {"id": 1, "method": "session/request_permission", "params": asks})
    said(client, "received", {"id": 1, "result": {"outcome": {"optionId": "a"}}})
    events.append(decided(asked, accepted=True))
    said(codex, "sent", {"id": 1, "result": {"decision": "accept"}})
    said(client, "sent", {"id": 1, "result": {"stopReason": "end_turn"}})
    return events


def many(count: int) -> list[TranscriptEvent]:
    """Approvals, accepted and rejected, of twenty sessions; here and there a decline."""
    events: list[TranscriptEvent] = []
    declined = request(0, "item/tool/call")
    number = 0
    while len(events) < count:
        number += 1
        asked = approval(number, f"session-{number % 20}", f"tool {number}")
        events += [asked, decided(asked, accepted=number % 3 > 0)]
        if number % 50 == 0:
            events.append(
                RequestDeclined(
                    ref=declined, route="decline", discriminator=None, reason="nobody", asked=False
                )
            )
    return events[:count]
