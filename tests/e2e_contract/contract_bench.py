"""The adapter between a client that a test answers for and the real Codex with a scripted model.

The adapter runs in this process, so that its wire to Codex and its transcript can be seen; one
Codex serves all the tests of a module, each in a session of its own. What must hold of every
conversation is checked after each test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import pytest

from codex_acp.acp import acp_connection
from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions, spawn_app_server
from codex_acp.testing import (
    CodexHome,
    ModelRequest,
    ModelResponse,
    ModelScript,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
)
from codex_acp.testing.codex_home import ApprovalPolicy, TomlValue
from codex_acp.transcript.events import Entry, TranscriptEvent
from codex_acp.transcript.log import Transcript
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.link import Link, memory_pair
from codex_acp.transport.shielding import shielded
from tests.e2e_contract.asks import Asks
from tests.e2e_contract.codex_wire import CodexWire, TapLink
from tests.e2e_contract.dialects import TOOL_CALLS, ContractClient, InV1, InV2, calls_of
from tests.e2e_contract.invariants import check_transcript
from tests.support.adapter_tap import AdapterTap

WAIT = 40.0
"""Seconds; what is waited for takes a tenth of one, on a busy machine a few."""

POLL = 0.005
"""Seconds between two looks at the record of another process, which tells nobody of news."""

VERSIONS = (1, 2)
"""Of ACP, in each of which the contract holds."""

IN_V1_ONLY = pytest.mark.in_version(1)
"""For what another test shows in v2 as well: from there on the code is the same."""

IN_V2_ONLY = pytest.mark.in_version(2)
"""For what v1 has no way to say."""

FEATURES = {"default_mode_request_user_input": True, "request_permissions_tool": True}
"""Without these two Codex offers its model no tool that leads to the request."""


def _is_news(request: ModelRequest) -> bool:
    """Whether Codex asks once more only to tell of a sub-agent that has ended meanwhile."""
    roles = [item.get("role") for item in request.items[-2:]]
    return roles == ["assistant", "user"] and "<subagent_notification>" in request.last_user_text


class Scenes:
    """What the model says in each scene; a scene begins with the prompt that names it."""

    def __init__(self) -> None:
        self.responses = [ModelResponse(Text("Noted."), when=_is_news, repeat=True)]
        self._names: set[str] = set()

    def add(self, name: str, *responses: Iterable[Step]) -> str:
        """A scene; returns the text of the prompt that plays it, in any session, once.

        In the task of a sub-agent that text does the same.
        """
        assert name not in self._names, name
        self._names.add(name)
        mark = f"<{name}>"

        def when(request: ModelRequest) -> bool:
            return self.plays(mark, request)

        self.responses += [ModelResponse(*steps, when=when) for steps in responses]
        return mark

    def plays(self, scene: str, request: ModelRequest) -> bool:
        """Whether a request of the model belongs to a scene."""
        told = [str(i.get("content")) for i in request.items if i.get("type") == "agent_message"]
        return any(scene in text for text in (*request.user_texts, *told))


@dataclass
class Prompt:
    """A prompt that runs. ``await prompt.end()`` gives its stop reason."""

    task: asyncio.Task[str]

    async def end(self) -> str:
        """Wait for its end."""
        with anyio.fail_after(WAIT):
            return await shielded(self.task)


@dataclass
class ContractBench:
    """``await bench.start()`` has an adapter that is initialized; ``await bench.stop()``.

    ``version`` is that of ACP; ``elicits``: the client can show forms and open pages. ``link``
    stands in for the real Codex, for a scripted app-server.
    """

    scenes: Scenes
    version: int = 1
    elicits: bool = True
    approval_policy: ApprovalPolicy = "on-request"
    model_name: str = "gpt-5.5"
    config: Mapping[str, TomlValue] = field(default_factory=dict)
    servers: Mapping[str, ScriptedMcpServer] = field(default_factory=dict)
    link: Callable[[], Link] | None = None

    def __post_init__(self) -> None:
        """Nothing is started yet."""
        self.wire = CodexWire()
        self.tap = AdapterTap()
        self.entries: list[Entry] = []
        self.asks = Asks(self._wake)
        self.client: ContractClient
        self._news = asyncio.Event()
        self._prompts: list[Prompt] = []
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] | None = None
        self._adapter: asyncio.Task[None] | None = None

    # From start to stop.

    async def start(self) -> None:
        """Start everything; the client is initialized then."""
        self.model = ScriptedModel(ModelScript(*self.scenes.responses))
        self.model.__enter__()
        self.home = CodexHome(
            self.model.base_url,
            approval_policy=self.approval_policy,
            model=self.model_name,
            mcp_servers={name: server.config for name, server in self.servers.items()},
            config={"features": FEATURES, **self.config},
        )
        self.home.__enter__()
        self._ready = asyncio.get_running_loop().create_future()
        self._adapter = asyncio.create_task(self._serve())
        with anyio.fail_after(WAIT):
            await asyncio.wait({self._adapter, self._ready}, return_when="FIRST_COMPLETED")
        if self._adapter.done():
            await self._adapter

    async def stop(self) -> None:
        """End everything."""
        self._stop.set()
        self.asks.give_up()
        try:
            if self._adapter is not None:
                await self._adapter
        finally:
            self.model.close()
            self.home.remove()

    async def _serve(self) -> None:
        """One task for adapter and client: their task groups begin and end in it."""
        client_end, agent_end = memory_pair()
        transcript = Transcript()
        transcript.subscribe(self.entries.append)
        options = LaunchOptions(env=self.home.env)
        codex: Link = self.link() if self.link is not None else spawn_app_server(options)
        self.app_server = AppServer(options, cast("ChildProcess", TapLink(codex, self.wire)))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_link, agent_end, self.app_server, transcript)
                await self._be_client(client_end)
                tasks.cancel_scope.cancel()
        finally:
            await self.app_server.aclose()

    async def _be_client(self, link: Link) -> None:
        connection = acp_connection(link, name="the adapter", on_line=self._watch)
        self.client = (InV1 if self.version == 1 else InV2)(connection, self.asks)
        async with self.client.side:
            with anyio.fail_after(WAIT):
                await self.client.initialize(self.elicits)
            assert self._ready is not None
            self._ready.set_result(None)
            await self._stop.wait()

    def _watch(self, way: Literal["received", "sent"], line: bytes) -> None:
        """Feed the tap with a line of the client's connection, so that it watches both sides."""
        if way == "received":
            line += b"\n"
        other: Literal["received", "sent"] = "sent" if way == "received" else "received"
        self.tap.on("client")(way, line)
        self.tap.on("agent")(other, line)
        asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()``; looked at again after each message to the client."""
        with anyio.fail_after(WAIT):
            while not holds():
                await self._news.wait()

    # What a client does.

    async def new_session(
        self, servers: Sequence[dict[str, Any]] = (), cwd: str | None = None
    ) -> str:
        """A session in the workspace, or in ``cwd``."""
        with anyio.fail_after(WAIT):
            return await self.client.new_session(cwd or str(self.home.workspace), servers)

    def prompt(self, session: str, text: str) -> Prompt:
        """Begin to run a prompt."""
        prompt = Prompt(asyncio.create_task(self.client.prompt(session, text)))
        self._prompts.append(prompt)
        return prompt

    def cancel(self, session: str) -> None:
        """Send ``session/cancel``."""
        self.client.cancel(session)

    # What happened.

    def path(self, name: str) -> Path:
        """A file of the workspace."""
        return self.home.workspace / name

    def of_session(self, session: str, *kinds: str) -> list[dict[str, Any]]:
        """The updates of some kinds, as they were on the wire."""
        return [
            message["params"]["update"]
            for by, message in self.tap.messages
            if by == "agent"
            and message.get("method") == "session/update"
            and message["params"]["sessionId"] == session
            and message["params"]["update"]["sessionUpdate"] in kinds
        ]

    def call(self, session: str, call: str) -> dict[str, Any]:
        """A tool call as the client has put it together."""
        return calls_of(self.of_session(session, *TOOL_CALLS))[call]

    def diffs(self, session: str, call: str) -> dict[str, str]:
        """The files that a tool call changes, and what each has afterwards of what is shown."""
        return self.client.diffs(self.call(session, call))

    def statuses(self, session: str, call: str) -> list[str]:
        """The statuses of one tool call; none twice in a row.

        ``cancelled``, of which v1 has no word, is told as v1 tells it.
        """
        updates = self.of_session(session, *TOOL_CALLS)
        said = [u["status"] for u in updates if u["toolCallId"] == call and "status" in u]
        told = ("failed" if status == "cancelled" else status for status in said)
        return [status for status, _ in groupby(told)]

    def said(self, session: str) -> str:
        """The adapter's own lines: what it declined and why."""
        lines = []
        for update in self.of_session(session, "agent_thought_chunk", "notice"):
            if update["sessionUpdate"] == "notice":
                lines += [update["title"], update.get("description", "")]
            else:
                lines.append(update["content"]["text"])
        return "\n".join(lines)

    def answer(self, session: str) -> str:
        """What the agent has said."""
        chunks = self.of_session(session, "agent_message_chunk")
        return "".join(chunk["content"]["text"] for chunk in chunks)

    async def until_idle(self, session: str) -> None:
        """Wait until a client that is told of that knows of nothing that runs."""

        def last_state() -> str:
            states = self.of_session(session, "state_update")
            return states[-1]["state"] if states else "idle"

        await self.wait_until(lambda: last_state() == "idle")

    def outputs(self, scene: str) -> dict[str, str]:
        """What the model got from its tools in a scene, by call id."""
        found: dict[str, str] = {}
        for request in self.model.requests:
            if self.scenes.plays(scene, request):
                found |= request.tool_outputs
        return found

    def events(self, session: str) -> list[TranscriptEvent]:
        """The transcript's events of one session."""
        return [e.event for e in self.entries if e.event.ref.session_id == session]

    def event_types(self, session: str) -> list[str]:
        """The types of those that are about a request of Codex."""
        return [e.type for e in self.events(session) if hasattr(e.ref, "codex_request_id")]

    def replies(self, session: str) -> list[Any]:
        """The results that Codex got for its requests of one thread."""
        return [self.wire.result(request) for request in self.asked(session)]

    def asked(self, session: str) -> list[dict[str, Any]]:
        """What Codex asked for the session's own thread."""
        return self.wire.asked(thread=session)

    async def wait_until_replies(self, session: str, count: int) -> None:
        """Wait until Codex has said that it took so many replies."""
        method = "serverRequest/resolved"
        await self.wire.wait_until(lambda: len(self.wire.heard(method, session)) >= count)

    async def mcp_answers(self, server: str, count: int) -> list[Any]:
        """The results of a server's elicitations, once it has so many."""
        with anyio.fail_after(WAIT):
            while len(answers := self.servers[server].answers()) < count:  # noqa: ASYNC110
                await anyio.sleep(POLL)
        return [answer["result"] for answer in answers]

    # After each test.

    def check(self) -> None:
        """What must hold whatever happened; every prompt of the test has ended."""
        running = [prompt for prompt in self._prompts if not prompt.task.done()]
        self._prompts.clear()  # the next test is not to blame
        assert not running, "a prompt still runs"
        assert self.asks.unseen == 0, "the client was asked what the test knows nothing of"
        self.wire.check()
        self.tap.check()
        assert self.tap.left_open() == []
        check_transcript(self.entries, self.wire.asked())
        unknown = [request.last_user_text for request in self.model.unanswered]
        assert not unknown, f"the model was asked more than the scenes say: {unknown}"
