"""Run the agent on this process's standard input and output, or on any link."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp.acp.either_agent_side import EitherAgentSide
from codex_acp.acp.side import acp_connection
from codex_acp.adapter.agent import CodexAgent
from codex_acp.adapter.load_ahead import LoadAhead
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.adapter.tasks import SideTasks
from codex_acp.errors import TransportError
from codex_acp.jsonrpc import DEFAULT_LINE_LIMIT
from codex_acp.transport.process_tree import adopt_orphans
from codex_acp.transport.shielding import run_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from codex_acp.acp.dialects import AnyHandlers
    from codex_acp.acp.v2 import AgentHandlers
    from codex_acp.adapter.agent import AgentMethods
    from codex_acp.adapter.session_defaults import SessionDefaults
    from codex_acp.codex.connection.handshake import Hello
    from codex_acp.codex.connection.launch import LaunchOptions
    from codex_acp.errors import LaunchError
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.transcript.log import Transcript
    from codex_acp.transport.child import ChildProcess
    from codex_acp.transport.connection import Connection
    from codex_acp.transport.link import Link
    from codex_acp.wire.registry import ModelRegistry

logger = logging.getLogger(__name__)

END_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that end the agent, once running prompts are cancelled and answered. A second signal has
no effect."""

STEERING: Final = "_session/steering"
"""Method of the official adapter, in no schema, that sends a message to the running turn."""

PROMPT_METHOD: Final = "session/prompt"
"""Request whose answer is sent before the connection is closed."""

ANSWER_SECONDS: Final = 1.0
"""Seconds to answer a prompt that has ended, and to send its last updates."""

VERSIONS: Final = (1, 2)
"""Versions of ACP that the agent offers. It speaks the highest version that both sides have."""

ADOPT_SECONDS: Final = 0.03
"""Seconds after which this process becomes the parent of orphans (3 ms of work), while Codex boots.
If Codex is used earlier, this process adopts then, so that no orphan of an MCP server is missed."""

START_UP_SECONDS: Final = 10.0
"""Seconds after which the garbage collector, which `cli.serve` switches off, is on in any case."""


async def serve_link(
    link: Link,
    app_server: AppServer,
    transcript: Transcript | None = None,
    *,
    line_limit: int = DEFAULT_LINE_LIMIT,
    when_loaded: Callable[[], None] | None = None,
    ahead: LoadAhead | None = None,
    versions: Collection[int] = VERSIONS,
    ending: asyncio.Event | None = None,
) -> None:
    """Serve one client until it disconnects, or until ``ending`` is set and the prompts that run
    are answered; then end Codex and all of its children.

    ``transcript`` records every approval, elicitation and decline, and each message if it has
    ``record_wire``. ``line_limit`` is in bytes. ``when_loaded`` is called when ``ahead`` has
    imported, in a thread, the modules that a prompt needs. ``versions`` are the versions of ACP
    that the agent offers. Raises TransportError if the connection to the client broke."""
    tap = None if transcript is None else transcript.tap("client")
    connection = acp_connection(link, name="the client", line_limit=line_limit, on_line=tap)
    tasks = SideTasks()
    try:
        agent = CodexAgent(app_server, tasks.start, transcript, when_loaded, ahead)
        side = agent_side(connection, versions, agent)
        agent.client.side = side
        if ending is not None:
            tasks.start(lambda: _end_when_set(ending, agent, side))
        try:
            await side.run()
        finally:
            agent.note_client_left()
            await agent.store_sessions()
            await tasks.aclose()
    finally:
        await app_server.aclose()


def agent_side(
    connection: Connection, versions: Collection[int], agent: AgentMethods
) -> EitherAgentSide:
    """Return the side that serves ``agent`` in ``versions``; the modules of a version are loaded
    for its first client."""

    async def steer(models: ModelRegistry, params: JsonValue) -> JsonValue:
        from codex_acp.adapter.prompts.steering import answer_steering  # with the first request

        return await answer_steering(agent.agent_of, models, params)

    def in_v1() -> AnyHandlers:
        from codex_acp.acp._generated.v1.methods import MODELS
        from codex_acp.adapter.agent_v1 import AgentInV1

        return AgentInV1(agent).handlers({STEERING: partial(steer, MODELS)})

    def in_v2() -> AgentHandlers:
        from codex_acp.acp._generated.v2.methods import MODELS
        from codex_acp.adapter.agent_v2 import AgentInV2

        return AgentInV2(agent).handlers({STEERING: partial(steer, MODELS)})

    return EitherAgentSide(
        connection, in_v1 if 1 in versions else None, in_v2 if 2 in versions else None
    )


def run_stdio(
    link: Link,
    options: LaunchOptions,
    spawned: ChildProcess | LaunchError | None,
    transcript: Transcript | None = None,
    *,
    line_limit: int = DEFAULT_LINE_LIMIT,
    versions: Collection[int] = VERSIONS,
    defaults: SessionDefaults | None = None,
    hello: Hello | None = None,
) -> int:
    """Serve until ``link`` ends or a signal comes; return the exit code of the process.

    ``versions`` are the versions of ACP that the agent offers, ``defaults`` the settings of each
    new session. ``hello`` is the ``initialize`` request that the caller has sent to Codex."""
    app_server = AppServer(options, spawned, defaults=defaults, hello=hello)

    async def main() -> int:
        loop, ending = asyncio.get_running_loop(), prepare_loop()
        app_server.before_use = lambda: adopt_orphans(loop)
        ahead = LoadAhead(loop)
        try:
            await serve_link(
                link,
                app_server,
                transcript,
                line_limit=line_limit,
                when_loaded=start_garbage_collection,
                ahead=ahead,
                versions=versions,
                ending=ending,
            )
        except TransportError as error:
            logger.warning("the client is gone: %s", error)
            return 1
        finally:
            ahead.give_up()
        return 0

    return run_loop(main())


def prepare_loop() -> asyncio.Event:
    """Schedule adopting orphans and collecting garbage; return an event that end signals set."""
    loop = asyncio.get_running_loop()
    loop.call_later(ADOPT_SECONDS, adopt_orphans, loop)
    loop.call_later(START_UP_SECONDS, gc.enable)
    ending = asyncio.Event()
    for number in END_SIGNALS:
        loop.add_signal_handler(number, ending.set)
    return ending


async def _end_when_set(ending: asyncio.Event, agent: CodexAgent, side: EitherAgentSide) -> None:
    await ending.wait()
    await agent.end_prompts()
    await side.close_behind(PROMPT_METHOD, ANSWER_SECONDS)  # after the answers of prompts


def start_garbage_collection() -> None:
    """Freeze the objects of the start-up, which stay, and switch the garbage collector on."""
    gc.freeze()
    gc.enable()
