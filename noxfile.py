"""The project's chores. `nox` alone runs what CI runs; `nox -l` lists the rest."""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.5"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

EVERYTHING = ("-e", ".[codex,dev]")


@nox.session
def tests(session: nox.Session) -> None:
    """Every test: unit, property, end to end, generated code, style and types."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Only the tests that run the real codex binary."""
    session.install(*EVERYTHING)
    session.run("python", "-m", "pytest", "-m", "e2e", *session.posargs)


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
def bench(session: nox.Session) -> None:
    """Start-up and streaming, side by side with the official adapter where node is there."""
    session.install(*EVERYTHING)
    for name in ("imports", "start", "stream"):
        session.run("python", "-m", f"benchmarks.{name}", *session.posargs)
