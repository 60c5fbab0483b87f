"""Whose a stored session is, also when the server was started again."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from codex_acp.adapter.network.access_control import Token, Tokens, no_token
from codex_acp.adapter.network.connection import NetworkConnection
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.adapter.network.registry import Owners, Registry
from codex_acp.errors import MisuseError, RpcError
from tests.network.served import ALICE, BOB, served, several_tokens

if TYPE_CHECKING:
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.session_client import ListSessions

TWO = Tokens(lambda: (Token("alice", b"a"), Token("bob", b"b")))


def test_with_one_owner_all_is_theirs_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "owners"
    owners = Owners(no_token(), str(file))
    owners.record("everybody", "one")
    assert owners.owns("everybody", "another")
    assert not file.exists()


@pytest.mark.attack("network")
def test_whoever_takes_the_place_of_the_one_name_gets_none_of_its_sessions(tmp_path: Path) -> None:
    alice, bob = Token("alice", b"a"), Token("bob", b"b")
    known = [alice]
    owners = Owners(Tokens(lambda: tuple(known)), str(tmp_path / "owners"))
    owners.record("alice", "hers")
    known.clear()  # the file is just being rewritten
    assert owners.owns("alice", "one of before the server")
    known.append(bob)
    assert not owners.owns("bob", "hers")
    assert not owners.owns("bob", "one of before the server")
    assert owners.owns("alice", "hers")
    again = Owners(Tokens(lambda: tuple(known)), str(tmp_path / "owners"))
    assert not again.owns("bob", "hers")
    assert again.owns("bob", "one of before the server")


def test_the_one_name_keeps_its_sessions_when_another_comes() -> None:
    known = [Token("alice", b"a")]
    owners = Owners(Tokens(lambda: tuple(known)))
    owners.record("alice", "hers")
    known.append(Token("bob", b"b"))
    assert [owners.owns(each, "hers") for each in ("alice", "bob")] == [True, False]


def test_it_is_remembered_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "owners"
    owners = Owners(TWO, str(file))
    for owner, session in (("alice", "one"), ("bob", "two"), ("alice", "one")):
        owners.record(owner, session)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text().splitlines()) == 2
    again = Owners(TWO, str(file))
    found = [again.owns(o, s) for o in ("alice", "bob") for s in ("one", "two", "three")]
    assert found == [True, False, False, False, True, False]


def test_a_broken_line_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "owners"
    deep = "[" * 100_000
    file.write_text(f'{{"sessionId": "one", "owner": "alice"}}\n{{"sess\n[]\n{deep}\n')
    with caplog.at_level(logging.WARNING):
        owners = Owners(TWO, str(file))
    assert owners.owns("alice", "one")
    assert caplog.text.count("left out") == 3
    with pytest.raises(MisuseError, match="cannot be read"):
        Owners(TWO, str(tmp_path))


def test_whose_a_session_is_stays_so_when_the_other_token_is_taken_away(tmp_path: Path) -> None:
    alice, bob = Token("alice", b"a"), Token("bob", b"b")
    known = [alice, bob]
    owners = Owners(Tokens(lambda: tuple(known)), str(tmp_path / "owners"))
    owners.record("bob", "his")
    known.remove(bob)  # or the file is just being rewritten
    assert not owners.owns("alice", "his")
    assert not owners.owns("alice", "one of which nobody knows whose it is")
    owners.record("alice", "hers")
    assert owners.owns("alice", "hers")
    again = Owners(Tokens(lambda: (alice,)), str(tmp_path / "owners"))
    assert not again.owns("alice", "his")
    assert again.owns("alice", "one of before there were two")


def test_whose_a_session_is_does_not_depend_on_how_its_id_is_spelled(tmp_path: Path) -> None:
    his = "01a2049a-cc3e-7c63-9c44-e456aac6afa6"
    file = tmp_path / "owners"
    file.write_text(f'{{"sessionId": "{his}", "owner": "bob"}}\n')
    owners = Owners(Tokens(lambda: (Token("alice", b"a"),)), str(file))
    registry = Registry(lambda _: None, owners, Limits())
    for spelled in (his, his.upper(), his.replace("-", ""), f"urn:uuid:{his}", f"{{{his}}}"):
        assert not registry.owns("alice", spelled), spelled


class _Above:
    """An open session whose model names threads, and has started some of them."""

    def __init__(self, owner: str, *started: str) -> None:
        self.owner = owner
        self._started = started

    def has_sub_agent(self, session_id: str) -> bool:
        return bool(session_id)

    def has_started(self, session_id: str) -> bool:
        return session_id in self._started


def _with_open(owners: Owners, *sessions: _Above) -> Registry:
    registry = Registry(lambda _: None, owners, Limits())
    for number, session in enumerate(sessions):
        registry.sessions[f"open-{number}"] = cast("NetworkSession", session)
    return registry


def test_a_stored_session_that_a_model_only_names_stays_its_owners(tmp_path: Path) -> None:
    registry = _with_open(Owners(no_token()), _Above("everybody"))
    assert registry.owns("everybody", "stored")
    file = tmp_path / "owners"
    file.write_text('{"sessionId": "stored", "owner": "bob"}\n')
    registry = _with_open(Owners(TWO, str(file)), _Above("alice"))
    assert registry.owns("bob", "stored")
    for session in ("stored", "one of which nobody knows whose it is"):
        assert not registry.owns("alice", session)


def test_a_sub_agent_is_below_the_session_that_started_it_whoever_names_it() -> None:
    names, started = _Above("bob"), _Above("alice", "child")
    registry = _with_open(Owners(TWO), names, started)
    above: object = registry.parent_of("child")
    assert above is started
    assert registry.owns("alice", "child")
    assert not registry.owns("bob", "child")


class _AtRest:
    """An open session that nobody shows and that does nothing."""

    def __init__(self, owner: str, *, busy: bool = False, shown: bool = False) -> None:
        self.owner = owner
        self.busy = busy
        self.client = object() if shown else None


class _Ending(Registry):
    """Notes which sessions it ends."""

    def __init__(self, limits: Limits, **sessions: _AtRest) -> None:
        super().__init__(lambda _: None, Owners(TWO), limits)
        self.sessions = cast("dict[str, NetworkSession]", dict(sessions))

    async def end(self, session: NetworkSession) -> None:
        self.sessions = {name: each for name, each in self.sessions.items() if each is not session}


async def test_only_an_owners_own_sessions_at_rest_make_room_for_one_that_has_its_share() -> None:
    bobs, alices = _AtRest("bob"), _AtRest("alice")
    registry = _Ending(Limits(sessions=4), b1=bobs, b2=bobs, a1=alices, a2=_AtRest("alice"))
    async with registry.reserve_place("alice"):
        assert sorted(registry.sessions) == ["a2", "b1", "b2"]
    busy = _AtRest("alice", busy=True)
    shown = _AtRest("alice", shown=True)
    registry = _Ending(Limits(sessions=4), b1=bobs, a1=busy, a2=shown)
    with pytest.raises(RpcError, match="2 sessions of yours are open"):
        async with registry.reserve_place("alice"):
            pass
    assert sorted(registry.sessions) == ["a1", "a2", "b1"]


async def test_who_has_more_than_a_share_makes_room_for_who_has_less_and_nobody_else_does() -> None:
    bobs = {f"b{number}": _AtRest("bob") for number in range(3)}
    registry = _Ending(Limits(sessions=4), a1=_AtRest("alice"), **bobs)
    async with registry.reserve_place("alice"):
        assert sorted(registry.sessions) == ["a1", "b1", "b2"]
    registry = _Ending(Limits(sessions=4), a1=_AtRest("alice"), c1=_AtRest("carol"), **bobs)
    registry.sessions.pop("b2")
    with pytest.raises(RpcError, match="4 sessions are open on this server"):
        async with registry.reserve_place("alice"):
            pass
    assert len(registry.sessions) == 4


async def test_only_an_owners_own_sessions_are_listed(tmp_path: Path) -> None:
    owners = Owners(TWO, str(tmp_path / "owners"))
    for owner, session in (("alice", "hers"), ("bob", "his")):
        owners.record(owner, session)

    async def stored(_request: object) -> dict[str, object]:
        return {"sessions": [{"sessionId": each} for each in ("hers", "his", "nobody's")]}

    registry = Registry(lambda _: None, owners, Limits())
    for owner, own in (("alice", "hers"), ("bob", "his")):
        agent = SimpleNamespace(list_sessions=stored)
        connection = NetworkConnection(registry, Token(owner, b""), cast("CodexAgent", agent))
        listed = await connection.list_sessions(cast("ListSessions", None))
        assert listed["sessions"] == [{"sessionId": own}]


def test_a_connection_is_held_to_its_token_as_the_file_has_it_now() -> None:
    known = [Token("alice", b"a", 100.0)]
    tokens = Tokens(lambda: tuple(known), clock=lambda: 50.0)
    shown = known[0]
    assert tokens.still_good(shown)
    for changed in ([Token("alice", b"a", 10.0)], [Token("bob", b"a", 100.0)], []):
        known[:] = changed
        assert not tokens.still_good(shown)
    known[:] = [Token("alice", b"a")]
    assert tokens.still_good(shown), "it was given more time"


class _FullDisk:
    """Writes to ``path`` half of a line, and then nothing, as a full disk does, while ``full``."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._write = os.write
        self.full = True
        monkeypatch.setattr(os, "write", self._written)

    def _written(self, file: int, data: bytes) -> int:
        if not self.full or not self._path.exists() or not self._is_it(file):
            return self._write(file, data)
        if not data.startswith(b"{"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(file, data[: len(data) // 2])

    def _is_it(self, file: int) -> bool:
        return os.path.samestat(os.fstat(file), self._path.stat())


def test_a_line_that_a_full_disk_cut_off_takes_no_other_owners_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "owners"
    disk, owners = _FullDisk(file, monkeypatch), Owners(TWO, str(file))
    with pytest.raises(RpcError, match="No space left on device"):
        owners.record("alice", "cut-off")
    assert not owners.knows("cut-off")
    disk.full = False
    owners.record("bob", "his")
    owners.record("alice", "hers")
    again = Owners(TWO, str(file))
    assert [again.owns("bob", "his"), again.owns("alice", "hers")] == [True, True]
    assert not again.knows("cut-off")


def test_a_line_that_a_crash_cut_off_takes_no_other_owners_with_it(tmp_path: Path) -> None:
    file = tmp_path / "owners"
    file.write_text('{"sessionId": "one", "owner": "alice"}\n{"sess')
    Owners(TWO, str(file)).record("bob", "his")
    again = Owners(TWO, str(file))
    assert [again.owns("alice", "one"), again.owns("bob", "his")] == [True, True]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_whose_owner_cannot_be_written_is_refused_and_nothing_of_it_is_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    file = tmp_path / "owners"
    new = {"cwd": str(tmp_path), "mcpServers": []}
    async with (
        served(tmp_path, tokens=several_tokens(), owners=str(file)) as server,
        server.connect(ALICE, version=version) as alice,
        server.connect(BOB, version=version) as bob,
    ):
        first = (await alice.ask("session/new", new))["sessionId"]
        disk = _FullDisk(file, monkeypatch)
        for method, params in (
            ("session/new", new),
            ("session/fork", {**new, "sessionId": first}),
        ):
            refused = await alice.refused(method, params)
            assert refused["code"] == -32603
            assert "No space left on device" in refused["message"]
            assert "was not opened" in refused["message"]
            assert str(file) not in json.dumps(refused), "a path of the server"
        stored = await alice.ask("session/list", {})
        assert [each["sessionId"] for each in stored["sessions"]] in ([first], [])
        disk.full = False
        his = (await bob.ask("session/new", new))["sessionId"]
    again = Owners(TWO, str(file))
    assert [again.owns("alice", first), again.owns("bob", his)] == [True, True]


@pytest.mark.attack("client")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_cannot_be_opened_gets_no_owner(tmp_path: Path, method: str) -> None:
    file = tmp_path / "owners"
    async with (
        served(tmp_path, tokens=several_tokens(), owners=str(file)) as server,
        server.connect(ALICE) as alice,
    ):
        params = {"cwd": str(tmp_path), "mcpServers": [], "sessionId": "x" * 10_000}
        assert (await alice.refused(method, params))["code"] == -32002
        hers = await alice.new_session(server.cwd)
        await alice.ask("session/close", {"sessionId": hers})
        params["sessionId"] = hers
        with pytest.MonkeyPatch.context() as patch:
            _FullDisk(file, patch)
            await alice.ask(method, params)  # it has an owner already
    recorded = file.read_text().splitlines()
    assert [json.loads(line)["sessionId"] for line in recorded] == [hers]


@pytest.mark.attack("network")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_stored_session_whose_owner_cannot_be_written_is_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    file = tmp_path / "owners"
    hers = f"alice {ALICE}\n"
    async with (
        served(tmp_path, tokens=hers, owners=str(file)) as server,
        server.connect(ALICE) as alice,
    ):
        stored = await alice.new_session(server.cwd)
        await alice.ask("session/close", {"sessionId": stored})
    file.write_text("")  # as of a session of before the server
    async with (
        served(tmp_path, tokens=hers, owners=str(file)) as server,
        server.connect(ALICE) as alice,
    ):
        disk = _FullDisk(file, monkeypatch)
        params = {"cwd": str(server.cwd), "mcpServers": [], "sessionId": stored}
        refused = await alice.refused(method, params)
        assert "was not opened" in refused["message"]
        disk.full = False
        await alice.ask(method, params)
    assert stored in file.read_text()


@pytest.mark.attack("network")
async def test_a_login_of_an_mcp_server_is_its_owners_alone(tmp_path: Path) -> None:
    pages: dict[str, object] = {"elicitation": {"url": {}}}
    async with (
        served(tmp_path, tokens=several_tokens()) as server,
        server.connect(ALICE, capabilities=pages) as alice,
        server.connect(BOB, capabilities=pages) as bob,
    ):
        his = await bob.new_session(server.cwd)
        hers = await alice.new_session(server.cwd)
        await alice.prompt(hers, "login")
        asked = await alice.question()
        assert asked["params"]["url"] == "https://login.example.org/"
        assert asked["params"]["sessionId"] == hers
        await bob.reply(asked, {"action": "accept"})  # an answer to nothing that he was asked
        await alice.reply(asked, {"action": "decline"})
        await alice.until(lambda: "is not logged in: the page was not opened" in str(alice.updates))
        await bob.outcome(await bob.prompt(his, "hello"))
        assert bob.asked == []
        assert "log" not in bob.text(his)
        assert "login.example.org" not in str(bob.received)
