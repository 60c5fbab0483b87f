"""How many times something is left behind, of many: ``python -m tests.e2e.orphan_counts``.

A driver does one thing again and again, and says when it has returned; whoever watches it is the
one to which the kernel gives orphans, so that it sees whatever was left, whatever that has done
to its session, its descriptors and its environment. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from anyio import to_thread

from codex_acp.runtime import AgentRuntime, AgentSpec
from codex_acp.runtime.terminals import TerminalProcess
from codex_acp.testing import (
    CodexHome,
    McpTool,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    exec_command,
)
from codex_acp.transport.process_table import read_processes
from codex_acp.transport.process_tree import adopt_orphans
from tests.e2e.adapter_bench import COMMAND
from tests.e2e.raw_adapter import WAIT, RawAdapter

PR_SET_CHILD_SUBREAPER = 36
DAEMON = f"sleep 4242.{os.getpid()}"
"""Of this process alone: others that run a scene have their own."""
QUICK_CODEX = """#!/bin/sh
while read -r line; do
    case "$line" in
    *'"initialize"'*) echo '{{"id":0,"result":{{"userAgent":"codex/0.163.0 (Linux)"}}}}' ;;
    *'"id"'*) {daemon} ;;
    esac
done
"""
MID_TURN_SECONDS = 1.0
OPENING_SECONDS = 0.2


@dataclass
class Count:
    """What was left in ``runs`` of one scene: names of programs, each with how often."""

    runs: int = 0
    leaving: int = 0
    names: Counter[str] = field(default_factory=Counter)


def processes_below(root: int) -> list[int]:
    """The living descendants of a process."""
    table = read_processes()
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        children = [i.pid for i in table.values() if i.parent == parent and i.pid != root]
        found += [pid for pid in children if not table[pid].dead]
        waiting += children
    return found


def name_of(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return " ".join(word.decode(errors="replace") for word in words[:3])[:80].strip()
    return "gone"


def count(scene: str, runs: int) -> Count:
    """Run a scene so often; whatever is left of a run is counted, and killed."""
    # The watcher is a process of its own: being the reaper of orphans is for a whole process.
    script = [sys.executable, "-m", "tests.e2e.orphan_counts", "--watch", scene, str(runs)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = Count()
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "run":
            found.runs += 1
            found.leaving += rest != ""
            found.names.update(rest.split("\t") if rest else ())
    return found


def watch(scene: str, runs: int) -> None:
    """Print a line for each run: ``run`` and what was left of it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with ScriptedModel(_script(runs)) as model, CodexHome(model.base_url) as home:
        command = [sys.executable, "-m", "tests.e2e.orphan_counts", "--drive", scene]
        env = {
            **home.env,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "WORKSPACE": str(home.workspace),
        }
        driver = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
        )
        assert driver.stdin
        assert driver.stdout
        assert driver.stdout.readline() == b"ready\n", "the driver has not started"
        for _ in range(runs):
            driver.stdin.write(b"\n")
            driver.stdin.flush()
            assert driver.stdout.readline() == b"done\n", "the driver has failed"
            left = [pid for pid in processes_below(os.getpid()) if pid != driver.pid]
            print("run", "\t".join(map(name_of, left)), flush=True)  # noqa: T201
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            _reap(driver.pid)
        driver.stdin.close()
        assert driver.wait() == 0


def _script(runs: int) -> list[list[Step]]:
    response: list[Step] = [
        exec_command("sleep 300 & setsid sleep 300 & sleep 300", yield_time_ms=60_000)
    ]
    return [response, [Text("Never.")]] * runs


def _reap(but: int) -> None:
    """Collect the orphans that have ended: they are this process's children now."""
    for info in read_processes().values():
        if info.parent == os.getpid() and info.pid != but and info.dead:
            with suppress(ChildProcessError):
                os.waitpid(info.pid, os.WNOHANG)


def drive(scene: str) -> None:
    """Do it once for each line of stdin."""
    print("ready", flush=True)  # noqa: T201
    for _ in sys.stdin:
        SCENES[scene]()
        print("done", flush=True)  # noqa: T201


def cancelled_opening() -> None:
    """An opening of the runtime that is given up within a fifth of a second."""
    _cancelled(None)


def _cancelled(spec: AgentSpec | None) -> None:
    async def main() -> None:
        async with AgentRuntime() as runtime:
            opening = asyncio.ensure_future(_open(runtime, spec))
            await asyncio.sleep(random.random() * OPENING_SECONDS)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)

    asyncio.run(main())


async def _open(runtime: AgentRuntime, spec: AgentSpec | None = None) -> None:
    await runtime.open(spec or AgentSpec.codex(), cwd=os.environ["WORKSPACE"])


def cancelled_daemon() -> None:
    """The same of an agent that puts a child into a session of its own while it starts."""
    delay = random.random() * OPENING_SECONDS
    words = f"sleep {delay:.3f}; setsid sleep 300 & sleep {delay + 0.05:.3f}; exec cat"
    _cancelled(AgentSpec(["/bin/sh", "-c", words]))


def cancelled_double_fork() -> None:
    """The same of one that does so by two forks, so that no parent of the child is left."""
    delay = random.random() * OPENING_SECONDS
    words = f"sleep {delay:.3f}; (setsid sleep 300 >&- 2>&- <&- &); exec cat"
    _cancelled(AgentSpec(["/bin/sh", "-c", words]))


def cancelled_program() -> None:
    """The same, but the program's end alone closes: nobody waits for the runtime."""

    async def main() -> None:
        runtime = AgentRuntime()
        opening = asyncio.ensure_future(_open(runtime))
        await asyncio.sleep(random.random() * OPENING_SECONDS)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)

    asyncio.run(main())


def ended_in_mid_turn() -> None:
    """The adapter's stdin closes at any moment of a turn that runs a command in the sandbox."""
    adapter = RawAdapter(os.environ)
    adapter.initialize()
    session = adapter.new_session(Path(os.environ["WORKSPACE"]))
    adapter.start_prompt(session)
    time.sleep(random.random() * MID_TURN_SECONDS)
    adapter.end_input()
    adapter.wait()


def command_daemon() -> None:
    """A command that Codex runs leaves a daemon that knows nothing of where it comes from."""
    script: list[list[Step]] = [[exec_command(_daemon())], [Text("Done.")]]
    _end_when_it_runs(script, [])


def mcp_daemon() -> None:
    """An MCP server does."""
    with TemporaryDirectory() as folder:
        server = ScriptedMcpServer(Path(folder), [McpTool("read_note", read_only=True)])
        command = f"{_daemon()}; exec {shlex.join(server.argv)}"
        variables = [{"name": "PYTHONPATH", "value": os.pathsep.join(sys.path)}]
        given: dict[str, object] = {
            "name": "notes",
            "command": "/bin/sh",
            "args": ["-c", command],
            "env": variables,
        }
        _end_when_it_runs([], [given])


def _end_when_it_runs(script: list[list[Step]], servers: list[dict[str, object]]) -> None:
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url, sandbox_mode="danger-full-access") as home,
    ):
        adapter = RawAdapter({**home.env, "PYTHONPATH": os.pathsep.join(sys.path)})
        adapter.initialize()
        session = adapter.new_session(home.workspace, servers)
        if script:
            adapter.start_prompt(session)
        _wait_for_the_daemon()
        adapter.end_input()
        adapter.wait()


def first_daemon() -> None:
    """A Codex that is ready at once lets one do so as soon as it is asked for a session."""
    with TemporaryDirectory() as folder:
        codex = Path(folder) / "codex"
        codex.write_text(QUICK_CODEX.format(daemon=_daemon()))
        codex.chmod(0o755)
        adapter = RawAdapter({**os.environ, "CODEX_PATH": str(codex)})
        adapter.initialize()
        adapter.start("session/new", {"cwd": folder, "mcpServers": []})
        _wait_for_the_daemon()
        adapter.end_input()
        adapter.wait()


def doctor_daemon() -> None:
    """An MCP server that the doctor has Codex start."""
    notes = {"notes": {"command": "/bin/sh", "args": ["-c", _daemon()]}}
    with ScriptedModel([]) as model, CodexHome(model.base_url, mcp_servers=notes) as home:
        subprocess.run([COMMAND, "doctor"], env=home.env, capture_output=True, check=False)


def terminal_daemon() -> None:
    """A command in a terminal of the runtime does, in a program that is only partly ours."""

    async def main() -> None:
        await _terminal(_daemon(cleared=False))

    asyncio.run(main())


def adopted_daemon() -> None:
    """The same where the whole process is ours, and the daemon has cleared its environment."""

    async def main() -> None:
        adopt_orphans(asyncio.get_running_loop())
        await _terminal(_daemon())

    asyncio.run(main())


async def _terminal(words: str) -> None:
    terminal = TerminalProcess(["/bin/sh", "-c", words], None, "/", 1000)
    await terminal.wait()
    await to_thread.run_sync(_wait_for_the_daemon)
    await terminal.aclose()


def _daemon(*, cleared: bool = True) -> str:
    """A line for a shell: two forks, a session of its own, no descriptor, no environment."""
    return f"{'env -i ' if cleared else ''}setsid /bin/sh -c '{DAEMON} <&- >&- 2>&- &'"


def _wait_for_the_daemon() -> None:
    deadline = time.monotonic() + WAIT
    while not any(name_of(int(p.name)) == DAEMON for p in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline, "the daemon has not started"
        time.sleep(0.01)


SCENES = {
    "cancelled opening": cancelled_opening,
    "cancelled program": cancelled_program,
    "cancelled daemon": cancelled_daemon,
    "cancelled double fork": cancelled_double_fork,
    "ended in mid-turn": ended_in_mid_turn,
    "daemon of a command": command_daemon,
    "daemon of an MCP server": mcp_daemon,
    "daemon of a quick Codex": first_daemon,
    "daemon of the doctor": doctor_daemon,
    "daemon of a terminal": terminal_daemon,
    "daemon without environment": adopted_daemon,
}
"""What is done; nothing may be left when one of these has returned."""

BY_CHANCE = {
    *(cancelled_opening, cancelled_program, cancelled_daemon, cancelled_double_fork),
    ended_in_mid_turn,
}
"""Those in which chance says when."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--watch", nargs=2)
    parser.add_argument("--drive")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--scene", choices=SCENES, action="append")
    given = parser.parse_args()
    if given.watch:
        watch(given.watch[0], int(given.watch[1]))
    elif given.drive:
        drive(given.drive)
    else:
        for scene in given.scene or SCENES:
            began = time.monotonic()
            found = count(scene, given.runs)
            seconds = time.monotonic() - began
            print(f"{scene}: {found.leaving} of {found.runs} left something, {seconds:.0f} s")  # noqa: T201
            for name, times in found.names.most_common():
                print(f"  {times} x {name}")  # noqa: T201


if __name__ == "__main__":
    main()
