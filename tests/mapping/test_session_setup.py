"""What a client gives a session → params of a thread."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.errors import RpcError
from codex_acp.mapping.session_setup import (
    server_names,
    thread_params,
    without_clashes,
)

SERVERS = {"notes": {"command": "/run"}, "web": {"url": "https://x"}}


def test_a_new_thread_gets_its_directory_and_nothing_that_was_not_given() -> None:
    assert thread_params("/w", [], {}, stored=False) == {"cwd": "/w"}


def test_additional_directories_are_roots_beside_the_working_directory_each_once() -> None:
    params = thread_params("/w", ["/b", "/w", "/a", "/b"], {}, stored=False)
    assert params["runtimeWorkspaceRoots"] == ["/w", "/b", "/a"]


def test_a_stored_thread_gets_just_the_roots_that_are_named_now() -> None:
    assert thread_params("/w", [], {}, stored=True)["runtimeWorkspaceRoots"] == ["/w"]


@pytest.mark.parametrize(
    ("cwd", "directories", "where"),
    [("w", [], "cwd"), ("", [], "cwd"), ("/w", ["/a", "../b"], "additionalDirectories.1")],
)
def test_a_relative_path_is_refused_by_its_place(
    cwd: str, directories: list[str], where: str
) -> None:
    with pytest.raises(RpcError, match=where) as refused:
        thread_params(cwd, directories, {}, stored=False)
    assert refused.value.code == -32602


def test_servers_are_part_of_the_configuration_and_can_be_read_back() -> None:
    params = thread_params("/w", [], SERVERS, stored=False)
    assert params["config"] == {f"mcp_servers.{name}": table for name, table in SERVERS.items()}
    assert server_names(params) == {"notes", "web"}


def test_a_configured_name_is_left_out_and_said() -> None:
    kept, said = without_clashes(SERVERS, frozenset({"notes", "other"}))
    assert list(kept) == ["web"]
    (line,) = said
    assert '"notes"' in line


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({"config": {"mcp_servers": {"a": {}, "b": {}}}}, {"a", "b"}),
        ({"config": {"mcp_servers": None}}, set()),
        ({"config": {}}, set()), ({"config": []}, set()), ({}, set()), (None, set()),
    ],
)  # fmt: skip
def test_configured_names_are_read_from_whatever_codex_answers(
    answer: Any, names: set[str]
) -> None:
    assert server_names(answer) == names
