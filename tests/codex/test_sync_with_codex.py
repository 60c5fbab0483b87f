"""The synchronous facade with the real Codex, from scripts and threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from codex_acp.codex import LaunchOptions, Once, TurnFailed, ask, sync
from codex_acp.codex.sync import Codex
from codex_acp.codex.types import (
    CommandExecutionRequestApprovalResponse,
    GetAccountParams,
    ItemAgentMessageDeltaEvent,
    ItemCommandExecutionRequestApproval,
    ModelListParams,
    TurnCompletedEvent,
)
from codex_acp.errors import MisuseError, ProcessExited
from codex_acp.testing import (
    CodexHome,
    Fail,
    Gate,
    ModelResponse,
    ScriptedModel,
    Step,
    Text,
    ToolCall,
    When,
    exec_command,
)
from codex_acp.transport.child import ChildProcess

WAIT_SECONDS = 60
ASK = exec_command("touch made", justification="May I?", call_id="ask")


class City(BaseModel):
    name: str


@contextmanager
def running(
    *script: ModelResponse | Sequence[Step], **settings: Any
) -> Iterator[tuple[Codex, ScriptedModel, CodexHome]]:
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url) as home,
        Codex(LaunchOptions(env=home.env), **settings) as codex,
    ):
        yield codex, model, home


def test_a_script_runs_a_turn_and_iterates_over_another() -> None:
    with running([Text("Hello.")], [Text("A", "B")]) as (codex, _model, home):
        thread = codex.threads.start(cwd=home.workspace)
        assert thread.run("Hi.").text == "Hello."
        with thread.turn("Again.") as turn:
            said = [e.params.delta for e in turn if isinstance(e, ItemAgentMessageDeltaEvent)]
            assert said == ["A", "B"]
            assert turn.result().text == "AB"
            assert turn.so_far.turn_id == turn.id


def test_leaving_a_plain_loop_interrupts_the_turn() -> None:
    with running([Text("x"), Gate("never")]) as (codex, _model, home):
        thread = codex.threads.start(cwd=home.workspace)
        for event in thread.turn("Go."):
            if isinstance(event, ItemAgentMessageDeltaEvent):
                break
        assert [t.status for t in thread.read().turns] == ["interrupted"]


def test_a_plain_loop_goes_to_the_end() -> None:
    with running([Text("x")]) as (codex, _model, home):
        thread = codex.threads.start(cwd=home.workspace)
        assert isinstance(list(thread.turn("Go."))[-1], TurnCompletedEvent)


def test_threads_are_managed() -> None:
    with running([Text("One.")], [Text("Two.")], [Text("Sum.")]) as (codex, _model, home):
        thread = codex.threads.start(cwd=home.workspace)
        thread.run("First.")
        thread.rename("Mine")
        assert [t.info.name for t in codex.threads.list()] == ["Mine"]
        fork = thread.fork()
        assert fork.run("Second.").text == "Two."
        fork.compact()
        assert codex.threads.resume(thread.id).settings.model == "gpt-5.5"
        fork.archive()
        fork.unarchive()
        fork.delete()
        thread.unsubscribe()
        assert [t.id for t in codex.threads.list()] == [thread.id]
        assert codex.threads.get(thread.id).read(include_turns=False).name == "Mine"
        assert [m.id for m in codex.call(codex.client.model_list).data]


def test_errors_are_those_of_the_event_loop() -> None:
    with running([Fail(400, "bad")], [Text('{"name": "Bern"}')]) as (codex, _model, home):
        thread = codex.threads.start(cwd=home.workspace)
        with pytest.raises(TurnFailed, match="bad"):
            thread.run("Go.")
        assert thread.run("A city.", output_type=City).output.name == "Bern"


def test_tools_handlers_and_callbacks_may_block_and_call_back() -> None:
    add = ToolCall("count_threads", {"more": 1}, call_id="c")
    with running([add], [ASK], [Text("Done.")]) as (codex, model, home):

        @codex.tool
        def count_threads(more: int) -> int:
            """Count them."""
            return len(list(codex.threads.list())) + more

        @codex.handle("item/commandExecution/requestApproval")
        def decide(
            request: ItemCommandExecutionRequestApproval,
        ) -> CommandExecutionRequestApprovalResponse:
            assert codex.threads.get(request.params.thread_id).read().id
            return CommandExecutionRequestApprovalResponse(decision="accept")

        thread = codex.threads.start(cwd=home.workspace)
        assert thread.run("Go.").text == "Done."
        assert int(model.requests[-1].tool_outputs["c"]) >= 1
        assert (home.workspace / "made").exists()


def test_a_policy_asks_in_a_thread_of_its_own() -> None:
    asked_in: list[int] = []

    def yes(_question: object) -> Once:
        asked_in.append(threading.get_ident())
        return Once()

    with running([ASK], [Text("Done.")], policy=ask(yes)) as (codex, _model, home):
        codex.threads.start(cwd=home.workspace).run("Go.")
        assert (home.workspace / "made").exists()
    assert asked_in
    assert threading.get_ident() not in asked_in


def test_several_threads_of_the_program_share_one() -> None:
    script = [ModelResponse(Text(f"I am {n}."), when=When(user_text=f"({n})")) for n in range(4)]
    with running(*script) as (codex, _model, home), ThreadPoolExecutor(4) as pool:

        def one(number: int) -> str:
            return codex.threads.start(cwd=home.workspace).run(f"Who? ({number})").text

        assert list(pool.map(one, range(4))) == [f"I am {n}." for n in range(4)]


def test_a_lost_app_server_is_told_to_who_waits() -> None:
    with running([Text("x"), Gate("never")]) as (codex, model, home):
        thread = codex.threads.start(cwd=home.workspace)
        link = codex.client.link
        assert isinstance(link, ChildProcess)

        def kill() -> None:
            model.wait_for_gate("never")
            os.kill(link.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(ProcessExited):
            thread.run("Go.")
        killer.join()


def test_it_works_only_inside_the_with_and_only_once() -> None:
    with CodexHome() as home:
        codex = Codex(LaunchOptions(env=home.env))
        with pytest.raises(MisuseError, match="with"):
            codex.threads.start()
        with codex, pytest.raises(MisuseError, match="once"):
            codex.__enter__()
        with pytest.raises(MisuseError, match="with"):
            codex.threads.start()
        codex.close()


def test_one_that_was_never_entered_can_be_closed() -> None:
    with CodexHome() as home:
        codex = Codex(LaunchOptions(env=home.env))
        link = codex.client.link
        assert isinstance(link, ChildProcess)
        codex.close()
        with pytest.raises(ProcessLookupError):
            os.kill(link.pid, 0)


def test_options_and_an_address_exclude_each_other() -> None:
    with pytest.raises(MisuseError, match="both"):
        sync.Codex(LaunchOptions(), connect_to="ws://127.0.0.1:1")


def test_every_method_of_the_protocol_is_one_that_waits() -> None:
    with running() as (codex, _, _home):
        assert codex.model_list().data
        assert codex.model_list(ModelListParams(limit=1)).next_cursor
        assert not codex.account_read(GetAccountParams()).requires_openai_auth


INTERRUPTED = """
import sys
from codex_acp.codex.sync import Codex
with Codex() as codex:
    thread = codex.threads.start(cwd=sys.argv[1])
    try:
        thread.run("Go.")
    except KeyboardInterrupt:
        print([turn.status for turn in thread.read().turns], flush=True)
        raise
"""


def test_ctrl_c_interrupts_the_turn_and_ends_codex() -> None:
    with ScriptedModel([[Text("x"), Gate("never")]]) as model, CodexHome(model.base_url) as home:
        script = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, str(home.workspace)],
            env=home.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            model.wait_for_gate("never")
            script.send_signal(signal.SIGINT)
            stdout, stderr = script.communicate(timeout=WAIT_SECONDS)
        finally:
            script.kill()
    assert stdout == "['interrupted']\n"
    assert "KeyboardInterrupt" in stderr
    assert script.returncode in (-signal.SIGINT, 130)
