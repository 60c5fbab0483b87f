"""``codex-acp-sdk`` and ``codex-acp-sdk serve``: the agent on standard input and output.

Order is everything: Codex is spawned before anything heavy is imported.
"""

from __future__ import annotations

from codex_acp.codex.launch import LaunchOptions, spawn_app_server
from codex_acp.errors import LaunchError

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from codex_acp.transport.child import ChildProcess

__all__ = ["serve"]


def serve(options: LaunchOptions, line_limit: int | None = None) -> int:
    """Serve until stdin ends; the exit code. A Codex that is missing is told to the client."""
    spawned = _spawn(options)
    from codex_acp.adapter.serve import run_stdio
    from codex_acp.jsonrpc.framing import DEFAULT_LINE_LIMIT
    from codex_acp.transport.stdio import StdioLink, claim_stdout

    link = StdioLink(stdout_fd=claim_stdout())
    limit = DEFAULT_LINE_LIMIT if line_limit is None else line_limit
    return run_stdio(link, options, spawned, line_limit=limit)


def _spawn(options: LaunchOptions) -> ChildProcess | LaunchError:
    try:
        return spawn_app_server(options)
    except LaunchError as error:
        return error
