"""Who Codex is told it works for."""

from __future__ import annotations

import pytest

from codex_acp.acp.types import Implementation
from codex_acp.codex.types import ClientInfo
from codex_acp.mapping.agent.client_info import codex_client_info


@pytest.mark.parametrize("name", ["zed", "Code-Editor_2.1/beta", "a" * 64])
def test_a_name_that_fits_a_header_is_passed_on(name: str) -> None:
    client = Implementation(name=name, version="1.2", title="An Editor")

    assert codex_client_info(client) == ClientInfo(name=name, version="1.2", title="An Editor")


def test_no_title_is_none() -> None:
    client = Implementation(name="zed", version="1.2")

    assert codex_client_info(client) == ClientInfo(name="zed", version="1.2")


@pytest.mark.parametrize("name", ["", "My Editor", "zed\r\nX-Evil: 1", "éditeur", "a" * 65])
def test_a_name_that_fits_no_header_is_not_passed_on_nor_changed(name: str) -> None:
    assert codex_client_info(Implementation(name=name, version="1.2")) is None


def test_a_client_that_does_not_say_who_it_is_is_nobody() -> None:
    assert codex_client_info(None) is None
