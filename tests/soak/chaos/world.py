"""What a run of chaos shares: its random numbers, what was found wrong, and all that was said."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from codex_acp.transport.link import MemoryLink
from tests.soak.chaos.comparison import Spoken

if TYPE_CHECKING:
    from tests.soak.chaos.random_codex import RandomCodex

Json = dict[str, Any]

SHOWN = 330
"""Characters of a message in a trace."""


@dataclass(frozen=True)
class Chances:
    """How wild a run is; each is the chance of one request or step."""

    errors: float = 0.0
    """That Codex refuses a request."""
    deaths: float = 0.0
    """That Codex dies after a step of the client."""
    calm: bool = False
    """Whether nobody closes, loads or gives up anything: all that was said must be there."""


class World:
    """Of one seed. ``wrong`` is what was found; ``steps`` ends the client's part early."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = Random(seed)
        self.chances = Chances()
        self.steps = steps
        self.wrong: list[str] = []
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        self.codexes: list[RandomCodex] = []
        self.threads: dict[str, bool] = {}
        """Stored threads, and whether they are archived."""
        self.history: dict[str, list[tuple[str, Json]]] = {}
        """Thread → its stored items, each with its turn."""
        self.elsewhere: set[str] = set()
        """Threads that another process has open."""
        self.spoken = Spoken()
        self.until = 0.0
        """When all that runs has ended, and the end of everything has not begun."""
        self.prompts = 0
        """How many prompts there were, of all clients."""
        self.allowed: set[str] = set()
        """Commands that a client has allowed."""
        self.errors_over = False
        self.over = False

    @property
    def now(self) -> float:
        """Seconds on the virtual clock."""
        return asyncio.get_running_loop().time()

    def fail(self, what: str) -> None:
        self.wrong.append(what)

    def note(self, arrow: str, message: Json) -> None:
        self.trace.append(f"{arrow} {json.dumps(message)[:SHOWN]}")

    def delay(self) -> float:
        seconds = self.random.choice([0, 0, 0, 0.001, 0.01, 0.2, 1.0])
        return self.random.choice([6.0, 30.0]) if self.random.random() < 0.03 else seconds


class End(ABC):
    """One end of a memory link, that speaks lines of JSON."""

    def __init__(self, link: MemoryLink, world: World) -> None:
        self.link, self.world, self.random = link, world, world.random
        self.dead = False
        self._rest = b""
        self._tasks: set[asyncio.Task[None]] = set()
        link.start(self)

    @abstractmethod
    def take(self, message: Json) -> None:
        """A message that has arrived."""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                self.take(json.loads(line))

    def link_closed(self, _error: object) -> None:
        self.dead = True

    def pause_writing(self) -> None:
        """What is written waits in the link."""
        return

    def resume_writing(self) -> None:
        """See `pause_writing`."""
        return

    def write(self, *messages: Json) -> None:
        if not self.dead:
            self.link.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def abandon(self) -> None:
        """What it still does is of no interest."""
        for task in self._tasks:
            task.cancel()
