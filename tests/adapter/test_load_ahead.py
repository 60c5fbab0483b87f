"""What a first prompt needs is loaded by a thread, once, and whoever waits for it is called."""

from __future__ import annotations

import asyncio
import sys
import threading
from importlib import import_module

import anyio
import pytest

from codex_acp.adapter import load_ahead
from codex_acp.adapter.load_ahead import LoadAhead
from tests.adapter.memory_bench import MemoryBench


async def test_what_waits_is_called_on_the_loop_when_all_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(load_ahead, "import_module", begun.append)
    monkeypatch.setattr(load_ahead, "FOR_A_PROMPT", ("a",))
    monkeypatch.setattr(load_ahead, "LATER", ("b",))
    usual = sys.getswitchinterval()
    ahead = LoadAhead(asyncio.get_running_loop())
    called = anyio.Event()

    ahead.call_when_loaded(lambda: begun.append("nothing loads yet"))
    ahead.start()
    ahead.start()
    ahead.call_when_loaded(called.set)
    with anyio.fail_after(30):
        await called.wait()

    assert begun == ["nothing loads yet", "a", "b"]
    assert sys.getswitchinterval() == usual
    ahead.call_when_loaded(lambda: begun.append("at once"))
    assert begun[-1] == "at once"


class Noted(LoadAhead):
    """Only notes how many answers the client of ``bench`` has each time that loading starts."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.bench: MemoryBench
        self.answers: list[int] = []

    def start(self) -> None:
        """Note it."""
        self.answers.append(len(self.bench.client.messages))


@pytest.mark.parametrize("version", [1, 2])
async def test_codex_has_the_processors_until_it_is_asked_for_a_session(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_ahead, "IDLE_SECONDS", 3600)
    ahead = Noted()
    ahead.bench = MemoryBench(ahead=ahead, version=version)
    async with ahead.bench:  # `initialize`, then `session/new`
        assert ahead.answers == [1]


async def test_what_cannot_be_loaded_is_logged_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(load_ahead, "FOR_A_PROMPT", ("codex_acp.there_is_no_such_module",))
    ahead = LoadAhead(asyncio.get_running_loop())
    called = anyio.Event()

    ahead.start()
    ahead.call_when_loaded(called.set)
    with anyio.fail_after(30):
        await called.wait()
    assert "loaded ahead" in caplog.text


async def test_without_a_thread_nobody_waits_for_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    ahead = LoadAhead(asyncio.get_running_loop())
    ahead.start()
    called = anyio.Event()
    ahead.call_when_loaded(called.set)
    with anyio.fail_after(30):
        await ahead.prompt_ready.wait()
        await called.wait()
    assert not ahead.loading
    assert "can't start new thread" in caplog.text
    ahead.give_up()


async def test_a_prompt_does_not_wait_for_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, go_on = list[str](), threading.Event()

    def load(name: str) -> None:
        if name == "later":
            assert go_on.wait(30)
        loaded.append(name)

    monkeypatch.setattr(load_ahead, "import_module", load)
    monkeypatch.setattr(load_ahead, "FOR_A_PROMPT", ("first",))
    monkeypatch.setattr(load_ahead, "LATER", ("later",))
    ahead = LoadAhead(asyncio.get_running_loop())
    assert not ahead.loading
    ahead.start()
    with anyio.fail_after(30):
        await ahead.prompt_ready.wait()
    assert loaded == ["first"]
    assert not ahead.loading
    called = anyio.Event()
    ahead.call_when_loaded(called.set)
    go_on.set()
    with anyio.fail_after(30):
        await called.wait()
    assert loaded == ["first", "later"]


@pytest.mark.parametrize("version", ["1", "2"])
def test_all_that_is_named_exists(version: str) -> None:
    for name in load_ahead.FOR_A_PROMPT + load_ahead.LATER:
        in_version = name.replace(".v1.", f".v{version}.")
        module, _, model = in_version.partition(":")
        loaded = import_module(module)
        assert not model or loaded.MODELS.decoder(model)
