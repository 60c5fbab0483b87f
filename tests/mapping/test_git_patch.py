"""A file's change as a git patch: what git itself makes of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from codex_acp.mapping.content import FileDiff
from codex_acp.mapping.v2.updates import git_patch

HUNK = "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"


def applied(root: Path, diff: FileDiff) -> None:
    """Have git apply the patch below ``root``, in which absolute paths begin: as git writes it."""
    patch = git_patch(diff)
    assert patch is not None
    sides = iter("ab")
    head, _, rest = patch.partition("\n")
    head = re.sub(r'(?<= )("?)/', lambda found: f"{found[1]}{next(sides)}/", head)
    rest = re.sub(r'^(---|\+\+\+) ("?)/(?!dev/null)', _as_git, rest, flags=re.M)
    patch = f"{head}\n" + re.sub(r"^(rename \w+) /", r"\1 ", rest, flags=re.M)
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=root, input=patch.encode(), capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr, patch)


def _as_git(found: re.Match[str]) -> str:
    return f"{found[1]} {found[2]}{'a' if found[1] == '---' else 'b'}/"


def test_its_paths_are_absolute_and_have_no_prefix() -> None:
    moved = git_patch(FileDiff("/w/b.py", "move", patch=HUNK, moved_from="/w/a.py"))
    assert moved == (
        "diff --git /w/a.py /w/b.py\nrename from /w/a.py\nrename to /w/b.py\n"
        f"--- /w/a.py\n+++ /w/b.py\n{HUNK}"
    )


def written(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("text", ["", "one\n", "one\ntwo", "a\r\nb\r\n", "\n", "a\x0cb\u2028c\n"])
@pytest.mark.parametrize("name", ["w/a.py", "w/with space", 'w/a"b\\c', "w/\u00e9\t"])
def test_a_new_and_a_deleted_file_are_what_git_makes_of_the_patch(
    tmp_path: Path, name: str, text: str
) -> None:
    applied(tmp_path, FileDiff(f"/{name}", "add", after=text))
    assert (tmp_path / name).read_bytes() == text.encode()
    applied(tmp_path, FileDiff(f"/{name}", "delete", before=text))
    assert not (tmp_path / name).exists()


def test_an_edit_and_a_move_are_what_git_makes_of_the_patch(tmp_path: Path) -> None:
    path = written(tmp_path, "w/a.py", "one\ntwo\n")
    applied(tmp_path, FileDiff("/w/a.py", "modify", patch=HUNK))
    assert path.read_text("utf-8") == "one\n2\n"
    back = "@@ -1,2 +1,2 @@\n one\n-2\n+two\n"
    applied(tmp_path, FileDiff("/w/b c.py", "move", patch=back, moved_from="/w/a.py"))
    assert (tmp_path / "w/b c.py").read_text("utf-8") == "one\ntwo\n"
    applied(tmp_path, FileDiff("/w/d.py", "move", patch="", moved_from="/w/b c.py"))
    assert (tmp_path / "w/d.py").read_text("utf-8") == "one\ntwo\n"


def test_an_edit_whose_hunks_are_not_known_has_no_patch() -> None:
    assert git_patch(FileDiff("/w/a.py", "modify")) is None
