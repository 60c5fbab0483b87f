"""Tells the transcript of sessions and prompts: when they began, and how they ended."""

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
    """``generation`` tells which connection to Codex it is now. Loads the events when needed."""

    def __init__(self, transcript: Transcript, generation: Callable[[], int]) -> None:
        self._transcript = transcript
        self._generation = generation

    def opened(self, session_id: str, how: Literal["new", "load", "resume", "fork"]) -> None:
        """A session was joined with its thread."""
        if self._transcript.active:
            ref = self._ref(session_id)
            self._transcript.record(events.SessionOpened(ref=ref, how=how))

    def closed(self, session_id: str, reason: str) -> None:
        """A session is not open any more."""
        if self._transcript.active:
            ref = self._ref(session_id)
            self._transcript.record(events.SessionClosed(ref=ref, reason=reason))

    def agreed(
        self, session_id: str, about: AgreementKind, subject: Sequence[str], *,
        agreed: bool | None, by: ApprovalSettler,
    ) -> None:  # fmt: skip
        """A permission that no request of Codex asked for was settled; None: nobody has decided."""
        if self._transcript.active:
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
        """Wait for a prompt's answer, or error, and note both ends."""
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
