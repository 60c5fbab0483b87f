"""Standard input and output as a link, whatever they are connected to."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError
from codex_acp.transport.descriptors import read_now
from codex_acp.transport.link import Link
from codex_acp.transport.stdio import StdioLink


class Events:
    def __init__(self) -> None:
        self.data = b""
        self.ends: list[TransportError | None] = []
        self.closed = asyncio.Event()
        self.arrived = asyncio.Event()
        self.paused = asyncio.Event()
        self.resumed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.arrived.set()

    def link_closed(self, error: TransportError | None) -> None:
        self.ends.append(error)
        self.closed.set()

    def pause_writing(self) -> None:
        self.paused.set()

    def resume_writing(self) -> None:
        self.resumed.set()


class Pipes:
    """A link between two pipes, seen from the client that holds the other ends."""

    def __init__(self) -> None:
        stdin, self.to_link = os.pipe()
        self.from_link, stdout = os.pipe()
        self.events = Events()
        self.stdout = stdout
        self.link: Link = StdioLink(stdin, stdout)
        self.link.start(self.events)

    def close_input(self) -> None:
        os.close(self.to_link)
        self.to_link = -1

    async def finish(self) -> None:
        await self.link.aclose()
        for fd in (self.to_link, self.from_link):
            if fd >= 0:
                os.close(fd)


async def test_bytes_travel_both_ways_and_end_of_input_is_a_clean_end() -> None:
    pipes = Pipes()
    os.write(pipes.to_link, b"hello")
    with anyio.fail_after(60):
        await pipes.events.arrived.wait()
        pipes.link.write(b"answer")
        assert os.read(pipes.from_link, 100) == b"answer"
        pipes.close_input()
        await pipes.events.closed.wait()
    assert pipes.events.data == b"hello"
    assert pipes.events.ends == [None]
    pipes.link.write(b"afterwards")
    assert os.read(pipes.from_link, 100) == b"afterwards"
    await pipes.finish()
    assert pipes.events.ends == [None]


async def test_closing_ends_the_output_and_tells_the_receiver_once() -> None:
    pipes = Pipes()
    await pipes.link.aclose()
    await pipes.link.aclose()
    assert pipes.events.ends == [None]
    assert os.read(pipes.from_link, 10) == b""
    pipes.link.write(b"dropped")
    await pipes.finish()


async def test_a_client_that_reads_no_more_is_a_closed_connection() -> None:
    pipes = Pipes()
    os.close(pipes.from_link)
    pipes.from_link = -1
    pipes.link.write(b"x")
    assert pipes.events.ends == []
    with anyio.fail_after(60):
        await pipes.events.closed.wait()
    [error] = pipes.events.ends
    assert isinstance(error, ConnectionClosed)
    pipes.link.write(b"y")
    await pipes.finish()
    assert len(pipes.events.ends) == 1


async def test_a_slow_client_pauses_the_writer_and_gets_every_byte() -> None:
    pipes = Pipes()
    sent = os.urandom(1_000_000)
    for start in range(0, len(sent), 10_000):
        pipes.link.write(sent[start : start + 10_000])
    assert pipes.events.paused.is_set()
    received = b""
    with anyio.fail_after(60):
        while len(received) < len(sent):
            received += await asyncio.to_thread(os.read, pipes.from_link, 65536)
        await pipes.events.resumed.wait()
    assert received == sent
    await pipes.finish()


async def test_closing_waits_for_a_client_that_still_reads() -> None:
    pipes = Pipes()
    pipes.link.write(b"x" * 300_000)
    closing = asyncio.create_task(pipes.link.aclose())
    received = 0
    with anyio.fail_after(60):
        while chunk := await asyncio.to_thread(os.read, pipes.from_link, 65536):
            received += len(chunk)
        await closing
    assert received == 300_000
    await pipes.finish()


async def test_closing_does_not_wait_long_for_a_client_that_does_not_read() -> None:
    pipes = Pipes()
    pipes.link.write(b"x" * 300_000)
    with anyio.fail_after(60):
        await pipes.link.aclose()
    assert pipes.events.ends == [None]
    await pipes.finish()


async def test_paused_reading_takes_nothing_from_the_pipe() -> None:
    pipes = Pipes()
    pipes.link.pause_reading()
    os.write(pipes.to_link, b"x")
    pipes.close_input()
    with anyio.move_on_after(0.05):
        await pipes.events.arrived.wait()
    assert pipes.events.data == b""
    assert pipes.events.ends == []
    pipes.link.resume_reading()
    with anyio.fail_after(60):
        await pipes.events.closed.wait()
    assert pipes.events.data == b"x"
    await pipes.finish()


async def test_the_blocking_mode_of_stdout_is_given_back() -> None:
    read_end, stdout = os.pipe()
    shared = os.dup(stdout)
    link = StdioLink(os.open(os.devnull, os.O_RDONLY), stdout)
    link.start(Events())
    during = os.get_blocking(shared)
    await link.aclose()
    assert (during, os.get_blocking(shared)) == (False, True)
    os.close(shared)
    os.close(read_end)


async def test_regular_files_serve_as_input_and_output(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"line\n" * 50_000)
    events = Events()
    stdout = os.open(target, os.O_WRONLY | os.O_CREAT)
    link = StdioLink(os.open(source, os.O_RDONLY), stdout)
    link.start(events)
    link.pause_reading()
    link.resume_reading()
    link.write(b"x" * 200_000)
    with anyio.fail_after(60):
        await events.closed.wait()
    await link.aclose()
    assert events.data == source.read_bytes()
    assert events.ends == [None]
    assert target.read_bytes() == b"x" * 200_000


async def test_dev_null_serves_as_input_and_output() -> None:
    events = Events()
    link = StdioLink(os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
    link.start(events)
    link.write(b"gone")
    with anyio.fail_after(60):
        await events.closed.wait()
    await link.aclose()
    assert (events.data, events.ends) == (b"", [None])


async def test_a_closed_descriptor_is_a_closed_connection() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    os.close(write_end)
    with pytest.raises(ConnectionClosed, match="not open"):
        StdioLink(read_end, write_end).start(Events())


async def test_a_link_starts_only_once() -> None:
    pipes = Pipes()
    with pytest.raises(MisuseError):
        pipes.link.start(Events())
    await pipes.finish()


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""What is printed before the claim must still be in Python's buffer then."""

CLAIMING = """
import os, subprocess, sys
sys.stdout.write("buffered before;")
from codex_acp.transport.stdio import claim_stdout
protocol = claim_stdout()
print("printed;")
os.write(1, b"written to 1;")
subprocess.run([sys.executable, "-c", "print('from a child;')"], check=True)
os.write(protocol, b"protocol")
"""


def test_a_claimed_stdout_carries_the_protocol_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLAIMING], capture_output=True, timeout=30, check=True, env=BUFFERED
    )
    assert done.stdout == b"protocol"
    for stray in (b"buffered before;", b"printed;", b"written to 1;", b"from a child;"):
        assert stray in done.stderr


def test_a_claimed_stdout_works_without_a_stderr() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, CLAIMING],
        env=BUFFERED,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == b"protocol"


def test_a_process_without_stdout_says_so() -> None:
    program = """
import os
os.close(1)
from codex_acp.transport.stdio import claim_stdout
from codex_acp.errors import ConnectionClosed
try:
    claim_stdout()
except ConnectionClosed:
    os.write(2, b"said so")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=30, check=False
    )
    assert b"said so" in done.stderr


async def test_what_was_read_before_comes_first() -> None:
    stdin, to_link = os.pipe()
    from_link, stdout = os.pipe()
    os.write(to_link, b"early, ")
    early = read_now(stdin)
    os.write(to_link, b"late")
    os.close(to_link)
    events = Events()
    link = StdioLink(stdin, stdout, early=early)
    link.start(events)
    with anyio.fail_after(60):
        await events.closed.wait()
    await link.aclose()
    os.close(from_link)
    assert early == b"early, "
    assert events.data == b"early, late"


@pytest.mark.parametrize("holds", [False, True])
async def test_what_it_asks_is_begun_before_the_end_is_read(holds: bool) -> None:
    stdin, to_link = os.pipe()
    from_link, stdout = os.pipe()
    os.write(to_link, b"early")
    early = read_now(stdin)
    os.close(to_link)
    order: list[str] = []

    class Asked(Events):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            asyncio.get_running_loop().call_soon(order.append, "begun")
            if holds:
                link.pause_reading()

        def link_closed(self, error: TransportError | None) -> None:
            order.append("ended")
            super().link_closed(error)

    events = Asked()
    link = StdioLink(stdin, stdout, early=early)
    link.start(events)
    with anyio.fail_after(60):
        await events.arrived.wait()
        await anyio.wait_all_tasks_blocked()
        if holds:
            assert order == ["begun"]
            link.resume_reading()
        await events.closed.wait()
    await link.aclose()
    os.close(from_link)
    assert order == ["begun", "ended"]


def test_what_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    assert read_now(reading) == b""
    os.close(writing)
    assert read_now(reading) == b""
    os.close(reading)
    assert read_now(reading) == b""
    ours, terminal = pty.openpty()
    os.write(ours, b"typed\n")
    assert read_now(terminal) == b""
    os.close(ours)
    os.close(terminal)
    (tmp_path / "file").write_bytes(b"all of it")
    with (tmp_path / "file").open("rb") as file:
        assert read_now(file.fileno()) == b"all of it"
