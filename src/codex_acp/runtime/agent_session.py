"""A session as its agent's messages make it: state, replay, the running prompt, open questions.

Owns what a message changes, and that replayed history and live updates never mix. Must not know
how a program uses a session.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.acp import types
from codex_acp.runtime.answers import Answers
from codex_acp.runtime.config_options import ConfigOptions
from codex_acp.runtime.results import Record, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.errors import TransportError
    from codex_acp.runtime.agent_process import AgentProcess
    from codex_acp.runtime.permissions import PermissionPolicy
    from codex_acp.runtime.prompt import RunningPrompt
    from codex_acp.runtime.results import Update

logger = logging.getLogger(__name__)


class AgentSession:
    """Takes in what the process tells of one session, as `SessionSink` says. ``replaying`` until it
    is open."""

    def __init__(
        self,
        process: AgentProcess,
        session_id: str,
        cwd: str,
        directories: tuple[str, ...],
        policy: PermissionPolicy | None,
        *,
        replaying: bool,
    ) -> None:
        self.process = process
        self.session_id = session_id
        self.cwd = cwd
        self.options: ConfigOptions = ConfigOptions(session_id, process)
        self.answers: Answers = Answers(
            process.services, policy, cwd, directories, self._tool_call, process.client.drain
        )
        self.replaying = replaying
        self.history: list[Update] = []
        self.commands: tuple[types.AvailableCommand, ...] = ()
        self.title: str | None = None
        self.usage: types.UsageUpdateSessionUpdate | None = None
        self.run: RunningPrompt | None = None
        self.listeners: list[Callable[[Update], None]] = []
        self._outside = Record()

    def take_update(self, update: Update) -> None:
        """Its effect on the state first: who is then told of it finds the state as it says."""
        self._apply(update)
        if self.replaying:
            self.history.append(update)
            return
        if self.run is not None and self.run.sent and not self.run.done:
            self.run.take(update)
        for listener in tuple(self.listeners):
            try:
                listener(update)
            except Exception:
                logger.exception("a listener of the session %s failed", self.session_id)

    def agent_ended(self, error: TransportError) -> None:
        """The process is gone. The prompt hears of it by its own request."""
        del error
        self.answers.refuse()
        self.options.ended()

    def _apply(self, update: Update) -> None:
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

    def _tool_call(self, request: types.RequestPermissionRequest) -> ToolCall:
        record = self._outside if self.run is None else self.run.record
        return record.take_tool_call(request.tool_call)
