"""Which Codex the tests run, and what an older one does otherwise.

By default it is the wheel of the extra ``codex``; ``CODEX_PATH`` names another. ``nox -s compat``
runs the end-to-end tests with older and newer ones; what those cannot pass is in one table here,
each with its reason, and is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

import pytest

from codegen.pinned import version_key
from codex_acp.codex.connection.launch import codex_version, find_codex

WHEEL = "openai-codex-cli-bin"

NO_ASIDE = "has no questions that do not wait"

KEEPS_LOADED = "keeps a thread loaded for half an hour after the last one has left it"

ONE_MACHINE = "does not list the machines of a thread"

ANOTHER_ID = "turn/start in a running turn answers with another id than that turn's"

DIFFERENCES: dict[str, dict[str, dict[str, str]]] = {
    "0.163.0": {
        "e2e_contract/test_contract_async_questions.py": {
            "test_1_4_an_answer_is_read_in_the_turn_that_asked_and_shown_as_the_persons": (
                NO_ASIDE
            ),
            "test_3_5_what_is_open_when_the_turn_ends_is_withdrawn_and_a_late_answer_is_stale": (
                NO_ASIDE
            ),
            "test_3_5_a_cancel_and_a_close_withdraw_it": (NO_ASIDE),
            "test_2_5_what_is_no_answer_is_not_passed_on": (NO_ASIDE),
            "test_a_prompt_meanwhile_is_steered_and_the_form_stays_open": (NO_ASIDE),
        },
        "e2e_contract/test_contract_odd_moments.py": {
            "test_3_8_a_code_mode_models_command_and_tool_call_are_asked_about_one_by_one": (
                "its catalogue does not have the code mode model of this test"
            )
        },
        "e2e_contract/test_contract_environments.py": {
            "test_3_8_a_command_on_another_machine_names_it_and_no_rule_reaches_both": ONE_MACHINE,
            "test_3_8_an_edit_names_the_machines_and_shows_nothing_of_this_one": ONE_MACHINE,
        },
        "e2e/test_commands.py": {
            "test_a_goal_that_is_given_up_leaves_the_turn_to_a_message_that_joined_it": ANOTHER_ID
        },
        "e2e/test_environments.py": {
            "test_3_8_no_card_of_an_edit_says_what_this_disk_has_where_it_may_be_another_one": (
                ONE_MACHINE
            )
        },
        "e2e/test_codex_trouble.py": {
            "test_a_real_codex_with_a_broken_config_is_told": (
                "starts in spite of a broken config.toml, and only then wants a login"
            )
        },
        "e2e/test_config_options.py": {
            "test_a_fork_of_a_closed_session_has_its_model_and_effort": (
                "does not tell the model of a stored thread"
            ),
            "test_an_effort_that_the_next_model_lacks_falls_to_its_default_visibly": (
                "its catalogue does not have gpt-6-sol"
            ),
            "test_choices_survive_a_load_in_another_process": (
                "a thread that is resumed has the policy that is configured now"
            ),
            "test_an_effective_policy_that_is_no_mode_is_shown_as_what_it_is": (
                "a thread that is resumed has the policy that is configured now"
            ),
        },
        "e2e/test_prompt_content.py": {
            "test_what_the_model_could_not_see_is_refused_and_nothing_is_lost[audio]": (
                "thread/read does not tell the model of the thread"
            )
        },
        "e2e/test_prompt_interrupted.py": {
            "test_a_cancelled_command_is_ended_with_all_that_it_started": (
                "does not send the first output of a command, nor that of an interrupted one"
            )
        },
        "e2e/test_prompt_steering.py": {
            "test_a_prompt_sent_while_one_runs_reaches_the_model_in_the_same_turn": (
                "reads a steered message only when the model's response has ended"
            ),
            "test_a_cancel_ends_the_turn_and_all_of_its_prompts": (
                "reads a steered message only when the model's response has ended"
            ),
            "test_many_prompts_at_once_are_each_answered_once_and_all_read": (
                "reads a steered message only when the model's response has ended"
            ),
        },
        "e2e/test_v2_sessions.py": {
            "test_a_resumed_session_replays_its_history_only_when_asked_to": (
                "its stored history has no commands"
            ),
            "test_a_session_goes_on_in_the_other_version_and_back": (
                "its stored history has no commands"
            ),
        },
        "e2e/test_sessions_stored.py": {
            "test_another_process_shows_the_same_history_and_the_session_goes_on": (
                "its stored history has no commands"
            ),
            "test_a_replayed_tool_call_is_in_the_end_what_it_was_live": (
                "its stored history has no commands"
            ),
        },
        "e2e/test_sub_agents.py": {
            "test_a_client_without_such_sessions_reads_what_a_sub_agent_did_in_the_tool_call": (
                "its stored history has no commands"
            ),
            "test_what_is_a_sub_agents_cannot_be_used_as_a_session": KEEPS_LOADED,
            "test_3_9_a_sub_agents_form_stays_open_when_its_session_is_loaded": (
                "its history has the calls that run, which are shown as failed until they end"
            ),
        },
        "e2e/test_sessions_elsewhere.py": {
            "test_what_is_closed_here_is_opened_elsewhere_at_once": KEEPS_LOADED,
            "test_a_session_at_rest_follows_the_person_and_comes_back": KEEPS_LOADED,
            "test_what_works_is_not_handed_over_unless_it_shall_be_cancelled": KEEPS_LOADED,
            "test_two_that_ask_or_prompt_at_once_lose_nothing": KEEPS_LOADED,
        },
        "e2e/test_sessions_follow.py": {
            "test_8_1_a_session_goes_wherever_it_is_asked_for_and_comes_back": KEEPS_LOADED
        },
        "codex/test_handed_threads_with_codex.py": {
            "test_8_1_a_thread_at_rest_is_handed_over_and_comes_back_as_it_was": KEEPS_LOADED,
            "test_8_1_what_runs_stays_and_is_named_or_is_interrupted_where_that_is_asked": (
                KEEPS_LOADED
            ),
            "test_8_1_what_a_turn_left_running_or_never_began_stays": KEEPS_LOADED,
        },
        "e2e/test_shutdown.py": {
            "test_an_idle_adapter_exits_at_once_and_leaves_nothing": (
                "does not end by itself at the end of its input, and has to be killed after a while"
            )
        },
        "e2e/test_tool_calls.py": {
            "test_the_output_of_a_running_command_is_shown_before_it_ends": (
                "does not send the first output of a command"
            )
        },
        "codex/test_turns_with_codex.py": {"test_a_detached_turn_runs_on": ANOTHER_ID},
        "codex/test_policies_with_codex.py": {
            "test_6_2_under_never_codex_asks_nobody_and_the_start_says_so[read-only-0]": (
                "under policy never runs every tool of an MCP server, also in a read-only sandbox"
            ),
            "test_6_2_no_policy_allows_what_is_named_on_another_machine": ONE_MACHINE,
        },
    }
}
"""The first version that passes → file → test → what those before it do."""


@cache
def codex_under_test() -> str:
    """Such as ``0.163.0``."""
    if "CODEX_PATH" in os.environ:
        return codex_version(find_codex().path)
    return version(WHEEL)


def skip_differences(items: Sequence[pytest.Item]) -> None:
    """Skip what the Codex that is tested is too old for."""
    if "CODEX_PATH" not in os.environ:
        return
    tested = version_key(codex_under_test())
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        for first, files in DIFFERENCES.items():
            why = _reason(files, name) if tested < version_key(first) else None
            if why is not None:
                reason = f"Codex {codex_under_test()}: {why}"
                item.add_marker(pytest.mark.skip(reason=reason))


def _reason(files: dict[str, dict[str, str]], name: str) -> str | None:
    """Why the test ``FILE::TEST[CASE]`` is not passed; a row may be about all of its cases."""
    file, _, test = name.partition("::")
    rows = files.get(file, {})
    return rows.get(test) or rows.get(test.partition("[")[0])
