"""Let a session's model reach only the agents of its own session (contract 3.9c).

Codex's older tools for agents take the id of any thread that is loaded in the process: a model
could start actions with another thread's rights, and nobody would be asked. Codex runs a
``PreToolUse`` hook before such a call. This file is the hook, which Codex runs as a script, and
makes the arguments that register the hook. The newer tools reach only the session's own agents
(measured on 0.147, 0.163, 0.169 and 0.171).

The first line of a thread's rollout file names the parent of an agent. The hook refuses a call if
it cannot read a rollout file. Imports little, because it is loaded before Codex starts.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Iterator

MATCHER = ".*(send_input|resume_agent|close_agent|wait_agent)$"
"""The tools that take another agent's id, in any namespace."""

OF_MCP_SERVERS = "mcp__"
"""Prefix of the names of MCP servers' tools, which may match `MATCHER`, too."""

TIMEOUT_SECONDS = 60
"""Seconds for the hook, far more than it needs: Codex makes the call if the hook takes longer."""

TRUST_KEY = "/<session-flags>/config.toml:pre_tool_use:0:0"
"""Codex's key for its trust in the first ``PreToolUse`` hook of the command line."""

REFUSED = "[codex-acp]"
"""Prefix by which other code recognizes a refusal among the outputs of hooks."""

MAX_DEPTH = 64
"""Threads from an agent up to its root thread; a bound, although agents form no circle."""

MAX_FIRST_LINE = 16 * 1024 * 1024
"""Bytes of the first line of a rollout file, which includes the model's instructions."""

_ID = frozenset("0123456789abcdef-")
_ID_LENGTH = 36


def hook_arguments(python: str, script: str) -> tuple[str, ...]:
    """Return the arguments that make Codex run this script as a hook, and trust its digest."""
    from codex_acp._lazy import sha256_hex  # here: the script itself imports nothing of the package

    command = _quoted(f"{_shell_quoted(python)} -I -S {_shell_quoted(script)}")
    matcher = _quoted(MATCHER)
    identity = (  # Codex hashes the hook in this form: JSON with sorted keys
        f'{{"event_name":"pre_tool_use","hooks":[{{"async":false,"command":{command},'
        f'"timeout":{TIMEOUT_SECONDS},"type":"command"}}],"matcher":{matcher}}}'
    )
    digest = sha256_hex(identity.encode())
    hook = f'{{type = "command", command = {command}, timeout = {TIMEOUT_SECONDS}}}'
    return (
        "-c",
        f"hooks.PreToolUse=[{{matcher = {matcher}, hooks = [{hook}]}}]",
        "-c",
        f'hooks.state={{"{TRUST_KEY}" = {{trusted_hash = "sha256:{digest}"}}}}',
    )


def refusal(call: dict[str, object], home: str) -> str | None:
    """Return why a tool call is refused, None if it is allowed; ``home`` is the ``CODEX_HOME``. A
    thread may reach the agents of its session, but not the session's root thread."""
    tool = str(call["tool_name"])  # an older tool's name is, for example, multi_agent_v1send_input
    if tool.startswith(OF_MCP_SERVERS):
        return None
    caller = call.get("agent_id") or call["session_id"]
    root = [*_lineage(str(caller), home)][-1]
    for target in _targets(call["tool_input"]):
        lineage = [*_lineage(target, home)]
        if len(lineage) == 1 or lineage[-1] != root:
            return (
                f"{REFUSED} {tool.removeprefix('multi_agent_v1')} was refused: {target[:100]!r} is "
                "no sub-agent of this session, and a model may only reach those"
            )
    return None


def _targets(arguments: object) -> Iterator[str]:
    """Yield every target that a call names, even if Codex uses only one of them."""
    assert isinstance(arguments, dict)
    for name in ("id", "target", "ids", "targets"):
        target = arguments.get(name)
        if isinstance(target, list):
            yield from map(str, target)
        elif target is not None:
            yield str(target)


def _lineage(thread: str, home: str) -> Iterator[str]:
    """Yield a thread and its ancestors, as far as rollout files name them."""
    for _ in range(MAX_DEPTH):
        yield thread
        parent = _parent(thread, home)
        if parent is None:
            return
        thread = parent
    raise ValueError("more agents above each other than there can be")


def _parent(thread: str, home: str) -> str | None:
    """Return the thread that started ``thread``; None for a root or an unknown thread."""
    if len(thread) != _ID_LENGTH or not _ID.issuperset(thread):
        return None
    rollout = _rollout_path(thread, home)
    if rollout is None:
        return None
    import json

    with open(rollout, "rb") as file:  # noqa: PTH123 - no pathlib here
        payload = json.loads(file.readline(MAX_FIRST_LINE))["payload"]
    if payload["id"] != thread:
        return None
    source = payload.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
    return None if spawned is None else str(spawned["parent_thread_id"])


def _rollout_path(thread: str, home: str) -> str | None:
    """Return the path of a thread's rollout file, in the folder of the thread's first day."""
    end = f"-{thread}.jsonl"
    for top in ("sessions", "archived_sessions"):  # Codex unarchives no agents of a thread
        for folder, _, names in os.walk(os.path.join(home, top)):  # noqa: PTH118
            for name in names:
                if name.endswith(end):
                    return os.path.join(folder, name)  # noqa: PTH118
    return None


def _quoted(value: str) -> str:
    """Write a string that is valid in JSON and TOML."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shell_quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def main() -> int:
    """Read a tool call from stdin, as Codex passes it to a hook; return 2 to refuse it."""
    try:
        import json  # imported here, because launching Codex does not need it

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
