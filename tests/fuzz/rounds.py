"""One round each: a fresh adapter, hundreds of messages that follow from a seed, the invariants."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.fuzz.acp_requests import notification, request, some_answer
from tests.fuzz.adapter_process import AdapterProcess, FuzzFailure
from tests.fuzz.fuzzed_codex import FuzzedCodex
from tests.fuzz.mutations import damaged, mutated, odd_value, to_line

Json = dict[str, Any]

LINES = 400
"""Messages of the client in a round."""

BATCH = 100
"""After so many everything is settled, and a normal prompt has to work."""


@dataclass
class Round:
    """What a round did; ``lines`` are the client's own, to be sent again."""

    counts: Counter[str] = field(default_factory=Counter)
    lines: list[bytes] = field(default_factory=list)


def client_round(seed: int, made: Round) -> None:
    """Mutated lines of a client; Codex is well-behaved."""
    _with_stand_in(seed, made, rate=0.0, odd_client=True)


def app_server_round(seed: int, made: Round) -> None:
    """Mutated lines of Codex; the client is well-behaved."""
    _with_stand_in(seed, made, rate=0.25, odd_client=False)


def real_codex_round(seed: int, made: Round) -> None:
    """Mutated lines of a client, before the real Codex."""
    with ScriptedModel([[Text("Hello.")]] * LINES) as model, CodexHome(model.base_url) as home:
        _play(AdapterProcess(home.env), home.workspace, seed, made, odd_client=True)


def replay(lines: Sequence[bytes]) -> None:
    """The client's lines of an earlier round again; all is checked after each of them."""
    with CodexHome() as home, tempfile.TemporaryDirectory() as folder:
        env = {**home.env, "CODEX_PATH": str(FuzzedCodex(Path(folder)).path)}
        adapter = AdapterProcess(env)
        try:
            adapter.initialize()
            for line in lines:
                try:
                    adapter.write(line)
                    adapter.settle()
                    adapter.works(home.workspace)
                except FuzzFailure as error:
                    message = f"the line is {line[:2000]!r}\n{error}"
                    raise FuzzFailure(message) from error
            adapter.stop()
        finally:
            adapter.kill()


def _with_stand_in(seed: int, made: Round, *, rate: float, odd_client: bool) -> None:
    with CodexHome() as home, tempfile.TemporaryDirectory() as folder:
        codex = FuzzedCodex(Path(folder), seed, rate)
        env = {**home.env, "CODEX_PATH": str(codex.path)}
        try:
            _play(AdapterProcess(env), home.workspace, seed, made, odd_client=odd_client)
        finally:
            if rate and codex.lines.exists():
                made.counts["damaged lines of Codex"] += codex.lines.read_bytes().count(b"\n")


def _play(adapter: AdapterProcess, cwd: Path, seed: int, made: Round, *, odd_client: bool) -> None:
    random = Random(seed)
    try:
        if odd_client and random.random() < 0.3:  # too early for all of them
            for _ in range(5):
                _one(adapter, cwd, seed, made, odd=True)
        adapter.write(b"\n")
        adapter.initialize()
        adapter.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
        for number in range(LINES):
            _one(adapter, cwd, seed, made, odd=odd_client)
            if random.random() < 0.3:
                adapter.breathe()
            if number % BATCH == BATCH - 1:
                adapter.settle()
                if odd_client:
                    adapter.works(cwd)
        adapter.stop()
    finally:
        adapter.kill()
        made.counts["requests"] += adapter.book.requests
        made.counts["messages of the adapter"] += adapter.messages
        made.counts["most memory in MiB"] = adapter.most_memory >> 20
        for code, count in adapter.book.errors.items():
            made.counts[f"answered {code}"] += count


def _one(adapter: AdapterProcess, cwd: Path, seed: int, made: Round, *, odd: bool) -> None:
    """One message of the client, in whatever shape; no other one's moment changes it."""
    random = Random(f"{seed}/{len(made.lines)}")
    kind, message = _message(adapter, cwd, random, stray=0.08 if odd else 0.01)
    line = to_line({"jsonrpc": "2.0", **message})
    if odd and (choice := random.random()) < 0.75:
        if choice < 0.45:
            kind, line = f"{kind}, mutated", to_line(mutated({"jsonrpc": "2.0", **message}, random))
        elif choice < 0.7:
            kind, line = "damaged line", damaged(line, random)
        else:
            kind, line = "odd value", to_line(odd_value(random))
    made.counts[kind] += 1
    made.lines.append(line)
    adapter.write(line)


def _message(
    adapter: AdapterProcess, cwd: Path, random: Random, *, stray: float
) -> tuple[str, Json]:
    session = random.choice(adapter.sessions[-3:]) if adapter.sessions else "no-session"
    choice = random.random()
    if adapter.asked and choice < 0.3:
        asked = random.choice(adapter.asked)
        options = [each["optionId"] for each in asked["params"].get("options", ())]
        return "answer", some_answer(random, asked["id"], options)
    if 0.3 <= choice < 0.3 + stray:
        return "stray answer", some_answer(random, random.choice((0, 1, "1", 99, -1)), [])
    if 0.4 <= choice < 0.47:
        ids = [adapter.book.requests, f"r{adapter.book.requests}", random.randrange(50)]
        return "notification", notification(random, session, ids)
    method, params = request(random, session, str(cwd))
    request_id: object = adapter.book.requests + 1
    if random.random() < 0.15:
        request_id = random.choice((0, "0", "", "é", 1, -5, 2**40, f"r{request_id}"))
    return "request", {"id": request_id, "method": method, "params": params}
