"""A directory that pretends to belong to what is trusted brings nothing: contract 7.1."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.session_bench import SessionBench
from tests.e2e.test_trust import SAYS_NO_MORE, run
from tests.support.untrusted_repository import EVERYTHING, Repository

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.attack("repository")]


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


@pytest.mark.parametrize(
    "forge",
    [
        forged_worktree,
        guessed_worktree,
        forged_submodule,
        link_to_git,
        additional,
        through_a_link,
        dotted,
    ],
)
def test_7_1_what_pretends_to_belong_to_a_trusted_repository(
    forge: Callable[[Path, Path], dict[str, object]],
) -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench:
        trusted = bench.home.root / "trusted"
        trusted.mkdir()
        subprocess.run(["git", "init", "-q", str(trusted)], check=True)
        repository = Repository(bench.home)
        with bench.home.config_file.open("a") as config:
            config.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
        repository.configuration_is_as_it_should()
        params = forge(trusted, repository.path)
        with bench.adapter() as adapter:
            answer = adapter.ask("session/new", {"mcpServers": [], **params})
            run(adapter, answer["result"]["sessionId"])
        assert not repository.written()
        assert repository.ran == set()
