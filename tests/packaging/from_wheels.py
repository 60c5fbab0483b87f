"""``python -m tests.packaging.from_wheels``: what a user gets, and nothing of the checkout.

Builds both wheels and makes new environments elsewhere. In one of them the commands of the pages
are run (`tests.packaging.run_pages`), then their programs and the examples. Run by
``nox -s wheel``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WAIT_SECONDS = 1200.0
INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'

TESTS = ("tests/docs/test_examples.py", "tests/examples")
"""They run every program of the pages and every example, as a user would."""

NEEDS = ("codex-acp-sdk[codex,fleet,http]", "hypothesis", "pytest>=9")
"""What the examples say that they need, and what runs them."""


def main() -> int:
    """0 if every command ends as it should; else the first one that did not is shown."""
    with tempfile.TemporaryDirectory(prefix="codex-acp-wheel-") as name:
        place = Path(name)
        dist = place / "dist"
        for project in (ROOT, ROOT / "packaging" / "codex-acp"):
            _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(dist), str(project)])
        _names_alone(place, dist)
        _pages(place, dist)
    print("all of it works from the wheels alone")
    return 0


def _names_alone(place: Path, dist: Path) -> None:
    """Every name under which the agent is started, where nothing but `codex-acp` was installed."""
    env, pip = _environment(place / "thin")
    _run([*pip, "--find-links", str(dist), "codex-acp"])
    ours, thin = str(env / "codex-acp-sdk"), str(env / "codex-acp")
    python = str(env / "python")
    _run([python, "-c", f"import codex_acp as c; assert c.__file__.startswith({str(place)!r})"])
    for words in ([ours, "--version"], [thin, "--version"], [ours, "routes"]):
        _run(words, shown=True)
    uvx = ["-m", "uv", "tool", "run", "--quiet", "--python", python, "--find-links", str(dist)]
    for agent in ([ours], [thin], [python, "-m", "codex_acp"], [sys.executable, *uvx, "codex-acp"]):
        said = _run(agent, stdin=INITIALIZE, shown=True)
        if '"agentCapabilities"' not in said:
            message = f"{agent} is no agent: {said}"
            raise SystemExit(message)


def _pages(place: Path, dist: Path) -> None:
    env, pip = _environment(place / "pages")
    python = str(env / "python")
    _run([*pip, "--find-links", str(dist), "codex-acp-sdk[codex,http]"])
    _run([python, "-m", "tests.packaging.run_pages", str(dist)], cwd=ROOT, shown=True)
    _run([*pip, "--find-links", str(dist), *NEEDS])
    _run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=ROOT, shown=True)


def _environment(place: Path) -> tuple[Path, list[str]]:
    """A new one: where its programs are, and its pip."""
    _run([sys.executable, "-m", "venv", str(place)])
    return place / "bin", [str(place / "bin" / "python"), "-m", "pip", "install", "-q"]


def _run(
    command: list[str], *, stdin: str = "", cwd: Path | None = None, shown: bool = False
) -> str:
    """Standard output of a command. Raises SystemExit with all that a failed one said."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if shown:
        print("$", *command, flush=True)
    done = subprocess.run(
        command, cwd=cwd or "/", input=stdin, env=env, capture_output=True, text=True,
        timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        message = f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        raise SystemExit(message)
    if shown:
        print(*(f"    {line[:100]}" for line in done.stdout.splitlines()), sep="\n", flush=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
