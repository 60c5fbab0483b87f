"""A stand-in for Codex whose deltas say when they were written, for `network` and `latency`.

Each prompt is ``COUNT SECONDS``: so many deltas, and so long between two.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from codex_acp.testing.app_server_script import default_result, turn_object

Json = dict[str, Any]

EFFORT = {"reasoningEffort": "medium", "description": "Medium"}

MODEL: Json = {
    "id": "stand-in", "model": "stand-in", "displayName": "Stand-in", "description": "None",
    "hidden": False, "isDefault": True, "supportedReasoningEfforts": [EFFORT],
    "defaultReasoningEffort": "medium", "inputModalities": ["text"], "supportsPersonality": False,
}  # fmt: skip
"""Some agents do without no model."""

ROOT = Path(__file__).resolve().parents[1]


def executable(directory: Path) -> Path:
    """What starts it, written into ``directory``."""
    path = directory / "codex"
    command = shlex.join([sys.executable, "-P", "-m", "benchmarks.stamping_codex"])
    where = shlex.quote(f"{ROOT / 'src'}:{ROOT}")
    path.write_text(f'#!/bin/sh\nPYTHONPATH={where} exec {command} "$@"\n')
    path.chmod(0o755)
    return path


def write(message: Json) -> None:
    """One line, at once."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def notify(method: str, **params: object) -> None:
    """Say something."""
    write({"method": method, "params": params})


def stream(thread: str, turn: str, text: str) -> None:
    """A turn of deltas."""
    count, pause = text.split()[-2:]  # some agents put words of their own before
    of: Json = {"threadId": thread, "turnId": turn}
    item: Json = {"type": "agentMessage", "id": f"item-{turn}", "text": "", "phase": None}
    notify("turn/started", threadId=thread, turn=turn_object(turn))
    notify("item/started", item=item, startedAtMs=0, **of)
    for _ in range(int(count)):
        time.sleep(float(pause))
        stamp = f"{time.monotonic_ns()} "
        notify("item/agentMessage/delta", itemId=item["id"], delta=stamp, **of)
    notify("item/completed", item=item, completedAtMs=0, **of)
    notify("turn/completed", threadId=thread, turn=turn_object(turn, "completed"))


def main() -> int:
    """Answer until stdin ends."""
    if "--version" in sys.argv:
        sys.stdout.write("codex-cli 0.163.0\n")
        return 0
    threads = turns = 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        method, params = message["method"], message.get("params") or {}
        if method == "turn/start":
            turns += 1
            turn = f"turn-{turns}"
            write({"id": message["id"], "result": {"turn": turn_object(turn)}})
            stream(params["threadId"], turn, params["input"][-1]["text"])
            continue
        if method == "model/list":
            write({"id": message["id"], "result": {"data": [MODEL], "nextCursor": None}})
            continue
        if method == "thread/start":
            threads += 1
            name = f"00000000-0000-7000-8000-{threads:012d}"
            method, params = "thread/resume", {**params, "threadId": name}
        write({"id": message["id"], "result": default_result(method, params, "") or {}})
    return 0


if __name__ == "__main__":
    sys.exit(main())
