"""Homes in which the real Codex has been before, for tests that do not care for its first start.

In a new `CODEX_HOME` Codex makes five databases, which costs as much as the rest of its start. It
does so once in each test process; every `CodexHome` of it gets a copy of them. And for its user
agent Codex runs Debian's `lsb_release`, a script of ten processes, twice: here it just fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome
from tests.testing.codex_driver import CodexDriver


@contextmanager
def used_homes() -> Iterator[None]:
    """Inside, each `CodexHome` begins with the databases of a Codex that has done nothing yet."""
    enter = CodexHome.__enter__
    environ = dict(os.environ)  # a test may name another Codex

    @cache
    def used(place: Path) -> list[Path]:
        home = CodexHome(parent=place)
        enter(home)
        binary = find_codex(environ=environ).path
        with CodexDriver(home.env, home.workspace, binary) as codex:
            codex.request("initialize", {"clientInfo": {"name": "tests", "version": "1"}})
        return list(home.codex_home.glob("*.sqlite*"))

    def enter_used(home: CodexHome) -> CodexHome:
        enter(home)
        for database in used(Path(place)):
            shutil.copyfile(database, home.codex_home / database.name)
        return home

    with TemporaryDirectory(prefix="used-home-") as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(CodexHome, "__enter__", enter_used)
        (Path(place) / "bin").mkdir()
        (Path(place) / "bin/lsb_release").symlink_to("/bin/false")
        patch.setenv("PATH", f"{place}/bin", prepend=os.pathsep)
        yield
