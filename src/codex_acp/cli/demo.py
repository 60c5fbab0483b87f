"""``codex-acp-sdk demo``: what must be there, the question, and the throw-away surroundings.

The conversation itself is in `codex_acp.cli.demo_client`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

from codex_acp.cli.demo_client import DemoClient
from codex_acp.cli.demo_screen import Screen
from codex_acp.cli.demo_script import COMMAND, EXPECTED_MESSAGES, SCRIPT, WORKSPACE_FILES
from codex_acp.cli.interrupts import EndSignals
from codex_acp.cli.version import binary_text
from codex_acp.codex.connection.codex_binary import find_codex
from codex_acp.errors import CodexAcpError, LaunchError
from codex_acp.testing import CodexHome, ScriptedModel
from codex_acp.transport.child import spawn

if TYPE_CHECKING:
    from pathlib import Path

    from codex_acp.cli.demo_client import DemoResult

__all__ = ["demo"]

FAILED: Final = 1
"""Exit code when Codex is missing, the turn failed, or the person said no."""

BAD_ARGUMENTS: Final = 2

SIGNALLED: Final = 128
"""Plus the signal's number: the exit code after a signal, as shells have it."""

PLAN: Final = f"""\
This sends one prompt from an ACP client through the adapter to the real Codex, and back:

  ACP client (this program) -> codex-acp-sdk -> codex app-server -> scripted model

The model is a script served on 127.0.0.1; Codex runs `{COMMAND}` in its read-only sandbox, in a
temporary directory that is removed at the end. No account, no network, no file of yours.
"""


def demo(*, codex: str | None = None, yes: bool = False, wire: bool = False) -> int:
    """Run the demonstration and return its exit code.

    0 only if the turn ended with ``end_turn`` and the text is the script's. ``codex`` names the
    binary; ``yes`` asks nothing; ``wire`` shows each line of the connection.
    """
    if not yes and not (sys.stdin is not None and sys.stdin.isatty()):
        return _complain("standard input is no terminal to ask on; use --yes", BAD_ARGUMENTS)
    try:
        path, binary = find_codex(codex).path, binary_text(codex)
    except LaunchError as error:
        return _complain(str(error), FAILED)
    screen = Screen(sys.stdout, wire=wire)
    screen.plain(PLAN)
    if not yes and not _agreed():
        screen.plain("Nothing was started.")
        return FAILED
    with EndSignals() as ended:
        try:
            return _run(screen, path, binary)
        except KeyboardInterrupt:
            print("\ninterrupted; everything that was started is ended", file=sys.stderr)
            return SIGNALLED + ended.number


def _run(screen: Screen, path: str, binary: str) -> int:
    screen.restart_clock()
    with ScriptedModel(SCRIPT) as model, CodexHome(model.base_url) as home:
        screen.stage("codex", binary)
        screen.stage("model", f"a script at {model.base_url}")
        screen.stage("home", f"{home.root} (temporary)")
        _fill(home.workspace)
        # -P: a module that lies in the current directory must not be taken for one of ours.
        argv = [sys.executable, "-P", "-m", "codex_acp", "serve", "--codex", path]
        child = spawn(argv, _environment(home), name="the adapter")
        client = DemoClient(screen, child, model)
        screen.stage("spawned", f"python -m codex_acp serve, process {child.pid}")
        try:
            result = asyncio.run(client.talk(str(home.workspace)))
        except (CodexAcpError, TimeoutError) as error:
            screen.verdict(False, str(error))
            return FAILED
        finally:
            child.kill_tree()  # does nothing to one that was ended in good order
        root = home.root
    screen.stage("home", "could not be removed" if root.exists() else "removed")
    screen.plain(f"\ntimes in seconds: {result.times}")
    return _judge(screen, result)


def _judge(screen: Screen, result: DemoResult) -> int:
    if result.stop_reason != "end_turn":
        screen.verdict(False, f"the turn ended with {result.stop_reason}, not end_turn")
        return FAILED
    if result.messages != EXPECTED_MESSAGES:
        screen.verdict(False, "the text that arrived is not the script's; expected was:")
        for message in EXPECTED_MESSAGES:
            screen.quote(message)
        return FAILED
    screen.verdict(
        True, "the turn ended with end_turn, and the text is the script's, to the letter"
    )
    return 0


def _fill(workspace: Path) -> None:
    for name, content in WORKSPACE_FILES.items():
        (workspace / name).write_text(content, encoding="utf-8")


def _environment(home: CodexHome) -> dict[str, str]:
    """The home's own, and where Python finds us."""
    env = home.env
    search_path = os.environ.get("PYTHONPATH")
    if search_path:
        env["PYTHONPATH"] = search_path
    return env


def _agreed() -> bool:
    try:
        return input("Start it? [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


def _complain(message: str, code: int) -> int:
    print(f"codex-acp-sdk demo: error: {message}", file=sys.stderr)
    return code
