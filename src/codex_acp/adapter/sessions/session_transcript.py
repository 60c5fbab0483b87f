"""Records in the transcript when sessions and prompts begin, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from codex_acp import transcript as events
from codex_acp.errors import RpcError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.transcript.events import AgreementKind, ApprovalOutcome, ApprovalSettler
    from codex_acp.transcript.log import Transcript


class SessionTranscript:
    """Records the events of sessions; ``generation`` returns the number of the connection."""

    def __init__(self, transcript: Transcript, generation: Callable[[], int]) -> None:
        self._transcript = transcript
        self._generation = generation

    def record_opened(self, session_id: str, how: Literal["new", "load", "resume", "fork"]) -> None:
        if self._transcript.active:
            self._transcript.record(events.SessionOpened(ref=self._ref(session_id), how=how))

    def record_closed(self, session_id: str, reason: str) -> None:
        if self._transcript.active:
            self._transcript.record(events.SessionClosed(ref=self._ref(session_id), reason=reason))

    def record_agreement(
        self, session_id: str, about: AgreementKind, subject: Sequence[str], *,
        agreed: bool | None, by: ApprovalSettler,
    ) -> None:  # fmt: skip
        """Record the decision about a question of the adapter; None: the question was withdrawn."""
        outcome: ApprovalOutcome = (
            "cancelled" if agreed is None else "accepted" if agreed else "rejected"
        )
        self._transcript.record(
            events.AgreementDecided(
                ref=self._ref(session_id), about=about, subject=tuple(subject),
                outcome=outcome, by=by,
            )
        )  # fmt: skip

    async def prompt(self, session_id: str, running: Awaitable[PromptResult]) -> PromptResult:
        """Record the start of a prompt; await its result, and record its end."""
        if not self._transcript.active:
            return await running
        ref = self._ref(session_id)
        self._transcript.record(events.PromptStarted(ref=ref))
        try:
            done = await running
        except RpcError as error:
            ended = events.PromptEnded(ref=ref, stop_reason=None, error=error.message)
            self._transcript.record(ended)
            raise
        self._transcript.record(events.PromptEnded(ref=ref, stop_reason=done.stop.reason))
        return done

    def _ref(self, session_id: str) -> events.SessionRef:
        generation = self._generation()
        return events.SessionRef(session_id=session_id, thread_id=session_id, generation=generation)
