"""The README: its commands are those that CI runs, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

DEMO = (
    "python3 -m venv .venv && .venv/bin/pip install -q '.[codex]'"
    " && .venv/bin/codex-acp-sdk demo --yes"
)
TESTS = (
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[codex,dev]'"
    " && .venv/bin/python -m pytest -n auto"
)


def test_the_two_commands_stand_there_in_this_order() -> None:
    shell = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert [block.strip() for block in shell] == [DEMO, TESTS]


def test_ci_runs_exactly_the_test_command() -> None:
    assert TESTS in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_it_fits_on_two_screens() -> None:
    assert len(README.splitlines()) < 90


def test_the_licence_is_there() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split("\n", 1)[0].strip() == "Apache License"
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_security_page_has_no_link_that_is_right_in_one_of_its_two_places_alone() -> None:
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", security) == []
