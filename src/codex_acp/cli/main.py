"""The entry point of ``codex-acp-sdk``: reads the arguments and starts the command they name.

Owns what ends every command alike: Ctrl-C and an output that nobody reads any more.
"""

from __future__ import annotations

import errno
import io
import os
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""
_NOT_TAKEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of writing to a file that takes no more."""
BAD_DIRECTORY = 2
"""Exit code where a path is given from a directory that is not there any more."""
OUTPUT_LOST = 1
"""Exit code when the reader of stdout went away, as in ``codex-acp-sdk demo --yes | head``."""


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code. Without arguments the agent starts without the
    parser."""
    args = sys.argv[1:] if argv is None else argv
    try:
        if None in (sys.stdin, sys.stdout, sys.stderr):
            from codex_acp.cli.process import put_in_place

            put_in_place()
        if "CODEX_ACP_TOKEN" in os.environ:
            from codex_acp.cli.process import hide_token

            hide_token()
        if args in ([], ["serve"]):
            from codex_acp.cli.serve import serve
            from codex_acp.codex.connection.launch import LaunchOptions

            return serve(LaunchOptions())
        from codex_acp.cli.commands import run

        if isinstance(
            sys.stdout, io.TextIOWrapper
        ):  # in an encoding that lacks a character of ours
            sys.stdout.reconfigure(errors="backslashreplace")
        code = run(args)
        return _flushed(code)
    except SystemExit as end:  # of --help, say, whose text is still to be written
        if end.code or _flushed(0) == 0:
            raise
        return OUTPUT_LOST
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return OUTPUT_LOST
    except OSError as error:
        if error.errno == errno.ENOENT and error.filename is None:  # of getcwd
            print("codex-acp-sdk: error: the current directory is gone", file=sys.stderr)
            return BAD_DIRECTORY
        if error.errno not in _NOT_TAKEN or error.filename is not None:
            raise
        return _report_loss(error)


def _flushed(code: int) -> int:
    """Flush stdout: a reader that is gone, or a full disk, can still change the exit code here."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return code or OUTPUT_LOST
    except OSError as error:
        output = sys.modules.get("codex_acp.cli.screen")
        if output is None or not output.lost:  # else the command has said it itself
            lost = _report_loss(error)  # of a command that has failed, too
            return code or lost
        _drop_output()
    return code


def _report_loss(error: OSError) -> int:
    """Say that the output cannot be written, as on a full disk; return the exit code."""
    print(f"codex-acp-sdk: error: the output cannot be written: {error.strerror}", file=sys.stderr)
    _drop_output()
    return OUTPUT_LOST


def _drop_output() -> None:
    """Send what is still buffered nowhere: Python would complain of it at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
