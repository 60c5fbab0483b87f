"""What is trusted, how Codex is asked for it, and what is left out otherwise."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codex_acp.codex.connection.handshake import believes_worktrees
from codex_acp.codex.threads.trust import (
    is_false_worktree,
    trust_arguments,
    trust_edit,
    trust_root,
    undecided_root,
    unused_folders,
    without_false_worktree,
)

ODD = '/a "quoted\\ path.with\tall'


def test_trust_is_in_the_repository_around_a_directory(tmp_path: Path) -> None:
    inside = tmp_path / "repository/a/b"
    inside.mkdir(parents=True)
    assert trust_root(str(inside)) == str(inside)
    (tmp_path / "repository/.git").mkdir()
    assert trust_root(str(inside)) == str(inside), "Codex takes an empty one for none"
    (tmp_path / "repository/.git/HEAD").touch()
    assert trust_root(str(inside)) == str(tmp_path / "repository")
    (tmp_path / "link").symlink_to(inside)
    assert trust_root(str(tmp_path / "link")) == str(tmp_path / "repository")


def test_a_file_in_place_of_git_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile/.git").write_text("gitdir: /home/.git/worktrees/x\n")
    assert trust_root(str(tmp_path / "hostile")) == str(tmp_path / "hostile")


def test_a_worktree_is_one_if_its_repository_says_so_too(tmp_path: Path) -> None:
    root, kept = tmp_path / "tree", tmp_path / "main/.git/worktrees/x"
    root.mkdir()
    kept.mkdir(parents=True)
    assert not is_false_worktree(str(root)), "it says nothing"
    (root / ".git").write_text("gitdir: ../main/.git/worktrees/x\n")
    assert is_false_worktree(str(root))
    os.mkfifo(kept / "gitdir")
    assert is_false_worktree(str(root)), "what would not end is not read"
    for back in (f"{root}/.git", "../../../../tree/.git\n"):
        (kept / "gitdir").unlink()
        (kept / "gitdir").write_text(back)
        assert not is_false_worktree(str(root))
    (root / ".git").write_text("gitdir: ../main/.git/modules/x\n")
    assert not is_false_worktree(str(root)), "a submodule is trusted by itself"


def test_a_git_file_that_ends_early_says_what_stands_before_its_end(tmp_path: Path) -> None:
    real, root = tmp_path / "real", tmp_path / "other"
    kept = real / ".git/worktrees/x"
    kept.mkdir(parents=True)
    root.mkdir()
    (root / ".git").write_text(f"gitdir: {kept}\0 and more\n")
    assert is_false_worktree(str(root)), "the repository does not know of it"
    (kept / "gitdir").write_text(f"{root}/.git\0 and more\n")
    assert not is_false_worktree(str(root))


def test_a_false_worktree_is_untrusted_unless_somebody_has_decided(tmp_path: Path) -> None:
    root = str(tmp_path)
    (tmp_path / ".git").write_text("gitdir: /none/.git/worktrees/x\n")
    untrusted = {"config": {"projects": {root: {"trust_level": "untrusted"}}}}
    configured: Any = {"config": {}, "layers": [{"config": {"sandbox_mode": "workspace-write"}}]}
    assert without_false_worktree({}, root, configured) == untrusted
    silence: tuple[Any, ...] = ({"config": {}}, None)
    for silent in silence:
        expected = {**untrusted, "sandbox": "read-only"}
        assert without_false_worktree({}, root, silent) == expected, "as what nobody knows"
    decided: Any = {"config": {"projects": {root: {"trust_level": "trusted"}}}}
    assert without_false_worktree({}, root, decided) == {}
    assert without_false_worktree(decided, root, configured) == decided, "by the program"


def test_which_codex_believes_them() -> None:
    said = {"0.147.0": True, "0.148.0": True, "0.149.0": False, "0.0.0": False}
    assert {v: believes_worktrees(f"codex_acp_sdk/{v} (Debian)") for v in said} == said


def test_who_has_decided_is_not_asked(tmp_path: Path) -> None:
    def answer(**projects: Any) -> Any:
        return {"config": {"projects": projects or None}}

    directory = str(tmp_path)
    assert undecided_root(directory, answer()) == directory
    assert undecided_root(directory, answer(**{directory: {"trust_level": "untrusted"}})) is None
    assert undecided_root(directory, {}) is None, "nothing is known"


def test_trust_is_kept_under_its_very_name() -> None:
    plain: Any = trust_edit("/place/re.po")
    assert plain["edits"][0]["keyPath"] == 'projects."/place/re.po".trust_level'
    odd: Any = trust_edit(ODD)
    assert odd["edits"][0]["value"] == {ODD: {"trust_level": "trusted"}}


@pytest.mark.parametrize("roots", [["/a"], ["/a b.c", ODD, "/ü"]])
def test_the_arguments_are_toml(roots: list[str]) -> None:
    option, setting = trust_arguments(roots)
    assert option == "-c"
    assert tomllib.loads(setting)["projects"] == {r: {"trust_level": "trusted"} for r in roots}
    assert trust_arguments([]) == []


def test_what_is_left_out_is_looked_for_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "hooks.json").touch()
    name = {"type": "project", "dotCodexFolder": str(tmp_path)}
    gone = {"type": "project", "dotCodexFolder": str(tmp_path / "gone")}
    layers: Any = [
        {"name": name, "config": {}, "disabledReason": "why"},
        {"name": name, "config": {"model": "m"}, "disabledReason": None},
        {"name": gone, "config": {}, "disabledReason": "why"},
        {"name": {"type": "user"}, "config": {"model": "m"}},
    ]
    assert unused_folders({"layers": layers}) == [(str(tmp_path), ["hooks"])]
    assert unused_folders({}) == []
