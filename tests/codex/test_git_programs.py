"""What git would run for a directory is found without git; git itself is the judge of that."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.codex.threads.git_programs import (
    Look,
    look,
    look_within,
    parse,
    programs,
    submodules,
)
from tests.support.git_programs import WAYS, Planted, as_codex_looks, git, repository

LFS = """
[filter "lfs"]
\tclean = git-lfs clean -- %f
\tsmudge = git-lfs smudge -- %f
\tprocess = git-lfs filter-process
\trequired = true
[lfs]
\trepositoryformatversion = 0
"""

ORDINARY = """
[core]
\tfilemode = true
\thooksPath = .husky/_
\tfsmonitor = true
\teditor = vim
[user]
\tname = A
\tsigningkey = 1234
[commit]
\tgpgsign = true
[remote "origin"]
\turl = git@example.org:a/b.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
\tpromisor = true
\tpartialclonefilter = blob:none
[remote "local"]
\turl = ../elsewhere
\tpushurl = /srv/git/x.git
[branch "clean"]
\tremote = origin
\tmerge = refs/heads/clean
[url "https://example.org/"]
\tinsteadOf = x:
[alias]
\tco = checkout
\thelper = !ls
[submodule "a"]
\turl = ../a
\tactive = true
[credential]
\thelper =
[diff]
\talgorithm = histogram
"""


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path / "theirs", tmp_path / "mark")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.attack("repository")
def test_7_1b_what_git_runs_is_found_without_running_it(
    planted: Planted, way: Callable[[Planted], Path]
) -> None:
    directory = way(planted)
    found = look(str(directory))
    assert not planted.ran()
    as_codex_looks(directory)
    assert planted.ran(), "git runs nothing there: the test tests nothing"
    assert found.programs, "it was not found"


@pytest.mark.parametrize("config", [LFS, ORDINARY, ""])
def test_an_ordinary_repository_names_nothing(planted: Planted, config: str) -> None:
    planted.add(config)
    assert not look(str(planted.path)).programs


def test_what_git_lfs_writes_is_well_known_only_as_it_writes_it(planted: Planted) -> None:
    planted.add(LFS.replace("clean -- %f", "clean -- %f && id"))
    (found,) = look(str(planted.path)).programs
    assert (found.key, found.value) == ("filter.lfs.clean", "git-lfs clean -- %f && id")
    assert found.file == str(planted.config)


def test_a_directory_without_git_names_nothing(tmp_path: Path) -> None:
    assert not look(str(tmp_path)).programs
    assert not look(str(tmp_path / "none")).programs


def test_a_repository_of_its_own_hides_the_one_around_it(planted: Planted) -> None:
    planted.add(planted.filter)
    inner = planted.path / "inner"
    inner.mkdir()
    repository(inner)
    assert not look(str(inner)).programs
    assert look(str(planted.path)).programs


def holds(found: Look) -> bool:
    return found.is_current


def test_a_look_holds_until_something_changes(planted: Planted) -> None:
    first = look(str(planted.path))
    assert holds(first)
    planted.add("[include]\n\tpath = ../later\n")
    assert not holds(first)
    second = look(str(planted.path))
    assert holds(second)
    assert not second.programs
    (planted.path / "later").write_text(planted.filter)
    assert not holds(second)
    assert look(str(planted.path)).programs


@pytest.mark.attack("repository")
def test_a_look_holds_only_while_the_directory_leads_where_it_led(tmp_path: Path) -> None:
    clean, evil = tmp_path / "clean", Planted(tmp_path / "evil", tmp_path / "mark")
    clean.mkdir()
    repository(clean)
    evil.add(evil.filter)
    link = tmp_path / "link"
    link.symlink_to(clean)
    first = look(str(link))
    assert holds(first)
    link.unlink()
    link.symlink_to(evil.path)
    assert not holds(first)
    assert look(str(link)).programs


@pytest.mark.attack("repository")
@pytest.mark.parametrize("blanks", [246, 247])
def test_a_head_is_read_as_far_as_git_reads_it(planted: Planted, blanks: int) -> None:
    planted.add(planted.filter)
    inner = planted.path / "inner"
    for name in ("objects", "refs"):
        (inner / name).mkdir(parents=True)
    (inner / "HEAD").write_text(f"ref:{' ' * blanks}refs/heads/x")
    found = subprocess.run(
        ["git", "rev-parse", "--git-dir"], cwd=inner, capture_output=True, text=True, check=True
    )
    is_outer = found.stdout.strip() != "."
    assert is_outer == (blanks > 246)
    assert bool(look(str(inner)).programs) == is_outer


@pytest.mark.parametrize("lost", ["refs", "objects", "HEAD"])
def test_a_look_that_ended_at_a_repository_holds_only_while_git_takes_it(
    planted: Planted, lost: str
) -> None:
    planted.add(planted.filter)
    inner = planted.path / "inner"
    inner.mkdir()
    repository(inner)
    first = look(str(inner))
    assert (first.programs, holds(first)) == ((), True)
    (inner / ".git" / lost).rename(inner / ".git/away")
    assert not holds(first)
    assert look(str(inner)).programs


@pytest.mark.attack("repository")
def test_an_alias_that_a_program_needs_is_named_with_it(planted: Planted) -> None:
    planted.add(
        "[alias]\n\tst = status\n\ttidy = more\n\tmore = !id\n"
        '[filter "evil"]\n\tclean = git tidy %f\n'
    )
    assert [each.key for each in look(str(planted.path)).programs] == [
        "filter.evil.clean", "alias.tidy", "alias.more",
    ]  # fmt: skip


# Bad input.


def a_configuration_of_100_megabytes(it: Planted) -> None:
    it.add("\n" * 100_000_000)


def a_configuration_of_a_million_entries(it: Planted) -> None:
    it.add("a\n" * 500_000)
    (it.path / ".git/config.worktree").write_text("[a]\n" + "b\n" * 500_000)


def includes_in_circles(it: Planted) -> None:
    it.add("[include]\n\tpath = config\n")


def includes_that_multiply(it: Planted) -> None:
    for depth in range(10):
        (it.path / f".git/i{depth}").write_text(f"[include]\n\tpath = i{depth + 1}\n" * 100)
    it.add("[include]\n\tpath = i0\n")


def a_pipe_as_configuration(it: Planted) -> None:
    it.config.unlink()
    os.mkfifo(it.config)


def a_pipe_as_include(it: Planted) -> None:
    os.mkfifo(it.path / "pipe")
    it.add("[include]\n\tpath = ../pipe\n")


def a_pipe_for_git(it: Planted) -> None:
    shutil.rmtree(it.path / ".git")
    os.mkfifo(it.path / ".git")


def a_device_as_include(it: Planted) -> None:
    it.add("[include]\n\tpath = /dev/zero\n")


def links_in_circles(it: Planted) -> None:
    (it.path / "a").symlink_to("b")
    (it.path / "b").symlink_to("a")
    it.add("[include]\n\tpath = ../a\n")


def a_path_that_each_process_sees_otherwise(it: Planted) -> None:
    (it.path / "more").write_text(it.filter)
    it.add("[include]\n\tpath = /proc/self/cwd/more\n")


def a_link_that_each_process_sees_otherwise(it: Planted) -> None:
    shutil.move(it.path / ".git", it.path / "hidden")
    (it.path / ".git").symlink_to("/proc/self/cwd/hidden")


def what_is_no_configuration(it: Planted) -> None:
    it.config.write_bytes(b"\xff\xfe\0[filter\n")


def what_is_no_index(it: Planted) -> None:
    (it.path / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\xff\xff" + b"\0\0\xe0\0" * 30)


@pytest.mark.attack("repository")
def test_7_1b_a_directory_that_each_process_sees_otherwise_is_told_as_a_program(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted.path)
    (planted.path / "here").symlink_to("/proc/self/cwd")
    found = look(f"{planted.path}/here")
    assert [each.key for each in found.programs] == [""]
    assert found.is_current
    assert [each.key for each in look(".").programs] != [""], "a relative directory is known"


async def test_a_look_that_failed_is_never_current() -> None:
    async def fails(_look: Callable[[], Look]) -> Look:
        raise OSError

    for directory in ("/proc/self/cwd", "a\0b"):
        found = await look_within(directory, fails)
        assert [each.key for each in found.programs] == [""]
        assert not found.is_current


BAD = (
    a_configuration_of_100_megabytes, a_configuration_of_a_million_entries, includes_in_circles,
    includes_that_multiply, a_pipe_as_configuration, a_pipe_as_include, a_pipe_for_git,
    a_device_as_include,
    links_in_circles, a_path_that_each_process_sees_otherwise,
    a_link_that_each_process_sees_otherwise, what_is_no_configuration, what_is_no_index,
)  # fmt: skip


@pytest.mark.parametrize("make", BAD, ids=[each.__name__.replace("_", " ") for each in BAD])
@pytest.mark.attack("repository")
def test_7_1b_what_cannot_be_read_is_told_as_a_program(
    planted: Planted, make: Callable[[Planted], None]
) -> None:
    make(planted)
    began = time.monotonic()
    found = look(str(planted.path)).programs
    assert time.monotonic() - began < 30
    assert found
    assert all(each.key == "" and each.value for each in found)


@pytest.mark.attack("repository")
@pytest.mark.parametrize("line", [b"#\n", b" ;\n", b"b\n", b'b=""""\n', b"b=\\t\\t\n", b"[a]\n"])
def test_7_1b_no_configuration_takes_more_than_20_megabytes(line: bytes) -> None:
    data = b"[a]\n" + line * (710_000 // len(line))
    tracemalloc.start()
    try:
        with suppress(ValueError):
            parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_7_1b_names_that_are_not_utf_8(planted: Planted) -> None:
    with planted.config.open("ab") as config:
        config.write(b'[filter "\xff"]\n\tclean = \xfe\xe2\x80\xae\n')
    (found,) = look(str(planted.path)).programs
    assert "\u202e" not in found.description
    assert found.description.isprintable()
    found.description.encode()


# The parser, against git.

_PIECES = st.sampled_from(
    [
        *"[]\"\\\n\r\t =#;.-_1aZ", "\r\n", "\\n", '\\"', "\\\n", "[core]", "filter", "clean",
        '[filter "E v"]', '\n\tclean = sh -c "a;b" # c\n', "\N{RIGHT-TO-LEFT OVERRIDE}",
        "\ufeff", '[a.B "C.d"] k=v', "é",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(text=st.lists(_PIECES, max_size=14).map("".join))
def test_it_reads_as_git_does(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "config-of-git"
    file.write_bytes(text.encode())
    command = ["git", "config", "--list", "-z", "--file", str(file)]
    said = subprocess.run(command, capture_output=True, check=False)
    try:
        entries = parse(text.encode())
    except ValueError:
        assert said.returncode != 0
        return
    assert said.returncode == 0, said.stderr
    theirs = [entry.partition("\n") for entry in said.stdout.decode().split("\0")[:-1]]
    ours = [(name, None if value is None else value.split()) for name, value in entries]
    assert ours == [(name, value.split() if equals else None) for name, equals, value in theirs]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("[diff]\nexternal = x", True),
        ('[diff "a"]\ntextconv = x', True),
        ('[diff "a"]\ncommand = x', True),
        ('[merge "a"]\ndriver = x', True),
        ('[credential "https://a"]\nhelper = !x', True),
        ("[core]\naskPass = x", True),
        ("[core]\nfsmonitor = ./x", True),
        ("[core]\nfsmonitor = true", False),
        ("[core]\nfsmonitor = 99999999999", True),
        ("[advice]\nignoredHook = false", False),
        *(
            (f"{section}\n{key} = {value}", True)
            for value in ("yes", "true", "on", "off", "1", "False", "7k")
            for section, key in (
                ('[filter "x"]', "clean"),
                ('[filter "x"]', "process"),
                ('[merge "x"]', "driver"),
                ('[diff "x"]', "textconv"),
                ('[diff "x"]', "command"),
                ("[diff]", "external"),
                ("[core]", "sshCommand"),
                ("[core]", "askPass"),
                ("[credential]", "helper"),
                ("[gpg]", "program"),
                ("[uploadpack]", "packObjectsHook"),
                ('[remote "x"]', "uploadpack"),
                ('[remote "x"]', "vcs"),
                ("[core]", "gitProxy"),
            )
        ),
        ("[core]\nalternateRefsCommand = x", True),
        ('[gpg "ssh"]\ndefaultKeyCommand = x', True),
        ('[hook "a"]\ncommand = x', True),
        ('[lfs "extension.a"]\nclean = x', True),
        ("[some]\nnewProgram = x", True),
        ('[remote "a"]\nvcs = x', True),
        ('[remote "a"]\nurl = x::y', True),
        ('[remote "a"]\nurl = x://y', True),
        ('[remote "a"]\npromisor = true', True),
        ('[remote "a"]\npromisor = true\nurl = ./b', True),
        ('[remote "a"]\npromisor = true\nurl = https://b', False),
        ('[remote "a"]\nurl = user@host:path', False),
        ('[url "/x"]\ninsteadOf = https://', True),
        ("[protocol]\nallow = always", True),
        ('[protocol "file"]\nallow = always', False),
        ('[protocol "ext"]\nallow = never', False),
        ('[filter "a"]\nclean', False),
        ('[filter "a"]\nclean =', False),
        ('[filter "a"]\nrequired = true', False),
        ("[pager]\nclean = less", False),
        ('[difftool "a"]\ncmd = x', False),
    ],
)
def test_which_keys_name_a_program(config: str, named: bool) -> None:
    assert bool(programs([("config", parse(config.encode()))])) is named


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_submodules_of_an_index(tmp_path: Path, version: str, kind: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={kind}")
    names = ["a", "a folder/b", "é", *(f"sub/{number:03}" for number in range(50))]
    blank = "1" * (40 if kind == "sha1" else 64)
    (tmp_path / "file").touch()
    git(tmp_path, "add", "-N", "file")  # an entry with more flags
    for name in names:
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{blank},{name}")
    git(tmp_path, "update-index", "--index-version", version)
    index = (tmp_path / ".git/index").read_bytes()
    found = submodules(index, 20 if kind == "sha1" else 32)
    assert sorted(found) == sorted((name, False) for name in names)


def _read_otherwise() -> dict[str, bytes]:
    """Return what git takes for other entries than a reader who ends a name at its first NUL."""
    entry = struct.pack(">24xI32xH3s1x", 0o100644, 3, b"abc")
    head = struct.pack(">4sII", b"DIRC", 2, 1)
    longer = struct.pack(">24xI32xH5s5x", 0o100644, 5, b"a\0bcd")
    more = struct.pack(">24xI32xH3s1x", 0o100644, 0x4003, b"abc")
    split = struct.pack(">24xI32xH2x", 0o160000, 0)
    table = struct.pack(">4s4I", b"IEOT", 12, 1, 20, 1)
    return {
        "a longer name": head + longer,
        "flags of another version": head + more,
        "a name in another file": head + split,
        "another place": head + entry + table,
        "two tables": head + entry + table.replace(b"\x14", b"\x0c") + table,
        "an end": head + entry[:30],
    }


@pytest.mark.parametrize("data", _read_otherwise().values(), ids=_read_otherwise())
@pytest.mark.attack("repository")
def test_7_1b_what_git_could_read_otherwise_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="it is"):
        list(submodules(data + bytes(20), 20))


def test_an_index_that_several_threads_read_is_an_ordinary_one(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "index.threads", "4")
    names = "".join(f"100644 {'1' * 40}\tf{number:07}\n" for number in range(20_001))
    command = ["git", "update-index", "--index-info"]
    subprocess.run(command, cwd=tmp_path, input=names.encode(), check=True)
    assert b"IEOT" in (tmp_path / ".git/index").read_bytes()
    assert not look(str(tmp_path)).programs
