"""One prompt turn as an agent's author sees it: what was asked, and ways to answer.

Owns nothing but the shape of the usual updates. Must not know what the agent does.
Source: ACP pages "Prompt Turn" and "Tool Calls".
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, Self

from codex_acp.acp import types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from codex_acp.acp.agent_side import AgentSide

ALLOW: Final = types.PermissionOption(option_id="allow", name="Allow", kind="allow_once")
REJECT: Final = types.PermissionOption(option_id="reject", name="Reject", kind="reject_once")


class PromptTurn:
    """A prompt that is being answered. What is sent here reaches the client before its answer."""

    def __init__(self, side: AgentSide, request: types.PromptRequest) -> None:
        self.side = side
        """The client, for everything that has no shorter form here."""
        self.request = request
        self.session_id: str = request.session_id

    def __repr__(self) -> str:
        return f"PromptTurn({self.session_id!r})"

    @property
    def text(self) -> str:
        """The texts of the prompt, joined; other content is in ``request.prompt``."""
        parts = self.request.prompt
        return "".join(part.text for part in parts if isinstance(part, types.TextContentBlock))

    def say(self, text: str) -> None:
        """A piece of the agent's message."""
        self.update(types.AgentMessageChunkSessionUpdate(content=types.TextContentBlock(text=text)))

    def think(self, text: str) -> None:
        """A piece of the agent's reasoning."""
        self.update(types.AgentThoughtChunkSessionUpdate(content=types.TextContentBlock(text=text)))

    def plan(self, steps: Mapping[str, types.PlanEntryStatus]) -> None:
        """The whole plan: what is to be done → where it stands."""
        entries = [
            types.PlanEntry(content=content, status=status, priority="medium")
            for content, status in steps.items()
        ]
        self.update(types.PlanSessionUpdate(entries=entries))

    def tool_call(
        self, title: str, *, kind: types.ToolKind = "other", raw_input: object = None
    ) -> TurnToolCall:
        """Announce a tool call. ``async with`` says how it ended; see `TurnToolCall`."""
        return TurnToolCall(self, title, kind, raw_input)

    def update(self, update: types.SessionUpdate) -> None:
        """Any ``session/update``."""
        self.side.session_update(
            types.SessionNotification(session_id=self.session_id, update=update)
        )


class TurnToolCall:
    """A tool call of the turn; as a context manager it ends completed, or failed by an exception.

    ::

        async with turn.tool_call("Delete notes.txt", kind="delete") as call:
            if await call.is_allowed():
                ...
                call.show("deleted")
    """

    def __init__(
        self, turn: PromptTurn, title: str, kind: types.ToolKind, raw_input: object
    ) -> None:
        self.id: str = f"call-{secrets.token_hex(8)}"
        self._turn = turn
        self._title = title
        self._ended = False
        announced = types.ToolCallSessionUpdate(
            tool_call_id=self.id, title=title, kind=kind, status="pending"
        )
        if raw_input is not None:
            announced.raw_input = raw_input
        turn.update(announced)

    def __repr__(self) -> str:
        return f"TurnToolCall({self._title!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ended:
            self.end("completed" if error is None else "failed")

    async def is_allowed(self, options: Sequence[types.PermissionOption] = (ALLOW, REJECT)) -> bool:
        """Ask the person. True only for an option of ``options`` that allows; the tool call is
        failed otherwise. Raises ErrorReply or TransportError if the client cannot be asked.
        """
        request = types.RequestPermissionRequest(
            session_id=self._turn.session_id,
            tool_call=types.ToolCallUpdate(tool_call_id=self.id, title=self._title),
            options=list(options),
        )
        outcome = (await self._turn.side.session_request_permission(request)).outcome
        kinds = ("allow_once", "allow_always")
        allowing = {option.option_id for option in options if option.kind in kinds}
        match outcome:
            case types.SelectedRequestPermissionOutcome(option_id=chosen) if chosen in allowing:
                self._send(status="in_progress")
                return True
        self.end("failed")
        return False

    def show(self, *content: str | types.ToolCallContent) -> None:
        """Replace what it shows: texts, diffs, terminals."""
        self._send(
            content=[
                types.ContentToolCallContent(content=types.TextContentBlock(text=part))
                if isinstance(part, str)
                else part
                for part in content
            ]
        )

    def end(self, status: types.ToolCallStatus) -> None:
        """Say how it ended, where the context manager's own word is not right."""
        self._ended = True
        self._send(status=status)

    def _send(
        self,
        *,
        status: types.ToolCallStatus | None = None,
        content: list[types.ToolCallContent] | None = None,
    ) -> None:
        update = types.ToolCallUpdateSessionUpdate(tool_call_id=self.id)
        if status is not None:
            update.status = status
        if content is not None:
            update.content = content
        self._turn.update(update)
