"""What a first prompt needs is loaded by a thread, once, and whoever waits for it is called."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import anyio

from codex_acp.adapter import load_ahead
from codex_acp.adapter.load_ahead import LoadAhead

if TYPE_CHECKING:
    import pytest


async def test_what_waits_is_called_on_the_loop_when_all_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(load_ahead, "import_module", begun.append)
    monkeypatch.setattr(load_ahead, "MODELS", {})
    usual = sys.getswitchinterval()
    ahead = LoadAhead(asyncio.get_running_loop())
    called = anyio.Event()

    ahead.then(lambda: begun.append("nothing loads yet"))
    ahead.start_within(0)
    ahead.start_within(0)
    asyncio.get_running_loop().call_later(0, ahead.then, called.set)
    with anyio.fail_after(30):
        await called.wait()

    assert begun == ["nothing loads yet", *load_ahead.MODULES]
    assert sys.getswitchinterval() == usual
    ahead.then(lambda: begun.append("at once"))
    assert begun[-1] == "at once"


async def test_what_cannot_be_loaded_is_logged_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(load_ahead, "MODULES", ("codex_acp.there_is_no_such_module",))
    ahead = LoadAhead(asyncio.get_running_loop())
    called = anyio.Event()

    ahead.start_within(0)
    asyncio.get_running_loop().call_later(0, ahead.then, called.set)
    with anyio.fail_after(30):
        await called.wait()
    assert "loaded ahead" in caplog.text


def test_all_that_is_named_exists() -> None:
    for module in load_ahead.MODULES:
        import_module(module)
    for module, names in load_ahead.MODELS.items():
        for name in names:
            assert import_module(module).MODELS.decoder(name)
