"""A whole adapter in memory, between a random client and a random Codex, on a virtual clock.

Whatever they do: each request is answered exactly once, no command runs that nobody allowed, what
was said arrives whole, and nothing is left behind: no turn, no loaded thread, no question, no task.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast
from unittest.mock import patch

from codex_acp.adapter.load_ahead import LoadAhead
from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection import thread_peers
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.codex.connection.thread_peers import ThreadPeers
from codex_acp.errors import LaunchError
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.link import memory_pair
from codex_acp.transport.local_peers import ASK_SECONDS, Replies
from tests.adapter.test_early_turn import SlowLoad
from tests.soak.chaos.comparison import differences
from tests.soak.chaos.random_client import RandomClient
from tests.soak.chaos.random_codex import RandomCodex
from tests.soak.chaos.virtual_time import VirtualTimeLoop
from tests.soak.chaos.world import Chances, Json, World

STEPS = 40
"""Moments at which the client asks for something."""

MOST_DEATHS = 2
"""Of Codex in one run: it is started again three times in a minute."""

AT_DEATH = ("3.5: somebody is still asked", "what does not run requires an action")
"""What the rules of a stream say of questions that are withdrawn right behind their prompts."""

EXPECTED_ERRORS = (-32002, -32602, -32800)
"""Of ``session/close``: there is no such session, or it was given up."""


class RandomServer(AppServer):
    """Spawns a random Codex."""

    world: World

    async def _why_failed(self, error: Exception) -> LaunchError:
        return LaunchError(f"no codex: {error}")

    def _spawn(self) -> ChildProcess:
        link, far = memory_pair()
        self.world.codexes.append(RandomCodex(far, self.world))
        return cast("ChildProcess", link)


class _Errors(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.fail(f"an error is logged: {self.format(record)}")


class Chaos:
    """``run`` of one seed, and what was found by it."""

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        kind = Random(seed ^ 0xABC)
        self.world = World(seed, steps)
        self._version = kind.choice([1, 2])
        errors, deaths = kind.choice([0, 0, 0.03, 0.1]), kind.choice([0, 0, 0.03])
        self.world.chances = Chances(errors, deaths, kind.random() < 0.3)
        self._early = kind.random() < 0.4
        self._asks = kind.random() < 0.6
        self._peers: ThreadPeers | None = None
        self._deaths = 0

    def run(self) -> World:
        """All of it."""

        async def listen(peers: ThreadPeers, _codex: object) -> None:
            self._peers = peers

        with (
            patch.object(ThreadPeers, "listen", listen),
            patch.object(thread_peers, "ask_all", self._ask_the_other),
        ):
            run_in_no_time(self.world, self._run())
        return self.world

    async def _run(self) -> None:
        world = self.world
        link, far = memory_pair()
        client = RandomClient(far, world, self._version)
        server = RandomServer(LaunchOptions(), None)
        server.world = world
        ahead: LoadAhead | None = SlowLoad() if self._early else None
        serving = asyncio.ensure_future(serve_link(link, server, ahead=ahead))
        client.introduce()
        await self._steps(client, ahead)
        await self._settle(client)
        self._check(client)
        world.over = True
        await far.aclose()
        try:
            await asyncio.wait_for(serving, 60)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
            world.fail(f"the adapter ended with {error!r}")
        await nothing_left(world, client)

    async def _steps(self, client: RandomClient, ahead: LoadAhead | None) -> None:
        random = self.world.random
        for _ in range(self.world.steps):
            for _ in range(random.choice([1, 1, 1, 2, 3])):
                client.act()
            client.flush()
            await asyncio.sleep(random.choice([0, 0, 0.001, 0.01, 0.1, 1, 3, 15]))
            for _ in range(random.randint(0, 5)):
                await asyncio.sleep(0)
            if random.random() < self.world.chances.deaths:
                await self._kill_codex()
            if self._asks and random.random() < 0.3 and client.sessions:
                client.spawn(self._other_asks(client, random.choice(client.sessions)))
            if isinstance(ahead, SlowLoad) and random.random() < 0.2:
                ahead.finish()
        if isinstance(ahead, SlowLoad):
            ahead.finish()

    async def _other_asks(self, client: RandomClient, session: str) -> None:
        """Another process asks for a session; as long as it has it, nothing is written here."""
        world = self.world
        cancels = world.random.random() < 0.2
        if self._peers is None or session not in world.threads:
            return
        if cancels:
            client.upset(session, "cancel")
        world.trace.append(f"another process asks for {session}{', which cancels' * cancels}")
        question: Json = {"thread": session, "client": "another", "cancel": cancels}
        began = world.now
        state = (await self._peers._answer(question))["state"]
        world.trace.append(f"another process is told: {state}")
        world.counts[f"asked by another process: {state}"] += 1
        if world.now - began > ASK_SECONDS:
            world.fail(f"another process is answered after {world.now - began:g} s")
        codex = world.codexes[-1]
        if state != "free" or codex.dead or session in codex.loaded or session not in world.threads:
            return
        if session in codex.running:
            world.fail(f"{session} is let go, and {codex.running[session]} runs in it")
        if not world.errors_over:
            world.elsewhere.add(session)

    async def _ask_the_other(self, *given: Any) -> Replies:
        """Answer as the process that has what is elsewhere, if it answers."""
        world, session = self.world, given[1]["thread"]
        await asyncio.sleep(world.random.choice([0, 0.1, 1]))
        state = world.random.choice(["free", "free", "busy", "opening", "silent"])
        if session not in world.elsewhere or state == "silent":
            return Replies([], state == "silent")
        if state == "free":
            world.elsewhere.discard(session)
        world.counts[f"the other process says: {state}"] += 1
        return Replies([{"state": state, "client": "another", "pid": 1}], incomplete=False)

    async def _kill_codex(self) -> None:
        codex = self.world.codexes[-1] if self.world.codexes else None
        if codex is not None and not codex.dead and self._deaths < MOST_DEATHS:
            self._deaths += 1
            self.world.trace.append("Codex dies")
            self.world.counts["deaths of Codex"] += 1
            codex.dead = True
            self.world.spoken.die(self.world.now, codex.running.values())
            await codex.link.aclose()

    async def _settle(self, client: RandomClient) -> None:
        """Let everything end, cancel what does not, and close all sessions."""
        self.world.errors_over = True
        self.world.elsewhere.clear()
        await asyncio.sleep(100)
        for session_id in dict.fromkeys(client.sessions):
            client.cancel(session_id)
        client.flush()
        await asyncio.sleep(200)
        self.world.until = self.world.now
        for session_id in dict.fromkeys(client.sessions + client.left):
            client.request("session/close", sessionId=session_id)
        client.flush()
        await asyncio.sleep(300)

    def _check(self, client: RandomClient) -> None:
        world = self.world
        for request_id, (method, params) in client.asked.items():
            reply = client.replies.get(request_id)
            if reply is None:
                world.fail(f"{method} {params} was never answered")
                continue
            code = reply.get("error", {}).get("code")
            if method == "session/close" and code not in (None, *EXPECTED_ERRORS):
                world.fail(f"a session could not be closed: {reply}")
            if code == -32800 and request_id not in client.given_up and client.version == 1:
                world.fail(f"{method} was cancelled, and nobody wanted it")
        if world.codexes and not world.codexes[-1].dead:
            check_codex(world, world.codexes[-1])
        check_client(world, client)


def run_in_no_time(world: World, work: Coroutine[Any, Any, None]) -> None:
    """On a virtual clock; an error that is logged, or that the loop hears of, is found wrong."""
    loop, root, handler = VirtualTimeLoop(), logging.getLogger(), _Errors(world)
    loop.set_exception_handler(lambda _loop, context: world.fail(f"in the loop: {context}"))
    root.addHandler(handler)
    try:
        loop.run_until_complete(work)
    finally:
        root.removeHandler(handler)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def nothing_left(world: World, *clients: RandomClient) -> None:
    """Behind the end of what was tried: no task is there any more."""
    for end in (*clients, *world.codexes):
        end.abandon()
    await asyncio.sleep(0.1)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        world.fail(f"tasks are left: {sorted(map(repr, left))[:3]}")


def check_client(world: World, client: RandomClient, *others: RandomClient) -> None:
    """Compare what it saw with what Codex said, and hold it to the rules of a stream."""
    seen = [each.seen for each in (client, *others)]
    world.wrong += differences(world.spoken, client.seen, world.until, seen)
    world.wrong += [each for each in client.rules.problems if not _is_excused(world, each)]


def _is_excused(world: World, problem: str) -> bool:
    """Return whether a rule of a stream need not hold.

    At Codex's death what is asked is withdrawn right behind the answers of the prompts, and the end
    of a turn may cross the closing, or the opening anew, of its session.
    """
    found = re.search(r"(turn|thread)-\d+", problem)
    name = "" if found is None else found[0]
    turn = world.spoken.turns.get(name)
    upsets = world.spoken.upsets.get(name if turn is None else turn.thread, ())
    if "does not know" in problem:  # whoever gives its opening up may have it opened all the same
        return any(what == "give up" for _, what in upsets)
    crossed = any(what not in ("cancel", "give up") for _, what in upsets)
    return crossed or (bool(world.spoken.deaths) and problem.startswith(AT_DEATH))


def check_codex(world: World, codex: RandomCodex) -> None:
    """One that has not died has nothing left to do."""
    loaded = codex.loaded & set(world.threads)
    if loaded and not world.chances.errors:
        world.fail(f"threads are still loaded: {sorted(loaded)}")
    if codex.running:
        world.fail(f"turns still run: {codex.running}")
    for request_id, method in codex.asked.items():
        if request_id not in codex.replies:
            world.fail(f"{method} of Codex (id {request_id}) was never answered")


def smallest(seed: int, kind: Callable[[int, int], Chaos] = Chaos) -> World:
    """The run of ``seed`` that still fails after the fewest steps of the client; else the whole."""
    for steps in range(1, STEPS):
        world = kind(seed, steps).run()
        if world.wrong:
            return world
    return kind(seed, STEPS).run()
