"""What importing the Codex packages loads, and their lazy names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import codex_acp.codex
from codex_acp.codex import types

HEAVY = (
    "pydantic", "pydantic_core", "anyio", "asyncio", "typing", "dataclasses", "pathlib", "inspect",
    "subprocess", "signal", "re", "enum", "functools", "contextlib",
)  # fmt: skip
GENERATED = "codex_acp.codex._generated"


@pytest.mark.parametrize(
    "statement",
    [
        "import codex_acp.codex",
        "import codex_acp.codex.connection.launch",
        "from codex_acp.codex.connection import launch as f; f.find_codex('/bin/sh')",
        "import codex_acp.codex as c; c.spawn_app_server(c.LaunchOptions('/bin/true'))",
    ],
)
def test_the_start_of_the_process_loads_nothing_heavy(statement: str) -> None:
    # Without -S, site itself and .pth files of the environment load more than we do.
    source = Path(codex_acp.codex.__file__).parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(source)!r})\n{statement}\n"
        f"print([m for m in sys.modules if m.split('.')[0] in {HEAVY!r} or {GENERATED!r} in m])"
    )
    command = [sys.executable, "-S", "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_client_loads_no_model_until_one_is_used() -> None:
    code = (
        "import sys, codex_acp.codex.client, codex_acp.codex.threads.notification_stream\n"
        f"print([m for m in sys.modules if m.startswith('{GENERATED}.models.')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "statement",
    ["from codex_acp.codex import CodexClient", "from codex_acp.codex.sync import Codex"],
)
def test_the_class_itself_loads_no_event_loop_and_no_pydantic(statement: str) -> None:
    code = f"import sys\n{statement}\nprint(sorted({{m.split('.')[0] for m in sys.modules}}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert not loaded & {"asyncio", "anyio", "pydantic", "pydantic_core", "websockets"}
    # What comes with asyncio anyway can wait until the process is spawned.
    assert not loaded & {"logging", "json", "socket", "ssl", "concurrent"}


FIRST_THREAD = """
import asyncio, sys
from codex_acp.codex import CodexClient
from codex_acp.testing import AppServerScript, ScriptedAppServer
async def main():
    script = AppServerScript(defaults=True)
    async with ScriptedAppServer(script) as server, CodexClient(server.link) as codex:
        thread = await codex.threads.start(cwd=".", sandbox="read-only")
        assert thread.id
        loaded = [m for m in sys.modules if "models." in m or m.split(".")[0] == "pydantic"]
        assert not loaded, loaded
        assert thread.info.id == thread.id  # this one needs them
        assert "pydantic" in sys.modules
asyncio.run(main())
"""


def test_a_thread_starts_before_a_model_is_loaded() -> None:
    subprocess.run([sys.executable, "-c", FIRST_THREAD], check=True)


def test_every_public_type_can_be_loaded() -> None:
    names = dir(types)
    assert {"Turn", "TurnCompletedEvent", "CurrentTimeRead", "ServerNotification"} <= set(names)
    for name in names:
        assert getattr(types, name) is not None
    absent = "NoSuchType"
    with pytest.raises(AttributeError, match=absent):
        getattr(types, absent)
