"""Everything that a client can do, mixed, for a given time; then what is left of it is counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from codex_acp.testing import (
    CodexHome,
    ModelRequest,
    ModelResponse,
    ModelScript,
    Reasoning,
    ScriptedModel,
    Step,
    Text,
    add_file,
    exec_command,
    update_plan,
)
from tests.soak.soaked import AdapterGone, Resources, SoakedAdapter, SoakFailure

WORKERS = 4
"""Operations at a time."""

LIFE = 80
"""Operations of one adapter; then it is ended, one way or another."""

MOST_KILLS = 2
"""Of Codex in one adapter's life: it is started again three times in a minute."""

MORE_DESCRIPTORS = 24
MORE_THREADS = 12
MORE_MEMORY = 200 * 1024 * 1024
"""Over what the adapter held after its first prompt."""

Json = dict[str, Any]


def model_script() -> ModelScript:
    """What the model does is said by the first word of the prompt; after its tools it is done."""

    def when(word: str) -> Callable[[ModelRequest], bool]:
        def asked(request: ModelRequest) -> bool:
            newest = request.items[-1] if request.items else {}
            return newest.get("role") == "user" and request.last_user_text.startswith(word)

        return asked

    does: dict[str, Iterable[Step]] = {
        "ask": [Text("First."), exec_command("echo made > made", justification="May I?")],
        "patch": [add_file("new.txt", "one\ntwo")],
        "run": [exec_command("echo hello; sleep 0.2; echo again")],
        "long": [exec_command("sleep 3", yield_time_ms=5000)],
        "plan": [Reasoning("Hm."), update_plan(("a", "in_progress"), ("b", "pending"))],
        "flood": [Text(*["word "] * 3000)],
        "slow": [Text(*["word "] * 40, pause=0.05)],
    }
    named = [ModelResponse(*steps, when=when(word), repeat=True) for word, steps in does.items()]
    return ModelScript(*named, ModelResponse(Text("Done."), repeat=True))


WORDS = ("say", "ask", "ask", "patch", "run", "long", "plan", "flood", "slow")


class Soak:
    """``await Soak(seed).run(seconds)``; ``counts`` tell what was done and how it ended."""

    def __init__(self, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.highest = Resources(0, 0, 0)
        self._random = Random(seed)
        self._sessions: list[str] = []
        self._adapter: SoakedAdapter
        self._kills = 0
        operations = {
            self._prompt: 40, self._cancel: 14, self._new: 10, self._load: 6, self._fork: 5,
            self._list: 4, self._delete: 3, self._close: 5, self._configure: 8,
            self._stop_reading: 3, self._kill_codex: 1,
        }  # fmt: skip
        self._operations = list(operations)
        self._weights = list(operations.values())

    async def run(self, seconds: float) -> None:
        """Raises SoakFailure, or what the tap found, at the first thing that is wrong."""
        until = time.monotonic() + seconds
        with ScriptedModel(model_script()) as model, CodexHome(model.base_url) as home:
            self._cwd = str(home.workspace)
            while time.monotonic() < until:
                await self._life(home, until)

    async def _life(self, home: CodexHome, until: float) -> None:
        """One adapter from its start to its end."""
        self._adapter = await SoakedAdapter.start(home.env, self._answer)
        self._sessions, self._kills = [], 0
        killed = False
        try:
            await self._new()
            await self._ask("session/prompt", _prompt(self._sessions[0], "say"))
            before = Resources.of(self._adapter.pid)
            left = iter(range(LIFE))
            workers = [asyncio.create_task(self._work(left, until)) for _ in range(WORKERS)]
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.uniform(0.5, 5.0))
                killed = True
                self.counts["adapters killed in the midst"] += 1
                await self._adapter.kill()
            await asyncio.gather(*workers)
            if not killed:
                await self._quiet(before)
        finally:
            self.counts["messages of the adapter"] += self._adapter.messages
            self.counts["adapters"] += 1
            try:
                if not killed:
                    await self._adapter.stop()
            finally:
                self._adapter.abandon()

    async def _work(self, left: Iterable[int], until: float) -> None:
        for _ in left:
            if time.monotonic() > until:
                return
            (operation,) = self._random.choices(self._operations, self._weights)
            self.counts["operations"] += 1
            try:
                await operation()
            except (AdapterGone, ConnectionError):
                self.counts["cut off by the adapter's end"] += 1
                return

    async def _quiet(self, before: Resources) -> None:
        """Nothing is asked any more: close all sessions and see what the process still holds."""
        for session in dict.fromkeys(self._sessions):
            await self._ask("session/close", {"sessionId": session})
        self._adapter.settled()
        after = Resources.of(self._adapter.pid)
        self.highest = Resources(*map(max, _values(after), _values(self.highest)))
        if (
            after.descriptors > before.descriptors + MORE_DESCRIPTORS
            or after.threads > before.threads + MORE_THREADS
            or after.memory > before.memory + MORE_MEMORY
        ):
            message = f"the adapter holds more and more: {before}, then {after}"
            raise SoakFailure(message)

    async def _ask(self, method: str, params: Json) -> Json:
        answer = await self._adapter.ask(method, params)
        how = f"error {answer['error']['code']}" if "error" in answer else "ok"
        if method == "session/prompt" and "result" in answer:
            how = str(answer["result"]["stopReason"])
        self.counts[f"{method}: {how}"] += 1
        return answer

    def _some_session(self) -> str:
        return self._random.choice(self._sessions or ["no-session"])

    # The operations.

    async def _new(self) -> None:
        answer = await self._ask("session/new", {"cwd": self._cwd, "mcpServers": []})
        if "result" in answer:
            self._sessions.append(answer["result"]["sessionId"])

    async def _load(self) -> None:
        of = {"sessionId": self._some_session(), "cwd": self._cwd, "mcpServers": []}
        await self._ask(self._random.choice(("session/load", "session/resume")), of)

    async def _fork(self) -> None:
        of = {"sessionId": self._some_session(), "cwd": self._cwd, "mcpServers": []}
        answer = await self._ask("session/fork", of)
        if "result" in answer:
            self._sessions.append(answer["result"]["sessionId"])

    async def _list(self) -> None:
        await self._ask("session/list", {"cwd": self._cwd})

    async def _delete(self) -> None:
        await self._ask("session/delete", {"sessionId": self._some_session()})

    async def _close(self) -> None:
        await self._ask("session/close", {"sessionId": self._some_session()})

    async def _configure(self) -> None:
        value = self._random.choice(("low", "medium", "high", "no-such"))
        of = {"sessionId": self._some_session(), "configId": "reasoning_effort", "value": value}
        await self._ask("session/set_config_option", of)

    async def _prompt(self) -> None:
        if self._random.random() < 0.2:
            await self._new()
        await self._ask("session/prompt", _prompt(self._some_session(), self._random.choice(WORDS)))

    async def _cancel(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 0.5))
        of = {"sessionId": self._some_session()}
        self._adapter.say({"method": "session/cancel", "params": of})
        self.counts["session/cancel"] += 1

    async def _stop_reading(self) -> None:
        self.counts["client stops reading"] += 1
        await self._adapter.stop_reading(self._random.uniform(0.1, 2.0))

    async def _kill_codex(self) -> None:
        if self._kills < MOST_KILLS:
            self._kills += 1
            self.counts["Codex killed"] += 1
            self._adapter.kill_codex()

    async def _answer(self, asked: Json) -> Json | None:
        """At a random moment a random answer, or none."""
        await asyncio.sleep(self._random.choice((0, 0, 0.01, 0.1, 1.0)))
        if asked["method"] != "session/request_permission":
            return {"action": "decline"}
        options = [each["optionId"] for each in asked["params"]["options"]]
        chosen = self._random.choice([*options, "no-such-option", None])
        self.counts["permissions answered"] += 1
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}


def _prompt(session: str, word: str) -> Json:
    return {"sessionId": session, "prompt": [{"type": "text", "text": f"{word} it"}]}


def _values(held: Resources) -> tuple[int, int, int]:
    return held.descriptors, held.threads, held.memory
