"""Who Codex is told it works for."""

from __future__ import annotations

import pytest

from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.agent import codex_client_info


@pytest.mark.parametrize("name", ["zed", "Code-Editor_2.1/beta", "a" * 64])
def test_a_name_that_fits_a_header_is_passed_on(name: str) -> None:
    client: JsonValue = {"name": name, "version": "1.2", "title": "An Editor"}

    assert codex_client_info({"clientInfo": client}) == client


def test_no_title_is_none() -> None:
    client = {"name": "zed", "version": "1.2"}

    assert codex_client_info({"clientInfo": {**client, "title": None}}) == client


@pytest.mark.parametrize("name", ["", "My Editor", "zed\r\nX-Evil: 1", "éditeur", "a" * 65])
def test_a_name_that_fits_no_header_is_not_passed_on_nor_changed(name: str) -> None:
    assert codex_client_info({"clientInfo": {"name": name, "version": "1.2"}}) is None


@pytest.mark.parametrize("params", [{}, {"clientInfo": None}])
def test_a_client_that_does_not_say_who_it_is_is_nobody(params: dict[str, None]) -> None:
    assert codex_client_info({**params}) is None
