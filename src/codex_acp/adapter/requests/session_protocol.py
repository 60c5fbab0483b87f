"""Describes the session of a server request to whoever runs the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from codex_acp.mapping.events import ToolCallAnnounced
    from codex_acp.routing.changes import Looks


class SessionProtocol(Protocol):
    """The session of a server request, as the runner of the request uses it."""

    def may_ask(self, thread_id: str, turn_id: str | None) -> bool:
        """Whether its person may be asked something for a turn; see `SessionMachine.may_ask`."""

    async def caught_up(self) -> None:
        """Wait until all that Codex has said so far was shown: files of an edit may be read."""

    @property
    def roots(self) -> Sequence[str]:
        """The directories that it was opened with."""

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Return how the disk has the paths, behind all that was said; see `OrderedSteps.read`."""

    def announce_tool_call(self, call: ToolCallAnnounced) -> None:
        """Send the tool call unless it was sent before; all that waits goes out first."""

    def approval_settled(self, tool_call_id: str, *, accepted: bool) -> None:
        """Show what became of it."""

    def tool_call_ended(self, tool_call_id: str, *, ended_well: bool) -> None:
        """Show that it is over, if no item of the session's own thread shows that."""

    def waiting_for_person(
        self, thread_id: str, turn_id: str | None
    ) -> AbstractContextManager[None]:
        """While a person is asked something for it, by its own thread or a sub-agent's."""

    def say(self, text: str) -> None:
        """One line for the person: something was declined without asking."""
