"""A thread of Codex as an object: run turns in the thread, read it, archive it.

Makes ``turn/start`` from a turn's arguments. Codex's answers about the thread stay JSON until a
program reads them, so that a thread starts without waiting for models to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast, overload

from codex_acp.codex._generated import models
from codex_acp.codex._generated.methods import MODELS
from codex_acp.codex.threads.options import ForkOptions, ResumeOptions, TurnOptions, params_of
from codex_acp.errors import MisuseError, refuse_unless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import TypeVar

    from codex_acp.codex._generated.models import Thread as ThreadInfo
    from codex_acp.codex.approvals.policies import Policy
    from codex_acp.codex.approvals.policies import StartedThread as Settings
    from codex_acp.codex.threads.options import Input
    from codex_acp.codex.threads.results import RunResult
    from codex_acp.codex.threads.thread_services import ThreadServices
    from codex_acp.codex.threads.tools import OutputType, Tool
    from codex_acp.codex.threads.turn import Turn
    from codex_acp.jsonrpc import JsonValue

    T = TypeVar("T", default=None)
    """Type of the answer; None without an ``output_type``."""


class Thread:
    """A thread. Made by `CodexClient.threads`; any number of threads may run turns at a time.

    Every method raises the errors of the client's calls; ErrorReply if Codex has no such thread.
    """

    def __init__(
        self,
        services: ThreadServices,
        thread_id: str,
        info: ThreadInfo | JsonValue = None,
        opened_by: tuple[str, JsonValue] | None = None,
    ) -> None:
        self._services = services
        self._client = services.client
        self._info = info
        self._opened_by = opened_by
        """The method that opened the thread, and Codex's answer."""
        self._settings: Settings | None = None
        self.id = thread_id
        """The thread's id, for `Threads.resume`."""

    def __repr__(self) -> str:
        return f"Thread({self.id!r})"

    @property
    def info(self) -> ThreadInfo:
        """Return Codex's last report of the thread: preview, name, times, directory.

        Raises MisuseError if this object has had no report: `read` the thread first.
        """
        if self._info is None:
            message = f"nothing is known of thread {self.id} yet; read() or resume() it first"
            raise MisuseError(message)
        if isinstance(self._info, dict):
            self._info = cast("ThreadInfo", MODELS.decode("Thread", self._info, "a thread"))
        return cast("ThreadInfo", self._info)

    @property
    def settings(self) -> Settings:
        """Return the settings that Codex loaded the thread with: model, directory, sandbox, policy.

        Raises MisuseError if this object did not start, resume or fork the thread.
        """
        if self._settings is None:
            if self._opened_by is None:
                raise MisuseError(f"thread {self.id} was not loaded here; resume() it first")
            self._settings = self._client.decode_result(*self._opened_by)
        return cast("Settings", self._settings)

    # Turns.

    @overload
    async def run(
        self,
        prompt: Input,
        *,
        output_type: type[T],
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> RunResult[T]: ...
    @overload
    async def run(
        self,
        prompt: Input,
        *,
        output_type: None = None,
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> RunResult[None]: ...
    async def run(
        self,
        prompt: Input,
        *,
        output_type: type[T] | None = None,
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> RunResult[T]:
        """Run a turn to its end, and return its result: messages, items, usage.

        ``prompt`` is a text, or a list of texts and images (`codex_acp.codex.image`). With an
        ``output_type`` (a pydantic model, a dataclass, a TypedDict) the model must answer in that
        shape, and ``result.output`` is a value of that type. ``silent_after`` is in seconds: a turn
        that sends nothing for so long is interrupted. Cancelling `run` interrupts the turn.
        ``options`` are ``model``, ``effort``, ``cwd``, ``approval_policy`` and the others of
        ``codex_acp.codex.threads.options.TurnOptions``; they hold from this turn on.

        Raises TurnFailed, TurnInterrupted, TurnSilent, ThreadClosed, ReachedElsewhere or
        OutputInvalid, each with the ``result`` so far; NotLoggedIn before the turn begins if a
        login is missing; UntrustedGitPrograms if the directory's git configuration names programs
        that nobody has trusted; ProcessExited or ConnectionClosed if the app-server is lost;
        MisuseError for arguments that make no sense.
        """
        async with self.turn(
            prompt, output_type=output_type, silent_after=silent_after, **options
        ) as turn:
            return await turn.result()

    def turn(
        self,
        prompt: Input,
        *,
        output_type: type[T] | None = None,
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> Turn[T]:
        """Return a turn that ``async with`` starts, to iterate over; the arguments are as in `run`.

        If a turn of the thread runs already, Codex adds the prompt to the running turn, and this
        object follows that turn. Raises MisuseError for arguments that make no sense.
        """
        from codex_acp.codex.threads.options import user_input
        from codex_acp.codex.threads.thread_services import naming
        from codex_acp.codex.threads.turn import Turn
        from codex_acp.wire.codec import plain

        params = params_of(options, TurnOptions)
        params["threadId"] = self.id
        params["input"] = plain(user_input(prompt))
        output: OutputType[T] | None = None
        if output_type is not None:
            from codex_acp.codex.threads.tools import OutputType

            output = OutputType(output_type)
            params["outputSchema"] = output.schema

        async def begin() -> str | None:
            await self._services.check_cwd(params)
            with naming("turn/start"):
                await self._services.before_turn(self.id, cast("str | None", params.get("cwd")))
                answer = await self._client.call_raw("turn/start", params)
            started: models.TurnStartResponse = self._client.decode_result("turn/start", answer)
            return started.turn.id

        return Turn(self._services, self.id, begin, output, silent_after)

    async def compact(self) -> None:
        """Let Codex summarise the conversation to free context, and wait for the end.

        Raises TurnFailed or TurnInterrupted if Codex made no summary.
        """
        from codex_acp.codex.threads.thread_services import naming
        from codex_acp.codex.threads.turn import Turn

        async def begin() -> str | None:
            params = models.ThreadCompactStartParams(thread_id=self.id)
            with naming("thread/compact/start"):
                await self._services.before_turn(self.id)
                await self._client.thread_compact_start(params)
            return None  # no id yet: the thread's next ``turn/started`` names the turn

        turn: Turn[None] = Turn(self._services, self.id, begin)
        async with turn:
            await turn.result()

    # The thread.

    async def resume(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Thread:
        """Load the thread, so that turns can run; see `Threads.resume`."""
        opened = await self._services.reopen(
            self.id, options, trust=trust, tools=tools, policy=policy
        )
        return Thread(self._services, *opened)

    async def fork(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """Return a new thread that begins with the conversation of this one; see `Threads.fork`."""
        opened = await self._services.reopen(
            self.id, options, forks=True, trust=trust, tools=tools, policy=policy
        )
        return Thread(self._services, *opened)

    async def read(self, *, include_turns: bool = True) -> ThreadInfo:
        """Read the stored thread, with its turns and items, without loading it; updates `info`."""
        params = models.ThreadReadParams(thread_id=self.id, include_turns=include_turns)
        self._info = info = (await self._client.thread_read(params)).thread
        return info

    async def rename(self, name: str) -> None:
        """Give the thread a name. Raises MisuseError for a name that is no text."""
        refuse_unless(isinstance(name, str), "a thread's name is a text", name)
        await self._client.thread_name_set(models.ThreadSetNameParams(thread_id=self.id, name=name))

    async def archive(self) -> None:
        """End the thread's turns and archive it, with the threads of its sub-agents: `Threads.list`
        has them with ``archived=True``."""
        await self._client.thread_archive(models.ThreadArchiveParams(thread_id=self.id))

    async def unarchive(self) -> None:
        """Undo `archive` for this thread; Codex leaves its sub-agents' threads in the archive."""
        params = models.ThreadUnarchiveParams(thread_id=self.id)
        self._info = (await self._client.thread_unarchive(params)).thread

    async def delete(self) -> None:
        """Delete the thread and its sub-agents' threads, for good."""
        await self._client.thread_delete(models.ThreadDeleteParams(thread_id=self.id))

    async def unsubscribe(self) -> None:
        """Unsubscribe, and wait until Codex has unloaded the thread if nobody else subscribes."""
        from codex_acp.codex.connection.shared_calls import let_go

        await let_go(self._client, self.id)
