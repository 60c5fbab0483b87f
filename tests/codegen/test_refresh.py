"""New schemas are fetched, checked and put in place as a whole, or nothing changes at all."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from codegen import refresh as module
from codegen import swap as swapping
from codegen.bundles import CODEX_FILES, read_schema_set
from codegen.errors import BrokenSchema, CodegenError, FetchFailed
from codegen.pinned import ROOT, read_pins
from codegen.progress import Progress
from codegen.refresh import Wanted, refresh
from tests.support import small_protocol
from tests.support.fake_registries import WRITES, FakeRegistries, install

OLD, NEW, OLDER = "1.0.0", "1.1.0", "0.9.0"


def bundles(version: str) -> dict[str, bytes]:
    """``experimental`` and ``stable`` of a version, as its binary would write them."""
    files = small_protocol.files(_new if version == NEW else None).files
    return {
        name: json.dumps(files[key]).encode()
        for name, key in zip(("experimental", "stable"), CODEX_FILES, strict=True)
    }


def _new(definitions: dict[str, Any]) -> None:
    definitions["ServerRequest"]["oneOf"].append(small_protocol.method("new/ask", "AskParams"))


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRegistries:
    return install(tmp_path / "registries", monkeypatch)


@pytest.fixture(scope="module")
def old_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ``schema/`` of the old version, whatever the project's own is."""
    schema = tmp_path_factory.mktemp("old") / "schema"
    schema.mkdir()
    (schema / "codex").mkdir()
    files = {}
    for name, data in bundles(OLD).items():
        (schema / "codex" / f"{name}.json").write_bytes(data)
        files[f"codex/{name}.json"] = hashlib.sha256(data).hexdigest()
    pin = {"package": "pypi:openai-codex-cli-bin", "version": OLD, "command": "x", "files": files}
    (schema / "PINNED.json").write_text(json.dumps({"sources": [pin]}))
    (schema / "README.md").write_text("about the schemas\n")
    return schema


@pytest.fixture
def root(old_schema: Path, tmp_path: Path) -> Path:
    """A project with the old schema, and the real source."""
    place = tmp_path / "project"
    place.mkdir()
    shutil.copytree(old_schema, place / "schema")
    (place / "src").symlink_to(ROOT / "src")
    return place


def picture(root: Path) -> dict[str, bytes]:
    """Every file of the project but its source."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "src" not in path.relative_to(root).parts
    }


def run(root: Path, wanted: Wanted) -> str:
    """Refresh; gives what was shown on the way."""
    shown = io.StringIO()
    refresh(wanted, root, Progress(shown))
    return shown.getvalue()


def test_a_version_on_pypi_comes_from_its_wheel(root: Path, registries: FakeRegistries) -> None:
    binary = registries.binary(NEW, bundles(NEW))
    wheel = registries.wheel(NEW, binary)
    shown = run(root, Wanted(codex=NEW))
    pins = read_pins(root / "schema")
    assert pins["codex/experimental.json"].package == "pypi:openai-codex-cli-bin"
    assert pins["codex/experimental.json"].version == NEW
    for name, data in bundles(NEW).items():
        assert (root / "schema" / "codex" / f"{name}.json").read_bytes() == data
    source = json.loads((root / "schema" / "PINNED.json").read_text())["sources"][0]
    assert source["integrity"].startswith("sha256-")
    assert "from PyPI … done" in shown
    assert wheel.exists()


def test_another_version_comes_from_npm(root: Path, registries: FakeRegistries) -> None:
    registries.npm_codex(NEW, registries.binary(NEW, bundles(NEW)))
    shown = run(root, Wanted(codex=NEW))
    assert read_pins(root / "schema")["codex/stable.json"].package == "npm:@openai/codex"
    assert "from PyPI … not there" in shown
    assert "from npm … done" in shown


def test_the_report_goes_into_the_changelog_and_the_old_version_stays_readable(
    root: Path, registries: FakeRegistries
) -> None:
    registries.wheel(NEW, registries.binary(NEW, bundles(NEW)))
    run(root, Wanted(codex=NEW))
    assert f"## Codex app-server {OLD} → {NEW}\n" in (root / "CHANGELOG.md").read_text()
    older = read_schema_set(root / "schema" / "codex" / "older" / f"{OLD}.json.xz")
    assert older.versions == {"codex": OLD}
    assert (root / "schema" / "README.md").read_text() == "about the schemas\n"
    assert sorted(p.name for p in root.iterdir()) == ["CHANGELOG.md", "schema", "src"]


def test_versions_to_be_read_are_added_and_dropped(root: Path, registries: FakeRegistries) -> None:
    registries.wheel(OLDER, registries.binary(OLDER, bundles(OLDER)))
    run(root, Wanted(older=(OLDER,)))
    assert "codex/older/0.9.0.json.xz" in read_pins(root / "schema")
    run(root, Wanted(oldest="0.9.1"))
    assert "codex/older/0.9.0.json.xz" not in read_pins(root / "schema")
    assert not list((root / "schema").rglob("*.xz"))


def test_acp_comes_from_its_package(root: Path, registries: FakeRegistries) -> None:
    acp = ROOT / "schema" / "acp"
    files = {path.stem: path.read_bytes() for path in acp.glob("*.json")}
    registries.npm(
        "@agentclientprotocol/sdk@9.9.9",
        {
            "package/schema/v1/schema.json": files["v1"],
            "package/schema/v1/schema.unstable.json": files["v1_unstable"],
            "package/schema/v2/schema.json": files["v2"],
            "package/schema/v2/schema.unstable.json": files["v2_unstable"],
        },
    )
    run(root, Wanted(acp="9.9.9"))
    pins = read_pins(root / "schema")
    assert (pins["acp/v1.json"].version, pins["codex/stable.json"].version) == ("9.9.9", OLD)


def test_the_version_that_is_there_changes_nothing(root: Path, registries: FakeRegistries) -> None:
    registries.wheel(OLD, registries.binary(OLD, bundles(OLD)))
    before = picture(root)
    for _ in range(2):
        run(root, Wanted(codex=OLD))
        assert picture(root) == before


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def nothing_is_there(fake: FakeRegistries) -> None:
    """Neither registry has the version."""


def wheel_cut_off(fake: FakeRegistries) -> None:
    cut(fake.wheel(NEW, fake.binary(NEW, bundles(NEW))))


def other_binary_than_recorded(fake: FakeRegistries) -> None:
    fake.wheel(NEW, fake.binary(NEW, bundles(NEW)), recorded=b"another")


def other_archive_than_npm_says(fake: FakeRegistries) -> None:
    spec = fake.npm_codex(NEW, fake.binary(NEW, bundles(NEW)))
    fake.npm(spec, {"package/bin/codex": b"x"}, integrity="sha512-AAAA")


def npm_without_integrity(fake: FakeRegistries) -> None:
    fake.without_integrity(fake.npm_codex(NEW, fake.binary(NEW, bundles(NEW))))


def binary_of_another_version(fake: FakeRegistries) -> None:
    fake.wheel(NEW, fake.binary("1.0.9", bundles(NEW)))


def binary_crashes(fake: FakeRegistries) -> None:
    body = f"if name == 'stable': sys.exit('thread main panicked')\n{WRITES}"
    fake.wheel(NEW, fake.binary(NEW, bundles(NEW), body))


def binary_writes_nothing(fake: FakeRegistries) -> None:
    fake.wheel(NEW, fake.binary(NEW, bundles(NEW), "pass"))


def bundle_cut_off(fake: FakeRegistries) -> None:
    files = bundles(NEW)
    fake.wheel(NEW, fake.binary(NEW, {**files, "stable": files["stable"][:-100]}))


def bundle_without_an_envelope(fake: FakeRegistries) -> None:
    body = json.loads(bundles(NEW)["experimental"])
    del body["definitions"]["ServerRequest"]
    data = json.dumps(body).encode()
    fake.wheel(NEW, fake.binary(NEW, {**bundles(NEW), "experimental": data}))


def bundle_without_a_type(fake: FakeRegistries) -> None:
    body = json.loads(bundles(NEW)["experimental"])
    del body["definitions"]["v2"]["Thing"]
    data = json.dumps(body).encode()
    fake.wheel(NEW, fake.binary(NEW, {**bundles(NEW), "experimental": data}))


FAILURES = [
    (nothing_is_there, FetchFailed, "could not be fetched"),
    (wheel_cut_off, FetchFailed, "cut off"),
    (other_binary_than_recorded, FetchFailed, "RECORD"),
    (other_archive_than_npm_says, FetchFailed, "but npm says sha512-AAAA"),
    (npm_without_integrity, FetchFailed, "no integrity"),
    (binary_of_another_version, FetchFailed, "says it is 'codex-cli 1.0.9'"),
    (binary_crashes, FetchFailed, "thread main panicked"),
    (binary_writes_nothing, FetchFailed, "wrote no"),
    (bundle_cut_off, BrokenSchema, "cut off"),
    (bundle_without_an_envelope, BrokenSchema, "lacks ServerRequest"),
    (bundle_without_a_type, BrokenSchema, "refers to #/definitions/v2/Thing"),
]


@pytest.mark.parametrize(
    ("prepare", "error", "said"), FAILURES, ids=[f.__name__ for f, _, _ in FAILURES]
)
def test_a_failure_leaves_everything_as_it_was(
    root: Path, registries: FakeRegistries, prepare: object, error: type[CodegenError], said: str
) -> None:
    assert callable(prepare)
    prepare(registries)
    before = picture(root)
    with pytest.raises(error, match=said):
        run(root, Wanted(codex=NEW))
    assert picture(root) == before


def test_a_failed_second_product_takes_nothing_of_the_first(
    root: Path, registries: FakeRegistries
) -> None:
    registries.wheel(NEW, registries.binary(NEW, bundles(NEW)))
    before = picture(root)
    with pytest.raises(FetchFailed, match="404"):
        run(root, Wanted(codex=NEW, acp="9.9.9"))
    assert picture(root) == before


def test_a_failed_swap_puts_the_old_folder_back(tmp_path: Path) -> None:
    old, gone = tmp_path / "schema", tmp_path / "was-never-made"
    old.mkdir()
    (old / "file").write_text("old")
    with pytest.raises(OSError, match="was-never-made"):
        swapping.swap(gone, old)
    assert (old / "file").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["schema"]


def test_a_swap_that_was_killed_between_its_steps_is_mended(tmp_path: Path) -> None:
    (tmp_path / ".schema-before").mkdir()
    swapping.restore(tmp_path / "schema")
    assert [p.name for p in tmp_path.iterdir()] == ["schema"]


@pytest.mark.usefixtures("registries")
def test_the_command_says_what_failed_and_exits_2(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "ROOT", root)
    assert module.main(["--codex", NEW]) == 2
    said = capsys.readouterr().err
    assert "No matching distribution" in said
    assert "schema/ is as it was" in said


def test_the_command_exits_with_the_verdict(
    root: Path,
    registries: FakeRegistries,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    registries.wheel(NEW, registries.binary(NEW, bundles(NEW)))
    monkeypatch.setattr(module, "ROOT", root)
    assert module.main(["--codex", NEW]) == 4
    captured = capsys.readouterr()
    assert captured.out.startswith(f"Codex app-server {OLD} → {NEW}")
    assert "[1] openai-codex-cli-bin" in captured.err
    assert module.main(["--codex", NEW]) == 0
