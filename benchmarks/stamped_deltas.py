"""How long deltas of `stamping_codex` are on their way to a client: for `network` and `latency`.

Each message that comes bears the time of its arrival.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

LATENCY = "a delta, from Codex to the client, us"

Message = dict[str, Any]

INFO = {"name": "benchmark", "version": "1"}


class Client(Protocol):
    """Whatever speaks with the adapter, or with Codex itself."""

    def send(self, message: Message) -> None:
        """One message."""

    def receive(self) -> Message:
        """The next one; it may know as ``at`` when it came."""


def ask(client: Client, method: str, params: Message, end: str = "result") -> list[Message]:
    """Everything up to the answer, or to what has ``end`` as its method, with its ``at``."""
    client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    found = []
    while True:
        message = client.receive()
        message.setdefault("at", time.monotonic_ns())
        found.append(message)
        if end in message or message.get("method") == end:
            return found
        if "error" in message:
            raise RuntimeError(message["error"])


def introduced(client: Client, cwd: Path) -> str:
    """A session."""
    params = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": INFO}
    ask(client, "initialize", params)
    return new_session(client, cwd)


def new_session(client: Client, cwd: Path) -> str:
    """One more."""
    answer = ask(client, "session/new", {"cwd": str(cwd), "mcpServers": []})[-1]
    return str(answer["result"]["sessionId"])


def thread(client: Client, cwd: Path) -> str:
    """The same of Codex itself."""
    ask(client, "initialize", {"clientInfo": INFO})
    answer = ask(client, "thread/start", {"cwd": str(cwd)})[-1]
    return str(answer["result"]["thread"]["id"])


def ways(
    client: Client, session: str, count: int, pause: float, *, of_codex: bool = False
) -> list[float]:
    """The microseconds of each delta's way, ``pause`` seconds between two."""
    blocks = [{"type": "text", "text": f"{count} {pause}"}]
    if of_codex:
        told = ask(client, "turn/start", {"threadId": session, "input": blocks}, "turn/completed")
    else:
        told = ask(client, "session/prompt", {"sessionId": session, "prompt": blocks})
    taken = [(m["at"] - int(stamp)) / 1000 for m in told for stamp in _text_of(m).split()]
    if len(taken) != count:
        message = f"{len(taken)} of {count} deltas came"
        raise RuntimeError(message)
    return taken


def _text_of(message: Message) -> str:
    """Of a delta: the moments in which its pieces were written."""
    params = message.get("params", {})
    if "delta" in params:
        return str(params["delta"])
    update = params.get("update", {})
    is_text = update.get("sessionUpdate") == "agent_message_chunk"
    return str(update["content"]["text"]) if is_text else ""
