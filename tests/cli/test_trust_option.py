"""``--trust DIR``: what it takes, and where it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_acp.cli.arguments import serve_parser
from codex_acp.cli.command_arguments import RunOptions, run_parser
from codex_acp.cli.host import run
from codex_acp.cli.terminal import USAGE
from codex_acp.errors import MisuseError


def test_it_is_repeated_and_kept_as_codex_compares_it(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    words = ["--trust", str(tmp_path / "link"), "--trust", str(tmp_path)]
    assert serve_parser().parse_args(words).trust == [str(tmp_path / "one"), str(tmp_path)]
    options = RunOptions(**vars(run_parser().parse_args([*words, "Go."])))
    assert options.trust == [str(tmp_path / "one"), str(tmp_path)]


def test_what_is_no_directory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        serve_parser().parse_args(["--trust", str(tmp_path / "gone")])
    assert "is no directory" in capsys.readouterr().err


@pytest.mark.parametrize("agent", [["--agent", "claude"], ["--command", "another"]])
def test_another_agent_is_not_told_of_it(
    agent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*agent, "--trust", str(tmp_path), "Go."]
    assert run(run_parser().parse_args(words)) == USAGE
    assert "--trust is for the agent codex" in capsys.readouterr().err


def test_the_binary_that_run_is_given_goes_to_the_agent_codex_alone() -> None:
    assert RunOptions(prompt="Go.", codex="/c").spec().command[-2:] == ("--codex", "/c")
    with pytest.raises(MisuseError, match="--codex is for the agent codex"):
        RunOptions(prompt="Go.", codex="/c", agent="claude").spec()
