"""The client's handler tables: which requests of the agent are answered, and by which function.

Finds the session that a request names, and lets it answer.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from codex_acp.acp import types
from codex_acp.errors import RpcError, TransportError
from codex_acp.jsonrpc.message import INVALID_PARAMS, RESOURCE_NOT_FOUND
from codex_acp.runtime.permissions import UrlRequest, ask_form, ask_url
from codex_acp.transport.connection import Complaints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp import ClientNotificationHandlers, ClientRequestHandlers
    from codex_acp.runtime.answers import Answers
    from codex_acp.runtime.results import Update
    from codex_acp.runtime.services import Services

logger = logging.getLogger(__name__)

answering: Final[ContextVar[bool]] = ContextVar("answering", default=False)
"""Whether this task answers a request of an agent, and so may run the program's callbacks."""


class SessionSink(Protocol):
    """A session, as far as the handlers need it."""

    @property
    def answers(self) -> Answers:
        """Return what answers the agent's requests for this session."""

    def take_update(self, update: Update) -> None:
        """Take the next update of this session."""

    def agent_ended(self, error: TransportError) -> None:
        """Note that the agent's process is gone, so that nothing more will come."""


class Handlers:
    """The handler tables of one connection.

    ``find`` returns the session with an id, or None. ``drained`` waits until the agent has read
    most of what was sent.
    """

    def __init__(
        self,
        services: Services,
        find: Callable[[str], SessionSink | None],
        on_update: Callable[[types.SessionNotification], None],
        drained: Callable[[], Awaitable[None]],
    ) -> None:
        self._drained = drained
        self._services = services
        self._find = find
        self._on_update = on_update
        self._opened_urls: set[str] = set()
        self._complaints = Complaints()

    def requests(self) -> ClientRequestHandlers:
        """Return the request handlers; None for each capability that is not advertised."""
        files, terminals = self._services.files, self._services.terminals is not None
        elicits = self._services.on_form is not None or self._services.on_url is not None
        return {
            "session/request_permission": self._permission,
            "fs/read_text_file": self._read if files is not None and files.read else None,
            "fs/write_text_file": self._write if files is not None and files.write else None,
            "terminal/create": self._create_terminal if terminals else None,
            "terminal/output": self._terminal_output if terminals else None,
            "terminal/wait_for_exit": self._wait_for_exit if terminals else None,
            "terminal/kill": self._kill_terminal if terminals else None,
            "terminal/release": self._release_terminal if terminals else None,
            "elicitation/create": self._elicit if elicits else None,
        }

    def notifications(self) -> ClientNotificationHandlers:
        """Return the notification handlers."""
        return {
            "session/update": self._on_update,
            "elicitation/complete": self._url_done if self._services.on_url_done else None,
            "$/cancel_request": None,
        }

    def _session(self, session_id: str) -> Answers:
        answering.set(True)  # each request has a task of its own
        session = self._find(session_id)
        if session is None:
            what = "the agent asked something for %r, which is no session"
            self._complaints.warn(logger, what, session_id)
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no session {session_id!r} here")
        return session.answers

    async def _permission(
        self, request: types.RequestPermissionRequest
    ) -> types.RequestPermissionResponse:
        return await self._session(request.session_id).permission(request)

    async def _read(self, request: types.ReadTextFileRequest) -> types.ReadTextFileResponse:
        text = await self._session(request.session_id).read_file(request)
        return types.ReadTextFileResponse(content=text)

    async def _write(self, request: types.WriteTextFileRequest) -> types.WriteTextFileResponse:
        await self._session(request.session_id).write_file(request)
        return types.WriteTextFileResponse()

    async def _create_terminal(
        self, request: types.CreateTerminalRequest
    ) -> types.CreateTerminalResponse:
        return await self._session(request.session_id).terminals.create(request)

    async def _terminal_output(
        self, request: types.TerminalOutputRequest
    ) -> types.TerminalOutputResponse:
        await self._drained()  # else a slow agent that keeps asking fills our memory with copies
        return self._session(request.session_id).terminals.output(request.terminal_id)

    async def _wait_for_exit(
        self, request: types.WaitForTerminalExitRequest
    ) -> types.WaitForTerminalExitResponse:
        terminals = self._session(request.session_id).terminals
        return await terminals.wait_for_exit(request.terminal_id)

    async def _kill_terminal(
        self, request: types.KillTerminalRequest
    ) -> types.KillTerminalResponse:
        await self._session(request.session_id).terminals.kill(request.terminal_id)
        return types.KillTerminalResponse()

    async def _release_terminal(
        self, request: types.ReleaseTerminalRequest
    ) -> types.ReleaseTerminalResponse:
        await self._session(request.session_id).terminals.release(request.terminal_id)
        return types.ReleaseTerminalResponse()

    async def _elicit(
        self, request: types.CreateElicitationRequest
    ) -> types.CreateElicitationResponse:
        """Ask for input. A session answers its own elicitation, so that a cancel ends it."""
        answering.set(True)
        on_form, on_url = self._services.on_form, self._services.on_url
        if isinstance(request, types.SessionFormCreateElicitationRequest) and on_form is not None:
            return await self._session(request.session_id).form(request)
        if isinstance(request, types.RequestFormCreateElicitationRequest) and on_form is not None:
            return await ask_form(on_form, request)
        if isinstance(request, types.SessionUrlCreateElicitationRequest) and on_url is not None:
            answer = await self._session(request.session_id).url(request)
            return self._noted(request, answer)
        if isinstance(request, types.RequestUrlCreateElicitationRequest) and on_url is not None:
            return self._noted(request, await ask_url(on_url, request))
        raise RpcError(INVALID_PARAMS, "elicitation of this mode was not advertised")

    def _noted(
        self, request: UrlRequest, answer: types.CreateElicitationResponse
    ) -> types.CreateElicitationResponse:
        if isinstance(answer, types.AcceptCreateElicitationResponse):
            self._opened_urls.add(request.elicitation_id)
        return answer

    def _url_done(self, notification: types.CompleteElicitationNotification) -> None:
        """Report that a page is done, if the person agreed to open it; ignore any other id."""
        if notification.elicitation_id in self._opened_urls:
            self._opened_urls.remove(notification.elicitation_id)
            if self._services.on_url_done is not None:
                self._services.on_url_done(notification.elicitation_id)
