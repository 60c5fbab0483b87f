"""``python -m tests.packaging.from_wheels``: what a user gets, and nothing of the checkout.

Builds both wheels, installs them into a new environment elsewhere, and runs there the commands and
the programs of README and the tutorials, with a scripted model. Run by ``nox -s wheel``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WAIT_SECONDS = 600.0
INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'

PAGES = ("README.md", *(f"docs/tutorials/{n}.md" for n in ("codex-from-python", "any-agent")))
"""The pages whose Python are whole programs for a user."""

RUNNER = """
import subprocess, sys
from codex_acp.testing import CodexHome, ScriptedModel, Text

with ScriptedModel([[Text("Nothing ", "at all.")]]) as model, CodexHome(model.base_url) as home:
    done = subprocess.run(sys.argv[1:], cwd=home.workspace, env=home.env, timeout=300)
    sys.exit(done.returncode or (0 if model.requests else 9))
"""
"""Runs a command where the user's own Codex would be the scripted one, which must be asked."""


def main() -> int:
    """0 if every command ends as it should; else the first one that did not is shown."""
    with tempfile.TemporaryDirectory(prefix="codex-acp-wheel-") as name:
        place = Path(name)
        dist, env = place / "dist", place / "venv"
        for project in (ROOT, ROOT / "packaging" / "codex-acp"):
            _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(dist), str(project)])
        _run([sys.executable, "-m", "venv", str(env)])
        pip = [str(env / "bin" / "python"), "-m", "pip", "install", "-q"]
        _run([*pip, "--find-links", str(dist), "codex-acp"])
        for command, stdin in _commands(env / "bin", place):
            print("$", *(word if len(word) < 80 else "…" for word in command), flush=True)
            said = _run(command, stdin=stdin, cwd=place)
            print("   ", (said.strip().splitlines() or ["(nothing)"])[-1], flush=True)
    print("all of it works from the wheels alone")
    return 0


def _commands(bin_dir: Path, place: Path) -> Iterator[tuple[list[str], str]]:
    """(command, standard input) of all that the pages tell a user to run."""
    ours, python = str(bin_dir / "codex-acp-sdk"), str(bin_dir / "python")
    yield [python, "-c", f"import codex_acp as c; assert c.__file__.startswith({str(place)!r})"], ""
    for words in ("--version", "demo --yes", "routes"):
        yield [ours, *words.split()], ""
    for agent in ([ours], [str(bin_dir / "codex-acp"), "serve"], [python, "-m", "codex_acp"]):
        yield agent, INITIALIZE
    scripted = [python, "-c", RUNNER]
    yield [*scripted, ours, "run", "What is in this directory?"], ""
    for page in PAGES:
        text = (ROOT / page).read_text()
        for program in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if "output_type" not in program:  # the scripted model's words are no JSON
                yield [*scripted, python, "-c", program], "n\n"


def _run(command: list[str], *, stdin: str = "", cwd: Path | None = None) -> str:
    """Standard output of a command. Raises SystemExit with all that a failed one said."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command, cwd=cwd, input=stdin, env=env, capture_output=True, text=True,
        timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        message = f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        raise SystemExit(message)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
