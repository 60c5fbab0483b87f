"""Send prompts in a session with an agent, show the session's state, and close the session.

Lets one prompt run at a time. Must not know how the session was opened, nor how its agent was
started.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from codex_acp.acp import types
from codex_acp.errors import MisuseError, refuse_unless
from codex_acp.runtime.agent_session import close_session
from codex_acp.runtime.errors import MethodNotOffered, SessionClosed
from codex_acp.runtime.permissions import answering
from codex_acp.runtime.prompt import Prompt, RunningPrompt
from codex_acp.transport.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.acp import AgentFeatures
    from codex_acp.runtime.agent_process import AgentProcess
    from codex_acp.runtime.agent_session import AgentSession, ConfigOptions, Opened
    from codex_acp.runtime.results import PromptResult, Update

logger = logging.getLogger(__name__)


class Session:
    """A session, made by `AgentRuntime.open`; an async context manager that closes it."""

    def __init__(
        self,
        state: AgentSession,
        opened: Opened,
        on_closed: Callable[[Session], Awaitable[None]],
    ) -> None:
        self._state = state
        self._process: AgentProcess = state.process
        self._on_closed = on_closed
        self._closing: asyncio.Task[None] | None = None
        self._latest: RunningPrompt | None = None
        """The last prompt of the program; it may wait for the prompt that the agent works on."""
        self.deleted: bool = False
        """Whether `delete` has deleted the session."""
        self.opened = opened
        """How the session was opened, and why, if it is not the session that the program wanted."""

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, agent={self.agent!r}, cwd={self.cwd!r})"

    @property
    def session_id(self) -> str:
        """The agent's id of the session."""
        return self._state.session_id

    @property
    def cwd(self) -> str:
        """Directory in which the agent works."""
        return self._state.cwd

    @property
    def agent(self) -> str:
        """Return the agent's name in messages and in the session store."""
        return self._process.agent

    @property
    def agent_info(self) -> types.Implementation | None:
        """Name and version that the agent reports."""
        return self._process.response.agent_info

    @property
    def features(self) -> AgentFeatures:
        """Return the agent's capabilities."""
        return self._process.features

    @property
    def history(self) -> tuple[Update, ...]:
        """Return the updates that the agent replayed when the session was loaded: at most the
        newest 256 MiB."""
        return tuple(self._state.history.updates)

    @property
    def options(self) -> ConfigOptions:
        """Config options of the session: model, mode and others."""
        return self._state.options

    @property
    def commands(self) -> tuple[types.AvailableCommand, ...]:
        """The agent's commands; a prompt that starts with ``/`` and a name runs the command."""
        return self._state.commands

    @property
    def title(self) -> str | None:
        """The session's title, if the agent has set one."""
        return self._state.title

    @property
    def usage(self) -> types.UsageUpdateSessionUpdate | None:
        """Size of the context, as the agent last reported it."""
        return self._state.usage

    @property
    def closed(self) -> bool:
        """Whether this program has closed the session, or its agent has ended."""
        return self._closing is not None or self._process.failure is not None

    def prompt(
        self, content: str | types.ContentBlock | Sequence[str | types.ContentBlock]
    ) -> Prompt:
        """Send a prompt; iterate over the returned `Prompt` to get the updates.

        ::

            async with session.prompt("What is in this directory?") as prompt:
                async for update in prompt:
                    ...
            print(prompt.stop_reason)

        The iteration raises the error that ended the prompt: ErrorReply if the agent failed,
        ProcessExited if its process ended. Raises MisuseError if another prompt of this session
        runs; MethodNotOffered if the agent does not accept a kind of content; SessionClosed.
        """
        self._must_be_open()
        blocks = self._content_blocks(content)
        previous = self._latest
        if previous is not None and previous.goes_on:
            raise MisuseError("a prompt runs in this session; wait for its end or cancel it first")
        send = partial(self._send_prompt, blocks, previous)
        running = self._latest = RunningPrompt(self._process.gate, send, self._cancel)
        if previous is None or previous.agent_has_stopped:  # else `_send_prompt` sets it later
            self._state.prompt = running
        return Prompt(running)

    async def _send_prompt(
        self,
        blocks: list[types.ContentBlock],
        previous: RunningPrompt | None,
        prompt: RunningPrompt,
    ) -> types.PromptResponse:
        """Send a prompt when the agent has stopped work on ``previous``; return the answer."""
        if previous is not None:
            await previous.wait_until_ended()
            self._must_be_open()
        if prompt.cancelled:
            return types.PromptResponse(stop_reason="cancelled")
        self._state.prompt = prompt
        self._state.answers.stop_refusing()
        prompt.sent = True
        request = types.PromptRequest(session_id=self.session_id, prompt=blocks)
        call = self._process.client.session_prompt(request)
        try:
            return await self._process.ask("session/prompt", call, prompt=True)
        finally:
            self._state.answers.cancel_open()  # the agent does not wait for answers any more

    async def run(
        self, content: str | types.ContentBlock | Sequence[str | types.ContentBlock]
    ) -> PromptResult:
        """Send a prompt, and wait for its result. If this call is cancelled, so is the prompt."""
        async with self.prompt(content) as prompt:
            return await prompt.result()

    def listen(self, listener: Callable[[Update], None]) -> Callable[[], None]:
        """Call ``listener``, which must not block, with each live update, also between prompts.
        Returns a function that removes the listener."""
        refuse_unless(callable(listener), "a listener is a function", listener)
        listeners = self._state.listeners
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    async def delete(self) -> None:
        """Delete the session at the agent, and close the session here. Raises MethodNotOffered."""
        self._must_be_open()
        if not self.features.delete_session:
            raise MethodNotOffered(self.agent, "session/delete")
        request = types.DeleteSessionRequest(session_id=self.session_id)
        await self._process.ask("session/delete", self._process.client.session_delete(request))
        self.deleted = True
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the prompt, and close the session at the agent if the agent can do that; end a
        process that is not shared. Takes a limited time, and completes even if cancelled."""
        if self._closing is None:
            self._state.answers.refuse()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        if not answering.get():  # closing waits for tasks that answer a request, perhaps this one
            await finish(self._closing)

    async def detach(self) -> None:
        """Leave the session without cancelling, answering or closing anything at the agent.

        For a remote agent that keeps sessions: the prompt runs on, the questions wait, and a client
        that opens the session again by its id gets both. Raises MisuseError for an agent that this
        program has started, or if other sessions use the connection.
        """
        self._must_be_open()
        if self._process.spec.link is None or len(self._process.sessions) > 1:
            msg = "only a session that has the connection to a remote agent for itself is detached"
            raise MisuseError(msg)
        self._closing = asyncio.get_running_loop().create_task(self._detach())
        await finish(self._closing)

    async def _detach(self) -> None:
        state, process = self._state, self._process
        if state.prompt is not None:
            state.prompt.abandon(SessionClosed(f"the session {self.session_id} was detached"))
        await process.disconnect()  # before the questions are settled, so that no answer is sent
        state.options.ended()
        await state.answers.aclose()
        process.remove_session(self.session_id, state)
        await process.aclose()
        await self._on_closed(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def _must_be_open(self) -> None:
        if self._closing is not None:
            msg = f"the session {self.session_id} was closed; open it again by its id"
            raise SessionClosed(msg)
        if self._process.failure is not None:
            raise self._process.failure.with_traceback(None)

    def _content_blocks(
        self, content: str | types.ContentBlock | Sequence[str | types.ContentBlock]
    ) -> list[types.ContentBlock]:
        """Return the content as blocks. Raises MethodNotOffered if the agent cannot take a kind."""
        parts: Sequence[Any] = content if isinstance(content, list | tuple) else [content]
        for part in parts:
            is_part = isinstance(part, str | types.WireModel)
            refuse_unless(is_part, "a prompt has texts and content blocks", part)
        blocks = [
            types.TextContentBlock(text=part) if isinstance(part, str) else part for part in parts
        ]
        if not blocks:
            raise MisuseError("a prompt needs some content")
        features = self.features
        for kind, is_supported in (
            (types.ImageContentBlock, features.prompt_image),
            (types.AudioContentBlock, features.prompt_audio),
            (types.ResourceContentBlock, features.prompt_embedded_context),
        ):
            if not is_supported and any(isinstance(block, kind) for block in blocks):
                raise MethodNotOffered(self.agent, f"prompts with {kind.__name__}")
        return blocks

    def _cancel(self) -> None:
        """Send ``session/cancel``, and answer the open questions with "cancelled"."""
        self._state.answers.refuse()
        notification = types.CancelNotification(session_id=self.session_id)
        self._process.client.session_cancel(notification)

    async def _close(self) -> None:
        state, process = self._state, self._process
        state.options.ended()
        prompt = state.prompt
        if prompt is not None and not prompt.done:
            prompt.cancel_and_discard()
        if process.failure is None:
            if process.features.close_session:
                await close_session(process, self.session_id)
            elif prompt is not None and process.spec.shared:
                await prompt.wait_until_ended()  # a process that is not shared ends below
        if prompt is not None:
            prompt.abandon(SessionClosed(f"the session {self.session_id} was closed"))
        await state.answers.aclose()
        process.remove_session(self.session_id, state)
        if not process.spec.shared:
            await process.aclose()
        await self._on_closed(self)
