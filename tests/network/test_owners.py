"""Whose a stored session is, also when the server was started again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from codex_acp.adapter.network.owners import Owners
from codex_acp.adapter.network.tokens import Token, Tokens, no_token
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from pathlib import Path

TWO = Tokens(lambda: (Token("alice", b"a"), Token("bob", b"b")))


def test_with_one_owner_all_is_theirs_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "owners"
    owners = Owners(no_token(), str(file))
    owners.made("everybody", "one")
    assert owners.owns("everybody", "another")
    assert not file.exists()


def test_it_is_remembered_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "owners"
    owners = Owners(TWO, str(file))
    for owner, session in (("alice", "one"), ("bob", "two"), ("alice", "one")):
        owners.made(owner, session)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text().splitlines()) == 2
    again = Owners(TWO, str(file))
    found = [again.owns(o, s) for o in ("alice", "bob") for s in ("one", "two", "three")]
    assert found == [True, False, False, False, True, False]


def test_a_broken_line_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "owners"
    file.write_text('{"sessionId": "one", "owner": "alice"}\n{"sess\n[]\n')
    with caplog.at_level(logging.WARNING):
        owners = Owners(TWO, str(file))
    assert owners.owns("alice", "one")
    assert caplog.text.count("left out") == 2
    with pytest.raises(MisuseError, match="cannot be read"):
        Owners(TWO, str(tmp_path))
