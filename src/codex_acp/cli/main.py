"""The entry point of ``codex-acp-sdk``: reads the arguments and starts the command they name."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code; 2 for arguments that make no sense.

    Without arguments, or with ``serve`` alone, the agent starts without even loading the parser.
    """
    args = sys.argv[1:] if argv is None else argv
    if args in ([], ["serve"]):
        from codex_acp.cli.serve import serve
        from codex_acp.codex.launch import LaunchOptions

        return serve(LaunchOptions())
    from codex_acp.cli.arguments import run

    return run(args)
