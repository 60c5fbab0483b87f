"""A client with a policy at a scripted app-server in which one turn runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any, Final, Self

import anyio
import pytest

from codex_acp.codex import ApprovalQuestion, CodexClient, Once, Policy, RefusedRequest
from codex_acp.codex.approvals.grants import Grant
from codex_acp.codex.types import TextUserInput, TurnStartParams
from codex_acp.testing import (
    AskClient,
    Entry,
    Expect,
    ExpectNotification,
    Notify,
    ScriptedAppServer,
    turn_started,
)
from tests.codex.server_request_samples import COMMAND

FILES: Final = "item/fileChange/requestApproval"
PERMISSIONS: Final = "item/permissions/requestApproval"
ELICITATION: Final = "mcpServer/elicitation/request"
QUESTION: Final = "item/tool/requestUserInput"

TURN: Final = {"threadId": "${turn:threadId}", "turnId": "${turn:id}"}
ASKED: Final = {**TURN, "itemId": "i", "startedAtMs": 1}
SPAWNS_CHILD: Final[dict[str, Any]] = {
    "type": "collabAgentToolCall", "id": "spawn", "agentsStates": {}, "status": "inProgress",
    "tool": "spawnAgent", "senderThreadId": "t", "receiverThreadIds": ["child"],
}  # fmt: skip
"""An item with which the thread starts the sub-agent ``child``."""
EMPTY_FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}

DECLINED: Final = {"decision": "decline"}
"""The refusal of a command."""

NO_INPUT: Final = {"action": "decline"}
"""The refusal of an elicitation."""


def ask_command(command: str = "touch made", **more: Any) -> AskClient:
    """Codex asks for a command, and offers to remember its prefix."""
    prefix = command.split()
    offers = [
        "accept",
        {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": prefix}},
        "cancel",
    ]
    asked = {"command": command, "cwd": "/w", "proposedExecpolicyAmendment": prefix}
    params = {**ASKED, "kind": "command", **asked, "availableDecisions": offers, **more}
    return AskClient(COMMAND, params)


def call_runs(item_id: str = "call", server: str = "notes", arguments: Any = None) -> Notify:
    """An MCP call starts."""
    item = {
        "type": "mcpToolCall",
        "id": item_id,
        "server": server,
        "tool": "act",
        "arguments": {} if arguments is None else arguments,
        "status": "inProgress",
    }
    return Notify("item/started", {**TURN, "item": item, "startedAtMs": 1})


def elicit(server: str = "notes", meta: Any = None, **more: Any) -> AskClient:
    """An elicitation of a server; by default an empty form."""
    params = {
        **TURN,
        "serverName": server,
        "mode": "form",
        "_meta": meta,
        "message": "Allow?",
        "requestedSchema": EMPTY_FORM,
        **more,
    }
    return AskClient(ELICITATION, params)


def ask_tool(server: str = "notes", arguments: Any = None, **more: Any) -> AskClient:
    """Codex (or who claims to be it) asks for a tool call."""
    claimed = {
        "codex_approval_kind": "mcp_tool_call",
        "tool_params": {} if arguments is None else arguments,
        "persist": ["session", "always"],
    }
    return elicit(server, claimed, **more)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


class Asked:
    """A callback that answers when it is told to."""

    def __init__(self, answer: Grant | None = None) -> None:
        self.questions: list[ApprovalQuestion] = []
        self.called = anyio.Event()
        self.release = anyio.Event()
        self.cancelled = anyio.Event()
        self.answer = answer or Once()

    async def __call__(self, question: ApprovalQuestion) -> Grant | None:
        self.questions.append(question)
        self.called.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.answer


class PolicyBench:
    """``async with PolicyBench(policy, *entries) as bench``: a turn runs and they are played."""

    def __init__(self, policy: Policy | None, *entries: Entry, **options: Any) -> None:
        self.refused: list[RefusedRequest] = []
        script: list[Entry] = [Expect("initialize"), ExpectNotification("initialized")]
        self.server = ScriptedAppServer([*script, Expect("turn/start"), *turn_started(), *entries])
        self.client = CodexClient(
            self.server.link, policy=policy, on_refused=self.refused.append, **options
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.server)
        await self._stack.enter_async_context(self.client)
        await self.start_turn()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        with anyio.fail_after(60):
            await self._stack.__aexit__(*exc)

    async def start_turn(self) -> None:
        params = TurnStartParams(thread_id="t", input=[TextUserInput(text="Go.")])
        await self.client.turn_start(params)

    async def synced(self) -> None:
        """The server has read all that was written, and what it sent has taken effect."""
        self.server.play(Expect("thread/list"))
        await self.client.call_raw("thread/list", {})

    async def answers(self, count: int = 1) -> list[object]:
        """The results of all answers, in the order of their ids, once there are ``count``.

        A call follows, so that an answer too many would have come, too.
        """
        player = self.server.player
        await self.server.wait_for(lambda: len(player.answers) >= count)
        await self.synced()
        assert len(player.answers) == count
        assert all(answer.name is not None for answer in player.answers)
        ordered = sorted(player.answers, key=lambda answer: str(answer.id))
        return [answer.result for answer in ordered]

    async def answer(self) -> object:
        """The result of the only answer."""
        (only,) = await self.answers()
        return only
