"""Config options and modes on the real Codex: a choice is what the next turn goes by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from codex_acp.testing import Gate, Step, Text, exec_command, request_permissions
from tests.e2e.options_bench import Setting
from tests.e2e.raw_adapter import Message

BOOLEANS: Message = {"session": {"configOptions": {"boolean": {}}}}


def asked_of(setting: Setting) -> tuple[str, str]:
    """Model and effort of the newest request to the model."""
    body: Any = setting.model.requests[-1].body
    return body["model"], body["reasoning"]["effort"]


def test_as_configured_is_the_default_and_sends_nothing() -> None:
    with Setting([Text("Hi.")], tee=True) as setting, setting.adapter() as client:
        answer = client.open(setting)
        client.prompt()

        assert client.current("mode") == "configured"
        assert answer["modes"]["currentModeId"] == "configured"
        assert client.current("model") == "gpt-5.5"
        assert client.current("reasoning_effort") == "medium"
        assert setting.told_codex("thread/settings/update") == []
        chosen = {"model", "effort", "approvalPolicy", "sandbox", "sandboxPolicy", "permissions"}
        for params in (*setting.told_codex("thread/start"), *setting.told_codex("turn/start")):
            assert not chosen & params.keys(), params


def test_model_and_effort_are_what_the_next_turn_goes_by() -> None:
    # Codex sums up for the new model what the old one knew, which is a request of its own.
    script = [[Text("One.")], [Text("A summary.")], [Text("Two.")]]
    with Setting(*script) as setting, setting.adapter() as client:
        client.open(setting)
        assert client.values("reasoning_effort") == ["low", "medium", "high", "xhigh"]
        client.prompt()
        assert asked_of(setting) == ("gpt-5.5", "medium")

        client.set("reasoning_effort", "high")
        other = next(slug for slug in client.values("model") if slug != "gpt-5.5")
        client.set("model", other)
        assert client.current("model") == other
        assert client.current("reasoning_effort") == "high"
        client.prompt()
        assert asked_of(setting) == (other, "high")


def test_an_effort_that_the_next_model_lacks_falls_to_its_default_visibly() -> None:
    with Setting([Text("One.")]) as setting, setting.adapter() as client:
        client.open(setting)
        client.set("model", "gpt-6-sol")
        client.set("reasoning_effort", "ultra")
        client.set("model", "gpt-5.5")
        assert client.current("reasoning_effort") == "medium"
        assert "ultra" not in client.values("reasoning_effort")
        client.prompt()
        assert asked_of(setting) == ("gpt-5.5", "medium")


def test_a_configured_model_that_codex_does_not_list_can_be_left_and_found_again() -> None:
    script = [[Text("One.")], [Text("Two.")], [Text("Three.")]]
    with Setting(*script, model="llama-own") as setting, setting.adapter() as client:
        client.open(setting)
        assert client.current("model") == "llama-own"
        assert client.current("reasoning_effort") == "default"
        client.set("reasoning_effort", "high")
        client.prompt()
        assert asked_of(setting) == ("llama-own", "high")
        client.set("reasoning_effort", "default")
        assert client.current("reasoning_effort") == "default"
        client.set("model", "gpt-5.5")
        client.set("model", "llama-own")
        client.prompt()
        assert setting.model.requests[-1].model == "llama-own"


def test_full_access_runs_unasked_and_as_configured_asks_again() -> None:
    asking = [[exec_command(f"touch made-{n}", justification="May I?")] for n in (0, 2)]
    calls: list[Sequence[Step]] = [asking[0], [exec_command("touch made-1")], asking[1]]
    script: list[Sequence[Step]] = [step for call in calls for step in (call, [Text("Done.")])]
    with Setting(*script, tee=True) as setting, setting.adapter() as client:
        client.open(setting)
        assert len(client.prompt()) == 1, "as configured: on request"
        client.set("mode", "full-access")
        assert client.prompt() == []
        client.set("mode", "configured")
        assert client.current("mode") == "configured"
        assert len(client.prompt()) == 1
        made = sorted(path.name for path in setting.home.workspace.iterdir())
        assert made == ["made-0", "made-1", "made-2"]
        assert setting.told_codex("thread/settings/update")[-1] == {
            "threadId": client.session,
            "approvalPolicy": "on-request",
            "approvalsReviewer": "user",
            "sandboxPolicy": {"type": "readOnly", "networkAccess": False},
        }


def test_2_6_the_read_only_mode_says_that_what_was_allowed_stays_allowed() -> None:
    request = request_permissions("Often.", write=["/"])
    write = exec_command("touch made")
    script: list[Sequence[Step]] = [[request], [Text("Thanks.")], [write], [Text("Done.")]]
    features = {"features": {"request_permissions_tool": True}}
    with Setting(*script, config=features) as setting, setting.adapter() as client:
        client.open(setting)
        prompt = client.start_prompt(client.session)
        asked = client.wait_for(lambda m: m.get("method") == "session/request_permission")
        client.choose(asked, "allow_always")
        client.finish(prompt)
        client.set("mode", "read-only")
        (mode,) = (m for m in client.options["mode"]["options"] if m["value"] == "read-only")
        assert "Asks before what is not allowed yet." in mode["description"]
        assert client.prompt() == []
        assert (setting.home.workspace / "made").exists()


@pytest.mark.attack("model")
def test_a_message_behind_a_change_of_the_mode_never_gets_the_rights_of_before() -> None:
    script: list[Sequence[Step]] = [
        [Gate("g"), exec_command("touch first")], [Text("One.")],
        [exec_command("touch second")], [Text("Two.")],
    ]  # fmt: skip
    with Setting(*script) as setting, setting.adapter() as client:
        client.open(setting)
        client.set("mode", "full-access")
        first = client.start_prompt(client.session)
        setting.model.wait_for_gate("g")
        client.set("mode", "read-only")
        notice = (
            "The mode counts from the next turn on. "
            "What runs now goes on with the earlier one: never asks, no sandbox."
        )
        assert notice in json.dumps(client.messages)
        second = client.start_prompt(client.session)
        setting.model.open("g")
        client.finish(first)
        client.finish(second)

        assert [path.name for path in setting.home.workspace.iterdir()] == ["first"]


def test_the_sandbox_of_a_mode_is_the_one_that_commands_run_in() -> None:
    write = exec_command("touch made && echo wrote")
    script: list[Sequence[Step]] = [[write], [Text("No.")], [write], [Text("Yes.")]]
    with Setting(*script) as setting, setting.adapter() as client:
        client.open(setting)
        client.prompt()
        assert not (setting.home.workspace / "made").exists()
        client.set("mode", "ask")
        client.prompt()
        assert (setting.home.workspace / "made").exists()


def test_a_legacy_mode_and_the_option_are_kept_in_step() -> None:
    with Setting() as setting, setting.adapter() as client:
        modes = client.open(setting)["modes"]
        assert [mode["id"] for mode in modes["availableModes"]] == client.values("mode")

        params = {"sessionId": client.session, "modeId": "auto-review"}
        assert client.ask("session/set_mode", params)["result"] == {}
        (update,) = client.updates("config_option_update")
        assert update["configOptions"][0]["currentValue"] == "auto-review"
        assert client.updates("current_mode_update") == []

        client.set("mode", "ask")
        (update,) = client.updates("current_mode_update")
        assert update["currentModeId"] == "ask"
        assert len(client.updates("config_option_update")) == 1


def test_choices_survive_a_load_in_another_process() -> None:
    script = [[Text("One.")], [Text("Two.")]]
    with Setting(*script, tee=True) as setting:
        with setting.adapter() as client:
            client.open(setting)
            client.set("model", "gpt-5.6-luna")  # before the first turn
            client.prompt()
            client.set("reasoning_effort", "max")  # after the last
            client.set("mode", "read-only")  # what is configured, but chosen
            client.set("collaboration_mode", "plan")
            session = client.session
        before = setting.config
        with setting.adapter() as client:
            answer = client.load(setting, session)
            assert client.current("model") == "gpt-5.6-luna"
            assert client.current("reasoning_effort") == "max"
            assert client.current("mode") == "read-only"
            assert answer["modes"]["currentModeId"] == "read-only"
            assert client.current("collaboration_mode") == "plan"
            told = len(setting.told_codex("thread/settings/update"))
            client.prompt()
            assert asked_of(setting) == ("gpt-5.6-luna", "max")
            assert len(setting.told_codex("thread/settings/update")) == told, "nothing is resent"
            client.set("mode", "configured")
            assert client.current("mode") == "configured"
        assert setting.home.config_file.read_bytes() == before


def test_a_fork_of_a_closed_session_has_its_model_and_effort() -> None:
    with Setting([Text("One.")], [Text("Two.")]) as setting:
        with setting.adapter() as client:
            client.open(setting)
            client.set("model", "gpt-5.6-luna")
            client.set("reasoning_effort", "max")
            client.prompt()
            session = client.session
        with setting.adapter() as client:
            client.open(setting, "session/fork", sessionId=session)
            assert client.current("model") == "gpt-5.6-luna"
            assert client.current("reasoning_effort") == "max"
            client.prompt()
            assert asked_of(setting) == ("gpt-5.6-luna", "max")


def test_a_loaded_session_without_choices_is_as_configured() -> None:
    with Setting([Text("One.")]) as setting:
        with setting.adapter() as client:
            client.open(setting)
            client.prompt()
            session = client.session
        with setting.adapter() as client:
            client.load(setting, session)
            assert client.current("mode") == "configured"


def test_a_choice_while_a_prompt_runs_counts_from_the_next_on() -> None:
    script: list[Sequence[Step]] = [
        [Gate("standing"), exec_command("true")],
        [Text("One.")],
        [exec_command("touch made")],
        [Text("Two.")],
    ]
    with Setting(*script) as setting, setting.adapter() as client:
        client.open(setting)
        prompt = client.start_prompt(client.session)
        setting.model.wait_for_gate("standing")
        client.set("reasoning_effort", "low")
        client.set("mode", "full-access")
        assert client.current("mode") == "full-access"
        setting.model.open("standing")
        client.finish(prompt)
        assert asked_of(setting) == ("gpt-5.5", "medium")

        assert client.prompt() == []
        assert (setting.home.workspace / "made").exists()
        assert asked_of(setting) == ("gpt-5.5", "low")


def test_the_faster_tier_is_a_switch_where_the_client_has_switches() -> None:
    with Setting() as setting, setting.adapter(BOOLEANS) as client:
        client.open(setting)
        assert client.options["service_tier"]["type"] == "boolean"
        assert client.current("service_tier") is False
        client.set("service_tier", value=True)
        assert client.current("service_tier") is True
        client.set("service_tier", value=False)
        assert client.current("service_tier") is False


def test_planning_is_told_to_the_model_and_undone() -> None:
    with Setting([Text("One.")], [Text("Two.")]) as setting, setting.adapter() as client:
        client.open(setting)
        client.set("collaboration_mode", "plan")
        client.prompt()
        assert "# Plan Mode" in json.dumps(setting.model.requests[-1].body)
        client.set("collaboration_mode", "default")
        assert client.current("collaboration_mode") == "default"
        client.prompt()


def test_own_permission_profiles_are_a_group_of_the_modes() -> None:
    config = {"permissions": {"mine": {"description": "Mine.", "filesystem": {":minimal": "read"}}}}
    with Setting([Text("One.")], config=config) as setting, setting.adapter() as client:
        client.open(setting)
        modes, profiles = client.options["mode"]["options"]
        assert [entry["value"] for entry in modes["options"]][:2] == ["configured", "read-only"]
        assert [entry["value"] for entry in profiles["options"]] == ["profile:mine"]
        client.set("mode", "profile:mine")
        assert client.current("mode") == "profile:mine"
        client.prompt()


def test_an_effective_policy_that_is_no_mode_is_shown_as_what_it_is() -> None:
    with Setting([Text("One.")], approval_policy="never") as setting:
        with setting.adapter() as client:
            client.open(setting)
            assert client.current("mode") == "configured"
            client.prompt()
            session = client.session
        text = setting.home.config_file.read_text()
        setting.home.config_file.write_text(text.replace('"never"', '"on-request"'))
        setting.config = setting.home.config_file.read_bytes()
        with setting.adapter() as client:
            client.load(setting, session)
            assert client.current("mode") == "custom"
            (entry,) = [e for e in client.options["mode"]["options"] if e["value"] == "custom"]
            assert entry["name"] == "Custom: never asks, read only"


def test_what_is_not_offered_is_refused_with_what_is() -> None:
    with Setting(tee=True) as setting, setting.adapter() as client:
        client.open(setting)
        for option, value, code, named in (
            ("colour", "red", -32602, "reasoning_effort"),
            ("model", "gpt-none", -32602, "gpt-5.5"),
            ("reasoning_effort", "ultra", -32602, "xhigh"),
        ):
            params = {"sessionId": client.session, "configId": option, "value": value}
            error = client.ask("session/set_config_option", params)["error"]
            assert error["code"] == code
            assert named in error["message"]
        mode = client.ask("session/set_mode", {"sessionId": client.session, "modeId": "code"})
        assert mode["error"]["code"] == -32602
        other = {"sessionId": "none", "configId": "model", "value": "gpt-5.5"}
        assert client.ask("session/set_config_option", other)["error"]["code"] == -32002
        assert setting.told_codex("thread/settings/update") == []
