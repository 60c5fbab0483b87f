"""A directory that pretends to belong to what is trusted brings nothing: contract 7.1."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.session_bench import SessionBench
from tests.e2e.test_trust import SAYS_NO_MORE, run
from tests.support.untrusted_repository import EVERYTHING, Repository

pytestmark = pytest.mark.attack("repository")


def forged_worktree(trusted: Path, theirs: Path) -> dict[str, object]:
    """A ``.git`` file that says to be a worktree of a repository that is trusted."""
    (trusted / ".git/worktrees/x").mkdir(parents=True)
    (trusted / ".git/worktrees/x/commondir").write_text("../..\n")
    shutil.rmtree(theirs / ".git")
    (theirs / ".git").write_text(f"gitdir: {trusted}/.git/worktrees/x\n")
    return {"cwd": str(theirs)}


def guessed_worktree(trusted: Path, theirs: Path) -> dict[str, object]:
    """The same, of a worktree that is not there."""
    shutil.rmtree(theirs / ".git")
    (theirs / ".git").write_text(f"gitdir: {trusted}/.git/worktrees/none\n")
    return {"cwd": str(theirs)}


def forged_submodule(trusted: Path, theirs: Path) -> dict[str, object]:
    shutil.rmtree(theirs / ".git")
    (theirs / ".git").write_text(f"gitdir: {trusted}/.git/modules/x\n")
    return {"cwd": str(theirs)}


def link_to_git(trusted: Path, theirs: Path) -> dict[str, object]:
    shutil.rmtree(theirs / ".git")
    (theirs / ".git").symlink_to(trusted / ".git")
    return {"cwd": str(theirs)}


def additional(trusted: Path, theirs: Path) -> dict[str, object]:
    return {"cwd": str(trusted), "additionalDirectories": [str(theirs)]}


def through_a_link(trusted: Path, theirs: Path) -> dict[str, object]:
    """In a trusted directory a link leads to theirs."""
    (trusted / "link").symlink_to(theirs)
    return {"cwd": str(trusted / "link")}


def dotted(trusted: Path, theirs: Path) -> dict[str, object]:
    return {"cwd": f"{trusted}/../{theirs.name}"}


FORGERIES = (
    forged_worktree, guessed_worktree, forged_submodule, link_to_git, additional, through_a_link,
    dotted,
)  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[CodexHome, RawAdapter]]:
    """One adapter for all; for each forgery the user trusts a repository."""
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench:
        with bench.home.config_file.open("a") as config:
            for forge in FORGERIES:
                trusted = bench.home.root / f"trusted-{forge.__name__}"
                subprocess.run(["git", "init", "-q", str(trusted)], check=True)
                config.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
        with bench.adapter() as adapter:
            yield bench.home, adapter


@pytest.mark.parametrize("forge", FORGERIES)
def test_7_1_what_pretends_to_belong_to_a_trusted_repository(
    shared: tuple[CodexHome, RawAdapter], forge: Callable[[Path, Path], dict[str, object]]
) -> None:
    home, adapter = shared
    repository = Repository(home, forge.__name__)
    params = forge(home.root / f"trusted-{forge.__name__}", repository.path)
    answer = adapter.ask("session/new", {"mcpServers": [], **params})
    run(adapter, answer["result"]["sessionId"])
    assert not repository.written()
    assert repository.ran == set()
