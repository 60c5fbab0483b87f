"""Consent to the programs that git would run by a directory's own configuration: contract 7.1b.

Remembers, as long as the adapter runs, which programs `codex.threads.git_programs` found for each
directory, and to which programs a person agreed. Codex runs git with each turn, and when it forks
or resumes a thread. Before that, the adapter asks for consent.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from codex_acp._last_ones import LastOnes
from codex_acp.adapter.sessions.model_route import configuration
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.jsonrpc import INVALID_REQUEST
from codex_acp.transport.shielding import in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.sessions.session_transcript import SessionTranscript
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.threads.git_programs import Look
    from codex_acp.codex.threads.opening import GitProgram
    from codex_acp.transcript.events import ApprovalSettler

MAX_DIRECTORIES: Final = 256
"""Directories whose findings are remembered: more than a person works in."""


class GitConsent:
    """Asks for consent to git's programs, for all sessions of one agent."""

    def __init__(self, transcript: SessionTranscript) -> None:
        self._transcript = transcript
        self._looks: LastOnes[str, Look] = LastOnes(MAX_DIRECTORIES)
        self._agreed: set[tuple[str, GitProgram]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_given(self, directory: str) -> bool:
        """Return whether all programs of a directory are agreed to, and no file of its git
        configuration changed since they were looked up."""
        look = self._looks.get(directory)
        return look is not None and look.is_current and not self._without_agreed(look)

    async def not_agreed(self, directory: str) -> Sequence[GitProgram]:
        """Return the programs of a directory that nobody agreed to."""
        look = self._looks.get(directory)
        if look is None or not look.is_current:
            await asyncio.sleep(0)  # the calls made beside this one are written before the import
            from codex_acp.codex.threads.git_programs import look_within

            look = self._looks[directory] = await look_within(directory, in_worker_thread)
        return self._without_agreed(look)

    async def ensure(
        self,
        codex: AppServerConnection,
        directory: str,
        session_id: str,
        client: SessionClient | None,
        asking: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Ask the person for consent to the directory's programs; return once all are agreed to.

        Nothing is asked if the user trusts the directory. The question goes to the session of
        ``client``; ``asking`` counts the question as open. ``client`` None: nobody can be asked.
        Raises RpcError -32600 without consent.
        """
        if not await self.not_agreed(directory):
            return
        async with self._locks.setdefault(directory, asyncio.Lock()):
            programs = await self.not_agreed(directory)  # another session may have asked meanwhile
            if not programs:
                return
            if not await _is_trusted(codex, directory):
                if client is None:
                    raise _refusal(directory, programs)
                with asking():
                    agreed = await self._ask(directory, programs, session_id, client)
                if not agreed:
                    raise _refusal(directory, programs)
            self._agreed.update((directory, each) for each in programs)
            changed = await self.not_agreed(directory)  # the question may have taken minutes
            if changed:
                raise _refusal(directory, changed)

    def _without_agreed(self, look: Look) -> Sequence[GitProgram]:
        return [each for each in look.programs if (look.directory, each) not in self._agreed]

    async def _ask(
        self, directory: str, programs: Sequence[GitProgram], session_id: str, client: SessionClient
    ) -> bool:
        """Ask the person; return True only for the choice to let the programs run."""
        from codex_acp.mapping.events import question_ended
        from codex_acp.mapping.trust import RUN, programs_question
        from codex_acp.routing.ledger import Selected

        call_id = f"git-programs:{os.urandom(16).hex()}"  # random: no model can guess it
        asked = programs_question(session_id, call_id, directory, programs)
        if asked is None:
            return False
        call, question = asked
        agreed: bool | None = None
        by: ApprovalSettler = "turn_cancelled"
        client.outflow.send(session_id, call)
        client.outflow.flush()
        try:
            answer = await client.questioner.request_permission(question, lambda _: None)
            agreed, by = isinstance(answer, Selected) and answer.option_id == RUN, "client"
        except CodexAcpError:  # the client cannot answer
            agreed, by = False, "disconnected"
        finally:
            client.outflow.send(session_id, question_ended(call_id, agreed))
            client.outflow.flush()
            named = [f"{each.key or 'any key'} in {each.file}: {each.value}" for each in programs]
            self._transcript.record_agreement(
                session_id, "git_programs", named, agreed=agreed, by=by
            )
        return agreed


async def _is_trusted(codex: AppServerConnection, directory: str) -> bool:
    from codex_acp.codex.threads.trust import is_trusted

    try:
        return is_trusted(directory, await configuration(codex, directory))
    except CodexAcpError:  # Codex has just ended
        return False


def _refusal(directory: str, programs: Sequence[GitProgram]) -> RpcError:
    from codex_acp.codex.threads.trust import trust_root
    from codex_acp.mapping.trust import programs_refused
    from codex_acp.routing.display import visible

    named = [{"file": visible(p.file), "key": p.key, "command": visible(p.value)} for p in programs]
    message = programs_refused(directory, trust_root(directory), programs)
    return RpcError(INVALID_REQUEST, message, {"gitPrograms": named})
