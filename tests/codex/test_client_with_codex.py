"""The client with the real Codex and a scripted model: turns, server requests, sudden ends."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_acp.codex import (
    CodexClient,
    LaunchOptions,
    NotificationStream,
    RefusedRequest,
    codex_version,
    find_codex,
)
from codex_acp.codex._generated.methods import ServerNotificationMethod
from codex_acp.codex.types import (
    CommandExecutionRequestApprovalResponse,
    CommandExecutionThreadItem,
    ItemAgentMessageDeltaEvent,
    ItemCommandExecutionRequestApproval,
    ItemCompletedEvent,
    RequestHandlers,
    ServerNotification,
    TextUserInput,
    ThreadStartParams,
    Turn,
    TurnCompletedEvent,
    TurnInterruptParams,
    TurnStartedEvent,
    TurnStartParams,
)
from codex_acp.errors import ErrorReply, ProcessExited
from codex_acp.testing import (
    CodexHome,
    Gate,
    McpScript,
    McpTool,
    ModelResponse,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    add_file,
    exec_command,
    form_elicitation,
    mcp_call,
    request_permissions,
    request_user_input,
)
from codex_acp.transport.child import ChildProcess
from tests.support.codex_version import codex_under_test

WAIT_SECONDS = 60
"""The machine may be busy; a turn itself takes a tenth of a second."""

ASK = exec_command("touch made", justification="May I?", call_id="ask")


@dataclass
class Session:
    """A client with one thread and its stream; nothing of it is left behind."""

    model: ScriptedModel
    home: CodexHome
    codex: CodexClient
    events: NotificationStream
    thread_id: str

    async def start_turn(self, text: str = "Go.") -> str:
        params = TurnStartParams(thread_id=self.thread_id, input=[TextUserInput(text=text)])
        return (await self.codex.turn_start(params)).turn.id

    async def finish_turn(self) -> tuple[Turn, list[ServerNotification]]:
        """The end of the turn, and all that came before it."""
        seen: list[ServerNotification] = []
        async for event in self.events:
            if isinstance(event, TurnCompletedEvent):
                return event.params.turn, seen
            seen.append(event)
        raise AssertionError("the stream ended before the turn")


class Running:
    """``async with Running(script) as session``; at the end no process may be left."""

    def __init__(
        self,
        script: Sequence[ModelResponse | Sequence[Step]],
        handlers: RequestHandlers | None = None,
        opt_out: Sequence[ServerNotificationMethod] = (),
        on_refused: Callable[[RefusedRequest], None] | None = None,
        **home: Any,
    ) -> None:
        self._on_refused = on_refused
        self._home = home
        self._script = script
        self._handlers = handlers
        self._opt_out = opt_out
        self._outer = ExitStack()
        self._inner = AsyncExitStack()
        self._pid = 0

    async def __aenter__(self) -> Session:
        model = self._outer.enter_context(ScriptedModel(self._script))
        home = self._outer.enter_context(CodexHome(model.base_url, **self._home))
        launch = LaunchOptions(env=home.env, cwd=home.workspace)
        codex = CodexClient.start(
            launch, opt_out_notifications=self._opt_out, on_refused=self._on_refused
        )
        codex.handle(self._handlers or {})
        assert isinstance(codex.link, ChildProcess)
        self._pid = codex.link.pid
        self._inner.push_async_callback(codex.aclose)
        try:
            return await self._begin(codex, model, home)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise

    async def _begin(self, codex: CodexClient, model: ScriptedModel, home: CodexHome) -> Session:
        await codex.connect()
        started = await codex.thread_start(ThreadStartParams(cwd=str(home.workspace)))
        thread_id = started.thread.id
        events = await self._inner.enter_async_context(NotificationStream(codex, thread_id))
        return Session(model, home, codex, events, thread_id)

    async def __aexit__(self, *exc: Any) -> None:
        with self._outer:
            await self._inner.__aexit__(*exc)
            assert processes_in_session(self._pid) == []


def processes_in_session(session_id: int) -> list[int]:
    """What still runs in the session of a child, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _ppid, _group, session = (
                    (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                )
            except OSError:
                continue
            if int(session) == session_id and state != "Z":
                found.append(int(entry.name))
    return found


def texts(events: Sequence[ServerNotification]) -> list[str]:
    return [e.params.delta for e in events if isinstance(e, ItemAgentMessageDeltaEvent)]


def commands(events: Sequence[ServerNotification]) -> list[CommandExecutionThreadItem]:
    items = [e.params.item for e in events if isinstance(e, ItemCompletedEvent)]
    return [item for item in items if isinstance(item, CommandExecutionThreadItem)]


def test_the_wheels_binary_is_found_and_tells_its_version() -> None:
    assert codex_version(find_codex(None, {}).path) == version("openai-codex-cli-bin")


async def test_a_streamed_turn() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[Text("Hel", "lo", " you")]]) as session:
            assert codex_under_test() in session.codex.server.user_agent
            assert "codex_acp_sdk" in session.codex.server.user_agent
            await session.start_turn("Say hello.")
            turn, events = await session.finish_turn()
            assert turn.status == "completed"
            assert texts(events) == ["Hel", "lo", " you"]
            assert session.model.requests[0].last_user_text == "Say hello."
            assert session.codex.unknown == {}


async def test_notifications_that_were_opted_out_of_do_not_come() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[Text("Hello")]], opt_out=["item/agentMessage/delta"]) as session:
            await session.start_turn()
            turn, events = await session.finish_turn()
            assert turn.status == "completed"
            assert texts(events) == []


async def test_an_interrupt_ends_the_turn() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[Text("Before"), Gate("never")]]) as session:
            turn_id = await session.start_turn()
            async for event in session.events:
                if isinstance(event, TurnStartedEvent):
                    break
            params = TurnInterruptParams(thread_id=session.thread_id, turn_id=turn_id)
            await session.codex.turn_interrupt(params)
            turn, _events = await session.finish_turn()
            assert turn.status == "interrupted"
            no_turn = TurnInterruptParams(thread_id=session.thread_id, turn_id="no-such-turn")
            with pytest.raises(ErrorReply, match="turn/interrupt"):
                await session.codex.turn_interrupt(no_turn)


async def test_without_a_handler_a_command_is_declined_at_once_and_the_turn_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[ASK], [Text("Understood.")]]) as session:
            await session.start_turn()
            turn, events = await session.finish_turn()
            assert turn.status == "completed"
            assert texts(events) == ["Understood."]
            assert [item.status for item in commands(events)] == ["declined"]
            assert "rejected" in session.model.requests[1].tool_outputs["ask"]
            assert not (session.home.workspace / "made").exists()
    (warning,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "item/commandExecution/requestApproval" in warning.getMessage()


async def test_codex_understands_the_other_refusals_and_the_turn_goes_on(tmp_path: Path) -> None:
    question = {
        "id": "color",
        "header": "Color",
        "question": "Which?",
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}],
    }
    script: list[list[Step]] = [
        [add_file("new.txt", "one\n", call_id="patch")],
        [request_user_input(question, call_id="question")],
        [request_permissions("need net", network=True, call_id="permissions")],
        [mcp_call("notes", "act", {}, call_id="form")],
        [mcp_call("notes", "overwrite", {}, call_id="approval")],
        [Text("Understood.")],
    ]
    form = form_elicitation("Fill in", {"color": {"type": "string"}}, required=["color"])
    tools = [
        McpTool("act", read_only=True, elicitations=[form]),
        McpTool("overwrite", read_only=False, destructive=True),
    ]
    server = ScriptedMcpServer(tmp_path, McpScript(tools))
    features = {"default_mode_request_user_input": True, "request_permissions_tool": True}
    refused: list[str] = []
    with anyio.fail_after(WAIT_SECONDS):
        async with Running(
            script,
            on_refused=lambda request: refused.append(request.method),
            mcp_servers={"notes": server.config},
            config={"features": features},
        ) as session:
            await session.start_turn()
            turn, events = await session.finish_turn()
            assert turn.status == "completed"
            assert texts(events) == ["Understood."]
            assert not (session.home.workspace / "new.txt").exists()
            outputs = session.model.requests[-1].tool_outputs
    assert refused == [
        "item/fileChange/requestApproval",
        "item/tool/requestUserInput",
        "item/permissions/requestApproval",
        "mcpServer/elicitation/request",
        "mcpServer/elicitation/request",
    ]
    assert "rejected" in outputs["patch"]
    assert json.loads(outputs["question"]) == {"answers": {}}
    granted = json.loads(outputs["permissions"])["permissions"]
    assert set(granted.values()) == {None}
    assert "decline" in outputs["form"]
    assert "rejected" in outputs["approval"]
    assert len(server.received("tools/call")) == 1


async def test_a_handler_that_accepts_lets_the_command_run() -> None:
    seen: list[ItemCommandExecutionRequestApproval] = []

    async def accept(
        request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        seen.append(request)
        return CommandExecutionRequestApprovalResponse(decision="accept")

    handlers: RequestHandlers = {"item/commandExecution/requestApproval": accept}
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[ASK], [Text("Done.")]], handlers) as session:
            await session.start_turn()
            turn, events = await session.finish_turn()
            assert turn.status == "completed"
            assert [(item.id, item.exit_code) for item in commands(events)] == [("ask", 0)]
            assert (session.home.workspace / "made").exists()
            assert (seen[0].id, seen[0].params.reason) == (0, "May I?")
            assert seen[0].params.thread_id == session.thread_id


async def test_a_handler_that_raises_declines_the_command() -> None:
    async def fails(
        request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        raise ValueError(request.method)

    handlers: RequestHandlers = {"item/commandExecution/requestApproval": fails}
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[ASK], [Text("Understood.")]], handlers) as session:
            await session.start_turn()
            turn, events = await session.finish_turn()
            assert turn.status == "completed"
            assert [item.status for item in commands(events)] == ["declined"]
            assert not (session.home.workspace / "made").exists()


async def test_killing_the_process_in_a_turn_fails_the_call_and_the_stream() -> None:
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[Text("Before"), Gate("never")]]) as session:
            await session.start_turn()
            async for event in session.events:
                if isinstance(event, ItemAgentMessageDeltaEvent):
                    break
            link = session.codex.link
            assert isinstance(link, ChildProcess)
            # Stopped first, so that the call is surely in flight when the process dies.
            os.kill(link.pid, signal.SIGSTOP)

            async def call() -> None:
                with pytest.raises(ProcessExited) as caught:
                    await session.codex.thread_list()
                assert caught.value.returncode == -signal.SIGKILL

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await anyio.wait_all_tasks_blocked()
                os.kill(link.pid, signal.SIGKILL)
            with pytest.raises(ProcessExited):
                await session.finish_turn()
            assert session.codex.closed


async def test_leaving_in_the_middle_of_a_command_leaves_nothing_behind() -> None:
    sleep = exec_command("sleep 300", call_id="sleep", justification="May I?")

    async def accept(
        _request: ItemCommandExecutionRequestApproval,
    ) -> CommandExecutionRequestApprovalResponse:
        return CommandExecutionRequestApprovalResponse(decision="accept")

    handlers: RequestHandlers = {"item/commandExecution/requestApproval": accept}
    with anyio.fail_after(WAIT_SECONDS):
        async with Running([[sleep], [Text("Done.")]], handlers) as session:
            await session.start_turn()
            async for event in session.events:
                if event.method == "serverRequest/resolved":
                    break
        # Running looks for what is left.


async def test_a_wrong_argument_ends_the_start_with_its_words() -> None:
    with CodexHome() as home:
        client = CodexClient.start(LaunchOptions(args=["--no-such-option"], env=home.env))
        with anyio.fail_after(WAIT_SECONDS), pytest.raises(ProcessExited) as caught:
            await client.connect()
        assert "--no-such-option" in str(caught.value)
