"""``codex-acp-sdk demo``: what must be there, the question, and the throw-away surroundings.

The tour itself is in `codex_acp.cli.demo_tour`, what the model does in ``demo_script``.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from codex_acp.cli.demo_script import SCRIPT, SERVER, TOOLS, at_once
from codex_acp.cli.endings import FAILED, SIGNALLED, failed
from codex_acp.cli.loopback import BRING_IT_UP, NO_LOOPBACK, has_loopback
from codex_acp.cli.screen.pipes import is_terminal, opened
from codex_acp.cli.version import binary_text
from codex_acp.codex.connection.codex_binary import find_codex
from codex_acp.errors import LaunchError
from codex_acp.testing import CodexHome, ScriptedMcpServer, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAN: Final = """\
This sends one prompt from an ACP client through the adapter to the real
Codex, and back:

  ACP client (this program) -> codex-acp-sdk -> codex -> scripted model

You see what a client of yours would show: text, commands that are allowed and
refused, a diff, a form, a page, and what is declined. The model is a script on
127.0.0.1; commands run in a temporary directory that is removed at the end.
No account, no network, no file of yours.
"""

HIDDEN: Final = ("CODEX_", "OPENAI_")
"""Of this process's environment nothing that could be an account reaches the demonstration."""

KEPT: Final = ("CODEX_ACP_", "CODEX_PATH")


def demo(
    *, codex: str | None = None, yes: bool = False, wire: bool = False, asks: bool = False
) -> int:
    """Run the tour and return its exit code.

    0 only if all came of it that the script says. ``codex`` names the binary; ``yes`` does not
    ask whether to start; ``wire`` shows each line of the connection; with ``asks`` the person
    answers what the tour asks.
    """
    if not is_terminal(sys.stdin) and (asks or not yes):
        option = "--ask is for a terminal" if asks else "use --yes"
        return failed("demo", f"standard input is no terminal to ask on; {option}")
    try:
        path, binary = find_codex(codex).path, binary_text(codex)
    except LaunchError as error:
        return failed("demo", error, FAILED)
    if not has_loopback():
        return failed("demo", f"{NO_LOOPBACK}; {BRING_IT_UP}", FAILED)
    out = opened(sys.stdout)
    version, _, place = binary.partition(" at ")
    print(f"{PLAN}\nCodex {version} at\n{place}\n", file=out, flush=True)
    if not yes and not _agreed():
        print("Nothing was started.", file=out)
        return FAILED
    with _surroundings(watched=out.isatty()) as (home, server):
        from codex_acp.cli.demo_tour import Tour
        from codex_acp.runtime import AgentSpec

        spec = AgentSpec.codex("--codex", path, env=_environment(home), inherit_env=False)
        code = Tour(spec, home.workspace, server, out, asks=asks, wire=wire).run()
    if code > SIGNALLED:
        print("interrupted; everything that was started is ended", file=sys.stderr)
    return code


def demo_agent(*, codex: str | None = None) -> int:
    """Serve the real Codex with the scripted model to any ACP client, until it goes."""
    if not has_loopback():
        return failed("demo", f"{NO_LOOPBACK}; {BRING_IT_UP}", FAILED)
    from codex_acp.cli.serve import serve
    from codex_acp.codex.connection.launch import LaunchOptions

    with _surroundings(watched=True) as (home, _):
        for name in list(os.environ):
            if name.startswith(HIDDEN) and not name.startswith(KEPT):
                del os.environ[name]
        os.environ.update(home.env)
        code = serve(LaunchOptions(codex=codex))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the directories are still to be removed
        return code


@contextmanager
def _surroundings(*, watched: bool) -> Iterator[tuple[CodexHome, ScriptedMcpServer]]:
    """A model, an MCP server, and a home for Codex that is removed."""
    with (
        TemporaryDirectory(prefix="codex-acp-demo-", ignore_cleanup_errors=True) as folder,
        ScriptedModel(SCRIPT if watched else at_once(SCRIPT)) as model,
    ):
        server = ScriptedMcpServer(folder, TOOLS, name=SERVER)
        with CodexHome(model.base_url, mcp_servers={SERVER: server.config}) as home:
            (home.workspace / "hello.py").write_text('print("hello")\n', encoding="utf-8")
            yield home, server


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
    except KeyboardInterrupt:
        print()
        raise
