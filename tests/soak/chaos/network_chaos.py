"""The network's hub between random clients of two owners, who come, take over and leave.

Besides what `Chaos` looks for: nobody hears of, or does anything in, another owner's session.
"""

from __future__ import annotations

import asyncio
from random import Random

from codex_acp.adapter.network.access_control import Token, Tokens
from codex_acp.adapter.network.connection import Hub
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.network_session import TAKEN_OVER
from codex_acp.adapter.network.registry import Owners
from codex_acp.adapter.tasks import SideTasks
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.transcript.log import Transcript
from codex_acp.transport.link import HIGH_WATER_BYTES, MemoryLink
from tests.soak.chaos.chaos import (
    STEPS,
    Chaos,
    RandomServer,
    check_client,
    check_codex,
    nothing_left,
    run_in_no_time,
)
from tests.soak.chaos.random_client import RandomClient
from tests.soak.chaos.world import Chances, Json, World

MOST_CLIENTS = 4
"""At a time."""

TOKENS = (Token("alice", b"a"), Token("bob", b"b"))


class OwnedClient(RandomClient):
    """Of ``owner``; ``owners`` are those of all sessions."""

    def __init__(
        self, link: MemoryLink, world: World, version: int, owner: str, owners: dict[str, str]
    ) -> None:
        self.owner, self.owners = owner, owners
        self.left_us = False
        super().__init__(link, world, version)

    def take(self, message: Json) -> None:
        session_id = (message.get("params") or {}).get("sessionId", "")
        if "method" in message and self.owners.get(session_id, self.owner) != self.owner:
            self.world.fail(f"{self.owner} hears of another's session: {message}")
        super().take(message)
        if TAKEN_OVER.title in str(message.get("params")):
            self.rules.displaced(session_id)
        method, params = self.asked.get(message.get("id", 0), ("", {}))
        if "error" in message and method in ("session/load", "session/resume"):
            # It is given back to whoever showed it, where a prompt behind this request goes on.
            self.rules.displaced(params["sessionId"], shown=True)
        if "method" in message or "result" not in message:
            return
        if method in ("session/new", "session/fork"):
            self.owners[message["result"]["sessionId"]] = self.owner
        ends_anyhow = method == "session/close" and self.version == 2
        owner = self.owners.get(params.get("sessionId", ""), self.owner)
        if owner != self.owner and not ends_anyhow:
            self.world.fail(f"{self.owner} may do {method} in another's session: {message}")

    def upset(self, session_id: str, what: str) -> None:
        """See `RandomClient.upset`: what is asked of another owner's session changes nothing."""
        if self.owners.get(session_id, self.owner) == self.owner:
            super().upset(session_id, what)

    def act(self) -> None:
        self.sessions = [
            session_id
            for session_id, owner in self.owners.items()
            if owner == self.owner or self.random.random() < 0.1
        ]
        super().act()


class _Link(MemoryLink):
    def set_close_reason(self, _code: int, _reason: str) -> None: ...


class NetworkChaos(Chaos):
    """``run`` of one seed, and what was found by it."""

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        super().__init__(seed, steps)
        kind = Random(seed ^ 0xABC)
        self.world.chances = Chances(kind.choice([0, 0, 0.05]), calm=kind.random() < 0.3)
        self._keep = self.world.spoken.keep = kind.choice([0, 30])
        self.world.spoken.journal = True
        self._clients: list[OwnedClient] = []
        self._owners: dict[str, str] = {}
        self._side, tokens = SideTasks(), Tokens(lambda: TOKENS)
        self._hub = Hub(
            self._server, self._side.start, tokens, Owners(tokens),
            Limits(keep_seconds=self._keep, sessions=12), Transcript(), shared=kind.random() < 0.7,
        )  # fmt: skip
        self._serving: set[asyncio.Task[None]] = set()

    def run(self) -> World:
        """All of it."""
        run_in_no_time(self.world, self._run())
        return self.world

    def _server(self) -> RandomServer:
        server = RandomServer(LaunchOptions(), None)
        server.world = self.world
        return server

    def _there(self) -> list[OwnedClient]:
        return [client for client in self._clients if not client.left_us and not client.dead]

    def _connect(self) -> OwnedClient:
        link, far = _Link(HIGH_WATER_BYTES), MemoryLink(HIGH_WATER_BYTES)
        link.peer, far.peer = far, link
        token = self.world.random.choice(TOKENS)
        version = self.world.random.choice([1, 2])
        client = OwnedClient(far, self.world, version, token.owner, self._owners)
        self._clients.append(client)
        serve = self._hub.serve(link, token, f"{len(self._clients):032d}")
        task = asyncio.ensure_future(serve)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        client.introduce()
        return client

    async def _run(self) -> None:
        random = self.world.random
        for _ in range(self.world.steps):
            there = self._there()
            if not there or (len(there) < MOST_CLIENTS and random.random() < 0.3):
                there.append(self._connect())
            client = random.choice(there)
            for _ in range(random.choice([1, 1, 1, 2, 3])):
                client.act()
            client.flush()
            await asyncio.sleep(random.choice([0, 0, 0.001, 0.01, 0.1, 1, 3, 15]))
            if random.random() < 0.12:
                await self._leave(random.choice(there))
        self.world.errors_over = True
        await self._end()
        self._check_hub()
        self.world.over = True
        await self._hub.aclose()
        await self._side.aclose()
        await nothing_left(self.world, *self._clients)

    def _shown_by(self, session_id: str) -> OwnedClient:
        """Return the client that has opened a session last."""
        return max(
            (client for client in self._clients if session_id in client.seen.views),
            key=lambda client: client.seen.views[session_id][-1].began,
        )

    async def _leave(self, client: OwnedClient) -> None:
        client.left_us = True
        for session_id in client.seen.views:
            if self._shown_by(session_id) is client:
                client.upset(session_id, "left")
        self.world.counts["left"] += 1
        self.world.trace.append(f"client {self._clients.index(client)} leaves")
        await client.link.aclose()

    async def _end(self) -> None:
        """Let everything end, cancel what does not; then all clients leave."""
        await asyncio.sleep(100)
        for client in self._there():
            for session_id in self._owners:
                client.cancel(session_id)
            client.flush()
        await asyncio.sleep(200)
        self.world.until = self.world.now
        for client in self._there():
            for request_id, (method, params) in client.asked.items():
                # A prompt is its connection's that showed the session when it ended.
                if request_id not in client.replies and method != "session/prompt":
                    self.world.fail(f"{method} {params} was never answered")
            await client.link.aclose()
        await asyncio.sleep(self._keep + 400)

    def _check_hub(self) -> None:
        if self._hub.registry.sessions or self._hub.sides:
            left = list(self._hub.registry.sessions)
            self.world.fail(f"the hub has {left} and {self._hub.sides}")
        for client in self._clients:
            check_client(self.world, client, *self._clients)
        for codex in self.world.codexes:
            if not codex.dead:
                check_codex(self.world, codex)
