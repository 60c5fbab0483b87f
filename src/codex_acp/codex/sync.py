"""Codex from programs without an event loop: scripts, notebooks, threads.

A thin layer: the asynchronous objects run on one event loop in a thread of its own, and each method
here waits for the asynchronous method of its name. Owns the waiting, and the effect of Ctrl-C. ::

    with Codex() as codex:
        thread = codex.threads.start()
        print(thread.run("What is in this directory?").text)
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from codex_acp.codex._generated.waiting_calls import WaitingCalls
from codex_acp.codex.client import CodexClient
from codex_acp.errors import MisuseError, refuse_unless
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from typing import Self, Unpack

    from codex_acp.codex._generated.models import Thread as ThreadInfo
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.approvals.policies import Policy

    # The answer that opens a thread has the thread's settings.
    from codex_acp.codex.approvals.policies import StartedThread as Settings
    from codex_acp.codex.client import ClientSettings
    from codex_acp.codex.connection.launch import LaunchOptions
    from codex_acp.codex.loop_thread import LoopThread
    from codex_acp.codex.threads import thread as one_thread
    from codex_acp.codex.threads import turn as one_turn
    from codex_acp.codex.threads.options import (
        ForkOptions,
        Input,
        ListOptions,
        ResumeOptions,
        StartOptions,
        TurnOptions,
    )
    from codex_acp.codex.threads.results import RunResult
    from codex_acp.codex.threads.thread import T
    from codex_acp.codex.threads.tools import Tool
    from codex_acp.transport.remote_address import Token
    from codex_acp.wire.model import WireModel

__all__ = ["Codex", "Thread", "Threads", "Turn"]


_Value = TypeVar("_Value")

if not TYPE_CHECKING:
    T = TypeVar("T")  # without the default of `thread.T`, which older Pythons lack


class LoopCalls:
    """The part of `Codex` through which threads and turns call the event loop."""

    _loop: LoopThread | None = None

    def call(self, function: Callable[..., Awaitable[_Value]], /, *args: Any) -> _Value:
        """Run a coroutine function on the loop and wait: ``codex.call(codex.client.aclose)``.

        Raises what the function raises, and MisuseError outside the ``with``. Ctrl-C cancels the
        function, waits for its clean-up, and raises KeyboardInterrupt.
        """
        if self._loop is None:
            raise MisuseError("a Codex can be used only within its `with` block")
        refuse_unless(callable(function), "call takes a function that was not called", function)
        return self._loop.call(partial(function, *args))


class Codex(LoopCalls, WaitingCalls):
    """A Codex for synchronous code: ``with Codex() as codex:``. Python's threads may share it.

    Every method of the protocol is a method here, and waits: ``codex.model_list()``.

    ``options`` and ``settings`` are as in `CodexClient.start`; ``connect_to`` is the URL of a
    running app-server (`CodexClient.connect_to`). Handlers, tools and policy callbacks run in
    Python threads of their own and may call methods of this object, unless they are coroutine
    functions.

    Ctrl-C interrupts the turn that the program waits for, then raises KeyboardInterrupt; leaving
    the ``with`` ends Codex.
    """

    def __init__(
        self,
        options: LaunchOptions | None = None,
        *,
        connect_to: str | None = None,
        token: Token | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        if connect_to is not None and options is not None:
            message = "give options to launch an app-server, or connect_to to join one; not both"
            raise MisuseError(message)
        # Spawned before the event loop is imported: Codex boots meanwhile.
        self.client: CodexClient = (
            CodexClient.start(options, **settings)
            if connect_to is None
            else CodexClient.connect_to(connect_to, token=token, **settings)
        )
        """The client on the event loop; `call` runs its coroutines."""
        self.handle = self.client.handle
        """`CodexClient.handle`."""
        self.tool = self.client.tool
        """`CodexClient.tool`."""
        self._entered = False

    def __enter__(self) -> Self:
        """Start the loop and make the handshake. Raises as `CodexClient.connect` does."""
        from codex_acp.codex.loop_thread import LoopThread

        if self._entered:
            raise MisuseError("a Codex can be entered only once; make a new one")
        self._entered = True
        self._loop = LoopThread("codex_acp.codex.sync")
        try:
            self.call(self.client.connect)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End Codex and the loop; no effect if repeated."""
        if self._loop is None:  # closed already, or never entered: then Codex was only spawned
            if not self._entered and isinstance(self.client.link, ChildProcess):
                self.client.link.kill_tree()  # a gentle end needs the loop
            self._entered = True  # too late for `__enter__`
            return
        try:
            self.call(self.client.aclose)
        finally:
            loop, self._loop = self._loop, None
            if loop is not None:  # else another thread has closed it meanwhile
                loop.stop()

    @property
    def threads(self) -> Threads:
        """Return the threads of the app-server: start, resume, fork, list."""
        return Threads(self)

    def _call(self, method: str, params: WireModel | Any | None) -> Any:
        """Send the request of one method of `WaitingCalls`."""
        return self.call(self.client._call, method, params)

    def __repr__(self) -> str:
        return f"Codex({self.client.link!r})"


class Threads:
    """The threads of a `Codex`; each method waits for its namesake in `codex_acp.codex.Threads`."""

    def __init__(self, codex: Codex) -> None:
        self._codex = codex
        self._threads = codex.client.threads

    def __repr__(self) -> str:
        return f"{self._codex!r}.threads"

    def start(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[StartOptions],
    ) -> Thread:
        """Start a thread, as `codex_acp.codex.Threads.start` does."""
        return self._open(
            partial(self._threads.start, trust=trust, tools=tools, policy=policy, **options)
        )

    def resume(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Thread:
        """Resume a thread, as `codex_acp.codex.Threads.resume` does."""
        return self._open(
            partial(
                self._threads.resume, thread_id, trust=trust, tools=tools, policy=policy, **options
            )
        )

    def fork(
        self,
        thread_id: str,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """Fork a thread, as `codex_acp.codex.Threads.fork` does."""
        return self._open(
            partial(
                self._threads.fork, thread_id, trust=trust, tools=tools, policy=policy, **options
            )
        )

    def get(self, thread_id: str) -> Thread:
        """Return a thread by its id, as `codex_acp.codex.Threads.get` does."""
        return Thread(self._codex, self._threads.get(thread_id))

    def list(self, **options: Unpack[ListOptions]) -> Iterator[Thread]:
        """List the stored threads, as `codex_acp.codex.Threads.list` does."""
        return self._iterate(self._threads.list(**options))

    def _iterate(self, threads: AsyncIterator[one_thread.Thread]) -> Iterator[Thread]:
        while (found := self._codex.call(anext, threads, None)) is not None:
            yield Thread(self._codex, found)

    def _open(self, open_thread: Callable[[], Awaitable[one_thread.Thread]]) -> Thread:
        return Thread(self._codex, self._codex.call(open_thread))


class Thread:
    """A thread; each method waits for its namesake in `codex_acp.codex.Thread`."""

    def __init__(self, codex: Codex, thread: one_thread.Thread) -> None:
        self._codex = codex
        self.thread = thread
        """The `codex_acp.codex.Thread` on the event loop."""
        self.id: str = thread.id

    def __repr__(self) -> str:
        return repr(self.thread)

    @property
    def info(self) -> ThreadInfo:
        """Return Codex's last report of the thread, as `codex_acp.codex.Thread.info` does."""
        return self.thread.info

    @property
    def settings(self) -> Settings:
        """Return the settings of the thread, as `codex_acp.codex.Thread.settings` does."""
        return self.thread.settings

    @overload
    def run(
        self,
        prompt: Input,
        *,
        output_type: type[T],
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> RunResult[T]: ...
    @overload
    def run(
        self,
        prompt: Input,
        *,
        output_type: None = None,
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> RunResult[None]: ...
    def run(
        self,
        prompt: Input,
        *,
        output_type: type[T] | None = None,
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> RunResult[T]:
        """Run a turn, as `codex_acp.codex.Thread.run` does. Ctrl-C interrupts the turn."""
        run: Callable[..., Awaitable[RunResult[T]]] = self.thread.run
        settings = {"output_type": output_type, "silent_after": silent_after, **options}
        return self._codex.call(partial(run, prompt, **settings))

    def turn(
        self,
        prompt: Input,
        *,
        output_type: type[T] | None = None,
        silent_after: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> Turn[T]:
        """Start a turn, as `codex_acp.codex.Thread.turn` does."""
        turn = self.thread.turn(
            prompt, output_type=output_type, silent_after=silent_after, **options
        )
        return Turn(self._codex, turn)

    def resume(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Thread:
        """Resume a thread, as `codex_acp.codex.Thread.resume` does."""
        return self._codex.threads.resume(
            self.id, trust=trust, tools=tools, policy=policy, **options
        )

    def fork(
        self,
        *,
        trust: bool = False,
        tools: Iterable[Tool | Callable[..., object]] = (),
        policy: Policy | None = None,
        **options: Unpack[ForkOptions],
    ) -> Thread:
        """Fork a thread, as `codex_acp.codex.Thread.fork` does."""
        return self._codex.threads.fork(self.id, trust=trust, tools=tools, policy=policy, **options)

    def read(self, *, include_turns: bool = True) -> ThreadInfo:
        """Read the stored thread, as `codex_acp.codex.Thread.read` does."""
        return self._codex.call(partial(self.thread.read, include_turns=include_turns))

    def compact(self) -> None:
        """Compact the history, as `codex_acp.codex.Thread.compact` does."""
        self._codex.call(self.thread.compact)

    def rename(self, name: str) -> None:
        """Rename the thread, as `codex_acp.codex.Thread.rename` does."""
        self._codex.call(self.thread.rename, name)

    def archive(self) -> None:
        """Archive the thread, as `codex_acp.codex.Thread.archive` does."""
        self._codex.call(self.thread.archive)

    def unarchive(self) -> None:
        """Take the thread out of the archive, as `codex_acp.codex.Thread.unarchive` does."""
        self._codex.call(self.thread.unarchive)

    def delete(self) -> None:
        """Delete the thread, as `codex_acp.codex.Thread.delete` does."""
        self._codex.call(self.thread.delete)

    def unsubscribe(self) -> None:
        """Stop following the thread, as `codex_acp.codex.Thread.unsubscribe` does."""
        self._codex.call(self.thread.unsubscribe)


class Turn(Generic[T]):
    """A turn: ``with thread.turn(...) as turn: for event in turn: ...`` (`codex_acp.codex.Turn`).

    Iterating a turn that was not entered enters it, and leaves it at the end of the loop.
    """

    def __init__(self, codex: LoopCalls, turn: one_turn.Turn[T]) -> None:
        self._codex = codex
        self._entered = False
        self.turn = turn
        """The `codex_acp.codex.Turn` on the event loop."""
        self.thread_id: str = turn.thread_id

    def __repr__(self) -> str:
        return f"{self.turn!r}"

    @property
    def id(self) -> str:
        """Return the id of the turn, as `codex_acp.codex.Turn.id` does."""
        return self.turn.id

    @property
    def so_far(self) -> RunResult[None]:
        """Return the result so far, as `codex_acp.codex.Turn.so_far` does."""
        return self.turn.so_far

    def __enter__(self) -> Self:
        """Start the turn."""
        self._codex.call(self.turn.__aenter__)
        self._entered = True
        return self

    def __exit__(self, *_exc: object) -> None:
        """Leave the turn: interrupt it unless it has ended or was detached."""
        self._codex.call(self.turn.aclose)

    def __iter__(self) -> Iterator[ServerNotification]:
        """Yield the typed notifications of the turn, as they come."""
        with nullcontext() if self._entered else self:
            while (event := self._codex.call(anext, self.turn, None)) is not None:
                yield event

    def result(self) -> RunResult[T]:
        """Wait for the result, as `codex_acp.codex.Turn.result` does."""
        return self._codex.call(self.turn.result)

    def steer(self, more: Input) -> None:
        """Add input to the running turn, as `codex_acp.codex.Turn.steer` does."""
        self._codex.call(self.turn.steer, more)

    def interrupt(self) -> None:
        """Interrupt the turn, as `codex_acp.codex.Turn.interrupt` does."""
        self._codex.call(self.turn.interrupt)

    def detach(self) -> None:
        """Leave the turn running, as `codex_acp.codex.Turn.detach` does."""
        self._codex.call(self.turn.detach)
