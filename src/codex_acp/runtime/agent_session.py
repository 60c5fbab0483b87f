"""Open and close one session of an agent, and keep its state, config options and history.

A session is loaded, resumed, forked or new. If another session is opened than the program asked
for, `Opened.reason` says why.
Replayed history and live updates never mix. Config options change only when the agent reports them.
If the agent opens a session after the program has given up waiting, the session is closed again.
Must not know how a program uses a session.
Source: https://agentclientprotocol.com/protocol/v1/session-setup
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

import anyio

from codex_acp._json import value_at
from codex_acp.acp import types
from codex_acp.errors import CodexAcpError, ErrorReply, InvalidPayload, MisuseError
from codex_acp.jsonrpc import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    SESSION_BUSY,
    THREAD_ACTIVE_WRITER,
    encode_json,
)
from codex_acp.runtime.errors import (
    AnswerTimeout,
    AuthenticationRequired,
    MethodNotOffered,
    OptionNotOffered,
    SessionBusy,
)
from codex_acp.runtime.permissions import Answers
from codex_acp.runtime.results import History, Record, ToolCall
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.runtime.agent_process import AgentProcess
    from codex_acp.runtime.permissions import PermissionPolicy
    from codex_acp.runtime.prompt import RunningPrompt
    from codex_acp.runtime.results import Update

    _Answer: TypeAlias = (
        types.NewSessionResponse | types.LoadSessionResponse | types.ResumeSessionResponse
    )

logger = logging.getLogger(__name__)


class AgentSession:
    """The state of one session, from the agent's updates. `replaying` until it is open."""

    def __init__(
        self, process: AgentProcess, wanted: WantedSession, session_id: str, *, replaying: bool
    ) -> None:
        self.process = process
        self.session_id = session_id
        self.cwd = wanted.cwd
        self.options: ConfigOptions = ConfigOptions(session_id, process)
        self.answers: Answers = Answers(
            process.services,
            wanted.policy,
            wanted.cwd,
            wanted.directories,
            take_tool_call=self._take_tool_call,
            drain=process.client.drain,
        )
        self.replaying = replaying
        self.history: History = History()
        self.commands: tuple[types.AvailableCommand, ...] = ()
        self.title: str | None = None
        self.usage: types.UsageUpdateSessionUpdate | None = None
        self.prompt: RunningPrompt | None = None
        self.listeners: list[Callable[[Update], None]] = []
        self._before_prompts = Record()
        """Tool calls of permission requests that arrive before the first prompt."""

    def take_update(self, update: Update) -> None:
        """Apply an update to the state, then give the update to the prompt and the listeners."""
        if isinstance(update, types.ConfigOptionUpdateSessionUpdate):
            self.options.reported(update.config_options)
        elif isinstance(update, types.CurrentModeUpdateSessionUpdate):
            self.options.mode_reported(update.current_mode_id)
        elif isinstance(update, types.AvailableCommandsUpdateSessionUpdate):
            self.commands = tuple(update.available_commands)
        elif isinstance(update, types.SessionInfoUpdateSessionUpdate):
            if "title" in update.model_fields_set:  # absent: unchanged; null: cleared
                self.title = update.title
        elif isinstance(update, types.UsageUpdateSessionUpdate):
            self.usage = update
        if self.replaying:
            self.history.take(update)
            return
        if self.prompt is not None and self.prompt.sent and not self.prompt.done:
            self.prompt.take(update)
        for listener in tuple(self.listeners):
            try:
                listener(update)
            except Exception:
                logger.exception("a listener of the session %s failed", self.session_id)

    def agent_ended(self) -> None:
        """Settle the open questions, and end the watchers. A prompt ends because the request
        ``session/prompt`` fails."""
        self.answers.refuse()
        self.options.ended()

    def _take_tool_call(self, request: types.RequestPermissionRequest) -> ToolCall:
        """Apply the tool call of a permission request; return it with all its updates."""
        # A late request goes to a prompt that is done, whose record has the call's earlier updates.
        prompt_or_record = self._before_prompts if self.prompt is None else self.prompt
        return prompt_or_record.take_tool_call(request.tool_call)


Settings: TypeAlias = "tuple[types.SessionConfigOption, ...]"
"""All config options of a session, in the agent's types and order. `Setting` reads one of them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a setting may have; ``group`` is the name of the value's group, or None."""

    value: str
    name: str
    description: str | None = None
    group: str | None = None


class ConfigOptions:
    """The config options of one session, in the agent's order of priority."""

    def __init__(self, session_id: str, process: AgentProcess) -> None:
        self._session_id = session_id
        self._process = process
        self._all: Settings = ()
        self._modes: types.SessionModeState | None = None
        self._mode_reports = 0
        """Number of the agent's reports of its current legacy mode."""
        self._watchers: set[_Watcher] = set()
        self._over = False

    def __repr__(self) -> str:
        return f"ConfigOptions({[option.id for option in self._all]!r})"

    @property
    def all(self) -> Settings:
        """All options, as the agent last reported them."""
        return self._all

    @property
    def modes(self) -> types.SessionModeState | None:
        """Session modes, the older alternative to a config option, if the agent reported any."""
        return self._modes

    @property
    def model(self) -> Setting:
        """The option of category ``model``."""
        return Setting(self, "model")

    @property
    def mode(self) -> Setting:
        """The option of category ``mode``, else the session's legacy modes."""
        return Setting(self, "mode")

    @property
    def thought_level(self) -> Setting:
        """The option of category ``thought_level``: how much the model reasons."""
        return Setting(self, "thought_level")

    def get(self, config_id: str) -> types.SessionConfigOption | None:
        """Return the option with this id, or None."""
        return next((option for option in self._all if option.id == config_id), None)

    def find(self, category: str) -> types.SessionConfigOption | None:
        """Return the option of ``category``, else the option without a category that has this word
        as its id, else None."""
        for option in self._all:
            if option.category == category:
                return option
        option_of_id = self.get(category)
        return option_of_id if option_of_id is not None and not option_of_id.category else None

    async def set(self, config_id: str, value: str | bool) -> Settings:
        """Set one option, also while a prompt runs; return all options, as the agent reports them.

        Raises OptionNotOffered for an unknown option, MisuseError for a value of the wrong type,
        ErrorReply if the agent refuses.
        """
        option = self.get(config_id)
        if option is None:
            raise self._not_offered(config_id)
        is_boolean = isinstance(option, types.BooleanSessionConfigOption)
        if not isinstance(value, bool if is_boolean else str):
            values = "is true or false" if is_boolean else "has named values"
            raise MisuseError(f"the config option {config_id!r} {values}, not {value!r}")
        request_class: Any = types.ValueIdSetSessionConfigOptionRequest
        if is_boolean:
            request_class = types.BooleanSetSessionConfigOptionRequest
        params = request_class(session_id=self._session_id, config_id=config_id, value=value)
        call = self._process.client.session_set_config_option(params)
        response = await self._process.ask("session/set_config_option", call)
        self.reported(response.config_options)
        return self._all

    async def set_mode(self, mode_id: str) -> None:
        """Set a legacy mode. Raises OptionNotOffered if the agent reported none."""
        if self._modes is None:
            raise OptionNotOffered(self._process.agent, "session modes")
        reports_before = self._mode_reports
        request = types.SetSessionModeRequest(session_id=self._session_id, mode_id=mode_id)
        call = self._process.client.session_set_mode(request)
        await self._process.ask("session/set_mode", call)
        if self._mode_reports == reports_before:  # else the agent has reported its mode
            self.mode_reported(mode_id)

    def watch(self) -> _Watcher:
        """Return an async iterator of all options, now and after each change.

        A slow reader gets the latest options, and misses earlier changes. The iterator ends with
        the session; use the iterator as a context manager, or call ``aclose``, to end it earlier.
        """
        watcher = _Watcher(self)
        self._watchers.add(watcher)
        if self._over:
            watcher.end()
        return watcher

    # Called by `AgentSession`.

    def reported(self, options: Sequence[types.SessionConfigOption] | None) -> None:
        """Set the options that the agent has reported; None if the message has no options."""
        if options is not None:
            self._all = tuple(options)
            self._wake_watchers()

    def modes_reported(self, modes: types.SessionModeState | None) -> None:
        """Set the legacy modes that the agent has reported; None if the message has no modes."""
        if modes is not None:
            self._modes = modes
            self._wake_watchers()

    def mode_reported(self, mode_id: str) -> None:
        """Set the current legacy mode, which the agent has reported."""
        self._mode_reports += 1
        if self._modes is not None:
            self._modes = self._modes.model_copy(update={"current_mode_id": mode_id})
            self._wake_watchers()

    def ended(self) -> None:
        """End the iterators of `watch`, with the session."""
        self._over = True
        for watcher in tuple(self._watchers):
            watcher.end()

    def forget(self, watcher: _Watcher) -> None:
        self._watchers.discard(watcher)

    def _not_offered(self, config_id: str) -> OptionNotOffered:
        return OptionNotOffered(self._process.agent, f"the config option {config_id!r}")

    def _wake_watchers(self) -> None:
        for watcher in self._watchers:
            watcher.changed.set()


class Setting:
    """A setting: a config option or the legacy modes. As a bool: whether the agent has it."""

    def __init__(self, options: ConfigOptions, category: str) -> None:
        self._options = options
        self._category = category

    def __repr__(self) -> str:
        return f"Setting({self._category!r})"

    def __bool__(self) -> bool:
        return self.option is not None or self._legacy is not None

    @property
    def option(self) -> types.SessionConfigOption | None:
        """The config option, or None."""
        return self._options.find(self._category)

    @property
    def current(self) -> str | bool | None:
        """The value that the agent last reported; None if the agent does not have the setting."""
        if self.option is not None:
            return self.option.current_value
        return self._legacy.current_mode_id if self._legacy is not None else None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Return the possible values, also the values in groups; empty for a boolean option."""
        option = self.option
        if option is None and self._legacy is not None:
            modes = self._legacy.available_modes
            return tuple(Choice(mode.id, mode.name, mode.description) for mode in modes)
        choices: list[Choice] = []
        for entry in option.options if isinstance(option, types.SelectSessionConfigOption) else ():
            if isinstance(entry, types.SessionConfigSelectGroup):
                group = entry.name
                choices += [Choice(o.value, o.name, o.description, group) for o in entry.options]
            else:
                choices.append(Choice(entry.value, entry.name, entry.description))
        return tuple(choices)

    async def set(self, value: str | bool) -> None:
        """Set the value; afterwards `current` is the value that the agent reports. Raises the
        errors of `ConfigOptions.set`."""
        option = self.option
        if option is not None:
            await self._options.set(option.id, value)
        elif self._legacy is not None:
            await self._options.set_mode(str(value))
        else:  # also if the option with this id has another category
            raise self._options._not_offered(self._category)

    @property
    def _legacy(self) -> types.SessionModeState | None:
        """The legacy modes, which only the setting ``mode`` can have."""
        return self._options.modes if self._category == "mode" else None


class _Watcher:
    """The iterator of `ConfigOptions.watch`."""

    def __init__(self, options: ConfigOptions) -> None:
        self._options = options
        self.changed = asyncio.Event()
        self.changed.set()
        self._over = False

    def end(self) -> None:
        self._over = True
        self._options.forget(self)
        self.changed.set()

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Settings:
        await self.changed.wait()
        if self._over:
            raise StopAsyncIteration
        self.changed.clear()
        return self._options.all

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.end()


How: TypeAlias = Literal["new", "load", "resume", "fork"]

_FIRST_PAUSE: Final = 0.1
"""Seconds before the second attempt to open a busy session. Each next pause is twice as long."""
_LONGEST_PAUSE: Final = 2.0  # seconds

_GONE: Final = (RESOURCE_NOT_FOUND, INVALID_PARAMS)
"""Codes with which agents answer for a session id that they do not know."""


@dataclass(frozen=True, slots=True)
class Opened:
    """How a session was opened."""

    how: How
    """How the agent opened the session; "fork": the agent made a copy of the wanted session."""
    reason: str | None = None
    """Why another session was opened than the program wanted; None if it is the wanted one, or if
    the program wanted a new session."""


@dataclass(frozen=True, slots=True)
class WantedSession:
    """The arguments of `AgentRuntime.open`."""

    cwd: str
    session_id: str | None = None
    """Id of an earlier session; None for a new session."""
    mcp_servers: tuple[types.McpServer, ...] = ()
    directories: tuple[str, ...] = ()
    policy: PermissionPolicy | None = None
    or_new: bool = True
    """Whether to open a new session if the agent cannot open the earlier session."""
    fork_if_busy: bool = False
    """Whether to open a copy if the earlier session stays busy."""
    busy_seconds: float = 0.0


async def open_session(
    process: AgentProcess, wanted: WantedSession, slots: asyncio.Semaphore
) -> tuple[AgentSession, Opened]:
    """Open a session. ``slots`` limits how many sessions the runtime opens at a time: each request
    holds a slot, a pause does not. Raises SessionBusy, MethodNotOffered, MisuseError,
    TransportError, and the errors of `AgentProcess.ask`."""
    features = process.features
    if wanted.directories and not features.additional_directories:
        raise MethodNotOffered(process.agent, "additional directories")
    for kind, is_supported in (
        (types.HttpMcpServer, features.mcp_http),
        (types.SseMcpServer, features.mcp_sse),
    ):
        if not is_supported and any(isinstance(server, kind) for server in wanted.mcp_servers):
            raise MethodNotOffered(process.agent, f"MCP servers like {kind.__name__}")
    reason: str | None = None
    if wanted.session_id is not None:
        try:
            return await _open_earlier(process, wanted, wanted.session_id, slots)
        except SessionBusy as busy:  # not gone, so no new session takes its place
            if not wanted.fork_if_busy:
                raise
            if not features.fork_session:
                raise MethodNotOffered(process.agent, "session/fork") from busy
            async with slots:
                fork = await _open_new(process, wanted, fork_of=wanted.session_id)
            return fork, Opened("fork", str(busy))
        except CodexAcpError as error:
            is_unavailable = isinstance(error, MethodNotOffered) or (  # the agent reopens none
                isinstance(error, ErrorReply) and error.code in _GONE
            )
            if not wanted.or_new or not is_unavailable:
                raise
            reason = str(error)
            text = "the session %s of %s could not be opened again, so a new one is opened: %s"
            logger.warning(text, wanted.session_id, process.agent, reason)
    async with slots:
        return await _open_new(process, wanted), Opened("new", reason)


async def _open_earlier(
    process: AgentProcess, wanted: WantedSession, session_id: str, slots: asyncio.Semaphore
) -> tuple[AgentSession, Opened]:
    """Load or resume a session as soon as it is not busy. Raises SessionBusy after
    ``busy_seconds``."""
    if not (process.features.load_session or process.features.resume_session):
        raise MethodNotOffered(process.agent, "session/load or session/resume")
    how: Literal["load", "resume"] = "load" if process.features.load_session else "resume"
    end = anyio.current_time() + wanted.busy_seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            async with slots:
                return await _reopen(process, wanted, session_id, how), Opened(how)
        except ErrorReply as error:
            if value_at(error.data, "reason") not in (SESSION_BUSY, THREAD_ACTIVE_WRITER):
                raise
            busy = error
        left = end - anyio.current_time()
        if left <= 0:
            raise SessionBusy(busy, wanted.busy_seconds) from busy
        await anyio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _reopen(
    process: AgentProcess, wanted: WantedSession, session_id: str, how: Literal["load", "resume"]
) -> AgentSession:
    """Load or resume a session. Updates before the agent's answer are the history."""
    if process.is_open(session_id):
        raise MisuseError(f"the session {session_id} is open already")
    session = AgentSession(process, wanted, session_id, replaying=True)
    process.add_session(session_id, session)
    fields = {"session_id": session_id, **_common_fields(wanted)}

    async def ask() -> None:
        response: _Answer
        if how == "load":
            response = await process.client.session_load(types.LoadSessionRequest(**fields))
        else:
            response = await process.client.session_resume(types.ResumeSessionRequest(**fields))
        _set_open(session, response)

    try:
        await ask_to_open(process, f"session/{how}", ask(), session_id)
    except BaseException:
        process.remove_session(session_id, session)
        await session.answers.aclose()  # the agent may have started terminals meanwhile
        raise
    return session


async def _open_new(
    process: AgentProcess, wanted: WantedSession, fork_of: str | None = None
) -> AgentSession:
    """Open a new session, or fork the session ``fork_of``; log in if the agent requires that."""
    request = types.NewSessionRequest(**_common_fields(wanted))

    async def ask() -> types.NewSessionResponse:
        if fork_of is not None:
            return await ask_to_open(process, "session/fork", process.client.fork(fork_of, request))
        return await ask_to_open(process, "session/new", process.client.session_new(request))

    with process.opening():  # keeps updates that arrive before the answer, which names the session
        try:
            response = await ask()
        except AuthenticationRequired:
            method = process.spec.auth_method
            if method is None:
                raise
            login = types.AuthenticateRequest(method_id=method)
            await process.ask("authenticate", process.client.authenticate(login))
            response = await ask()
        if process.is_open(response.session_id):
            problem = f"sessionId: {response.session_id!r} is that of another open session"
            raise InvalidPayload("the answer that opens a session", (problem,))
        session = AgentSession(process, wanted, response.session_id, replaying=False)
        _set_open(session, response)
        process.add_session(response.session_id, session)
    return session


def _common_fields(wanted: WantedSession) -> dict[str, Any]:
    """Return the fields of every request that opens a session."""
    fields: dict[str, Any] = {"cwd": wanted.cwd, "mcp_servers": list(wanted.mcp_servers)}
    if wanted.directories:
        fields["additional_directories"] = list(wanted.directories)
    return fields


def _set_open(session: AgentSession, response: _Answer) -> None:
    """Mark the session as open, right after the answer: later updates are live."""
    session.options.modes_reported(response.modes)
    session.options.reported(response.config_options)
    session.replaying = False
    if session.history.left_out:
        logger.warning(
            "the history of the session %s is too large: its first %d updates are left out",
            session.session_id,
            session.history.left_out,
        )


CLOSE_SECONDS: Final = 5.0
"""Seconds to wait for ``session/close``. After that, the session counts as closed."""

_closing: Final[set[asyncio.Task[None]]] = set()
"""Tasks of `_close_late`, kept because asyncio keeps no running task."""

T = TypeVar("T")


async def ask_to_open(
    process: AgentProcess, method: str, call: Awaitable[T], session_id: str | None = None
) -> T:
    """Wait for a call that opens a session, as `AgentProcess.ask` does. If the wait is given up,
    cancel the request; if the agent opens the session all the same, close the session.
    ``session_id`` is None for a new session."""
    request_id: int | None = None

    async def run() -> T:
        nonlocal request_id
        # `call` sends the request before it awaits anything, so no other request gets this id.
        request_id = process.client.next_request_id
        return await call

    opening = asyncio.get_running_loop().create_task(run(), name=method)
    try:
        return await process.ask(method, shielded(opening))
    except (AnswerTimeout, asyncio.CancelledError):
        if request_id is None or not process.features.close_session:
            # Nobody can close a late session. The cancelled call sends ``$/cancel_request``.
            opening.cancel()
            raise
        # The call goes on: a late answer names the session to close. Only the request is cancelled.
        if not opening.done():
            params = encode_json({"requestId": request_id})
            process.client.connection.notify("$/cancel_request", params)
        opening.add_done_callback(lambda done: _close_late(process, session_id, done))
        raise


def _close_late(process: AgentProcess, session_id: str | None, opening: asyncio.Task[T]) -> None:
    """Close a session that the agent has opened although the wait was given up."""
    if opening.cancelled() or opening.exception() is not None or process.failure is not None:
        return
    answer: object = opening.result()
    if isinstance(answer, types.NewSessionResponse):
        session_id = answer.session_id
    if session_id is None or process.is_open(session_id):  # open: the program has opened it again
        return
    task = asyncio.get_running_loop().create_task(
        close_session(process, session_id), name="session/close"
    )
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def close_session(process: AgentProcess, session_id: str) -> None:
    """Send ``session/close``; an error is only logged."""
    call = process.client.session_close(types.CloseSessionRequest(session_id=session_id))
    try:
        await process.ask("session/close", call, seconds=CLOSE_SECONDS)
    except CodexAcpError as error:
        logger.info("%s could not close %s: %s", process.agent, session_id, error)
