"""Agents as processes: started once, watched, started again, ended; and whatever they do wrong."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codex_acp.errors import (
    ConnectionClosed,
    ErrorReply,
    InvalidPayload,
    LineTooLong,
    MisuseError,
    ProcessExited,
)
from codex_acp.runtime import (
    AgentLaunchError,
    AgentRuntime,
    AgentSpec,
    AgentStartError,
    CrashLoop,
    RestartLimit,
    Session,
)
from tests.runtime.scripted_agent import ScriptedAgent
from tests.support.processes import lives

WAIT = 60.0
RAW_AGENT = Path(__file__).with_name("raw_agent.py")


def raw(*behaviours: str, **options: Any) -> AgentSpec:
    command = [sys.executable, "-I", str(RAW_AGENT), *behaviours]
    return AgentSpec(command, "raw agent", **options)


def pid_of(session: Session) -> int:
    return int(session.session_id.partition(".")[0])


@pytest.mark.attack("agent")
async def test_a_session_whose_id_another_open_one_has_is_refused() -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT):
            first = await runtime.open(raw("has one id", shared=True))
            with pytest.raises(InvalidPayload, match="is that of another open session"):
                await runtime.open(raw("has one id", shared=True))
            assert (await first.run("Go.")).stop_reason == "end_turn"


async def test_a_process_is_each_sessions_own_unless_it_is_shared() -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT):
            own = [await runtime.open(raw()) for _ in range(2)]
            shared = [await runtime.open(raw(shared=True)) for _ in range(2)]
        pids = [pid_of(session) for session in [*own, *shared]]
        assert len(set(pids)) == 3
        assert pids[2] == pids[3]
        await own[0].aclose()
        await shared[0].aclose()
        assert [lives(pid) for pid in pids] == [False, True, True, True]
    assert not any(lives(pid) for pid in pids)


async def test_a_shared_agent_is_started_once_however_many_ask_for_it() -> None:
    agent = ScriptedAgent()
    spec = agent.spec(shared=True)
    async with AgentRuntime() as runtime:
        sessions = await asyncio.gather(*[runtime.open(spec) for _ in range(10)])
        assert agent.starts == 1
        assert len({session.session_id for session in sessions}) == 10


def slow_agent() -> tuple[ScriptedAgent, asyncio.Event, asyncio.Event]:
    """An agent, an event that its ``initialize`` sets, and one that it waits for."""
    agent, begun, go = ScriptedAgent(), asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        begun.set()
        await go.wait()

    agent.on(initialize=slowly)
    return agent, begun, go


async def test_who_gives_up_waiting_for_a_shared_start_takes_it_from_nobody() -> None:
    agent, begun, go = slow_agent()
    spec = agent.spec(shared=True)

    async def opened() -> str:
        return (await runtime.open(spec)).session_id

    async with AgentRuntime() as runtime:
        first, second = asyncio.create_task(opened()), asyncio.create_task(opened())
        with anyio.fail_after(WAIT):
            await begun.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            go.set()
            assert await second == "s1"
    assert agent.starts == 1


async def test_a_shared_start_that_everybody_gave_up_serves_the_next_who_asks() -> None:
    agent, begun, go = slow_agent()
    spec = agent.spec(shared=True)
    async with AgentRuntime() as runtime:
        asked = asyncio.create_task(runtime.describe(spec))
        with anyio.fail_after(WAIT):
            await begun.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            go.set()
            await asyncio.gather(*runtime._starts)
            await runtime.describe(spec)
    assert agent.starts == 1


async def test_who_gives_up_waiting_for_a_process_of_its_own_ends_it() -> None:
    agent, begun, _ = slow_agent()

    async def opened() -> str:
        return (await runtime.open(agent.spec())).session_id

    async with AgentRuntime() as runtime:
        task = asyncio.create_task(opened())
        with anyio.fail_after(WAIT):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while agent.tasks:
                await asyncio.wait(agent.tasks)
            assert not runtime._processes


async def test_closing_the_runtime_ends_a_start_that_hangs() -> None:
    async with AgentRuntime() as runtime:
        task = asyncio.create_task(runtime.describe(raw("never answers")))
        with anyio.fail_after(WAIT):
            while not runtime._starts:
                await anyio.lowlevel.checkpoint()
            await runtime.aclose()
            with pytest.raises((asyncio.CancelledError, ConnectionClosed)):
                await task
        with pytest.raises(MisuseError, match="closed"):
            runtime.open(raw())


async def test_an_agent_that_does_not_end_by_itself_is_ended_with_all_it_started() -> None:
    async with AgentRuntime() as runtime:
        spec = raw("outlives its stdin", "ignores SIGTERM", "starts others")
        with anyio.fail_after(WAIT):
            async with runtime.open(spec) as session:
                result = await session.run("Go.")
                pids = [pid_of(session), int(result.text.split()[1])]
                assert all(lives(pid) for pid in pids)
        assert not any(lives(pid) for pid in pids)


@pytest.mark.parametrize("shared", [True, False])
async def test_what_a_lost_agent_started_ends_before_the_runtime_is_closed(*, shared: bool) -> None:
    spec = raw("ignores SIGTERM", "starts a child", "exits in a prompt", shared=shared)
    with anyio.fail_after(WAIT):
        async with AgentRuntime() as runtime:
            session = await runtime.open(spec)
            prompt = session.prompt("Go.")
            with pytest.raises(ProcessExited):
                await prompt.result()
        assert not lives(int("".join(prompt.messages).split()[1]))


async def test_the_process_of_a_closed_session_is_not_kept() -> None:
    agent = ScriptedAgent()
    async with AgentRuntime() as runtime:
        await runtime.describe(agent.spec())
        async with runtime.open(agent.spec()):
            assert len(runtime._processes) == 1
        assert not runtime._processes


@pytest.mark.parametrize(
    ("behaviour", "returncode", "tail"),
    [("exits in a prompt", 7, "boom"), ("is killed in a prompt", -9, "")],
)
async def test_an_agent_that_ends_in_a_prompt_is_an_error_with_its_status_and_stderr(
    behaviour: str, returncode: int, tail: str
) -> None:
    async with AgentRuntime() as runtime, runtime.open(raw(behaviour)) as session:
        with anyio.fail_after(WAIT):
            prompt = session.prompt("Go.")
            await anext(prompt)
            with pytest.raises(ProcessExited) as raised:
                await prompt.result()
        assert raised.value.returncode == returncode
        assert raised.value.stderr_tail == tail
        assert "raw agent" in str(raised.value)
        assert session.closed
        with pytest.raises(ProcessExited):
            session.prompt("Again.")


async def test_an_agent_that_has_ended_is_started_again_for_the_next_who_asks() -> None:
    spec = raw("exits in a prompt", shared=True)
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT):
            first = await runtime.open(spec)
            with pytest.raises(ProcessExited):
                await first.run("Go.")
            second = await runtime.open(spec)
            assert second.session_id != first.session_id
            assert not second.closed


async def test_an_agent_that_keeps_ending_is_not_started_for_a_while() -> None:
    now = 100.0
    spec = raw("exits in a prompt", shared=True)
    limit = RestartLimit(count=2, seconds=60)
    async with AgentRuntime(restarts=limit, clock=lambda: now) as runtime:
        with anyio.fail_after(WAIT):
            for _ in range(2):
                with pytest.raises(ProcessExited):
                    await (await runtime.open(spec)).run("Go.")
            with pytest.raises(CrashLoop, match="ended 2 times within 60 seconds") as raised:
                await runtime.open(spec)
            assert isinstance(raised.value.last, ProcessExited)
            now += 60
            assert not (await runtime.open(spec)).closed


async def test_starts_that_fail_count_as_ends() -> None:
    async with AgentRuntime(restarts=RestartLimit(count=2)) as runtime:
        with anyio.fail_after(WAIT):
            for _ in range(2):
                with pytest.raises(AgentStartError, match="no licence") as raised:
                    await runtime.open(raw("exits at once"))
                assert isinstance(raised.value.__cause__, ProcessExited)
                assert raised.value.__cause__.returncode == 3
            with pytest.raises(CrashLoop):
                await runtime.open(raw("exits at once"))
            # Another agent is another matter.
            await runtime.open(raw())


@pytest.mark.parametrize(
    ("behaviour", "seconds", "said"),
    [
        ("never answers", 0.5, r"did not answer initialize within 0\.5 seconds"),
        # On a busy machine an agent needs seconds to say anything.
        ("only garbage", 8, "its stdout is not the protocol's, it began with"),
    ],
)
async def test_an_agent_that_never_answers_initialize_is_given_up_and_ended(
    behaviour: str, seconds: float, said: str
) -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT), pytest.raises(AgentStartError, match=said):
            await runtime.open(raw(behaviour, start_seconds=seconds))
        assert not runtime._processes


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["cat"], r"it refused initialize: .* \(is it an ACP agent\?\)"),
        (["true"], r"it exited with status 0 before it answered initialize \(is it an ACP"),
        (["echo", "hello"], r"is it an ACP agent\?\); its stdout .* began with b'hello'"),
    ],
)
async def test_a_program_that_is_no_agent_is_asked_about(command: list[str], said: str) -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT), pytest.raises(AgentStartError, match=said):
            await runtime.open(AgentSpec(command))


async def test_a_version_that_is_not_spoken_here_is_a_typed_error() -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT), pytest.raises(AgentStartError, match="protocol version 99"):
            await runtime.open(raw("other version"))


async def test_an_initialize_that_is_refused_is_the_agents_error() -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT), pytest.raises(ErrorReply, match="not today"):
            await runtime.open(raw("refuses"))


@pytest.mark.parametrize("command", ["no-such-agent-here", "/etc/hostname"])
async def test_a_command_that_cannot_be_started_is_a_typed_error(command: str) -> None:
    async with AgentRuntime() as runtime:
        with pytest.raises(AgentLaunchError, match="could not be started"):
            await runtime.open(AgentSpec([command]))


async def test_an_agent_that_ends_in_session_new_is_an_error_with_its_status() -> None:
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT), pytest.raises(ProcessExited) as raised:
            await runtime.open(raw("exits in new"))
        assert raised.value.returncode == 4


async def test_a_banner_on_stdout_does_no_harm() -> None:
    async with AgentRuntime() as runtime, runtime.open(raw("banner")) as session:
        with anyio.fail_after(WAIT):
            assert (await session.run("Go.")).text == "Hello."


async def test_garbage_in_the_middle_of_a_prompt_does_no_harm() -> None:
    async with AgentRuntime() as runtime, runtime.open(raw("garbage in a prompt")) as session:
        with anyio.fail_after(WAIT):
            assert (await session.run("Go.")).text == "Hello."
            assert (await session.run("Go.")).text == "Hello."


async def test_a_flood_on_stderr_holds_nothing_up_and_its_end_is_kept() -> None:
    async with AgentRuntime() as runtime, runtime.open(raw("floods stderr")) as session:
        with anyio.fail_after(WAIT):
            assert (await session.run("Go.")).text == "Hello."
        tail = session._process.stderr_tail
        assert len(tail) <= 8 * 1024
        assert tail.endswith("the last line")


async def test_an_agent_that_answers_twice_is_heard_once(caplog: pytest.LogCaptureFixture) -> None:
    async with AgentRuntime() as runtime, runtime.open(raw("answers twice")) as session:
        with anyio.fail_after(WAIT), caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert (await session.run("Go.")).stop_reason == "end_turn"
    assert "which is not open" in caplog.text


async def test_a_message_above_the_limit_is_left_out_and_the_prompt_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec = raw("huge", line_limit=100_000)
    async with AgentRuntime() as runtime, runtime.open(spec) as session:
        with anyio.fail_after(WAIT):
            assert (await session.run("Go.")).text == "Hello."
    assert "above the limit of 100000 bytes" in caplog.text


async def test_an_answer_above_the_limit_fails_its_prompt_and_the_session_goes_on() -> None:
    spec = raw("huge answer", line_limit=100_000)
    async with AgentRuntime() as runtime, runtime.open(spec) as session:
        with anyio.fail_after(WAIT):
            for _ in range(2):
                with pytest.raises(LineTooLong, match="100000 bytes"):
                    await session.run("Go.")


async def test_a_stop_reason_that_the_schema_lacks_is_an_error_that_names_the_field() -> None:
    async with AgentRuntime() as runtime, runtime.open(raw("stops with fatigue")) as session:
        with anyio.fail_after(WAIT), pytest.raises(InvalidPayload, match="stopReason"):
            await session.run("Go.")


async def test_an_agent_that_closes_its_stdout_is_lost_and_ended() -> None:
    async with AgentRuntime() as runtime, runtime.open(raw("closes stdout")) as session:
        pid = pid_of(session)
        with anyio.fail_after(WAIT):
            with pytest.raises(ConnectionClosed, match="closed its stdout"):
                await session.run("Go.")
            await session.aclose()
        assert not lives(pid)


async def test_an_unknown_name_is_a_misuse_that_lists_those_known() -> None:
    async with AgentRuntime({"mine": raw()}) as runtime:
        with pytest.raises(MisuseError, match="known are claude, codex, mine"):
            runtime.open("gemini")
        with anyio.fail_after(WAIT):
            async with runtime.open("mine") as session:
                assert session.agent == "raw agent"


async def test_the_agent_gets_its_environment_and_directory(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.stderr.write(f\"{os.getcwd()} {os.environ['NEW']}"
        " {os.environ.get('OLD')}\")"
    )
    spec = AgentSpec(
        [sys.executable, "-c", code], env={"NEW": "1"}, inherit_env=False, cwd=tmp_path
    )
    async with AgentRuntime() as runtime:
        with anyio.fail_after(WAIT), pytest.raises(AgentStartError) as raised:
            await runtime.open(spec)
    assert raised.value.stderr_tail == f"{tmp_path} 1 None"


async def test_what_an_agent_says_of_itself_can_be_asked_without_a_session() -> None:
    agent = ScriptedAgent(load=True)
    async with AgentRuntime() as runtime:
        description = await runtime.describe(agent.spec())
    assert description.features.load_session
    assert description.info is None
    assert agent.calls == ["initialize"]
