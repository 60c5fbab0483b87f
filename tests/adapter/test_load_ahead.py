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

    ahead.then(lambda: begun.append("nothing loads yet"))
    ahead.start_within(0)
    ahead.start_within(0)
    asyncio.get_running_loop().call_later(0, ahead.then, called.set)
    with anyio.fail_after(30):
        await called.wait()

    assert begun == ["nothing loads yet", "a", "b"]
    assert sys.getswitchinterval() == usual
    ahead.then(lambda: begun.append("at once"))
    assert begun[-1] == "at once"


async def test_what_cannot_be_loaded_is_logged_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(load_ahead, "FOR_A_PROMPT", ("codex_acp.there_is_no_such_module",))
    ahead = LoadAhead(asyncio.get_running_loop())
    called = anyio.Event()

    ahead.start_within(0)
    asyncio.get_running_loop().call_later(0, ahead.then, called.set)
    with anyio.fail_after(30):
        await called.wait()
    assert "loaded ahead" in caplog.text


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
    ahead.start_within(0)
    with anyio.fail_after(30):
        await ahead.for_a_prompt()
    assert loaded == ["first"]
    assert not ahead.loading
    called = anyio.Event()
    ahead.then(called.set)
    go_on.set()
    with anyio.fail_after(30):
        await called.wait()
    assert loaded == ["first", "later"]


@pytest.mark.parametrize("version", ["1", "2"])
def test_all_that_is_named_exists(version: str) -> None:
    for name in load_ahead.FOR_A_PROMPT + load_ahead.LATER:
        in_version = name.replace(load_ahead.V1, load_ahead.V1.replace("1", version))
        module, _, model = in_version.partition(":")
        loaded = import_module(module)
        assert not model or loaded.MODELS.decoder(model)
