"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from codex_acp.transcript import secrets
from tests.support.attack_table import note_attacks, table_of_attacks
from tests.support.codex_version import skip_differences
from tests.support.used_homes import used_homes

REAL_CODEX = ("e2e", "e2e_contract")
"""Folders in which every test runs the real Codex."""


def pytest_configure() -> None:
    """What every run is told before a test is read."""
    # A busy machine must not fail a property: nothing here is timed.
    settings.register_profile(
        "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("untimed")
    # Where no byte code is kept, as in containers, each worker rewrites the asserts of every test,
    # and each adapter that a test starts compiles its modules.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A run in a shell's background ignores Ctrl-C, and what it starts would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """``-n auto``: two workers for a core, as the tests wait for processes half of the time.

    Whoever sets xdist's own variable is not overruled.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 2 * (cores or 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs the real Codex, by where it is; leave out what another one than the wheel's is
    known not to pass."""
    for item in items:
        if item.path.parent.name in REAL_CODEX or item.path.stem.endswith("_with_codex"):
            item.add_marker("e2e")
    skip_differences(items)
    note_attacks(items)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """``-m attack`` ends with the table of attacks."""
    if "attack" in str(config.option.markexpr):
        terminalreporter.section("attacks")
        for line in table_of_attacks(terminalreporter):
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncio is the only backend this library supports."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _used_homes() -> Iterator[None]:
    """A home of Codex is one that it has been started in before."""
    with used_homes():
        yield


@pytest.fixture(autouse=True)
def _secrets_of_one_test() -> Iterator[None]:
    """What one test has told the process as a secret is a word like any other in the next."""
    yield
    secrets._remembered.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a worker reports has to be UTF-8, but some tests are about text that is not."""
    report = yield
    report.sections = [(name, _encodable(text)) for name, text in report.sections]
    if report.longrepr is not None and _encodable(str(report.longrepr)) != str(report.longrepr):
        report.longrepr = _encodable(str(report.longrepr))
    return report


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
