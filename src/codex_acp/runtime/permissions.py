"""Answer an agent's requests: permissions, forms, URLs, files and terminals.

A cancel settles the open questions. If nobody decides, the answer is the option of kind
``reject_once``, or "cancelled" if there is none, and never an acceptance.
Source: https://agentclientprotocol.com/protocol/v1/tool-calls#requesting-permission
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar, get_args

from anyio import CancelScope

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp._version import __version__
from codex_acp.acp import PROTOCOL_VERSION, types
from codex_acp.acp.client_side import option_of, outcome_of
from codex_acp.acp.form_answers import InvalidContent, as_json, validate, why_too_large
from codex_acp.errors import MisuseError, RpcError, refuse_unless
from codex_acp.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from codex_acp.runtime.filesystem import FileAccess, FileThreads, Roots, read_text, write_text
from codex_acp.runtime.terminals import Terminals
from codex_acp.transport.connection import Complaints
from codex_acp.transport.shielding import awaited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp import ClientNotificationHandlers, ClientRequestHandlers
    from codex_acp.runtime.results import ToolCall, Update
    from codex_acp.runtime.terminals import TerminalAccess


logger = logging.getLogger(__name__)

T = TypeVar("T")

NAME: Final = "codex-acp-sdk"
"""Name of this client."""

NO_FILES: Final = FileAccess(read=False, write=False)


@dataclass(frozen=True, slots=True)
class Permission:
    """A question of the agent: may it run this tool call?"""

    session_id: str
    tool_call: ToolCall
    """The tool call with all updates so far, also the update in this request."""
    options: tuple[types.PermissionOption, ...]
    request: types.RequestPermissionRequest

    @property
    def kind(self) -> types.ToolKind:
        """The kind that the agent gave the tool call, or ``other``."""
        return self.tool_call.kind or "other"

    def option(self, kind: types.PermissionOptionKind) -> types.PermissionOption | None:
        """Return the first option of a kind, or None. Skips an option whose id another kind has,
        too: the agent gets the id alone, and could take it for the other option."""
        return option_of(self.options, kind)


Decision: TypeAlias = types.PermissionOption | str | None
"""The chosen option or its id; None rejects."""
PermissionPolicy: TypeAlias = Callable[[Permission], Decision | Awaitable[Decision]]
"""A function that chooses an option. An exception or an unknown option rejects."""


def reject_all(permission: Permission) -> None:
    """Reject every permission request; the policy by default."""
    del permission


def allow_kinds(
    *kinds: types.ToolKind, otherwise: PermissionPolicy = reject_all
) -> PermissionPolicy:
    """Make a policy that permits tool calls of these kinds once each, and asks ``otherwise`` about
    all others.

    The agent itself says of which kind a tool call is: the policy trusts the agent, not the model.
    Raises MisuseError for an unknown kind.
    """
    known = get_args(types.ToolKind)
    for kind in kinds:
        if kind not in known:
            raise MisuseError(f"{kind!r} is no kind of tool call; use {', '.join(known)}")
    refuse_unless(callable(otherwise), "otherwise is a function", otherwise)

    def policy(permission: Permission) -> Decision | Awaitable[Decision]:
        option = permission.option("allow_once") if permission.kind in kinds else None
        return otherwise(permission) if option is None else option

    return policy


async def decide(
    policy: PermissionPolicy, permission: Permission
) -> types.RequestPermissionOutcome:
    """Ask the policy; return the answer to the request. Raises nothing but CancelledError."""
    rejected = outcome_of(permission.options, "reject_once")  # "cancelled" if not offered
    try:
        chosen = await awaited(policy(permission))
    except Exception:
        logger.exception("the permission policy failed; the tool call is rejected")
        return rejected
    if chosen is None:
        return rejected
    option_id = chosen.option_id if isinstance(chosen, types.PermissionOption) else chosen
    kinds = {option.kind for option in permission.options if option.option_id == option_id}
    if len(kinds) != 1:
        why = "the agent did not offer" if not kinds else "has two meanings"
        logger.error("the permission policy chose %r, which %s; rejected", option_id, why)
        return rejected
    return types.SelectedRequestPermissionOutcome(option_id=option_id)


# The agent's forms and URLs, which callbacks of the program answer.

Form: TypeAlias = (
    types.SessionFormCreateElicitationRequest | types.RequestFormCreateElicitationRequest
)
"""A form of the agent: ``message``, and ``requested_schema`` with its fields."""
UrlRequest: TypeAlias = (
    types.SessionUrlCreateElicitationRequest | types.RequestUrlCreateElicitationRequest
)
"""A request to open a page: ``message``, ``url``, ``elicitation_id``.

A callback gets only a URL that `codex_acp.acp.allowed_url` allows; show its ``host``.
"""
FormAnswer: TypeAlias = Mapping[str, types.ElicitationContentValue] | Literal["decline", "cancel"]
"""The values of the fields, to accept the form; or ``decline`` or ``cancel``."""
UrlAnswer: TypeAlias = Literal["accept", "decline", "cancel"]
"""``accept`` means that the person agreed to open the page, not that they finished there."""
FormCallback: TypeAlias = Callable[[Form], FormAnswer | Awaitable[FormAnswer]]
UrlCallback: TypeAlias = Callable[[UrlRequest], UrlAnswer | Awaitable[UrlAnswer]]


def problems_of(schema: types.ElicitationSchema, content: Mapping[str, object]) -> tuple[str, ...]:
    """Return the problems of ``content``, a sentence for each field; empty if the content fits."""
    checked = validate(as_json(schema), content)
    return checked.sentences() if isinstance(checked, InvalidContent) else ()


async def ask_form(callback: FormCallback, form: Form) -> types.CreateElicitationResponse:
    """Call the callback; return the answer to the form. Content that does not fit the form cancels
    the form. A form that is too large is declined without a call."""
    reason = why_too_large(as_json(form.requested_schema))
    if reason is not None:
        logger.warning("a form of the agent was declined because %s", reason)
        return types.DeclineCreateElicitationResponse()
    try:
        content = await awaited(callback(form))
    except Exception:
        logger.exception("the callback for forms failed; the form is cancelled")
        return types.CancelCreateElicitationResponse()
    if not isinstance(content, Mapping):
        return _decline_or_cancel(content)
    checked = validate(as_json(form.requested_schema), content)
    if isinstance(checked, InvalidContent):
        why = "; ".join(checked.sentences())
        logger.error("the form's answer does not fit it and is cancelled: %s", why)
        return types.CancelCreateElicitationResponse()
    return types.AcceptCreateElicitationResponse(content=dict(checked.value))


async def ask_url(callback: UrlCallback, request: UrlRequest) -> types.CreateElicitationResponse:
    """Call the callback; return the answer. A refused URL is declined without a call."""
    page = allowed_url(request.url)
    if isinstance(page, RefusedUrl):
        logger.error("a page of the agent was declined: the URL was refused: %s", page.reason)
        return types.DeclineCreateElicitationResponse()
    try:
        action = await awaited(callback(request))
    except Exception:
        logger.exception("the callback for URLs failed; the request is cancelled")
        return types.CancelCreateElicitationResponse()
    if action == "accept":
        return types.AcceptCreateElicitationResponse()
    return _decline_or_cancel(action)


def _decline_or_cancel(action: object) -> types.CreateElicitationResponse:
    if action == "decline":
        return types.DeclineCreateElicitationResponse()
    if action != "cancel":
        logger.error("an elicitation callback gave %r, which is no answer; cancelled", type(action))
    return types.CancelCreateElicitationResponse()


@dataclass(frozen=True, slots=True)
class Services:
    """Arguments of `AgentRuntime` that answer the agents' requests."""

    permissions: PermissionPolicy = reject_all
    on_form: FormCallback | None = None
    on_url: UrlCallback | None = None
    on_url_done: Callable[[str], None] | None = None
    files: FileAccess | None = None
    terminals: TerminalAccess | None = None

    def introduction(self) -> types.InitializeRequest:
        """Return the params of ``initialize``, as in version 1. Boolean options, notices and
        compaction are always advertised, because programs get them like all options and updates."""
        capabilities = types.ClientCapabilities(
            session=types.ClientSessionCapabilities(
                config_options=types.SessionConfigOptionsCapabilities(
                    boolean=types.BooleanConfigOptionCapabilities()
                ),
                notices=types.NoticeCapabilities(),
                compaction=types.CompactionCapabilities(),
            )
        )
        files = self.files
        if files is not None and (files.read or files.write):
            capabilities.fs = types.FileSystemCapabilities(
                read_text_file=files.read, write_text_file=files.write
            )
        if self.terminals is not None:
            capabilities.terminal = True
        if self.on_form is not None or self.on_url is not None:
            elicitation = types.ElicitationCapabilities()
            if self.on_form is not None:
                elicitation.form = types.ElicitationFormCapabilities()
            if self.on_url is not None:
                elicitation.url = types.ElicitationUrlCapabilities()
            capabilities.elicitation = elicitation
        return types.InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=capabilities,
            client_info=types.Implementation(name=NAME, version=__version__),
        )


class Answers:
    """Answers the requests of one session. ``take_tool_call`` returns the tool call of a
    permission request with all its updates. ``drain`` waits until the agent has read most of the
    sent messages."""

    def __init__(
        self,
        services: Services,
        policy: PermissionPolicy | None,
        cwd: str,
        directories: Sequence[str],
        take_tool_call: Callable[[types.RequestPermissionRequest], ToolCall],
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._policy = policy or services.permissions
        self._files = services.files or NO_FILES
        roots = (cwd, *directories, *self._files.roots)
        are_offered = self._files.read or self._files.write
        self._roots = Roots([os.fspath(root) for root in roots] if are_offered else ())
        self._threads = FileThreads(drain=drain)
        self._terminals = None if services.terminals is None else Terminals(services.terminals, cwd)
        self._take_tool_call = take_tool_call
        self._open: set[CancelScope] = set()
        """Scopes of the open questions."""
        self._refusing = False
        """Whether each question is answered "cancelled" at once: the prompt was cancelled, or the
        session closed."""

    @property
    def terminals(self) -> Terminals:
        """The session's terminals. Raises RpcError if terminals are not offered."""
        if self._terminals is None:
            raise RpcError(METHOD_NOT_FOUND, "terminals are not offered")
        return self._terminals

    def refuse(self) -> None:
        """Answer every open and every later question with "cancelled"."""
        self._refusing = True
        self.cancel_open()

    def stop_refusing(self) -> None:
        """Answer later questions again, because a new prompt begins."""
        self._refusing = False

    def cancel_open(self) -> None:
        """Answer every open question with "cancelled"."""
        for scope in tuple(self._open):
            scope.cancel()

    async def aclose(self) -> None:
        self.refuse()
        self._roots.close()
        if self._terminals is not None:
            await self._terminals.aclose()

    async def permission(
        self, request: types.RequestPermissionRequest
    ) -> types.RequestPermissionResponse:
        """Answer a permission request by the policy."""
        question = Permission(
            request.session_id, self._take_tool_call(request), tuple(request.options), request
        )
        outcome = await self.unless_cancelled(lambda: decide(self._policy, question))
        return types.RequestPermissionResponse(
            outcome=outcome or types.CancelledRequestPermissionOutcome()
        )

    async def read_file(self, request: types.ReadTextFileRequest) -> types.ReadTextFileResponse:
        """Read the text of a file within the roots."""
        lines = (request.line, request.limit)
        work = partial(read_text, self._roots, request.path, *lines, self._files.size_limit)
        return types.ReadTextFileResponse(content=await self._threads.run(work))

    async def write_file(self, request: types.WriteTextFileRequest) -> types.WriteTextFileResponse:
        """Write a file within the roots. If cancelled, the file stays as it was."""
        size = self._files.size_limit
        work = partial(write_text, self._roots, request.path, request.content, size)
        await self._threads.run(work)
        return types.WriteTextFileResponse()

    async def unless_cancelled(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Ask a question and return its answer; None if a cancel has settled the question."""
        answer: T | None = None
        with CancelScope() as scope:
            self._open.add(scope)
            try:
                if not self._refusing:
                    answer = await ask()
            finally:
                self._open.discard(scope)
        return None if scope.cancel_called else answer


answering: Final[ContextVar[bool]] = ContextVar("answering", default=False)
"""Whether this task answers a request of an agent, so that closing must not wait for the task."""


class SessionSink(Protocol):
    """An open session, as the agent's process and `Handlers` use it."""

    answers: Answers

    def take_update(self, update: Update) -> None:
        """Take the next update of this session."""

    def agent_ended(self) -> None:
        """Handle the end of the agent's process."""


@dataclass(slots=True)
class Handlers:
    """The handler tables of one connection."""

    _services: Services
    _find_session: Callable[[str], SessionSink | None]
    _on_update: Callable[[types.SessionNotification], None]
    _drain: Callable[[], Awaitable[None]]
    _accepted_urls: set[str] = field(default_factory=set)
    """Ids of the URL elicitations that a person has accepted."""
    _complaints: Complaints = field(default_factory=Complaints)

    def requests(self) -> ClientRequestHandlers:
        """Return the request handlers; None for each capability that is not advertised."""
        files = self._services.files or NO_FILES
        elicits = self._services.on_form is not None or self._services.on_url is not None
        answers = self._answers_of
        handlers: ClientRequestHandlers = {
            "session/request_permission": lambda r: answers(r.session_id).permission(r),
            "fs/read_text_file": (
                (lambda r: answers(r.session_id).read_file(r)) if files.read else None
            ),
            "fs/write_text_file": (
                (lambda r: answers(r.session_id).write_file(r)) if files.write else None
            ),
            "terminal/create": None,
            "terminal/output": None,
            "terminal/wait_for_exit": None,
            "terminal/kill": None,
            "terminal/release": None,
            "elicitation/create": self._elicit if elicits else None,
        }
        if self._services.terminals is not None:
            handlers |= {
                "terminal/create": lambda r: answers(r.session_id).terminals.create(r),
                "terminal/output": self._terminal_output,
                "terminal/wait_for_exit": (
                    lambda r: answers(r.session_id).terminals.wait_for_exit(r.terminal_id)
                ),
                "terminal/kill": lambda r: answers(r.session_id).terminals.kill(r.terminal_id),
                "terminal/release": (
                    lambda r: answers(r.session_id).terminals.release(r.terminal_id)
                ),
            }
        return handlers

    def notifications(self) -> ClientNotificationHandlers:
        return {
            "session/update": self._on_update,
            "elicitation/complete": self._note_url_done if self._services.on_url_done else None,
            "$/cancel_request": None,
        }

    def _answers_of(self, session_id: str) -> Answers:
        """Return the answers of a session, for a request of the agent. Raises RpcError."""
        answering.set(True)  # in the task that answers this request
        session = self._find_session(session_id)
        if session is None:
            text = "the agent asked something for %r, which is no session"
            self._complaints.warn(logger, text, session_id)
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no session {session_id!r} here")
        return session.answers

    async def _terminal_output(
        self, request: types.TerminalOutputRequest
    ) -> types.TerminalOutputResponse:
        await self._drain()  # else unread answers to a slow agent would fill the memory
        return self._answers_of(request.session_id).terminals.output(request.terminal_id)

    async def _elicit(
        self, request: types.CreateElicitationRequest
    ) -> types.CreateElicitationResponse:
        """Answer an elicitation. A cancel of the session's prompt settles it."""
        answering.set(True)
        on_form, on_url = self._services.on_form, self._services.on_url
        ask: Callable[[], Awaitable[types.CreateElicitationResponse]]
        if isinstance(request, Form) and on_form is not None:
            ask = partial(ask_form, on_form, request)
        elif isinstance(request, UrlRequest) and on_url is not None:
            ask = partial(ask_url, on_url, request)
        else:
            raise RpcError(INVALID_PARAMS, "elicitation of this mode was not advertised")
        if isinstance(
            request,
            types.SessionFormCreateElicitationRequest | types.SessionUrlCreateElicitationRequest,
        ):
            settled = await self._answers_of(request.session_id).unless_cancelled(ask)
            answer = settled or types.CancelCreateElicitationResponse()
        else:
            answer = await ask()
        accepted = isinstance(answer, types.AcceptCreateElicitationResponse)
        if accepted and isinstance(request, UrlRequest):
            self._accepted_urls.add(request.elicitation_id)
        return answer

    def _note_url_done(self, notification: types.CompleteElicitationNotification) -> None:
        """Call ``on_url_done``, if the person has agreed to open the page."""
        if notification.elicitation_id in self._accepted_urls:
            self._accepted_urls.remove(notification.elicitation_id)
            if self._services.on_url_done is not None:
                self._services.on_url_done(notification.elicitation_id)
