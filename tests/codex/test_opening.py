"""How a thread is opened, of what is configured; and what a person is told of what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.threads.opening import (
    Opening,
    configured_choice,
    contents_of,
    trusting,
    trusts_nothing,
    untrusted_opening,
    with_settings,
)
from codex_acp.jsonrpc import JsonValue

CWD: dict[str, JsonValue] = {"cwd": "/place"}
READ_ONLY: dict[str, JsonValue] = {"cwd": "/place", "sandbox": "read-only"}


def read(*layers: dict[str, Any], disabled: dict[str, Any] | None = None) -> JsonValue:
    """An answer of ``config/read``; the first layer is the highest."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        merged |= layer
    entries: list[Any] = [{"name": {"type": "user"}, "config": layer} for layer in layers]
    if disabled is not None:
        name = {"type": "project", "dotCodexFolder": "/place/.codex"}
        entries.insert(0, {"name": name, "config": disabled, "disabledReason": "not trusted"})
    return {"config": merged, "origins": {}, "layers": entries}


def workspace(*roots: str, network: bool = False) -> dict[str, JsonValue]:
    """A ``SandboxPolicy``."""
    return {
        "type": "workspaceWrite",
        "writableRoots": [*roots],
        "networkAccess": network,
        "excludeTmpdirEnvVar": False,
        "excludeSlashTmp": False,
    }


WRITES = {"sandbox_mode": "workspace-write"}
NETWORK = {"sandbox_workspace_write": {"network_access": True, "writable_roots": ["/more"]}}


@pytest.mark.parametrize(
    ("params", "configured", "restore"),
    [
        ({}, read({}), None),
        ({}, read({"sandbox_mode": "read-only"}), None),
        ({}, read({"default_permissions": ":read-only"}), None),
        ({}, read(disabled=WRITES), None),
        ({}, read(WRITES), {"sandboxPolicy": workspace()}),
        ({}, read(WRITES | NETWORK), {"sandboxPolicy": workspace("/more", network=True)}),
        (
            {"runtimeWorkspaceRoots": ["/place", "/extra", "/more"]},
            read(WRITES | NETWORK),
            {"sandboxPolicy": workspace("/more", "/extra", network=True)},
        ),
        (
            {},
            read({"sandbox_mode": "danger-full-access"}),
            {"sandboxPolicy": {"type": "dangerFullAccess"}},
        ),
        ({}, read({"default_permissions": "mine"}), {"permissions": "mine"}),
        ({"permissions": ":workspace"}, read({}), {"permissions": ":workspace"}),
        ({"permissions": ":read-only"}, read(WRITES), None),
        (
            {"sandbox": "workspace-write"},
            read(NETWORK),
            {"sandboxPolicy": workspace("/more", network=True)},
        ),
        (
            {"config": WRITES},
            read({"default_permissions": ":read-only"}),
            {"sandboxPolicy": workspace()},
        ),
        (
            {"config": {"sandbox_workspace_write.network_access": True}},
            read(WRITES),
            {"sandboxPolicy": workspace(network=True)},
        ),
        ({}, read({"sandbox_mode": "a-later-one"}), {"sandboxPolicy": {"type": "aLaterOne"}}),
    ],
)
def test_7_1_what_may_write_is_started_read_only_and_then_given_it(
    params: dict[str, JsonValue], configured: JsonValue, restore: dict[str, JsonValue] | None
) -> None:
    made = untrusted_opening(CWD | params, configured)
    assert made.restore == restore
    if restore is None:
        assert made == Opening(CWD | params, None)
    else:
        kept = {name: value for name, value in params.items() if name != "permissions"}
        assert made.params == CWD | kept | {"sandbox": "read-only"}


@pytest.mark.parametrize("proxy", [True, {"enabled": True, "domains": {"a": "allow"}}])
@pytest.mark.parametrize("is_own", [False, True])
def test_7_2_where_a_proxy_limits_the_network_a_thread_starts_with_the_network(
    proxy: JsonValue, is_own: bool
) -> None:
    """Else Codex would not start the proxy, and nothing would limit the network."""
    config: dict[str, JsonValue] = {"features": {"network_proxy": proxy}}
    own: dict[str, JsonValue] = {"config": config} if is_own else {}
    made = untrusted_opening(CWD | own, read(WRITES if is_own else WRITES | config))
    profile: dict[str, JsonValue] = {"filesystem": {":root": "read"}, "network": {"enabled": True}}
    profiles: dict[str, JsonValue] = {"permissions": {"codex-acp-start": profile}}
    start: dict[str, JsonValue] = {"permissions": "codex-acp-start"}
    assert made.params == CWD | start | {"config": profiles | (config if is_own else {})}
    assert made.restore == {"sandboxPolicy": workspace()}


def test_what_is_not_known_is_read_only() -> None:
    assert untrusted_opening(CWD, None) == Opening(READ_ONLY, None)
    given = untrusted_opening(CWD | {"sandbox": "danger-full-access"}, None)
    assert given == Opening(READ_ONLY, {"sandboxPolicy": {"type": "dangerFullAccess"}})


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        (read({"sandbox_mode": "x", "default_permissions": "p"}), (None, "p")),
        (read({"sandbox_mode": "x"}, {"default_permissions": "p"}), ("x", None)),
        (read({"default_permissions": "p"}, {"sandbox_mode": "x"}), (None, "p")),
        ({"config": {"sandbox_mode": "x"}}, ("x", None)),
        ({"config": []}, (None, None)),
    ],
)
def test_the_highest_layer_decides_and_in_it_the_profile(
    answer: JsonValue, choice: tuple[str | None, str | None]
) -> None:
    assert configured_choice(answer) == choice


def test_what_makes_codex_trust_nothing() -> None:
    assert trusts_nothing({})
    assert trusts_nothing(READ_ONLY)
    assert not trusts_nothing(CWD)
    assert not trusts_nothing(CWD | {"sandbox": "workspace-write"})


def test_trust_is_added_to_what_the_program_gives() -> None:
    given: dict[str, JsonValue] = {"config": {"model": "m", "projects": {"/a": {}}}, **CWD}
    trusted = {"trust_level": "trusted"}
    assert trusting(given, "/place")["config"] == {
        "model": "m",
        "projects": {"/a": {}, "/place": trusted},
    }
    assert given["config"] == {"model": "m", "projects": {"/a": {}}}


def test_an_answer_tells_what_is_in_force() -> None:
    answer: JsonValue = {"sandbox": {"type": "readOnly"}, "model": "m"}
    settings: JsonValue = {"sandboxPolicy": workspace(), "approvalPolicy": "never"}
    expected = {"sandbox": workspace(), "model": "m", "approvalPolicy": "never"}
    assert with_settings(answer, settings) == expected
    assert with_settings(answer, None) == answer


@pytest.mark.parametrize(
    ("config", "files", "words"),
    [
        ({}, [], []),
        ({}, ["config.toml", "skills"], []),
        ({"mcp_servers": {"a": {}}}, [], ["1 MCP server"]),
        ({"mcp_servers": {"a": {}, "b": {}}, "model": "m"}, [], ["2 MCP servers", "settings"]),
        ({}, ["hooks.json", "rules"], ["hooks", "rules for commands"]),
        ({"hooks": {}}, [], ["hooks"]),
    ],
)
def test_what_a_folder_brings(
    config: dict[str, JsonValue], files: list[str], words: list[str]
) -> None:
    assert contents_of(config, files) == words
