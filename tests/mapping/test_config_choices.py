"""What a choice asks Codex for, and which choices are refused."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.errors import RpcError
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.options import (
    ConfigView,
    checked_mode,
    checked_value,
    choice_patch,
    mode_of,
    options_of,
)
from codex_acp.mapping.settings import (
    Access,
    Catalogue,
    applied,
    difference,
    is_wider,
    meets,
    sandbox_of,
    settings_of_thread,
)
from tests.support.config_samples import READ_ONLY, started, view_of

FULL: JsonValue = {"type": "dangerFullAccess"}


def patch(view: ConfigView, option: str, value: str | bool) -> dict[str, Any]:
    return choice_patch(view, option, checked_value(view, option, value))


def refusal(view: ConfigView, option: str, value: str | bool) -> RpcError:
    with pytest.raises(RpcError) as caught:
        checked_value(view, option, value)
    assert caught.value.code == -32602
    return caught.value


def test_an_unknown_option_is_refused_with_the_names_of_those_there_are() -> None:
    error = refusal(view_of(), "colour", "red")
    assert "'colour'" in error.message
    assert "mode, model, reasoning_effort, service_tier, collaboration_mode" in error.message
    assert error.data["field"] == "configId"  # type: ignore[index]


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("mode", "yolo", "read-only"),
        ("mode", "custom", "full-access"),
        ("model", "gpt-secret", "gpt-6-sol"),
        ("reasoning_effort", "ultra", "medium"),
        ("service_tier", "", "priority"),
        ("collaboration_mode", "Plan", "plan"),
    ],
)
def test_a_value_that_is_not_offered_is_refused_with_those_that_are(
    option: str, value: str, named: str
) -> None:
    assert named in refusal(view_of(), option, value).message


def test_a_value_of_the_wrong_type_is_refused() -> None:
    assert "takes the id of a value" in refusal(view_of(), "model", value=True).message
    switch = view_of(model="gpt-6-sol")._replace(booleans=True)
    assert "false, true" in refusal(switch, "service_tier", "priority").message


def test_an_unknown_mode_is_refused_with_those_there_are() -> None:
    with pytest.raises(RpcError) as caught:
        checked_mode(view_of(), "code")
    assert caught.value.code == -32602
    assert "configured, read-only, ask" in caught.value.message


def test_only_what_was_chosen_is_asked_for() -> None:
    view = view_of()
    assert patch(view, "model", "gpt-6-sol") == {"model": "gpt-6-sol"}
    assert patch(view, "reasoning_effort", "high") == {"effort": "high"}
    assert patch(view, "service_tier", "flex") == {"serviceTier": "flex"}
    assert patch(view, "service_tier", "default") == {"serviceTier": None}
    assert patch(view, "mode", "full-access") == {
        "approvalPolicy": "never",
        "approvalsReviewer": "user",
        "permissions": ":danger-full-access",
    }


def test_a_switch_is_the_faster_tier() -> None:
    view = view_of(model="gpt-6-sol")._replace(booleans=True)
    assert patch(view, "service_tier", value=True) == {"serviceTier": "priority"}
    assert patch(view, "service_tier", value=False) == {"serviceTier": None}


def test_an_effort_that_the_new_model_does_not_have_becomes_its_default() -> None:
    view = view_of(model="gpt-6-sol", reasoningEffort="ultra", serviceTier="priority")
    assert patch(view, "model", "gpt-5.5") == {"model": "gpt-5.5", "effort": "medium"}
    assert patch(view, "model", "gpt-plain") == {
        "model": "gpt-plain", "effort": "none", "serviceTier": None,
    }  # fmt: skip


def test_an_effort_that_the_new_model_has_stays() -> None:
    view = view_of(model="gpt-6-sol", reasoningEffort="low", serviceTier="priority")
    assert patch(view, "model", "gpt-5.5") == {"model": "gpt-5.5"}


def test_an_effort_stays_with_a_model_of_which_nothing_is_known() -> None:
    view = view_of(reasoningEffort="galactic")._replace(models=("llama-own",))
    assert patch(view, "model", "llama-own") == {"model": "llama-own"}


def test_the_default_effort_of_an_unlisted_model_takes_the_effort_away_and_adds_no_text() -> None:
    view = view_of(model="llama-own", reasoningEffort="high")
    assert patch(view, "reasoning_effort", "default") == {
        "collaborationMode": {
            "mode": "default",
            "settings": {
                "model": "llama-own",
                "reasoning_effort": None,
                "developer_instructions": "",
            },
        }
    }


def collaboration(change: dict[str, Any]) -> tuple[str, str | None]:
    mode = change["collaborationMode"]
    assert mode["settings"]["developer_instructions"] is None, "built into Codex"
    return mode["mode"], mode["settings"]["reasoning_effort"]


def test_a_collaboration_mode_brings_its_effort_only_where_none_was_chosen() -> None:
    assert collaboration(patch(view_of(), "collaboration_mode", "plan")) == ("plan", "medium")
    chosen = view_of(reasoningEffort="high")
    assert collaboration(patch(chosen, "collaboration_mode", "plan")) == ("plan", "high")


def test_leaving_a_collaboration_mode_takes_away_only_the_effort_that_it_brought() -> None:
    planning = view_of(collaborationMode={"mode": "plan"}, reasoningEffort="medium")
    brought = planning._replace(preset_effort=True)
    assert collaboration(patch(brought, "collaboration_mode", "default")) == ("default", None)
    assert collaboration(patch(planning, "collaboration_mode", "default")) == ("default", "medium")


def test_as_configured_gives_back_exactly_what_was_configured() -> None:
    view = view_of(approvalPolicy="never", sandbox=FULL)
    assert mode_of(view) == "full-access"
    assert patch(view, "mode", "configured") == {
        "approvalPolicy": "on-request", "approvalsReviewer": "user", "sandboxPolicy": READ_ONLY,
    }  # fmt: skip


def test_as_configured_names_the_configured_profile() -> None:
    profile = started(activePermissionProfile={"id": "mine"})
    view = view_of(approvalPolicy="never")._replace(configured=settings_of_thread(profile).access)
    assert patch(view, "mode", "configured")["permissions"] == "mine"
    assert "sandboxPolicy" not in patch(view, "mode", "configured")


def test_as_configured_is_refused_while_nobody_knows_what_that_is() -> None:
    view = view_of(approvalPolicy="never")._replace(configured=None)
    with pytest.raises(RpcError) as caught:
        patch(view, "mode", "configured")
    assert caught.value.code == -32602


def test_what_is_in_force_and_fits_no_mode_may_be_chosen_and_changes_nothing() -> None:
    view = view_of(approvalPolicy="never")
    assert mode_of(view) == "custom"
    assert patch(view, "mode", "custom") == {}


def test_of_two_modes_that_do_the_same_the_one_that_was_chosen_is_shown() -> None:
    view = view_of(Catalogue())
    assert mode_of(view) == "configured"
    assert mode_of(view._replace(chosen=("read-only", view.settings.access))) == "read-only"
    elsewhere = settings_of_thread(started(sandbox=FULL)).access
    assert mode_of(view._replace(chosen=("full-access", elsewhere))) == "configured"


# Patches and settings.


def every_patch() -> list[tuple[ConfigView, dict[str, Any]]]:
    views = [
        view_of(),
        view_of(model="llama-own", reasoningEffort="high", serviceTier="own"),
        view_of(model="gpt-6-sol", reasoningEffort="ultra", approvalPolicy="never"),
        view_of(Catalogue(), approvalPolicy="never", collaborationMode={"mode": "plan"}),
    ]
    return [
        (view, choice_patch(view, option.id, value))
        for view in views
        for option in options_of(view)
        for value in option.values
    ]


def test_every_choice_is_met_once_it_is_applied() -> None:
    for view, change in every_patch():
        assert meets(applied(view.settings, change), change), change


def test_the_difference_of_two_threads_is_met_once_it_is_applied() -> None:
    settings = [applied(view.settings, change) for view, change in every_patch()]
    for wanted in settings:
        for have in settings:
            change = difference(wanted, have)
            assert meets(applied(have, change), change)
            after = applied(have, change)
            assert after.model == wanted.model
            assert after.access.policy == wanted.access.policy
            assert after.collaboration == wanted.collaboration
        assert difference(wanted, wanted) == {}


def test_an_effort_or_tier_that_codex_does_not_have_is_not_met() -> None:
    settings = view_of().settings
    assert not meets(settings, {"effort": "medium"}), "the model's default, but not chosen"
    assert not meets(settings, {"serviceTier": None}), "Codex reports what is cleared"
    assert not meets(settings, {"later": 1})
    assert meets(settings, {})


def access(kind: str, *, profile: str | None = None, **changes: Any) -> Access:
    policy, reviewer = changes.pop("policy", "on-request"), changes.pop("reviewer", "user")
    return Access(policy, reviewer, sandbox_of({"type": kind, **changes}), profile)


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (access("dangerFullAccess"), access("workspaceWrite")),
        (access("later"), access("workspaceWrite")),
        (access("dangerFullAccess"), access("externalSandbox", networkAccess="restricted")),
        (
            access("externalSandbox", networkAccess="enabled"),
            access("externalSandbox", networkAccess="restricted"),
        ),
        (access("workspaceWrite"), access("readOnly", networkAccess=True)),
        (access("readOnly", networkAccess=True), access("readOnly")),
        (access("workspaceWrite", networkAccess=True), access("workspaceWrite")),
        (access("workspaceWrite", writableRoots=["/a", "/b"]), access("workspaceWrite")),
        (access("workspaceWrite"), access("workspaceWrite", excludeSlashTmp=True)),
        (access("workspaceWrite"), access("workspaceWrite", excludeTmpdirEnvVar=True)),
        (access("readOnly", reviewer="auto_review"), access("readOnly")),
        (access("readOnly", policy="never"), access("readOnly", policy="untrusted")),
    ],
)
def test_3_9c_an_access_is_wider_if_it_lets_through_more_without_a_person(
    wide: Access, narrow: Access
) -> None:
    assert is_wider(wide, narrow)
    assert not is_wider(narrow, wide)
    assert not is_wider(wide, wide)
    own = wide._replace(profile="mine")
    assert is_wider(own, wide), "nobody knows what a profile of the user's own lets through"
    assert is_wider(wide, own)
    assert not is_wider(own, own)
