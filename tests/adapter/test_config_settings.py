"""A choice: what is asked of Codex for it, and what the client hears."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codex_acp.errors import RpcError
from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import Exit, Expect
from tests.adapter.config_bench import (
    FULL_ACCESS,
    LISTS,
    THREAD,
    ConfigBench,
    by_id,
    settings_updated,
    taken,
)
from tests.support.config_samples import started


async def test_the_answer_to_a_choice_is_the_complete_list_as_codex_reports_it() -> None:
    async with ConfigBench(*LISTS, *taken(model="gpt-6-sol", serviceTier="priority")) as bench:
        await bench.open()
        options = await bench.set("model", "gpt-6-sol")

        assert bench.asked("thread/settings/update") == [{"threadId": THREAD, "model": "gpt-6-sol"}]
        assert options["model"]["currentValue"] == "gpt-6-sol"
        assert options["service_tier"]["currentValue"] == "priority", "Codex's word"
        assert [e["value"] for e in options["reasoning_effort"]["options"]][-1] == "ultra"
        assert bench.updates == [], "the client's own change is not told again"


async def test_a_change_that_codex_takes_but_never_reports_counts_as_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codex_acp.adapter.config_options.REPORT_SECONDS", 0.01)
    async with ConfigBench(*LISTS, Expect("thread/settings/update", {})) as bench:
        await bench.open()
        options = await bench.set("reasoning_effort", "high")
        assert options["reasoning_effort"]["currentValue"] == "high"


async def test_what_is_in_force_is_not_asked_for_again() -> None:
    async with ConfigBench(*LISTS, *taken(model="gpt-6-sol")) as bench:
        await bench.open()
        await bench.set("model", "gpt-5.5")
        assert bench.asked("thread/settings/update") == []


async def test_a_mode_set_by_its_option_is_told_to_clients_of_modes() -> None:
    async with ConfigBench(*LISTS, *taken(**FULL_ACCESS)) as bench:
        await bench.open()
        options = await bench.set("mode", "full-access")
        assert options["mode"]["currentValue"] == "full-access"
        assert bench.updates == [
            {"sessionUpdate": "current_mode_update", "currentModeId": "full-access"}
        ]


async def test_a_mode_set_by_set_mode_is_told_to_clients_of_options() -> None:
    async with ConfigBench(*LISTS, *taken(**FULL_ACCESS)) as bench:
        await bench.open()
        await bench.set_mode("full-access")
        (update,) = bench.updates
        assert update["sessionUpdate"] == "config_option_update"
        assert by_id(update["configOptions"])["mode"]["currentValue"] == "full-access"


@pytest.mark.attack("client")
@pytest.mark.parametrize("by_option", [True, False])
async def test_nothing_is_told_of_a_choice_in_a_session_that_was_closed_meanwhile(
    by_option: bool,
) -> None:
    async with ConfigBench(*LISTS, Expect("thread/settings/update", silent=True)) as bench:
        await bench.open()
        async with anyio.create_task_group() as tasks:
            if by_option:
                tasks.start_soon(bench.set, "mode", "full-access")
            else:
                tasks.start_soon(bench.set_mode, "full-access")
            await bench.server.wait_for_message("thread/settings/update")
            bench.config.forget(THREAD)
            await bench.answer("thread/settings/update", {})
            bench.server.play(settings_updated(**FULL_ACCESS))
        assert bench.updates == []


async def test_as_configured_restores_what_the_thread_began_with() -> None:
    own: dict[str, JsonValue] = {
        "type": "workspaceWrite",
        "writableRoots": ["/var/own"],
        "networkAccess": True,
        "excludeTmpdirEnvVar": True,
        "excludeSlashTmp": False,
    }
    granular: dict[str, JsonValue] = {"granular": {"rules": True, "sandbox_approval": False}}
    back = taken(approvalPolicy=granular, sandboxPolicy=own)
    async with ConfigBench(*LISTS, *taken(**FULL_ACCESS), *back) as bench:
        await bench.open(started(approvalPolicy=granular, sandbox=own))
        await bench.set("mode", "full-access")
        options = await bench.set("mode", "configured")

        assert bench.asked("thread/settings/update")[-1] == {
            "threadId": THREAD,
            "approvalPolicy": granular,
            "approvalsReviewer": "user",
            "sandboxPolicy": own,
        }
        assert options["mode"]["currentValue"] == "configured"


async def test_as_configured_is_asked_for_after_a_mode_with_the_same_effect() -> None:
    chosen = taken(activePermissionProfile={"id": ":read-only"})
    async with ConfigBench(*LISTS, *chosen, *taken()) as bench:
        await bench.open()
        options = await bench.set("mode", "read-only")
        assert options["mode"]["currentValue"] == "read-only"
        options = await bench.set("mode", "configured")
        assert options["mode"]["currentValue"] == "configured"
        assert len(bench.asked("thread/settings/update")) == 2


async def test_what_codex_changes_by_itself_is_told_once() -> None:
    async with ConfigBench(*LISTS) as bench:
        await bench.open()
        bench.server.play(
            settings_updated(effort="high"),
            settings_updated(effort="high"),
            settings_updated(effort="low", **FULL_ACCESS),
        )
        updates = await bench.wait_for_updates(3)

        kinds = [update["sessionUpdate"] for update in updates]
        assert kinds == ["config_option_update", "config_option_update", "current_mode_update"]
        assert by_id(updates[0]["configOptions"])["reasoning_effort"]["currentValue"] == "high"
        assert by_id(updates[1]["configOptions"])["mode"]["currentValue"] == "full-access"
        assert updates[2]["currentModeId"] == "full-access"


async def test_a_mode_that_the_client_was_never_told_of_is_not_named_to_it() -> None:
    async with ConfigBench(*LISTS) as bench:
        await bench.open()
        bench.server.play(settings_updated(approvalPolicy="never"))
        (update,) = await bench.wait_for_updates(1)
        mode = by_id(update["configOptions"])["mode"]
        assert mode["currentValue"] == "custom"
        await bench.set("mode", "custom")
        assert bench.updates == [update]


async def test_the_answer_waits_for_the_report_of_its_own_choice() -> None:
    other = settings_updated(serviceTier="flex")
    async with ConfigBench(*LISTS, Expect("thread/settings/update", {}), other) as bench:
        await bench.open()
        async with anyio.create_task_group() as tasks:
            answers: list[dict[str, Any]] = []

            async def choose() -> None:
                answers.append(await bench.set("reasoning_effort", "high"))

            tasks.start_soon(choose)
            await anyio.wait_all_tasks_blocked()
            assert answers == [], "what came is not what was chosen"
            bench.server.play(settings_updated(serviceTier="flex", effort="high"))

        (options,) = answers
        assert options["service_tier"]["currentValue"] == "flex"
        assert options["reasoning_effort"]["currentValue"] == "high"
        assert bench.updates == []


async def test_two_choices_at_once_are_made_one_after_the_other() -> None:
    async with ConfigBench(*LISTS, Expect("thread/settings/update", silent=True)) as bench:
        await bench.open()
        answers: dict[str, Any] = {}

        async def choose(option: str, value: str) -> None:
            answers[option] = await bench.set(option, value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(choose, "reasoning_effort", "high")
            tasks.start_soon(choose, "service_tier", "flex")
            while not bench.asked("thread/settings/update"):  # noqa: ASYNC110 - the wire's pace
                await anyio.sleep(0.001)
            await anyio.wait_all_tasks_blocked()
            assert len(bench.asked("thread/settings/update")) == 1
            await bench.answer("thread/settings/update", {})
            bench.server.play(settings_updated(effort="high"))
            bench.server.play(*taken(effort="high", serviceTier="flex"))

        assert answers["service_tier"]["reasoning_effort"]["currentValue"] == "high"
        assert answers["service_tier"]["service_tier"]["currentValue"] == "flex"


async def test_a_mode_that_codex_makes_something_else_of_is_shown_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codex_acp.adapter.config_options.REPORT_SECONDS", 0.01)
    less = taken(activePermissionProfile={"id": ":workspace"}, approvalPolicy="never")
    async with ConfigBench(*LISTS, *less) as bench:
        await bench.open()
        options = await bench.set("mode", "full-access")
        assert options["mode"]["currentValue"] == "never-ask"


async def test_a_choice_that_codex_refuses_changes_nothing_and_says_why() -> None:
    error = {"code": -32600, "message": "refers to undefined profile"}
    async with ConfigBench(*LISTS, Expect("thread/settings/update", error=error)) as bench:
        await bench.open()
        with pytest.raises(RpcError) as caught:
            await bench.set("mode", "ask")

        assert caught.value.code == -32603
        assert "refers to undefined profile" in caught.value.message
        bench.server.play(*taken(effort="low"))
        options = await bench.set("reasoning_effort", "low")
        assert options["mode"]["currentValue"] == "configured"


@pytest.mark.parametrize(("option", "value"), [("colour", "red"), ("model", "x"), ("model", True)])
async def test_what_is_not_offered_is_refused_before_codex_hears_of_it(
    option: str, value: str | bool
) -> None:
    async with ConfigBench(*LISTS) as bench:
        await bench.open()
        with pytest.raises(RpcError) as caught:
            await bench.set(option, value)
        assert caught.value.code == -32602
        assert bench.asked("thread/settings/update") == []


async def test_an_unknown_session_is_refused() -> None:
    async with ConfigBench(*LISTS) as bench:
        await bench.open()
        bench.config.forget(THREAD)
        for refused in (bench.set("model", "gpt-6-sol"), bench.set_mode("ask")):
            with pytest.raises(RpcError) as caught:
                await refused
            assert caught.value.code == -32002


async def test_a_codex_that_ends_during_a_choice_is_an_error() -> None:
    async with ConfigBench(*LISTS, Expect("thread/settings/update", silent=True), Exit(1)) as bench:
        await bench.open()
        with pytest.raises(RpcError) as caught:
            await bench.set("reasoning_effort", "low")
        assert caught.value.code == -32603


async def test_the_switch_for_the_faster_tier() -> None:
    script = (*LISTS, *taken(model="gpt-6-sol", serviceTier="priority"))
    async with ConfigBench(*script, booleans=True) as bench:
        answer = await bench.open(started(model="gpt-6-sol"))
        assert by_id(answer["configOptions"])["service_tier"]["currentValue"] is False
        options = await bench.set("service_tier", value=True)
        assert options["service_tier"]["currentValue"] is True
        assert bench.asked("thread/settings/update")[-1]["serviceTier"] == "priority"


async def test_the_effort_of_a_collaboration_mode_goes_with_it() -> None:
    def mode(kind: str, effort: str | None) -> dict[str, JsonValue]:
        settings: dict[str, JsonValue] = {
            "model": "gpt-5.5", "reasoning_effort": effort, "developer_instructions": "long",
        }  # fmt: skip
        return {"effort": effort, "collaborationMode": {"mode": kind, "settings": settings}}

    script = (*taken(**mode("plan", "medium")), *taken(**mode("default", None)))
    async with ConfigBench(*LISTS, *script) as bench:
        await bench.open()
        await bench.set("collaboration_mode", "plan")
        await bench.set("collaboration_mode", "default")

        efforts = [
            params["collaborationMode"]["settings"]["reasoning_effort"]
            for params in bench.asked("thread/settings/update")
        ]
        assert efforts == ["medium", None]
