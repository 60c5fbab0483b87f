"""The options of a session that opens, is loaded, forked, or loses its Codex."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.options import ConfigView, Option, options_of
from codex_acp.testing import Expect, ScriptedAppServer
from tests.adapter.config_bench import (
    FULL,
    FULL_ACCESS,
    LISTS,
    THREAD,
    ConfigBench,
    by_id,
    taken,
)
from tests.support.config_samples import MODELS, PROFILES, started


async def test_a_new_session_has_all_options_and_codex_was_asked_to_change_nothing() -> None:
    async with ConfigBench(*LISTS) as bench:
        answer = await bench.open()

        assert list(by_id(answer["configOptions"])) == [
            "mode", "model", "reasoning_effort", "service_tier", "collaboration_mode",
        ]  # fmt: skip
        assert answer["modes"]["currentModeId"] == "configured"
        assert bench.asked("thread/settings/update") == []


async def test_the_lists_of_a_connection_are_asked_for_once() -> None:
    again = Expect("permissionProfile/list", PROFILES)
    async with ConfigBench(*LISTS, again) as bench:
        await bench.open()
        await bench.open()
        assert len(bench.asked("model/list")) == 1
        assert len(bench.asked("permissionProfile/list")) == 2, "each project has its own"


async def test_a_session_that_opens_computes_no_options_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[ConfigView] = []

    def counted(view: ConfigView) -> list[Option]:
        computed.append(view)
        return options_of(view)

    monkeypatch.setattr("codex_acp.adapter.config_options.options_of", counted)
    again = Expect("permissionProfile/list", PROFILES)
    counts: list[int] = []
    async with ConfigBench(*LISTS, *([again] * 30)) as bench:
        for number in range(30):
            computed.clear()
            directory = bench.config.ask_lists(bench.codex, "/w")
            thread = f"thread-{number}"
            await bench.open(started(thread={"id": thread}), thread, directory=directory)
            assert directory.done.is_set()
            counts.append(len(computed))
    assert max(counts[1:]) <= 2, counts


async def test_profiles_that_come_late_are_told_to_the_session_of_their_directory_alone() -> None:
    late = Expect("permissionProfile/list", silent=True)
    async with ConfigBench(*LISTS, late) as bench:
        await bench.open()
        directory = bench.config.ask_lists(bench.codex, "/other")
        bench.hurried = True
        await bench.open(started(thread={"id": "thread-2"}), "thread-2", directory=directory)
        assert bench.updates == []
        await bench.server.wait_for(lambda: len(bench.asked("permissionProfile/list")) == 2)
        profile: JsonValue = {"id": "mine", "description": None, "allowed": True}
        await bench.answer("permissionProfile/list", {"data": [profile]})
        (update,) = await bench.wait_for_updates(1)
        assert "mine" in str(by_id(update["configOptions"])["mode"])


async def test_what_comes_late_for_a_session_that_was_closed_is_told_to_nobody() -> None:
    late = Expect("permissionProfile/list", silent=True)
    async with ConfigBench(*LISTS[:2], late, hurried=True) as bench:
        directory = bench.config.ask_lists(bench.codex, "/w")
        await bench.open(directory=directory)
        bench.config.forget(THREAD)
        with anyio.fail_after(60):
            profile: JsonValue = {"id": "mine", "description": None, "allowed": True}
            await bench.answer("permissionProfile/list", {"data": [profile]})
            await directory.done.wait()
        assert bench.updates == []


async def test_lists_that_come_late_follow_as_an_update_with_the_complete_list() -> None:
    async with ConfigBench(Expect("model/list", silent=True), *LISTS[1:], hurried=True) as bench:
        answer = await bench.open()
        assert len(by_id(answer["configOptions"])["model"]["options"]) == 1

        await bench.answer("model/list", MODELS)
        options: dict[str, Any] = {}
        while len(options.get("model", {}).get("options", ())) != 4:
            *_, update = await bench.wait_for_updates(len(bench.updates) + 1)
            assert update["sessionUpdate"] == "config_option_update"
            options = by_id(update["configOptions"])
        assert "mode" in options


async def test_lists_that_codex_refuses_are_done_without() -> None:
    refused = {"code": -32601, "message": "no such thing"}
    methods = ("model/list", "permissionProfile/list", "collaborationMode/list")
    async with ConfigBench(*(Expect(method, error=refused) for method in methods)) as bench:
        answer = await bench.open()
        assert list(by_id(answer["configOptions"])) == ["mode", "model", "reasoning_effort"]


async def test_a_cursor_that_repeats_ends_the_list() -> None:
    page: dict[str, JsonValue] = {**MODELS, "nextCursor": "again"}
    async with ConfigBench(
        Expect("model/list", page), *LISTS[1:], Expect("model/list", page)
    ) as bench:
        answer = await bench.open()
        assert [p.get("cursor") for p in bench.asked("model/list")] == [None, "again"]
        assert len(by_id(answer["configOptions"])["model"]["options"]) == 4


async def test_a_loaded_session_has_from_the_configuration_what_is_configured() -> None:
    back = taken()
    async with ConfigBench(*LISTS, *back) as bench:
        answer = await bench.open(started(approvalPolicy="never", sandbox=FULL), how="load")
        assert answer["modes"]["currentModeId"] == "full-access"

        options = await bench.set("mode", "configured")
        assert options["mode"]["currentValue"] == "configured"
        assert bench.asked("thread/settings/update")[-1]["approvalPolicy"] == "on-request"


async def test_a_loaded_session_that_is_as_configured_says_so() -> None:
    async with ConfigBench(*LISTS) as bench:
        answer = await bench.open(how="load")
        assert answer["modes"]["currentModeId"] == "configured"


async def test_a_service_tier_which_codex_does_not_restore_is_set_again_by_a_load() -> None:
    again = taken(serviceTier="flex")
    async with ConfigBench(*LISTS, *taken(serviceTier="flex"), *LISTS[2:], *again) as bench:
        await bench.open()
        await bench.set("service_tier", "flex")
        bench.config.forget(THREAD)
        answer = await bench.open(how="load")

        assert by_id(answer["configOptions"])["service_tier"]["currentValue"] == "flex"
        assert bench.asked("thread/settings/update")[-1] == {
            "threadId": THREAD, "serviceTier": "flex",
        }  # fmt: skip
        assert bench.updates == []


async def test_a_fork_takes_over_what_its_source_has() -> None:
    changed = taken(effort="high", **FULL_ACCESS)
    async with ConfigBench(*LISTS, *changed, *LISTS[2:]) as bench:
        await bench.open()
        await bench.set("mode", "full-access")
        forked = started(thread={"id": "thread-2"}, approvalPolicy="never")
        await bench.open(forked, "thread-2", how="fork", source=THREAD)

        assert bench.asked("thread/settings/update")[-1] == {
            "threadId": "thread-2",
            "effort": "high",
            "approvalPolicy": "never",
            "approvalsReviewer": "user",
            "permissions": ":danger-full-access",
        }


async def test_after_a_loss_of_codex_the_session_is_as_before_and_the_client_hears_nothing() -> (
    None
):
    async with ConfigBench(*LISTS, *taken(**FULL_ACCESS, serviceTier="flex")) as bench:
        await bench.open()
        await bench.set("mode", "full-access")
        bench.updates.clear()
        script = [*LISTS[:2], *taken(**FULL_ACCESS, serviceTier="flex")]
        async with ScriptedAppServer(script) as server, AppServerConnection(server.link) as codex:
            resumed = started(
                approvalPolicy="never",
                sandbox=FULL,
                activePermissionProfile={"id": ":danger-full-access"},
            )
            with anyio.fail_after(60):
                await bench.config.move(THREAD, codex, resumed)
            asked = [
                message["params"]
                for message in server.player.received
                if message.get("method") == "thread/settings/update"
            ]
            assert asked == [{"threadId": THREAD, "serviceTier": "flex"}]
            assert bench.updates == []


@pytest.mark.attack("app-server")
async def test_7_2_a_session_that_may_do_more_than_was_chosen_is_not_gone_on_with() -> None:
    async with ConfigBench(*LISTS) as bench:
        await bench.open()
        chosen = bench.config.options(THREAD)
        no = {"code": -32600, "message": "not now"}
        script = [*LISTS[:2], *2 * [Expect("thread/settings/update", error=no)]]
        async with ScriptedAppServer(script) as server, AppServerConnection(server.link) as codex:
            wider = started(approvalPolicy="never", sandbox=FULL)
            for _ in range(2):  # what was chosen is not forgotten
                with anyio.fail_after(60), pytest.raises(RpcError, match="its mode again"):
                    await bench.config.move(THREAD, codex, wider)
            assert len(server.player.received) > 2
            assert bench.config.options(THREAD) == chosen
