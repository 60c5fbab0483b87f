"""What a session's options show: all that there is, and what is in force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.mapping.options import ConfigView, mode_state, option_json, options_of
from codex_acp.mapping.settings import (
    Catalogue,
    Choice,
    models_of,
    profiles_of,
    settings_of_thread,
)
from tests.support.acp_schema import problems_of_message
from tests.support.config_samples import CATALOGUE, OWN_PROFILE, PROFILES, started, view_of

CATEGORIES = {"mode", "model", "model_config", "thought_level"}


def shown(view: ConfigView) -> dict[str, Any]:
    """The options by id, as JSON."""
    options: list[Any] = [*map(option_json, options_of(view))]
    return {option["id"]: option for option in options}


def values(option: dict[str, Any]) -> list[str]:
    return [entry["value"] for entry in entries(option)]


def entries(option: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for entry in option["options"]:
        found += entry["options"] if "group" in entry else [entry]
    return found


def current(option: dict[str, Any]) -> dict[str, str]:
    (entry,) = [e for e in entries(option) if e["value"] == option["currentValue"]]
    return entry


def test_the_order_says_what_matters_most() -> None:
    assert list(shown(view_of())) == [
        "mode", "model", "reasoning_effort", "service_tier", "collaboration_mode",
    ]  # fmt: skip


def test_every_category_is_known_or_begins_with_an_underscore() -> None:
    for option in shown(view_of()).values():
        assert option["category"] in CATEGORIES or option["category"].startswith("_"), option


def test_the_default_is_as_configured_and_says_what_that_is() -> None:
    option = shown(view_of())["mode"]

    assert option["currentValue"] == "configured"
    assert values(option)[0] == "configured"
    assert "asks when needed, read only" in current(option)["description"]


def test_models_are_those_of_codex_by_name_without_the_hidden_ones() -> None:
    option = shown(view_of())["model"]

    assert values(option) == ["gpt-6-sol", "gpt-5.5", "gpt-plain", "gpt-quick"]
    assert current(option)["name"] == "GPT-5.5"


def test_a_configured_model_that_codex_does_not_list_is_there_and_stays_there() -> None:
    own = view_of(model="llama-own")
    assert shown(own)["model"]["currentValue"] == "llama-own"
    assert values(shown(own)["model"])[-1] == "llama-own"

    left = view_of()._replace(models=("llama-own", "gpt-5.5"))
    assert values(shown(left)["model"]).count("llama-own") == 1
    assert values(shown(left)["model"]).count("gpt-5.5") == 1


def test_efforts_are_the_models_and_its_default_is_shown_where_none_is_set() -> None:
    option = shown(view_of())["reasoning_effort"]
    assert values(option) == ["low", "medium", "high"]
    assert option["currentValue"] == "medium"
    assert current(option)["description"] == "About medium"


def test_an_effort_that_the_model_does_not_list_is_shown_when_it_is_in_force() -> None:
    option = shown(view_of(reasoningEffort="galactic"))["reasoning_effort"]
    assert option["currentValue"] == "galactic"
    assert current(option)["name"] == "Galactic"


def test_a_model_that_is_not_listed_has_the_usual_efforts_and_its_own_default() -> None:
    option = shown(view_of(model="llama-own"))["reasoning_effort"]
    assert values(option) == ["default", "low", "medium", "high"]
    assert option["currentValue"] == "default"


def test_what_leaves_no_choice_is_no_option() -> None:
    assert "reasoning_effort" not in shown(view_of(model="gpt-plain"))
    assert "service_tier" not in shown(view_of(model="gpt-plain"))
    assert "collaboration_mode" not in shown(view_of(Catalogue()))


def test_a_service_tier_is_a_switch_only_for_clients_that_have_switches() -> None:
    view = view_of(model="gpt-6-sol")
    select = shown(view)["service_tier"]
    assert values(select) == ["default", "priority"]
    assert select["currentValue"] == "default"
    assert select["type"] == "select"

    switch = shown(view._replace(booleans=True))["service_tier"]
    assert switch["type"] == "boolean"
    assert switch["currentValue"] is False
    assert switch["name"] == "Fast mode"
    assert "options" not in switch


def test_more_than_one_tier_is_a_list_for_every_client() -> None:
    option = shown(view_of()._replace(booleans=True))["service_tier"]
    assert values(option) == ["default", "priority", "flex"]


@pytest.mark.parametrize(
    ("model", "tier", "value"),
    [
        ("gpt-6-sol", "priority", "priority"),
        ("gpt-6-sol", "default", "default"),
        ("gpt-6-sol", "own", "own"),
        ("gpt-quick", None, "priority"),
        ("gpt-quick", "default", "default"),
    ],
)
def test_the_tier_in_force_is_shown(model: str, tier: str | None, value: str) -> None:
    assert shown(view_of(model=model, serviceTier=tier))["service_tier"]["currentValue"] == value


def test_collaboration_modes_have_a_category_of_their_own() -> None:
    option = shown(view_of())["collaboration_mode"]
    assert [entry["name"] for entry in entries(option)] == ["Plan", "Default"]
    assert option["currentValue"] == "default"
    assert option["category"] == "_collaboration_mode"


def test_own_permission_profiles_make_groups() -> None:
    profiles = tuple(profiles_of({"data": [*PROFILES["data"], OWN_PROFILE]}))  # type: ignore[misc]
    option = shown(view_of(CATALOGUE._replace(profiles=profiles)))["mode"]

    assert [group["name"] for group in option["options"]] == ["Modes", "Your permission profiles"]
    assert entries(option)[-1] == {
        "value": "profile:mine",
        "name": "mine",
        "description": "My own.",
    }


def test_modes_are_the_same_as_the_option_of_the_category_mode() -> None:
    for view in (view_of(), view_of(approvalPolicy="never")):
        option, state = shown(view)["mode"], mode_state(options_of(view)[0])
        assert state["currentModeId"] == option["currentValue"]
        listed: Any = state["availableModes"]
        assert [mode["id"] for mode in listed] == values(option)
        assert [mode["name"] for mode in listed] == [entry["name"] for entry in entries(option)]


def test_what_codex_has_not_told_is_left_out_and_the_rest_is_there() -> None:
    options = shown(view_of(Catalogue()))
    assert values(options["model"]) == ["gpt-5.5"]
    assert options["mode"]["currentValue"] == "configured"


# Anything that Codex may say.

WORDS = st.sampled_from(["gpt-5.5", "gpt-6-sol", "low", "ultra", "own", "", "priority", "default"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
SANDBOXES = st.sampled_from(
    [
        {"type": "readOnly"},
        {"type": "workspaceWrite", "writableRoots": ["/a"], "networkAccess": True},
        {"type": "dangerFullAccess"},
        {"type": "externalSandbox", "networkAccess": "enabled"},
        {"type": "of-the-future"},
    ]
)
POLICIES = st.sampled_from(["on-request", "never", "untrusted", "later", {"granular": {}}])
PROFILE = st.sampled_from([None, {"id": ":workspace"}, {"id": "mine"}, {"id": ":read-only"}])
RESULTS = st.fixed_dictionaries(
    {},
    optional={
        "model": WORDS | JSON,
        "reasoningEffort": st.none() | WORDS | JSON,
        "serviceTier": st.none() | WORDS | JSON,
        "approvalPolicy": POLICIES | JSON,
        "approvalsReviewer": st.sampled_from(["user", "auto_review", "guardian_subagent", "x"])
        | JSON,
        "sandbox": SANDBOXES | JSON,
        "activePermissionProfile": PROFILE | JSON,
        "collaborationMode": st.sampled_from([{"mode": "plan"}, {"mode": "own"}]) | JSON,
    },
)
CATALOGUES = st.builds(
    Catalogue,
    models=st.sampled_from([None, (), CATALOGUE.models]),
    collaborations=st.sampled_from([None, (), CATALOGUE.collaborations]),
    profiles=st.sampled_from([None, (), CATALOGUE.profiles, (Choice("mine", "mine"),)]),
)


@given(RESULTS, CATALOGUES, st.booleans())
def test_whatever_is_in_force_is_shown_in_a_shape_that_the_schema_knows(
    result: dict[str, Any], catalogue: Catalogue, booleans: bool
) -> None:
    effective = settings_of_thread(started(**result))
    view = view_of(catalogue)._replace(settings=effective, booleans=booleans)
    options: list[Any] = [*map(option_json, options_of(view))]
    answer = {"sessionId": "s", "configOptions": options, "modes": mode_state(options_of(view)[0])}

    assert schema_problems(answer) == []
    for option in options:
        if option["type"] == "select":
            assert values(option).count(option["currentValue"]) == 1, option
            assert len(set(values(option))) == len(values(option)), option
    assert mode_state(options_of(view)[0])["currentModeId"] == shown(view)["mode"]["currentValue"]


@given(JSON)
def test_lists_of_any_shape_are_read(entry: Any) -> None:
    pages: list[Any] = [entry, {"data": entry}, {"data": [entry]}]
    for page in pages:
        assert all(model.slug for model in models_of(page))
        list(profiles_of(page))


def schema_problems(result: dict[str, Any]) -> list[str]:
    return problems_of_message("agent", {"jsonrpc": "2.0", "result": result}, "session/new")
