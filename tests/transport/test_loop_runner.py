"""A signal that comes while the event loop is being closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

SIGNAL_AT_THE_CLOSE = """
import asyncio, os, signal, sys
from asyncio.selector_events import BaseSelectorEventLoop

close = BaseSelectorEventLoop.close

def close_and_signal(loop):
    close(loop)
    os.kill(os.getpid(), NUMBER)

BaseSelectorEventLoop.close = close_and_signal
"""

OUR_OWN = """
from codex_acp.transport.shielding import run_loop
from codex_acp.transport.process_tree import adopt_orphans

async def main():
    return adopt_orphans(asyncio.get_running_loop())

run_loop(main())
"""

SERVES = """
from codex_acp.cli.main import main

sys.argv = ["codex-acp-sdk", "serve", "--codex", "/bin/true"]
sys.exit(main())
"""


@pytest.mark.parametrize(("number", "program"), [("SIGCHLD", OUR_OWN), ("SIGTERM", SERVES)])
def test_nothing_is_said_of_a_descriptor_that_is_closed(number: str, program: str) -> None:
    code = SIGNAL_AT_THE_CLOSE.replace("NUMBER", f"signal.{number}") + program
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"", capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert b"descriptor" not in done.stderr
