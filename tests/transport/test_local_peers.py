"""Processes of one user that ask each other: who may, and what one of them may do wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from codex_acp.jsonrpc import JsonValue
from codex_acp.transport import local_peers
from codex_acp.transport.local_peers import MAX_ASKERS, PeerSocket, ask_all, private_folder


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(dir="/tmp") as folder:  # a socket's path may not be long
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


async def echo(question: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"heard": question}


def test_the_folder_is_this_users_alone_and_one_for_each_key(runtime: Path) -> None:
    one, same, other = private_folder("/a"), private_folder("/b/../a"), private_folder("/b")
    assert one == same != other
    assert one.is_relative_to(runtime)
    assert one.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("given_up", [False, True])
async def test_one_that_is_closed_while_it_opens_leaves_no_socket(given_up: bool) -> None:
    path = private_folder("/a") / "1.sock"
    peer = PeerSocket(path, echo)
    opening = asyncio.create_task(peer.open())
    await asyncio.sleep(0)
    if given_up:
        opening.cancel()
    peer.close()
    await asyncio.wait({opening})
    assert not path.exists()
    gc.collect()  # a socket that is still open would warn, and a warning is an error


@pytest.mark.attack("local user")
@pytest.mark.parametrize("trap", ["link", "open"])
def test_8_2_a_folder_that_another_could_have_made_is_refused(runtime: Path, trap: str) -> None:
    folder = private_folder("/a")
    folder.rmdir()
    if trap == "link":
        elsewhere = runtime / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        folder.chmod(0o755)
    with pytest.raises(OSError, match="alone"):
        private_folder("/a")


async def test_everybody_is_asked_but_the_one_who_asks() -> None:
    folder = private_folder("/a")
    sockets = [PeerSocket(folder / f"{n}.sock", echo) for n in range(3)]
    for each in sockets:
        await each.open()
    replies = await ask_all(folder, {"thread": "t"}, sockets[0].path)
    assert replies.answers == [{"heard": {"thread": "t"}}] * 2
    assert not replies.incomplete
    for each in sockets:
        each.close()
    assert not [*folder.iterdir()]


@pytest.mark.attack("local user")
async def test_8_2_sockets_whose_processes_have_ended_are_removed_and_hide_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = private_folder("/a")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "0.sock"))
        for number in range(1000):
            os.link(folder / "0.sock", folder / f"0{number}.sock")
    peer = PeerSocket(folder / "1.sock", echo)
    await peer.open()
    assert await ask_all(folder, {}, None) == ([{"heard": {}}], False)
    assert len([*folder.iterdir()]) > 1000  # of somebody who is about to listen on it
    monkeypatch.setattr(local_peers, "LISTEN_SECONDS", -1.0)
    await ask_all(folder, {}, None)
    assert [*folder.iterdir()] == [peer.path]
    peer.close()


async def test_one_that_never_answers_is_waited_for_so_long_and_no_longer() -> None:
    folder = private_folder("/a")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "1.sock"))
        silent.listen()
        assert await ask_all(folder, {}, None, 0.05) == ([], True)


@pytest.mark.attack("local user")
async def test_8_2_one_that_too_many_ask_is_not_taken_for_one_that_has_ended() -> None:
    folder = private_folder("/a")
    with contextlib.ExitStack() as open_ones:
        asked, *waiting = [open_ones.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(4)]
        asked.bind(str(folder / "1.sock"))
        asked.listen(0)
        for each in waiting:
            each.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                each.connect(str(folder / "1.sock"))
        assert await ask_all(folder, {}, None, 0.05) == ([], True)
    assert [*folder.iterdir()] == [folder / "1.sock"]


async def test_one_that_ends_before_it_answers_is_told_from_one_that_is_silent() -> None:
    folder = private_folder("/a")

    async def fails(question: dict[str, JsonValue]) -> dict[str, JsonValue]:
        raise OSError(question)

    ending = PeerSocket(folder / "1.sock", fails)
    await ending.open()
    assert await ask_all(folder, {}, None) == ([], True)
    ending.close()


@pytest.mark.attack("local user")
async def test_8_2_another_user_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = private_folder("/a")
    peer = PeerSocket(folder / "1.sock", echo)
    await peer.open()
    mine = os.geteuid()
    users = iter([mine, mine + 1])  # the one who asks looks too, and sees the right one
    monkeypatch.setattr(os, "geteuid", lambda: next(users, mine))
    asked = await ask_all(folder, {"thread": "t"}, None)
    assert asked.answers == []
    peer.close()


@pytest.mark.attack("local user")
async def test_8_2_a_flood_of_peers_is_sent_away_and_one_that_asks_is_answered_again() -> None:
    peer = PeerSocket(private_folder("/a") / "1.sock", echo)
    await peer.open()
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as flood:
        many = [flood.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(MAX_ASKERS + 6)]
        for each in many:
            each.setblocking(False)
            await loop.sock_connect(each, str(peer.path))
        for each in many[-6:]:
            assert await loop.sock_recv(each, 1) == b""
    assert (await ask_all(peer.path.parent, {"thread": "t"}, None)).answers
    peer.close()


@pytest.mark.attack("local user")
async def test_8_2_what_is_no_question_gets_no_answer() -> None:
    folder = private_folder("/a")
    peer = PeerSocket(folder / "1.sock", echo)
    await peer.open()
    for line in (b"[]\n", b"nothing\n", b"[" * 4000 + b"\n", b"{" + b" " * 9000 + b"}\n"):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.setblocking(False)
            asking.connect(str(peer.path))
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(asking, line)
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(asking, 100) == b""
    peer.close()
