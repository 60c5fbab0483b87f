"""The files of an edit are read beside the reader: in order, bounded, and nobody else waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codex_acp.adapter.sessions import shown_thread
from codex_acp.adapter.sessions.shown_thread import OrderedSteps
from codex_acp.codex.approvals.running_items import PathLook
from codex_acp.testing import (
    AskClient,
    AwaitAnswer,
    Entry,
    Expect,
    Notify,
    agent_message,
    turn_completed,
    turn_started,
)
from tests.adapter.memory_bench import MemoryBench
from tests.support.path_looks import texts

WHERE = {"threadId": "${turn:threadId}", "turnId": "${turn:id}", "itemId": "edit-1"}


class Disk:
    """A disk that answers when the test says so."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.reads = 0

    def look(self, paths: Iterable[str]) -> dict[str, PathLook]:
        self.reads += 1
        assert self.answers.wait(60)
        return texts({path: Path(path).read_text("utf-8") for path in paths})


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(shown_thread, "look_at_files", lambda wanted, _roots: disk.look(wanted))
    yield disk
    disk.answers.set()


@pytest.fixture
def file(tmp_path: Path) -> str:
    file = tmp_path / "a.txt"
    file.write_text("first\nold\n")
    return str(file)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - a thread tells
            await asyncio.sleep(0.001)


class Steps(OrderedSteps):
    """Steps that note what was done."""

    def __init__(self) -> None:
        super().__init__({})
        self.seen: list[object] = []

    def note(self, what: object) -> None:
        self.put(partial(self.seen.append, what))

    def note_read(self, path: str) -> None:
        self.read({path: True}, lambda looks: self.seen.append([p for p in looks if looks[p].text]))


async def test_what_follows_waits_behind_the_read_and_comes_in_order(disk: Disk, file: str) -> None:
    steps = Steps()
    steps.note("at once")
    steps.note_read(file)
    steps.note(1)
    steps.put(partial(steps.note_read, file))
    steps.note(2)
    assert steps.busy
    assert steps.seen == ["at once"]
    disk.answers.set()
    await steps.wait_idle()

    assert steps.seen == ["at once", [file], 1, [file], 2]
    assert disk.reads == 2


async def test_a_disk_that_is_stuck_holds_nobody_for_long_and_takes_one_thread(
    disk: Disk, file: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shown_thread, "LOOK_SECONDS", 0.01)
    steps = Steps()
    steps.note_read(file)
    steps.note(1)
    await steps.wait_idle()
    assert steps.seen == [[], 1], "without the file"
    assert "could not be read" in caplog.text
    steps.note_read(file)
    steps.note(2)
    assert steps.seen == [[], 1, [], 2], "and the next one does not even wait"
    assert disk.reads == 1
    disk.answers.set()
    await until(lambda: not steps._reading)
    assert steps.seen == [[], 1, [], 2], "what comes too late changes nothing"
    monkeypatch.undo()
    steps.note_read(file)
    await steps.wait_idle()
    assert steps.seen[4:] == [[file]], "a disk that has come back is read again"


@pytest.mark.usefixtures("disk")
async def test_when_too_much_waits_the_read_is_given_up(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_thread, "MAX_BEHIND", 2)
    steps = Steps()
    steps.note_read(file)
    for number in range(3):
        assert steps.seen == []
        steps.note(number)

    assert steps.seen == [[], 0, 1, 2]


async def test_catching_up_does_all_that_waits_and_dropping_nothing(disk: Disk, file: str) -> None:
    steps, dropped = Steps(), Steps()
    for one in (steps, dropped):
        one.note_read(file)
        one.put(partial(one.note_read, file))
        one.note(1)
    steps.run_without_files()
    dropped.drop()
    disk.answers.set()
    await until(lambda: not steps._reading and not dropped._reading)

    assert (steps.seen, dropped.seen) == ([[], [], 1], [])


def _fail() -> None:
    raise ValueError


async def test_a_step_that_fails_ends_nothing(
    disk: Disk, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    steps = Steps()
    steps.note_read(file)
    steps.put(_fail)
    steps.note(1)
    disk.answers.set()
    await steps.wait_idle()

    assert steps.seen == [[file], 1]
    assert "a step that waited for files has failed" in caplog.text


# In a session.


def edit(file: str) -> Entry:
    change = {"path": file, "kind": {"type": "update", "move_path": None}}
    item = {
        "type": "fileChange", "id": "edit-1", "status": "inProgress",
        "changes": [{**change, "diff": "@@ -1,2 +1,2 @@\n first\n-old\n+new\n"}],
    }  # fmt: skip
    return Notify("item/started", {**WHERE, "startedAtMs": 1, "item": item})


def kinds(bench: MemoryBench) -> list[str]:
    """What the client was sent of a turn, in order."""
    found: list[str] = []
    for message in bench.client.messages:
        if message.get("method") == "session/update":
            found.append(message["params"]["update"]["sessionUpdate"])
        else:
            found.append(message.get("method") or message["id"])
    wanted = ("tool_call", "agent_message_chunk", "session/request_permission", "p1")
    return [kind for kind in found if kind in wanted]


def shown(bench: MemoryBench) -> Any:
    """The diff of the announced edit."""
    for message in bench.client.messages:
        update: Any = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "tool_call":
            return update["content"][0]
    raise AssertionError(bench.client.messages)


async def test_4_2_a_slow_disk_changes_no_order_and_keeps_nobody_else_waiting(
    disk: Disk, file: str
) -> None:
    turn = [Expect("turn/start"), *turn_started(), edit(file), *agent_message("Then this.")]
    async with MemoryBench(*turn, *turn_completed()) as bench:
        bench.start_prompt()
        await until(lambda: disk.reads == 1)
        await bench.client.ask("other", "session/list", {})
        assert kinds(bench) == []
        disk.answers.set()
        assert await bench.end_of() == "end_turn"

        assert kinds(bench) == ["tool_call", "agent_message_chunk", "p1"]
        assert (shown(bench)["oldText"], shown(bench)["newText"]) == (
            "first\nold\n",
            "first\nnew\n",
        )


async def test_4_3_a_dead_disk_does_not_keep_a_prompt(
    disk: Disk, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_thread, "LOOK_SECONDS", 0.01)
    turn = [Expect("turn/start"), *turn_started(), edit(file), *agent_message("Then this.")]
    async with MemoryBench(*turn, *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"

        assert kinds(bench) == ["tool_call", "agent_message_chunk", "p1"]
        assert not disk.answers.is_set()


async def test_4_1_an_edit_is_announced_before_its_approval_however_slow_the_disk(
    disk: Disk, file: str
) -> None:
    asked = {**WHERE, "startedAtMs": 1, "reason": None, "grantRoot": None}
    ask = AskClient("item/fileChange/requestApproval", asked, name="edit")
    turn = [Expect("turn/start"), *turn_started(), edit(file), ask, AwaitAnswer("edit")]
    async with MemoryBench(*turn, *turn_completed()) as bench:
        bench.start_prompt()
        await until(lambda: disk.reads == 1)
        await bench.client.ask("other", "session/list", {})
        assert kinds(bench) == []
        disk.answers.set()
        await bench.client.until(lambda: "session/request_permission" in kinds(bench))
        question = next(m for m in bench.client.messages if "permission" in m.get("method", ""))
        offered = question["params"]["options"]
        reject = next(o["optionId"] for o in offered if o["kind"] == "reject_once")
        outcome = {"outcome": {"outcome": "selected", "optionId": reject}}
        bench.client.send({"id": question["id"], "result": outcome})
        assert await bench.end_of() == "end_turn"

        assert kinds(bench) == ["tool_call", "session/request_permission", "p1"]


async def test_3_8_what_a_dead_disk_does_not_tell_is_said_in_the_question(
    disk: Disk, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_thread, "LOOK_SECONDS", 0.01)
    asked = {**WHERE, "startedAtMs": 1, "reason": None, "grantRoot": None}
    ask = AskClient("item/fileChange/requestApproval", asked, name="edit")
    turn = [Expect("turn/start"), *turn_started(), edit(file), ask, AwaitAnswer("edit")]
    async with MemoryBench(*turn, *turn_completed()) as bench:
        bench.start_prompt()
        await bench.client.until(lambda: "session/request_permission" in kinds(bench))
        question: Any = next(
            m for m in bench.client.messages if "permission" in m.get("method", "")
        )
        unknown = "where it really leads could not be found out: the disk did not answer in time"
        assert question["params"]["toolCall"]["title"].endswith(f"({unknown})")
        assert question["params"]["toolCall"]["rawInput"]["realPaths"] == {file: unknown}
        allow = question["params"]["options"][0]["optionId"]
        outcome = {"outcome": {"outcome": "selected", "optionId": allow}}
        bench.client.send({"id": question["id"], "result": outcome})
        assert await bench.end_of() == "end_turn"
        given = [message.get("result") for message in bench.server.player.received]
        assert {"decision": "accept"} in given, "it was said, and allowed"
        assert not disk.answers.is_set()


async def test_a_codex_that_is_lost_while_files_are_read_ends_the_prompt(
    disk: Disk, file: str
) -> None:
    async with MemoryBench(Expect("turn/start"), *turn_started(), edit(file)) as bench:
        bench.start_prompt()
        await until(lambda: disk.reads == 1)
        await bench.server.link.aclose()
        assert (await bench.end_of())["code"] == -32603

        assert kinds(bench)[0] == "tool_call"
