"""Any version of Codex, unpacked with all that stands beside it, to run the tests with."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from codegen.binaries import binary
from codegen.errors import FetchFailed
from codegen.progress import Progress
from tests.support.fake_registries import FakeRegistries, install


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRegistries:
    return install(tmp_path / "registries", monkeypatch)


@pytest.mark.parametrize("source", ["pypi", "npm"])
def test_a_binary_is_fetched_once_and_can_be_run(
    registries: FakeRegistries, tmp_path: Path, source: str
) -> None:
    made = registries.binary("1.0.0", {})
    if source == "pypi":
        registries.wheel("1.0.0", made)
    else:
        registries.npm_codex("1.0.0", made)
    first, again = io.StringIO(), io.StringIO()
    path = binary("1.0.0", tmp_path / "kept", Progress(first))
    assert os.access(path, os.X_OK)
    assert binary("1.0.0", tmp_path / "kept", Progress(again)) == path
    assert "unpacked … done" in first.getvalue()
    assert again.getvalue() == ""


def test_an_archive_that_is_cut_off_leaves_nothing(
    registries: FakeRegistries, tmp_path: Path
) -> None:
    wheel = registries.wheel("1.0.0", registries.binary("1.0.0", {}))
    wheel.write_bytes(wheel.read_bytes()[:-50])
    with pytest.raises(FetchFailed, match="cut off"):
        binary("1.0.0", tmp_path / "kept", Progress(io.StringIO()))
    assert list((tmp_path / "kept").iterdir()) == []
