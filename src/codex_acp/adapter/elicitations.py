"""Run elicitations: ask the person within limits, withdraw questions, and settle each exactly once.

Owns the open elicitations (contract 2.2 to 2.5). `routing.elicitations` decides what may be asked
and what an answer means. Must not know of approvals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import anyio

from codex_acp.errors import CodexAcpError
from codex_acp.routing import records
from codex_acp.routing.elicitations import cancelled, create_request, declined, reply_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session_client import Questioner
    from codex_acp.routing.elicitations import ElicitationReply
    from codex_acp.routing.ledger import Key
    from codex_acp.routing.route import Elicitation
    from codex_acp.transcript.events import ElicitationSettler
    from codex_acp.transcript.log import Transcript
    from codex_acp.wire.model import WireModel

    Say: TypeAlias = Callable[[str, str], None]
    """Gets a session's id and a notice; sends the notice to the session's client."""


@dataclass(slots=True)
class _OpenElicitation:
    """An elicitation that the client has not answered."""

    routed: Elicitation
    scope: anyio.CancelScope
    questioner: Questioner
    acp_id: int | None
    """Id of the request to the client; if several clients were asked, of the newest request."""
    settled_by: ElicitationSettler = "client"
    """If `withdraw` has set another settler, the client's answer does not count."""

    def set_request_id(self, acp_id: int | None) -> None:
        self.acp_id = acp_id

    def withdraw(self, by: ElicitationSettler) -> None:
        """Withdraw the question, because ``by`` has settled it."""
        self.settled_by = by
        self.questioner.withdraw(self.acp_id)
        self.scope.cancel()


class ElicitationRunner:
    """The elicitations of one app-server connection. ``questioner_of`` returns the `Questioner` of
    a session."""

    def __init__(
        self,
        questioner_of: Callable[[str], Questioner],
        generation: int,
        say: Say,
        transcript: Transcript,
    ) -> None:
        self._questioner_of = questioner_of
        self._generation = generation
        self._say = say
        self._transcript = transcript
        self._open: dict[Key, _OpenElicitation] = {}
        self._count = 0

    async def ask(self, key: Key, routed: Elicitation) -> WireModel | None:
        """Ask the person; return the reply for Codex, or None if a request with this id is open."""
        if key in self._open:
            return None
        self._count += 1
        elicitation_id = f"e{self._generation}-{self._count}"
        questioner = self._questioner_of(routed.session_id)
        acp_id = questioner.next_request_id
        elicitation = _OpenElicitation(routed, anyio.CancelScope(), questioner, acp_id)
        self._open[key] = elicitation
        self._transcript.record(records.elicitation_requested(routed, self._generation, acp_id))
        reply = cancelled(routed.form_or_url)
        settler: ElicitationSettler = "disconnected"
        try:
            # Codex answers some questions itself, after a time that the request names.
            milliseconds = getattr(routed.request.params, "auto_resolution_ms", None)
            seconds = math.inf if milliseconds is None else milliseconds / 1000
            with elicitation.scope, anyio.move_on_after(seconds) as limit:
                reply = await self._answer(elicitation, elicitation_id)
            if elicitation.settled_by != "client":
                # Codex or a cancel was first, perhaps in one read with the client's answer.
                reply = cancelled(routed.form_or_url)
            elif limit.cancelled_caught:
                reply = declined(routed.form_or_url, "nobody answered in the time that Codex waits")
            settler = "invalid_answer" if reply.problem is not None else elicitation.settled_by
        except BaseException:  # Codex waits no longer, and no reply is sent
            if elicitation.settled_by != "client":
                settler = elicitation.settled_by
            raise
        finally:
            del self._open[key]
            self._transcript.record(
                records.elicitation_answered(
                    routed, self._generation, reply, settler, elicitation.acp_id
                )
            )
        if reply.problem is not None:
            self._say(routed.session_id, f"An answer was not passed on: {reply.problem}.")
        return reply.result

    async def _answer(self, elicitation: _OpenElicitation, elicitation_id: str) -> ElicitationReply:
        routed = elicitation.routed
        sub_agent = routed.thread_id if routed.thread_id != routed.session_id else None
        request = create_request(routed.form_or_url, routed.session_id, elicitation_id, sub_agent)
        try:
            response = await elicitation.questioner.elicitation_create(
                request, elicitation.set_request_id
            )
        except CodexAcpError as error:
            return declined(routed.form_or_url, f"the client gave no answer: {error}")
        return reply_to(routed.form_or_url, response)

    # Events that settle open elicitations.

    def withdraw(self, key: Key, by: ElicitationSettler) -> Elicitation | None:
        """Withdraw one elicitation and return it; None if it is not open."""
        elicitation = self._open.get(key)
        if elicitation is None:
            return None
        elicitation.withdraw(by)
        return elicitation.routed

    def withdraw_all(
        self, by: ElicitationSettler, concerns: Callable[[Elicitation], bool] = lambda _: True
    ) -> None:
        """Withdraw each open elicitation for which ``concerns`` returns True."""
        for elicitation in self._open.values():
            if concerns(elicitation.routed):
                elicitation.withdraw(by)
