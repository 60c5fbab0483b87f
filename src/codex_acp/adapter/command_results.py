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
    """Of that call; None for a message to the model."""
    message: list[UserInput] | None = None
    """The same as a message to the model, if it is one: then ``turn/start`` sends it, or, while a
    turn runs, ``turn/steer``. None: it waits for that turn's end.
    """
    first: Callable[[], Awaitable[object]] | None = None
    """Called before that message is sent. Raises as every call to Codex, or RpcError."""


class Says(NamedTuple):
    """A command that is answered with a text of the agent, without a turn."""

    run: Callable[[], Awaitable[str]]
    """The text, Markdown; empty: nothing is said. Raises as every call to Codex, or RpcError."""
    starts_turns: bool = False
    """Whether Codex begins turns by itself because of it."""


Command: TypeAlias = StartsTurn | Says
"""Result of a prompt that is a command."""


@record
class SessionAccess:
    """Access of a session's commands to the adapter, besides its Codex."""

    settings: Callable[[], Sequence[Fact]]
    """Settings that its status shows."""
    plan_mode: Callable[[bool | None], Awaitable[bool]]
    """Turns plan mode on or off, None: to the other; whether it is on. Raises RpcError."""
    mcp_started: Callable[[Callable[[], Awaitable[None]], Sequence[str]], Awaitable[Sequence[str]]]
    """Runs what has MCP servers start anew, and waits for those named: which are not done yet."""
    log_out: Callable[[], Awaitable[None]]
    """Logs Codex out, and forgets the client's gateway. Raises RpcError."""
    shared: bool = False
    """Whether other clients use the same Codex."""
