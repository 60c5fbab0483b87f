"""A conversation: what Codex and a client said, as a file that can be played.

A file is JSON, one object a line: the head (see `Conversation`), then the steps in their order, at
the end the history that Codex stored. Must not know how one is recorded or played.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

WIRE: Final = Path(__file__).parent / "wire"
"""The conversations that were recorded from the real binary."""


@dataclass
class Conversation:
    """What was said, step by step.

    A step is an object with one member::

        {"client": {"prompt": "Go."}}             also {"cancel": true}, or the answer to what the
        {"client": {"answer": "allow_once"}}      agent asked last: a kind of option, or a result
        {"client": {"title": "My work"}}          session/set_title
        {"codex": {"method": ..., "params": ...}} a message of Codex; with "id" it asks
        {"result": {"of": "review/start", ...}}   Codex's answer to a call that the adapter makes
        {"files": {"a.txt": "..."}}               how files look from here on; null: not there
        {"wait": 0.5}                             seconds pass

    Ids, times and paths are made the same in every recording: ``thread-1`` is the session's own
    thread, ``turn-1`` its first turn, ``$CWD`` its directory.
    """

    name: str
    about: str
    source: str
    """Which Codex said this, or that it was made by hand to fit the schema, and why."""
    capabilities: Json = field(default_factory=dict)
    """``clientCapabilities`` of the client."""
    steps: list[Json] = field(default_factory=list)
    history: list[Json] = field(default_factory=list)
    """``{"turnId", "item"}`` as `thread/items/list` gives them after all that."""

    def codex_messages(self) -> list[Json]:
        """The messages of Codex, in order."""
        return [step["codex"] for step in self.steps if "codex" in step]

    def items(self) -> list[Json]:
        """Every item that Codex told of, started or completed, and those of the history."""
        told = [m["params"]["item"] for m in self.codex_messages() if "item" in m["params"]]
        return told + [entry["item"] for entry in self.history]


def stored(steps: list[Json], thread: str = "thread-1") -> list[Json]:
    """What Codex would store of ``steps``: each item as it was told last, in order of its end."""
    found: dict[str, Json] = {}
    for step in steps:
        message = step.get("codex", {})
        params = message.get("params", {})
        if message.get("method") == "item/completed" and params["threadId"] == thread:
            item = params["item"]
            found.pop(item["id"], None)
            found[item["id"]] = {"turnId": params["turnId"], "item": item}
    return list(found.values())


def load(path: Path) -> Conversation:
    """Read a file."""
    head, *rest = map(json.loads, path.read_text("utf-8").splitlines())
    history = rest.pop()["history"]
    return Conversation(path.stem, **head, steps=rest, history=history)


def save(conversation: Conversation) -> Path:
    """Write the file of a conversation."""
    path = WIRE / f"{conversation.name}.jsonl"
    head = {
        "about": conversation.about,
        "source": conversation.source,
        "capabilities": conversation.capabilities,
    }
    lines = [head, *conversation.steps, {"history": conversation.history}]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, "utf-8")
    return path
