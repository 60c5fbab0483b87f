"""Plays a conversation through the whole adapter, offline: what clients and Codex are sent.

No binary, and nothing depends on how fast the machine is: the adapter's clock stands still but for
the conversation's own waits, and its ids are counted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from codex_acp.mapping.sub_agents import agents_named_by
from tests.sent_to_clients.codex import PlayedCodex
from tests.sent_to_clients.conversation import Conversation, Json
from tests.sent_to_clients.stage import MAIN, Stage

_ROUNDS: Final = 40
"""Of the event loop, after which the adapter has done what a message makes it do: it takes ten."""

_SHOWN_CALLS: Final = (
    "turn/steer",
    "turn/interrupt",
    "review/",
    "thread/compact/",
    "thread/goal/",
    "thread/background",
)
"""Calls of Codex that a conversation is about; the adapter makes others, too."""


class Line(NamedTuple):
    """One thing that was said: ``client``, ``codex`` or ``adapter`` said it to ``to``."""

    by: str
    to: str
    message: Json


@dataclass
class Played:
    """What was said in order, and what a load of the session shows afterwards."""

    live: list[Line] = field(default_factory=list)
    loaded: list[Json] = field(default_factory=list)
    """The updates of ``session/load``."""

    def updates(self) -> list[Json]:
        """The updates that were sent live."""
        return [
            line.message["params"]["update"]
            for line in self.live
            if line.message.get("method") == "session/update"
        ]


class _Clock:
    """Stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def _at_once(work: Callable[[], Any]) -> Any:
    """Do in the loop what the adapter does in a thread, whose time is not counted in rounds."""
    return work()


@contextmanager
def _still(clock: _Clock) -> Iterator[None]:
    """The adapter's sources of time and chance, in the test's hand."""
    messages, others = count(1), count(1)
    with (
        patch("codex_acp.adapter.sessions.session.monotonic", clock),
        patch("codex_acp.adapter.sessions.shown_thread.monotonic", clock),
        patch(
            "codex_acp.adapter.session.driver.uuid4",
            lambda: SimpleNamespace(hex=f"message-{next(messages)}"),
        ),
        patch(
            "codex_acp.adapter.sessions.session.uuid4",
            lambda: SimpleNamespace(hex=f"said-{next(others)}"),
        ),
        patch("codex_acp.adapter.sessions.shown_thread.start_thread", lambda work: work()),
        patch("codex_acp.adapter.sessions.git_consent.in_worker_thread", _at_once),
        patch("codex_acp.adapter.sessions.prompt_message.in_worker_thread", _at_once),
        patch("codex_acp.adapter.slash_commands.in_worker_thread", _at_once),
    ):
        yield


async def play(
    conversation: Conversation,
    cwd: Path,
    capabilities: Json | None = None,
    *,
    files: bool = True,
    version: int = 1,
) -> Played:
    """Play it in the directory ``cwd``; for a client with other ``capabilities`` than the first.

    ``version`` is that of ACP.

    Without ``files`` no file can be read that an edit is about.

    Raises AssertionError if a prompt is not answered, or the tap on the adapter found something.
    """
    client = conversation.capabilities if capabilities is None else capabilities
    with _still(clock := _Clock()):
        player = _Player(conversation, cwd, clock, files=files)
        played = Played(await player.run(client, version))
        if conversation.history:
            played.loaded = await _load(conversation, cwd, client, version)
    text = json.dumps([played.live, played.loaded], ensure_ascii=False).replace(str(cwd), "$CWD")
    text = text.replace(str(cwd).removeprefix("/"), "$CWD")  # git's names of moved files
    live, loaded = json.loads(text)
    return Played([Line(*line) for line in live], loaded)


async def _load(conversation: Conversation, cwd: Path, client: Json, version: int) -> list[Json]:
    codex = PlayedCodex()
    history = _placed(conversation.history, cwd)
    codex.will_answer("thread/items/list", {"data": history, "nextCursor": None})
    for entries in _below(conversation):
        codex.will_answer("thread/items/list", {"data": entries, "nextCursor": None})
    async with Stage(codex.link, client, version) as stage:
        return await stage.load("thread-1", cwd)


def _below(conversation: Conversation) -> list[list[Json]]:
    """The histories of the sub-agents that the session's own names, in that order."""
    heard = [step["codex"] for step in conversation.steps if "codex" in step]
    ended = [each["params"] for each in heard if each.get("method") == "item/completed"]
    agents = [
        agent.thread_id
        for entry in conversation.history
        for agent in agents_named_by(MAIN, entry["item"])
        if agent.thread_id != MAIN
    ]
    return [
        [{"turnId": p["turnId"], "item": p["item"]} for p in ended if p["threadId"] == agent]
        for agent in dict.fromkeys(agents)
    ]


class _Player:
    def __init__(self, said: Conversation, cwd: Path, clock: _Clock, *, files: bool) -> None:
        self._steps = [step for step in said.steps if files or "files" not in step]
        self._cwd = cwd
        self._clock = clock
        self._codex = PlayedCodex()
        self._lines: list[Line] = []
        self._heard = 0
        self._told = 0

    async def run(self, client: Json, version: int = 1) -> list[Line]:
        async with Stage(self._codex.link, client, version) as self._stage:
            session = await self._stage.new_session(self._cwd)
            self._heard, self._told = len(self._stage.messages), len(self._codex.received)
            for step in self._steps:
                if "result" in step:
                    result = _placed(step["result"], self._cwd)
                    self._codex.will_answer(result["of"], result["result"])
            prompts = []
            for step in self._steps:
                match step:
                    case {"client": action}:
                        self._lines.append(Line("client", "adapter", action))
                        prompts.append(self._stage.act(session, action))
                    case {"codex": message}:
                        self._lines.append(Line("codex", "adapter", message))
                        self._codex.say(_placed(message, self._cwd))
                    case {"files": files}:
                        self._write(files)
                    case {"wait": seconds}:
                        self._clock.now += seconds
                    case {"result": _}:
                        continue
                    case _:
                        raise AssertionError(step)
                await self._settle()
            for prompt in prompts:
                if prompt is not None:
                    await self._stage.reply(prompt)
        return self._lines

    async def _settle(self) -> None:
        """Let the adapter do all that there is to do, and note what it says."""
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        for message in self._stage.messages[self._heard :]:
            self._lines.append(Line("adapter", "client", message))
        for message in self._codex.received[self._told :]:
            if "method" not in message or message["method"].startswith(_SHOWN_CALLS):
                self._lines.append(Line("adapter", "codex", message))
        self._heard, self._told = len(self._stage.messages), len(self._codex.received)

    def _write(self, files: dict[str, str | None]) -> None:
        for name, text in files.items():
            path = self._cwd / name
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")


def _placed(value: Any, cwd: Path) -> Any:
    """``value`` with the directory in which it is played."""
    return json.loads(json.dumps(value).replace("$CWD", str(cwd)))
