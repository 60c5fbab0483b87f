"""Orphans: whose they are, and that nobody else's child is ever ended or collected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from codex_acp.transport.child import start_process
from codex_acp.transport.process_tree import TREE_VARIABLE, has_mark, new_mark, with_mark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of orphans")

WAIT = 60.0

PROGRAM = """
import asyncio, json, os, signal, subprocess, sys, time
from codex_acp.transport.child import spawn
from codex_acp.transport.process_tree import adopt_orphans, is_orphan_here, sparing
from codex_acp.transport.process_table import read_processes

def own(seconds):
    return f"{seconds}.{os.getpid():010d}"  # of this run alone, and as long to sleep

def below(seconds):
    name = f"sleep {own(seconds)}".encode()
    found = []
    for pid, info in read_processes().items():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().replace(b"\\0", b" ").strip()
        except OSError:
            continue
        if words == name and not info.dead:
            found.append(pid)
    return found

async def until(found):
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)

def daemon(seconds):
    return f"env -i setsid /bin/sh -c 'sleep {own(seconds)} <&- >&- 2>&- &'"

def agent(words):
    return spawn(["/bin/sh", "-c", words + "; exec cat"])

class Nobody:
    def __getattr__(self, _name):
        return lambda *_: None

async def main():
    told = {}
    assert adopt_orphans(asyncio.get_running_loop())
    child = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    group = subprocess.Popen(["sleep", "4001"])
    with sparing():
        browser = subprocess.Popen(["sleep", "4002"], start_new_session=True)
    first, second = agent(daemon(4003)), agent("true")
    first.start(Nobody()), second.start(Nobody())
    await until(lambda: below(4003))
    await second.aclose()
    told["stays while another tree is open"] = len(below(4003))
    await first.aclose()
    told["goes with the last tree"] = len(below(4003))
    third = agent(daemon(4004))
    third.start(Nobody())
    await until(lambda: below(4004))
    os.kill(*below(4004), signal.SIGKILL)
    await until(lambda: not below(4004))
    await until(lambda: not any(i.dead and is_orphan_here(i) for i in read_processes().values()))
    await third.aclose()
    told["own status"] = child.wait()
    told["own child lives"] = group.poll() is None
    told["browser lives"] = browser.poll() is None
    group.kill(), browser.kill(), group.wait(), browser.wait()
    return told

print(json.dumps(asyncio.run(main())))
"""


def test_a_program_that_adopts_ends_what_is_its_own_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told == {
        "stays while another tree is open": 1,
        "goes with the last tree": 0,
        "own status": 7,
        "own child lives": True,
        "browser lives": True,
    }


def test_a_mark_goes_down_behind_those_from_further_up() -> None:
    outer, inner = new_mark(), new_mark()
    assert outer != inner
    env = with_mark(with_mark({"PATH": "/bin"}, outer), inner)
    assert env == {"PATH": "/bin", TREE_VARIABLE: f"{outer}:{inner}"}
    assert with_mark(None, outer).items() >= (os.environ.items() - {(TREE_VARIABLE, "")})


def test_a_process_has_the_mark_that_it_was_started_with() -> None:
    process = start_process(["/bin/cat"])
    deadline = time.monotonic() + WAIT
    while has_mark(process.pid, process.mark) is None:  # it is just being started
        assert time.monotonic() < deadline
    assert has_mark(process.pid, process.mark)
    assert not has_mark(process.pid, new_mark())
    assert not has_mark(os.getpid(), process.mark)
    process.stdin.close()
    process.wait()
    assert not has_mark(process.pid, process.mark)
    process.stdout.close()
    process.stderr.close()
