"""A dry run of the release: built, checked, installed alone, and README's first command run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from codex_acp import __version__
from codex_acp.codex import find_codex

ROOT = Path(__file__).resolve().parents[2]

WAIT_SECONDS = 300

PLACE = "someone/their-copy"
"""A repository that a release is built in."""


def run(command: list[str], cwd: Path, **more: str) -> str:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")} | more
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    for project in (ROOT, ROOT / "packaging" / "codex-acp"):
        build = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
        run(build, project, GITHUB_REPOSITORY=PLACE)
    return place


def metadata(dist: Path) -> Message:
    with zipfile.ZipFile(next(dist.glob("codex_acp_sdk-*.whl"))) as wheel:
        name = f"codex_acp_sdk-{__version__}.dist-info/METADATA"
        return message_from_bytes(wheel.read(name))


def test_wheel_and_source_are_what_the_index_takes(dist: Path) -> None:
    files = sorted(map(str, dist.iterdir()))
    assert len(files) == 4
    run([sys.executable, "-m", "twine", "check", "--strict", *files], ROOT)


def test_it_says_who_made_it_and_where_it_is(dist: Path) -> None:
    found = metadata(dist)
    assert found["Version"] == __version__
    assert found["Author"] == "The codex-acp-sdk contributors"
    urls = dict(value.split(", ") for value in found.get_all("Project-URL", []))
    assert urls["Repository"] == f"https://github.com/{PLACE}"
    assert urls.keys() == {"Repository", "Documentation", "Changelog", "Issues"}


def test_each_link_of_the_readme_leads_to_a_file_of_the_release(dist: Path) -> None:
    text = str(metadata(dist).get_payload())
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert all(link.startswith("https://") for link in links)
    ours = re.compile(rf"https://[\w.]+/{PLACE}/(?:blob/)?v{re.escape(__version__)}/([^#]+)")
    paths = [found[1] for link in links if (found := ours.match(link))]
    assert "docs/images/session.svg" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_source_can_be_built_again_and_holds_no_workspace(dist: Path) -> None:
    with tarfile.open(next(dist.glob("codex_acp_sdk-*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"packaging/metadata.py", "README.md", "LICENSE", "CHANGELOG.md"} <= names
    assert not any(name.startswith((".ci/", ".git/", ".venv/")) for name in names)


def test_each_page_that_installs_it_says_how_before_the_first_release() -> None:
    pages = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "make"]
    install = "pip install 'codex-acp-sdk["
    told = {
        page.name: "first release" in page.read_text()
        for page in pages
        if install in page.read_text()
    }
    assert len(told) > 5
    assert [name for name, is_told in told.items() if not is_told] == []


@pytest.mark.e2e
@pytest.mark.slow
def test_the_first_command_of_the_readme_runs_from_the_wheel_alone(
    dist: Path, tmp_path: Path
) -> None:
    command = re.search(r"\.venv/bin/(codex-acp-sdk demo --yes)", (ROOT / "README.md").read_text())
    assert command is not None
    run([sys.executable, "-m", "venv", str(tmp_path / "venv")], tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    wheel = str(next(dist.glob("codex_acp_sdk-*.whl")))
    run([str(python), "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel], tmp_path)
    # What it needs is that of this suite, which pip would fetch; the checkout is not among it.
    site = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], ROOT)
    Path(site.strip(), "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run([str(python), "-P", "-c", "import codex_acp; print(codex_acp.__file__)"], tmp_path)
    assert where.startswith(str(tmp_path))
    words = command[1].split()
    env = {"HOME": str(tmp_path), "CODEX_PATH": find_codex().path}
    shown = run([str(python.with_name(words[0])), *words[1:]], tmp_path, **env)
    assert shown
