"""Which mode an access is, and what a configuration comes to."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.options import (
    access_words,
    configured_access,
    current_mode,
    known_modes,
    mode_patch,
    profile_modes,
)
from codex_acp.mapping.settings import (
    Access,
    Catalogue,
    Choice,
    sandbox_of,
    settings_of_thread,
    settings_of_update,
)
from tests.support.config_samples import CATALOGUE, READ_ONLY, started, updated

WORKSPACE: dict[str, JsonValue] = {
    "type": "workspaceWrite",
    "writableRoots": [],
    "networkAccess": False,
    "excludeTmpdirEnvVar": False,
    "excludeSlashTmp": False,
}
FULL: dict[str, JsonValue] = {"type": "dangerFullAccess"}


def access(
    policy: JsonValue = "on-request",
    reviewer: str = "user",
    sandbox: JsonValue = None,
    profile: str | None = None,
) -> Access:
    return Access(policy, reviewer, sandbox_of(sandbox or READ_ONLY), profile)


@pytest.mark.parametrize(
    ("effective", "mode"),
    [
        (access(), "read-only"),
        (access(sandbox=WORKSPACE), "ask"),
        (access(sandbox={"type": "workspaceWrite"}), "ask"),
        (access("on-request", "auto_review", WORKSPACE), "auto-review"),
        (access("never", sandbox=WORKSPACE), "never-ask"),
        (access("never", sandbox=FULL), "full-access"),
        (access(sandbox=READ_ONLY, profile=":read-only"), "read-only"),
        (access(sandbox={**WORKSPACE, "writableRoots": ["/more"]}, profile=":workspace"), "ask"),
        (access("never", sandbox=FULL, profile=":danger-full-access"), "full-access"),
    ],
)
def test_an_effective_triple_is_shown_as_its_mode(effective: Access, mode: str) -> None:
    assert current_mode(effective, None, CATALOGUE) == mode


@pytest.mark.parametrize(
    "effective",
    [
        access("never"),
        access("untrusted", sandbox=WORKSPACE),
        access({"granular": {"rules": True}}),
        access(sandbox=FULL),
        access(reviewer="auto_review"),
        access(sandbox={**WORKSPACE, "networkAccess": True}),
        access(sandbox={**WORKSPACE, "writableRoots": ["/"]}),
        access(sandbox={"type": "readOnly", "networkAccess": True}),
        access(sandbox={"type": "externalSandbox"}),
        access(sandbox=READ_ONLY, profile="mine"),
        access("never", sandbox=WORKSPACE, profile=":danger-full-access-of-the-future"),
    ],
)
def test_what_is_no_known_triple_is_never_shown_as_one(effective: Access) -> None:
    assert current_mode(effective, None, CATALOGUE) == "custom"
    assert current_mode(effective, effective, CATALOGUE) == "configured"


def test_the_legacy_reviewer_reads_as_what_codex_makes_of_it() -> None:
    legacy = settings_of_thread(
        started(approvalsReviewer="guardian_subagent", sandbox=WORKSPACE)
    ).access
    assert current_mode(legacy, None, CATALOGUE) == "auto-review"


def test_the_thread_and_its_updates_are_read_the_same() -> None:
    settings = settings_of_update(updated())
    assert settings == settings_of_thread(started())


def test_a_mode_is_set_by_a_profile_and_by_a_sandbox_only_where_there_are_none() -> None:
    assert mode_patch("ask", CATALOGUE) == {
        "approvalPolicy": "on-request",
        "approvalsReviewer": "user",
        "permissions": ":workspace",
    }
    assert mode_patch("ask", Catalogue()) == {
        "approvalPolicy": "on-request",
        "approvalsReviewer": "user",
        "sandboxPolicy": WORKSPACE,
    }


def test_what_requirements_forbid_is_not_offered() -> None:
    only = Catalogue(profiles=(Choice(":read-only", ":read-only"),))
    assert [mode.id for mode in known_modes(only)] == ["read-only"]


def test_a_profile_of_ones_own_asks_when_needed() -> None:
    own = CATALOGUE._replace(profiles=(Choice("mine", "mine"),))
    (mode,) = profile_modes(own)
    assert mode.id == "profile:mine"
    assert mode_patch("profile:mine", own) == {
        "approvalPolicy": "on-request",
        "approvalsReviewer": "user",
        "permissions": "mine",
    }
    assert current_mode(access(profile="mine"), None, own) == "profile:mine"


@pytest.mark.parametrize(
    ("effective", "words"),
    [
        (access(), "asks when needed, read only"),
        (access("never", sandbox=FULL), "never asks, no sandbox"),
        (
            access("untrusted", "auto_review", {**WORKSPACE, "networkAccess": True}),
            (
                "asks before all but harmless commands, reviewed automatically, "
                "may write in the workspace, with network"
            ),
        ),
        (access(profile="mine"), "asks when needed, read only, permission profile mine"),
        (access({"granular": {}}), "asks for some kinds of actions, read only"),
        (access("later", sandbox={"type": "new"}), "approval policy later, sandbox new"),
    ],
)
def test_an_access_in_words(effective: Access, words: str) -> None:
    assert access_words(effective) == words


# Codex 0.163 was asked for each of these what a new thread gets.


TRUSTED = {"trust_level": "trusted"}
IN_WORKSPACE = access(sandbox=WORKSPACE, profile=":workspace")
NETWORKED: dict[str, JsonValue] = {
    **WORKSPACE,
    "writableRoots": ["/extra", "/var"],
    "networkAccess": True,
}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, access(profile=":read-only")),
        ({"projects": {"/work": TRUSTED}}, IN_WORKSPACE),
        ({"projects": {"/repo": TRUSTED}}, IN_WORKSPACE),
        ({"projects": {"/": TRUSTED}}, access(profile=":read-only")),
        (
            {"projects": {"/work": {"trust_level": "untrusted"}}},
            IN_WORKSPACE._replace(policy="untrusted"),
        ),
        ({"sandbox_mode": "read-only"}, access()),
        ({"approval_policy": "never"}, access("never", profile=":read-only")),
        ({"sandbox_mode": "danger-full-access"}, access(sandbox=FULL)),
        ({"default_permissions": "mine"}, Access("on-request", "user", {}, "mine")),
        ({"default_permissions": ":workspace"}, IN_WORKSPACE),
        (
            {"sandbox_mode": "read-only", "approvals_reviewer": "guardian_subagent"},
            access(reviewer="auto_review"),
        ),
        (
            {
                "sandbox_mode": "workspace-write",
                "sandbox_workspace_write": {"writable_roots": ["/var"], "network_access": True},
            },
            access(sandbox=NETWORKED),
        ),
    ],
)
def test_a_configuration_comes_to_what_codex_makes_of_it(
    config: dict[str, Any], expected: Access
) -> None:
    assert configured_access(config, "/work", "/repo", ("/extra",)) == expected
