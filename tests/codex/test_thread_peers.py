"""A thread that processes ask each other for, with every fault of the one who has it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest

from codex_acp.codex.connection import thread_peers
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.thread_peers import Asker, State, ThreadPeers
from codex_acp.errors import ErrorReply, ThreadOpenElsewhere
from codex_acp.jsonrpc import JsonValue
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.local_peers import ask_all, private_folder

WAIT_SECONDS = 60.0
"""Longer than any of this takes."""

HOME = "/a/codex/home"
THREAD = "01a00000-0000-7000-8000-000000000000"

CODEX = cast(
    "AppServerConnection",
    SimpleNamespace(
        link=object.__new__(ChildProcess),
        server=SimpleNamespace(codex_home=HOME),
        unloads_at_once=True,
    ),
)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as runtime:  # a socket's path may not be long
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield private_folder(HOME)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test can wait out."""
    monkeypatch.setattr(thread_peers, "TAKE_SECONDS", 0.2)
    monkeypatch.setattr(thread_peers, "ASK_SECONDS", 0.1)


def refusal() -> ErrorReply:
    """Make the error of Codex for a thread that another process writes."""
    return ErrorReply("thread/resume", -32600, f"thread {THREAD} already has an active writer")


class Store:
    """A thread of a Codex home: one process writes it."""

    def __init__(self) -> None:
        self.writer: object = None

    def open(self, by: object) -> JsonValue:
        """Open it for one. Raises ErrorReply while another one has it."""
        if self.writer not in (None, by):
            raise refusal()
        self.writer = by
        return "opened"


class Process:
    """A process that has the thread open, or wants it."""

    def __init__(self, store: Store, works: bool = False) -> None:
        self.store = store
        self.works = works
        self.askers: list[Asker] = []
        self.peers = ThreadPeers(lambda: "an editor", self.let_go)

    async def let_go(self, thread_id: str, asker: Asker) -> State:
        if self.store.writer is not self or thread_id != THREAD:
            return "unknown"
        self.askers.append(asker)
        if self.works and not asker.cancels:
            return "busy"
        await asyncio.sleep(0)
        self.store.writer = None
        return "free"

    async def take(self, **how: Any) -> JsonValue:
        async def again() -> JsonValue:
            return self.store.open(self)

        return await self.peers.take(CODEX, THREAD, again, refusal(), **how)


def opened_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def sockets(folder: Path) -> list[Path]:
    return [*folder.iterdir()]


async def listening(*processes: Process) -> None:
    for each in processes:
        await each.peers.listen(CODEX)


def leave(*processes: Process) -> None:
    for each in processes:
        each.peers.leave()


async def test_8_1_what_is_at_rest_comes_and_what_works_is_named_or_cancelled() -> None:
    store = Store()
    holder, other, wants = Process(store), Process(store), Process(store)
    await listening(holder, other, wants)
    store.open(holder)
    assert await wants.take(owner="alice") == "opened"
    assert holder.askers == [Asker(f"an editor (process {os.getpid()})", "alice", cancels=False)]

    store.writer, holder.works = holder, True
    with pytest.raises(ThreadOpenElsewhere, match="wait for its end") as raised:
        await wants.take()
    assert (raised.value.busy, raised.value.pid) == (True, os.getpid())
    assert await wants.take(cancels=True) == "opened"
    leave(holder, other, wants)


async def test_8_1_of_two_that_ask_at_once_one_has_it_and_the_other_is_told() -> None:
    store = Store()
    holder, *both = processes = [Process(store) for _ in range(3)]
    await listening(*processes)
    store.open(holder)
    both[0].works = both[1].works = True  # a prompt runs as soon as one has it
    told = await asyncio.gather(*(each.take() for each in both), return_exceptions=True)
    assert [one for one in told if one == "opened"] == ["opened"]
    (error,) = [one for one in told if isinstance(one, ErrorReply)]
    assert "open" in error.message or "runs" in error.message or "writer" in error.message
    leave(*processes)


@pytest.mark.usefixtures("short")
async def test_8_1_one_that_is_held_up_itself_still_hears_who_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store()
    holder, wants = Process(store, works=True), Process(store)

    async def works(_thread_id: str, _asker: Asker) -> State:
        await asyncio.sleep(0.05)
        return "busy"

    holder.peers = ThreadPeers(lambda: "an editor", works)

    async def hold(loop: asyncio.AbstractEventLoop, listens: asyncio.Event) -> None:
        await listening(holder)
        loop.call_soon_threadsafe(listens.set)
        await asyncio.to_thread(over.wait)
        leave(holder)

    listens, over = asyncio.Event(), threading.Event()
    holds = asyncio.to_thread(asyncio.run, hold(asyncio.get_running_loop(), listens))
    task = asyncio.create_task(holds)
    await listens.wait()
    store.open(holder)
    asks = ask_all

    async def asks_late(*args: Any) -> Any:
        asyncio.get_running_loop().call_later(0.01, sleep, 0.15)  # longer than it waits
        return await asks(*args)

    monkeypatch.setattr(thread_peers, "ask_all", asks_late)
    try:
        with pytest.raises(ThreadOpenElsewhere, match="wait for its end"):
            await wants.take()
    finally:
        over.set()
        await task


@pytest.mark.usefixtures("short")
async def test_8_1_one_that_opens_it_is_waited_for_and_named() -> None:
    store = Store()
    opener, wants = Process(store), Process(store)
    asked = 0

    async def opens(_thread_id: str, _asker: Asker) -> State:
        nonlocal asked
        asked += 1
        return "opening"

    opener.peers = ThreadPeers(lambda: "an editor", opens)
    await listening(opener)
    store.open(opener)
    with pytest.raises(ThreadOpenElsewhere) as raised:
        await wants.take()
    assert raised.value.pid == os.getpid()
    assert asked > 1
    store.writer = None  # given up there
    assert await wants.take() == "opened"
    leave(opener)


@pytest.mark.usefixtures("short")
async def test_8_2_one_that_cannot_let_go_is_busy_and_one_that_is_stopped_hides_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_peers, "LET_GO_SECONDS", 0.01)
    store = Store()
    holder, hangs, wants = Process(store), Process(store), Process(store)

    async def never(_thread_id: str, _asker: Asker) -> State:
        await asyncio.Event().wait()
        raise AssertionError

    hangs.peers = ThreadPeers(lambda: "a hung one", never)
    await listening(hangs)
    store.open(hangs)
    with pytest.raises(ThreadOpenElsewhere, match="a hung one"):
        await wants.take()
    leave(hangs)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(folder / "1.sock"))
        stopped.listen()
        await listening(holder)
        store.writer = holder
        monkeypatch.setattr(thread_peers, "ASK_SECONDS", WAIT_SECONDS)
        monkeypatch.setattr(thread_peers, "TAKE_SECONDS", WAIT_SECONDS)
        async with asyncio.timeout(WAIT_SECONDS / 4):
            assert await wants.take() == "opened"
    leave(holder)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("fault", ["silent", "lies", "stale", "nobody"])
async def test_8_2_a_holder_that_hands_nothing_over_is_not_waited_for_long(
    folder: Path, fault: str
) -> None:
    store = Store()
    store.writer = "another"
    wants, liar = Process(store), Process(store)
    liar.peers = ThreadPeers(lambda: "a liar", _says_free)
    with socket.socket(socket.AF_UNIX) as there:
        if fault == "lies":
            await listening(liar)
        elif fault != "nobody":
            there.bind(str(folder / "1.sock"))
            if fault == "silent":
                there.listen()
        before = monotonic()
        with pytest.raises(ErrorReply, match="active writer"):
            await wants.take()
        assert monotonic() - before < 3
    leave(liar)
    assert store.writer == "another"


async def _says_free(_thread_id: str, _asker: Asker) -> State:
    return "free"


async def test_8_1_a_holder_that_is_killed_while_it_is_asked_gives_way() -> None:
    store = Store()
    holder, wants = Process(store), Process(store)

    async def dies(thread_id: str, _asker: Asker) -> State:
        asyncio.get_running_loop().call_later(0.01, setattr, store, "writer", None)
        raise OSError(thread_id)

    holder.peers = ThreadPeers(lambda: "a dying one", dies)
    await listening(holder)
    store.open(holder)
    assert await wants.take() == "opened"
    leave(holder)


@pytest.mark.attack("local user")
async def test_8_2_where_the_folder_is_another_users_nobody_listens_or_is_asked(
    folder: Path,
) -> None:
    opened_to_all(folder)
    store = Store()
    holder, wants = Process(store), Process(store)
    await listening(holder)
    store.open(holder)
    with pytest.raises(ErrorReply, match="active writer"):
        await wants.take()
    assert sockets(folder) == []
    assert holder.askers == []


@pytest.mark.attack("local user")
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "answer",
    [b"x" * 100_000, b"[" * 4000 + b"\n", b"nothing\n", b"[]\n", b'{"state": {"free": 1}}\n', b""],
    ids=["endless", "nested", "no JSON", "a list", "another state", "silent"],
)
async def test_8_2_whatever_a_hostile_process_answers_the_thread_stays_refused(
    folder: Path, answer: bytes
) -> None:
    gone = asyncio.Event()

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(answer)
            await reader.read()  # until it is left alone
        writer.close()
        gone.set()

    server = await asyncio.start_unix_server(hostile, str(folder / "1.sock"))
    store = Store()
    store.writer = "another"
    with pytest.raises(ErrorReply, match="active writer"):
        await Process(store).take()
    await gone.wait()
    server.close()


@pytest.mark.attack("local user")
async def test_8_2_a_name_that_hides_something_is_shown_without_it() -> None:
    store = Store()
    holder, wants = Process(store, works=True), Process(store)
    holder.peers = ThreadPeers(lambda: "an\x1b[2J\u202eeditor" + "!" * 1000, holder.let_go)
    await listening(holder)
    store.open(holder)
    with pytest.raises(ThreadOpenElsewhere) as raised:
        await wants.take()
    assert raised.value.holder == ("an[2Jeditor" + "!" * 1000)[:60]
    leave(holder)


@pytest.mark.attack("local user")
async def test_8_2_one_whose_socket_was_removed_is_asked_again_after_the_next_opening(
    folder: Path,
) -> None:
    store = Store()
    holder, wants = Process(store), Process(store)
    await listening(holder)
    store.open(holder)
    for path in sockets(folder):
        path.unlink()
    with pytest.raises(ErrorReply, match="active writer"):
        await wants.take()
    await listening(holder)
    assert await wants.take() == "opened"
    leave(holder)
    assert sockets(folder) == []


async def test_a_codex_that_unloads_nothing_lets_nobody_ask(folder: Path) -> None:
    old = cast("AppServerConnection", SimpleNamespace(**{**vars(CODEX), "unloads_at_once": False}))
    await Process(Store()).peers.listen(old)
    assert sockets(folder) == []
