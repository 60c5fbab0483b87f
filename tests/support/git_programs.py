"""Directories whose own git configuration has ``git status`` run a program, which leaves a mark."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha1
from pathlib import Path
from typing import Final

CODEX_STATUS: Final = (
    "-c", "safe.bareRepository=explicit", "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false", "status", "--porcelain",
)  # fmt: skip
"""What Codex runs with each turn; measured on 0.147 and 0.163. 0.169 adds what leaves out
sub-modules that are dirty."""


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git as a user who has configured nothing but a name."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, check=check, capture_output=True, text=True)
    return done.stdout


def as_codex_looks(folder: Path) -> None:
    """Run what Codex runs there."""
    git(folder, *CODEX_STATUS, check=False)


class Planted:
    """A repository with one file that git takes for changed, and a program that leaves a mark."""

    def __init__(self, path: Path, mark: Path) -> None:
        self.path = path
        self.mark = mark
        self.program = f"touch '{mark}'; cat"
        self.filter = f'[filter "evil"]\n\tclean = "{self.program}"\n'
        path.mkdir(parents=True)
        repository(path)

    @property
    def config(self) -> Path:
        """Its own configuration."""
        return self.path / ".git/config"

    def add(self, text: str) -> None:
        """Add to its configuration."""
        with self.config.open("a") as config:
            config.write(text)

    def ran(self) -> bool:
        """Whether the program ran since this was asked last; git looks at the file again."""
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


def repository(path: Path) -> None:
    """Make one with a commit, and a file that was touched since: git filters it to compare it."""
    git(path, "init", "-q")
    (path / "f.txt").write_text("some text\n")
    (path / ".gitattributes").write_text("*.txt filter=evil\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "x")
    os.utime(path / "f.txt", (1, 1))


# What an archive may contain.


def a_filter(it: Planted) -> Path:
    it.add(it.filter)
    return it.path


def a_filter_of_an_old_kind_of_section(it: Planted) -> Path:
    it.add(f'[Filter.EVIL]\n\tClean = "{it.program}"\n')
    return it.path


def a_filter_process(it: Planted) -> Path:
    it.add(f'[filter "evil"]\n\tprocess = "touch \'{it.mark}\'; false"\n')
    return it.path


def a_name_that_ends_early(it: Planted) -> Path:
    """Git takes the name for a text of C."""
    it.add(f'[filter "evil.clean\0"]\n\tx = "{it.program}"\n')
    return it.path


def an_include(it: Planted) -> Path:
    (it.path / "more").write_text(it.filter)
    it.add("[include]\n\tpath = ../more\n")
    return it.path


def an_include_on_a_condition(it: Planted) -> Path:
    (it.path / "more").write_text(it.filter)
    it.add('[includeIf "gitdir:/"]\n\tpath = "../more"\n')
    return it.path


def an_include_of_an_include_through_a_link(it: Planted) -> Path:
    (it.path / "more").write_text(it.filter)
    (it.path / "less").write_text("[include]\n\tpath = more\n")
    (it.path / ".git/link").symlink_to("../less")
    (it.path / ".git/more").symlink_to("../more")
    it.add("[include]\n\tpath = link\n")
    return it.path


def a_configuration_of_the_work_tree(it: Planted) -> Path:
    git(it.path, "config", "extensions.worktreeConfig", "true")
    (it.path / ".git/config.worktree").write_text(it.filter)
    return it.path


def a_linked_work_tree(it: Planted) -> Path:
    tree = it.path.with_name(f"{it.path.name}-tree")
    git(it.path, "worktree", "add", "-q", "--detach", str(tree))
    it.add(it.filter)
    os.utime(tree / "f.txt", (1, 1))
    return tree


def a_git_file(it: Planted) -> Path:
    shutil.move(it.path / ".git", it.path / "hidden")
    (it.path / ".git").write_text("gitdir: hidden\n")
    (it.path / "hidden/config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tworktree = {it.path}\n{it.filter}"
    )
    return it.path


def a_link_for_git(it: Planted) -> Path:
    it.add(it.filter)
    shutil.move(it.path / ".git", it.path / "hidden")
    (it.path / ".git").symlink_to("hidden")
    return it.path


def a_folder_inside(it: Planted) -> Path:
    it.add(it.filter)
    inside = it.path / "a/b"
    inside.mkdir(parents=True)
    return inside


def a_git_directory_that_is_none_in_between(it: Planted) -> Path:
    inside = a_folder_inside(it)
    (inside / ".git/objects").mkdir(parents=True)
    (inside / ".git/HEAD").write_text("no reference\n")
    return inside


def a_head_with_another_blank(it: Planted) -> Path:
    """Git refuses it, and takes the repository around it."""
    inside = a_folder_inside(it)
    repository(inside)
    (inside / ".git/HEAD").write_text("ref:\vrefs/heads/main\n")
    return inside


def a_head_that_is_a_link_to_a_good_one(it: Planted) -> Path:
    """Git reads only where the link leads."""
    inside = a_folder_inside(it)
    repository(inside)
    (inside / ".git/HEAD").rename(inside / ".git/good")
    (inside / ".git/HEAD").symlink_to("good")
    return inside


def a_head_that_is_a_link_to_a_branch_that_has_no_commit(it: Planted) -> Path:
    """Git takes the repository."""
    it.add(it.filter)
    head = it.path / ".git/HEAD"
    head.unlink()
    head.symlink_to("refs/heads/none")
    return it.path


def an_alias_behind_what_git_lfs_writes(it: Planted) -> Path:
    (it.path / ".gitattributes").write_text("*.txt filter=lfs\n")
    it.add('[filter "lfs"]\n\tclean = git lfs clean -- %f\n')
    it.add(f"[alias]\n\tlfs = other\n\tother = \"!touch '{it.mark}'; cat #\"\n")
    return it.path


def a_submodule(it: Planted) -> Path:
    """The outer repository names it in its index alone."""
    inner = it.path / "a folder/inner"
    inner.mkdir(parents=True)
    repository(inner)
    git(it.path, "add", "-f", "a folder/inner")
    git(it.path, "commit", "-qm", "y")
    git(inner, "config", "filter.evil.clean", it.program)
    os.utime(inner / "f.txt", (1, 1))
    return it.path


def a_submodule_in_an_index_of_version_4(it: Planted) -> Path:
    path = a_submodule(it)
    git(path, "update-index", "--index-version", "4")
    return path


def a_submodule_in_a_split_index(it: Planted) -> Path:
    path = a_submodule(it)
    git(path, "update-index", "--split-index")
    return path


def a_submodule_of_an_odd_mode(it: Planted) -> Path:
    """Git looks at some of its bits alone."""
    path = a_submodule(it)
    index = path / ".git/index"
    index.write_bytes(index.read_bytes().replace(b"\0\0\xe0\0", b"\0\0\xe0\1"))
    return path


def a_submodule_in_a_directory_that_the_index_leaves_out(it: Planted) -> Path:
    """It stands in an object of git only, which git reads since the directory is there."""
    path = a_submodule(it)
    it.add("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n")
    (path / ".git/info/sparse-checkout").write_text("/*\n!/*/\n")
    kept = _entries(path)
    left_out = git(path, "rev-parse", "HEAD:a folder").strip()
    entries = [
        kept[".gitattributes"],
        _entry(0o40000, left_out, b"a folder/", 0x4000),
        kept["f.txt"],
    ]
    _write_index(path, 3, entries, b"sdir" + bytes(4))
    return path


def a_submodule_in_a_part_of_the_index_that_a_table_names(it: Planted) -> Path:
    """Git begins there when it reads an index with several threads."""
    path = a_submodule(it)
    it.add("[index]\n\tthreads = 4\n")
    kept = _entries(path)
    entries = [kept[".gitattributes"], kept["f.txt"], kept["f.txt"].replace(b"f.txt", b"g.txt")]
    hidden = kept["a folder/inner"]
    begin = 12 + sum(map(len, entries))
    blocks = [(12, 1), (begin + 8, 1), (12 + len(entries[0]), 1)]
    table = struct.pack(">I6I", 1, *(number for block in blocks for number in block))
    parts = [(b"ZZZZ", hidden), (b"IEOT", table)]
    heads = [name + struct.pack(">I", len(part)) for name, part in parts]
    end = struct.pack(">4sII", b"EOIE", 24, begin) + sha1(b"".join(heads)).digest()
    more = b"".join(head + part for head, (_, part) in zip(heads, parts, strict=True))
    _write_index(path, 2, entries, more + end)
    return path


def a_git_file_that_ends_early(it: Planted) -> Path:
    """Git takes it for a text of C."""
    a_git_file(it)
    (it.path / ".git").write_text("gitdir: hidden\0 and more\n")
    return it.path


def a_submodule_and_the_format_of_another_repository(it: Planted) -> Path:
    """Git takes the format from the configuration itself, not from what that includes."""
    path = a_submodule(it)
    (it.path / "more").write_text("[extensions]\n\tobjectFormat = sha256\n")
    it.add("[include]\n\tpath = ../more\n")
    index = path / ".git/index"
    index.write_bytes(index.read_bytes()[:-20] + bytes(20))
    return path


def _entry(mode: int, name_of_object: str, path: bytes, more_flags: int = 0) -> bytes:
    flags = [len(path)] if not more_flags else [0x4000 | len(path), more_flags]
    entry = struct.pack(">6II3I", *[0] * 6, mode, *[0] * 3)
    entry += bytes.fromhex(name_of_object) + struct.pack(f">{len(flags)}H", *flags) + path
    return entry + bytes(8 - len(entry) % 8)


def _entries(path: Path) -> dict[str, bytes]:
    """Return the entries of its index as they stand there, without what was known of the files."""
    found = {}
    for line in git(path, "ls-files", "-s").splitlines():
        about, name = line.split("\t")
        mode, name_of_object, _ = about.split()
        found[name] = _entry(int(mode, 8), name_of_object, name.encode())
    return found


def _write_index(path: Path, version: int, entries: Sequence[bytes], more: bytes) -> None:
    data = struct.pack(">4sII", b"DIRC", version, len(entries)) + b"".join(entries) + more
    (path / ".git/index").write_bytes(data + sha1(data).digest())


def a_remote_that_git_fetches_from_by_itself(it: Planted) -> Path:
    it.add(
        "[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = /nowhere\n\tuploadpack = "touch \'{it.mark}\'; false"\n'
    )
    _lose_objects(it)
    return it.path


def a_remote_by_ssh(it: Planted) -> Path:
    it.add(
        f"[core]\n\tsshCommand = \"touch '{it.mark}'; false\"\n"
        '[remote "origin"]\n\turl = nobody@localhost:x\n\tpromisor = true\n'
    )
    _lose_objects(it)
    return it.path


def a_remote_that_is_a_program(it: Planted) -> Path:
    it.add(
        '[protocol "ext"]\n\tallow = always\n[remote "origin"]\n\tpromisor = true\n'
        f"\turl = \"ext::sh -c touch% '{it.mark}'\"\n"
    )
    _lose_objects(it)
    return it.path


def another_url_in_place_of_the_remotes(it: Planted) -> Path:
    it.add(
        "[protocol]\n\tallow = always\n"
        '[remote "origin"]\n\tpromisor = true\n\turl = https://localhost/x\n'
        f'[url "ext::sh -c touch% {it.mark}% #"]\n\tinsteadOf = https://\n'
    )
    _lose_objects(it)
    return it.path


def _lose_objects(it: Planted) -> None:
    """All but the commit, which the work tree is compared with."""
    commit = git(it.path, "rev-parse", "HEAD").strip()
    for found in (it.path / ".git/objects").glob("??/*"):
        if found.parent.name + found.name != commit:
            found.unlink()


WAYS: Final[Mapping[str, Callable[[Planted], Path]]] = {
    way.__name__.replace("_", " "): way
    for way in (
        a_filter, a_filter_of_an_old_kind_of_section, a_filter_process, a_name_that_ends_early,
        an_include, an_include_on_a_condition, an_include_of_an_include_through_a_link,
        a_configuration_of_the_work_tree, a_linked_work_tree, a_git_file, a_link_for_git,
        a_folder_inside, a_git_directory_that_is_none_in_between, a_head_with_another_blank,
        a_head_that_is_a_link_to_a_good_one, a_head_that_is_a_link_to_a_branch_that_has_no_commit,
        an_alias_behind_what_git_lfs_writes,
        a_submodule,
        a_submodule_in_an_index_of_version_4, a_submodule_in_a_split_index,
        a_submodule_of_an_odd_mode, a_submodule_in_a_directory_that_the_index_leaves_out,
        a_submodule_in_a_part_of_the_index_that_a_table_names, a_git_file_that_ends_early,
        a_submodule_and_the_format_of_another_repository,
        a_remote_that_git_fetches_from_by_itself, a_remote_by_ssh, a_remote_that_is_a_program,
        another_url_in_place_of_the_remotes,
    )
}  # fmt: skip
"""Each makes of a planted repository one whose program git runs, and gives what is opened."""
