"""The two results of a slash command: a turn of Codex, or a text of the adapter.

`SessionCommands` finds the commands; `Session` runs the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from codex_acp._record import NamedTuple, record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.adapter.server.mcp_startup import McpStartups
    from codex_acp.codex._generated.models import UserInput
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.options import Option
    from codex_acp.wire.model import WireModel


class TurnCommand(NamedTuple):
    """A command that Codex runs as a turn, once no other turn runs."""

    method: str
    """The call that begins the turn. The answer of ``thread/compact/start`` does not name its turn:
    the turn is the next one that compacts the thread."""
    params: WireModel


class MessageCommand(NamedTuple):
    """A command that is a message to the model, in a new turn or in the running turn."""

    message: list[UserInput]
    before_message: Callable[[], Awaitable[object]] | None = None
    """Called before ``message`` is sent. Raises CodexAcpError."""


class TextCommand(NamedTuple):
    """A command that the adapter answers with a text, without a turn of the prompt."""

    run: Callable[[], Awaitable[str]]
    """Returns the text, Markdown; an empty text is not shown. Raises CodexAcpError."""
    starts_turns: bool = False
    """True if the command makes Codex begin turns of its own."""


Command: TypeAlias = TurnCommand | MessageCommand | TextCommand
"""Result of a prompt that is a command."""


@record
class SessionAccess:
    """A session, and the functions of the adapter, for the commands of the session."""

    session_id: str
    cwd: str
    codex: Callable[[], AppServerConnection]
    """Returns the connection that the session is on now."""
    options: Callable[[], Sequence[Option]]
    """Returns the session's config options."""
    in_plan_mode: Callable[[], bool]
    set_plan_mode: Callable[[bool | None], Awaitable[bool]]
    """Turns plan mode on or off, or toggles it (None); returns whether it is on."""
    remarks: Callable[[], Sequence[str]]
    """Returns Codex's warnings about this computer, for ``/status``."""
    turn_has_prompts: Callable[[], bool]
    """Returns whether the end of the turn that runs answers a prompt."""
    mcp: Callable[[], McpStartups]
    """Returns the statuses of the MCP servers of the newest connection."""
    log_out: Callable[[], Awaitable[None]]
    """Logs Codex out, and forgets the client's gateway. Raises RpcError."""
    shares_codex: bool = False
    """True if other clients use the same Codex."""
