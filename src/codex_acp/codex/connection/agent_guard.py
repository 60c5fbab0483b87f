"""Keep a session's model to the agents of its own session (contract 3.9c).

Codex's older tools for agents take the id of any thread that is loaded in the process, and what is
sent there runs with that thread's rights, unasked. Codex runs a ``PreToolUse`` hook before such a
call: this file is that hook, run by itself as a script, and makes the arguments that tell Codex so.
The newer tools reach nothing but the session's own agents (measured on 0.147, 0.163 and 0.169).

Whose agent a thread is stands in the first line of its record, written by Codex. What cannot be
read is refused. Imports little: it is loaded before Codex starts.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Iterator

MATCHER = ".*(send_input|resume_agent|close_agent|wait_agent)$"
"""The tools that take another agent's id, in whichever namespace."""

OF_MCP_SERVERS = "mcp__"
"""How the names of MCP servers' tools begin, which may end like the others."""

TIMEOUT_SECONDS = 60
"""For the hook; one that takes longer is no refusal to Codex, so it is far more than it needs."""

TRUST_KEY = "/<session-flags>/config.toml:pre_tool_use:0:0"
"""Where Codex looks up whether the first such hook of its command line is trusted."""

REFUSED = "[codex-acp]"
"""How a refusal begins, for whoever shows what a hook has said."""

MAX_DEPTH = 64
"""Agents start agents, but never in a circle; a bound all the same."""

MAX_FIRST_LINE = 16 * 1024 * 1024
"""Bytes of the first line of a record, which has the model's instructions in it."""

_ID = frozenset("0123456789abcdef-")
_ID_LENGTH = 36


def hook_arguments(python: str, script: str) -> tuple[str, ...]:
    """Return the arguments that have Codex run this script as a hook, and trust its digest."""
    from hashlib import sha256

    command = _text(f"{_quoted(python)} -I -S {_quoted(script)}")
    matcher = _text(MATCHER)
    identity = (
        f'{{"event_name":"pre_tool_use","hooks":[{{"async":false,"command":{command},'
        f'"timeout":{TIMEOUT_SECONDS},"type":"command"}}],"matcher":{matcher}}}'
    )
    digest = sha256(identity.encode()).hexdigest()
    hook = f'{{type = "command", command = {command}, timeout = {TIMEOUT_SECONDS}}}'
    return (
        "-c",
        f"hooks.PreToolUse=[{{matcher = {matcher}, hooks = [{hook}]}}]",
        "-c",
        f'hooks.state={{"{TRUST_KEY}" = {{trusted_hash = "sha256:{digest}"}}}}',
    )


def refusal(call: dict[str, object], home: str) -> str | None:
    """Return why a tool call may not be made, None if it may; ``home`` is the ``CODEX_HOME``.

    An agent may reach those of its own session, but not the session itself.
    """
    tool = str(call["tool_name"])
    if tool.startswith(OF_MCP_SERVERS):
        return None
    caller = call.get("agent_id") or call["session_id"]
    root = [*_line(str(caller), home)][-1]
    for target in _targets(call["tool_input"]):
        above = [*_line(target, home)]
        if len(above) == 1 or above[-1] != root:
            return (
                f"{REFUSED} {tool.removeprefix('multi_agent_v1')} was refused: {target[:100]!r} is "
                "no sub-agent of this session, and a model may only reach those"
            )
    return None


def _targets(arguments: object) -> Iterator[str]:
    """Yield all that a call names as a target, whatever Codex makes of more than one."""
    assert isinstance(arguments, dict)
    for name in ("id", "target", "ids", "targets"):
        given = arguments.get(name)
        yield from map(str, given if isinstance(given, list) else () if given is None else (given,))


def _line(thread: str, home: str) -> Iterator[str]:
    """Yield a thread and those above it, as far as Codex has written who started it."""
    for _ in range(MAX_DEPTH):
        yield thread
        parent = _parent(thread, home)
        if parent is None:
            return
        thread = parent
    raise ValueError("more agents above each other than there can be")


def _parent(thread: str, home: str) -> str | None:
    """Return the thread that started this one; None for a session, or one that is not found."""
    if len(thread) != _ID_LENGTH or not _ID.issuperset(thread):
        return None
    record = _record(thread, home)
    if record is None:
        return None
    import json

    with open(record, "rb") as file:  # noqa: PTH123 - no pathlib here
        payload = json.loads(file.readline(MAX_FIRST_LINE))["payload"]
    if payload["id"] != thread:
        return None
    source = payload.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
    return None if spawned is None else str(spawned["parent_thread_id"])


def _record(thread: str, home: str) -> str | None:
    """Return the path of a thread's record, which lies in a folder of the day it began."""
    end = f"-{thread}.jsonl"
    for folder, _, names in os.walk(os.path.join(home, "sessions")):  # noqa: PTH118
        for name in names:
            if name.endswith(end):
                return os.path.join(folder, name)  # noqa: PTH118
    return None


def _text(value: str) -> str:
    """Return a text as JSON and TOML both write it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def main() -> int:
    """Read a call from stdin, as Codex tells its hooks; 2 is how a hook refuses."""
    try:
        import json  # here: what starts Codex loads no more than it needs

        call = json.load(sys.stdin.buffer)
        home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")  # noqa: PTH111
        why = refusal(call, home)
    except BaseException as error:  # noqa: BLE001 - a hook that fails would let the call pass
        why = f"{REFUSED} refused: whose agent is meant cannot be read ({error!r})"
    if why is None:
        return 0
    sys.stderr.write(f"{why}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
