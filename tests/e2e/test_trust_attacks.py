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
from tests.e2e.test_trust import SAYS_NO_MORE, new, run
from tests.support.untrusted_repository import EVERYTHING, Repository, wait_for

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


def beneath(trusted: Path, theirs: Path) -> dict[str, object]:
    """In a folder of such a one."""
    inside = theirs / "a/b"
    inside.mkdir(parents=True)
    return guessed_worktree(trusted, theirs) | {"cwd": str(inside)}


def _worktree_of(trusted: Path) -> Path:
    """A real one."""
    tree = trusted.with_name(f"{trusted.name}-tree")
    git = ("git", "-C", trusted, "-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run([*git, "commit", "-qm", "x", "--allow-empty"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", "--detach", tree], check=True)
    return tree


def copied_worktree(trusted: Path, theirs: Path) -> dict[str, object]:
    """The ``.git`` file of a real worktree, copied."""
    shutil.rmtree(theirs / ".git")
    shutil.copy(_worktree_of(trusted) / ".git", theirs / ".git")
    return {"cwd": str(theirs)}


def linked_worktree(trusted: Path, theirs: Path) -> dict[str, object]:
    """A link to it: what it leads to is what the repository knows."""
    shutil.rmtree(theirs / ".git")
    (theirs / ".git").symlink_to(_worktree_of(trusted) / ".git")
    return {"cwd": str(theirs)}


def own_administration(trusted: Path, theirs: Path) -> dict[str, object]:
    """It knows of itself, and says that all of it is the trusted repository's."""
    shutil.rmtree(theirs / ".git")
    kept = theirs / "kept/worktrees/x"
    kept.mkdir(parents=True)
    (kept / "commondir").write_text(f"{trusted}/.git\n")
    (kept / "gitdir").write_text(f"{theirs}/.git\n")
    (theirs / ".git").write_text(f"gitdir: {trusted}/../{theirs.name}/kept/worktrees/x\n")
    return {"cwd": str(theirs)}


def nested(trusted: Path, theirs: Path) -> dict[str, object]:
    """A repository inside the trusted one."""
    shutil.move(theirs, trusted / "vendored")
    return {"cwd": str(trusted / "vendored")}


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
    forged_worktree, guessed_worktree, beneath, copied_worktree, linked_worktree,
    own_administration, nested, forged_submodule, link_to_git, additional, through_a_link, dotted,
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


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
def test_7_1_a_stored_session_that_is_opened_there(
    shared: tuple[CodexHome, RawAdapter], method: str
) -> None:
    home, adapter = shared
    session_id = new(adapter, home.workspace)["result"]["sessionId"]
    run(adapter, session_id)
    repository = Repository(home, method.replace("/", "-"))
    params = guessed_worktree(home.root / "trusted-guessed_worktree", repository.path)
    params |= {"sessionId": session_id, "mcpServers": []}
    answer = adapter.ask(method, params)
    run(adapter, answer["result"].get("sessionId", session_id))
    assert not repository.written()
    assert repository.ran == set()


def test_a_real_worktree_of_what_is_trusted_is_trusted() -> None:
    with SessionBench(SAYS_NO_MORE, config=EVERYTHING) as bench:
        trusted = bench.home.root / "trusted"
        subprocess.run(["git", "init", "-q", str(trusted)], check=True)
        tree = _worktree_of(trusted)
        with bench.home.config_file.open("a") as config:
            config.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
        ours = Repository(bench.home)
        shutil.copytree(ours.path / ".codex", tree / ".codex")
        with bench.adapter() as adapter:
            new(adapter, tree)
            wait_for(ours.server_mark)
