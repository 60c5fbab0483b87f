"""Start the command that the arguments of ``codex-acp-sdk`` name.

Owns how every command ends after Ctrl-C, or if the output cannot be written.
"""

from __future__ import annotations

import errno
import io
import os
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""
_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of a write to a full or broken file."""
BAD_DIRECTORY = 2
"""Exit code if the current directory does not exist any more."""
OUTPUT_LOST = 1
"""Exit code if stdout cannot be written, as in ``codex-acp-sdk demo --yes | head``."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    args = sys.argv[1:] if argv is None else argv
    try:
        if None in (sys.stdin, sys.stdout, sys.stderr):
            from codex_acp.cli.process import open_missing_streams

            open_missing_streams()
        if "CODEX_ACP_TOKEN" in os.environ:  # TOKEN_VARIABLE, whose module is rarely needed
            from codex_acp.cli.process import hide_token

            hide_token()
        if args in ([], ["serve"]):  # without loading the parsers
            from codex_acp.cli.serve import serve
            from codex_acp.codex.connection.launch import LaunchOptions

            return serve(LaunchOptions())
        from codex_acp.cli.commands import run

        if isinstance(sys.stdout, io.TextIOWrapper):  # the encoding may lack some characters
            sys.stdout.reconfigure(errors="backslashreplace")
        return _flush(run(args))
    except SystemExit as end:  # for example of --help, whose text is not flushed yet
        if end.code or _flush(0) == 0:
            raise
        return OUTPUT_LOST
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return OUTPUT_LOST
    except OSError as error:
        if error.errno == errno.ENOENT and error.filename is None:  # raised by getcwd
            print("codex-acp-sdk: error: the current directory is gone", file=sys.stderr)
            return BAD_DIRECTORY
        if error.errno not in _NOT_WRITTEN or error.filename is not None:
            raise
        return _report_loss(error)


def _flush(code: int) -> int:
    """Flush stdout; return ``code``, or another exit code if the output cannot be written."""
    screen = sys.modules.get("codex_acp.cli.screen")  # None: the command has no screen
    try:
        if screen is not None:
            screen.write_rest(wait=True)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return code or OUTPUT_LOST
    except OSError as error:
        if screen is not None and screen.output_failed:  # the command has reported the loss
            _drop_output()
            return code
        loss_code = _report_loss(error)  # also if the command has failed
        return code or loss_code
    return code


def _report_loss(error: OSError) -> int:
    """Print that the output cannot be written; return the exit code."""
    print(f"codex-acp-sdk: error: the output cannot be written: {error.strerror}", file=sys.stderr)
    _drop_output()
    return OUTPUT_LOST


def _drop_output() -> None:
    """Discard the buffered output, for which Python would print an error at the exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
