"""Describes the two results of a slash command: a turn of another kind, or a text.

`SessionCommands` finds the commands; `Session` runs the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codex_acp._record import record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.codex._generated.models import UserInput
    from codex_acp.mapping.commands import Fact
    from codex_acp.wire.model import WireModel


class StartsTurn(NamedTuple):
    """A command that Codex runs as a turn which another method than ``turn/start`` begins."""

    method: str
    """The call that begins the turn. The answer of ``thread/compact/start`` does not name it: it is
    the next turn that compacts the thread."""
    params: WireModel | None = None
    """Params of ``method``; None for a message to the model."""
    message: list[UserInput] | None = None
    """The command as a message to the model: ``turn/start`` sends it, or, while a turn runs,
    ``turn/steer``. None: the command is no message, and waits for the end of a turn that runs.
    """
    first: Callable[[], Awaitable[object]] | None = None
    """Called before ``message`` is sent. Raises as every call to Codex, or RpcError."""


class Says(NamedTuple):
    """A command that is answered with a text of the agent, without a turn."""

    run: Callable[[], Awaitable[str]]
    """Returns the text, Markdown; empty: nothing is told. Raises as calls to Codex, or RpcError."""
    starts_turns: bool = False
    """True if Codex begins turns by itself because of the command."""


Command: TypeAlias = StartsTurn | Says
"""Result of a prompt that is a command."""


@record
class SessionAccess:
    """Access of a session's commands to the adapter, besides its Codex."""

    settings: Callable[[], Sequence[Fact]]
    """Settings that its status shows."""
    plan_mode: Callable[[bool | None], Awaitable[bool]]
    """Turns plan mode on or off, or, with None, over; returns whether it is on. Raises RpcError."""
    mcp_started: Callable[[Callable[[], Awaitable[None]], Sequence[str]], Awaitable[Sequence[str]]]
    """Calls what restarts the MCP servers and waits for the named ones; returns the late ones."""
    log_out: Callable[[], Awaitable[None]]
    """Logs Codex out, and forgets the client's gateway. Raises RpcError."""
    shared: bool = False
    """True if other clients use the same Codex."""
