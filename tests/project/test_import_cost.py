"""Importing loads nothing that is not needed yet."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codex_acp._lazy import sha256_hex
from codex_acp.adapter.load_ahead import FOR_A_PROMPT, LATER
from codex_acp.testing import AppServerScript, ScriptedCodex

if TYPE_CHECKING:
    from collections.abc import Mapping


def _loaded(statement: str) -> set[str]:
    """Names of the modules that are loaded after ``statement`` in a fresh interpreter."""
    code = f"import sys, json\nbefore = set(sys.modules)\n{statement}\n"
    code += "print(json.dumps(sorted(set(sys.modules) - before)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "statement",
    [
        "import codex_acp",
        "import codex_acp.codex",
        "import codex_acp.acp",
        "import codex_acp.bridge",
        "import codex_acp.testing",
        "import codex_acp.mapping",
        "import codex_acp.adapter",
        "import codex_acp.runtime",
        "import codex_acp.fleet",
        "import codex_acp.codex.connection.launch",
        "import codex_acp.cli.main",
    ],
)
def test_a_package_loads_no_model_no_pydantic_and_no_event_loop(statement: str) -> None:
    heavy = {"pydantic", "pydantic_core", "anyio", "asyncio", "typing"}
    loaded = _loaded(statement)
    assert not heavy & loaded
    assert not [name for name in loaded if "._generated.models." in name]


def test_a_bridge_loads_no_event_loop() -> None:
    loaded = _loaded(
        "from codex_acp.bridge import Bridge\nBridge('t').heard('warning', {'message': 'm'})"
    )
    assert "codex_acp.mapping.notifications" in loaded
    assert not {"anyio", "asyncio", "codex_acp.codex.approvals.real_paths"} & loaded


def test_the_package_itself_loads_two_modules() -> None:
    ours = {"codex_acp", "codex_acp._version"}
    assert {n for n in _loaded("import codex_acp") if n.startswith("codex_acp")} == ours


def test_a_registry_loads_no_model() -> None:
    loaded = _loaded("import codex_acp.codex._generated.methods")
    assert not [n for n in loaded if n.startswith("codex_acp.codex._generated.models.")]


def test_the_agent_that_waits_for_its_client_has_loaded_no_model() -> None:
    loaded = _loaded("import codex_acp.cli.serve, codex_acp.adapter.serve")
    assert [name for name in loaded if _is_heavy(name)] == []


def test_the_agent_needs_of_pydantic_the_core_alone() -> None:
    needs = (*FOR_A_PROMPT, *LATER, "codex_acp.adapter.sessions.replay")
    modules = {name.partition(":")[0] for name in needs}
    modules |= {name.replace(".v1.", ".v2.") for name in modules}
    leave_out = "import codex_acp._pydantic\ncodex_acp._pydantic.leave_pydantic_out()\n"
    loaded = _loaded(f"{leave_out}import codex_acp.adapter.serve, {', '.join(sorted(modules))}")
    found = {name for name in loaded if name.startswith("pydantic")}
    assert found == {"pydantic_core", "pydantic_core._pydantic_core"}


def test_the_agent_of_one_client_loads_nothing_of_the_network() -> None:
    prompts = "codex_acp.adapter.sessions.session, codex_acp.adapter.server_requests"
    loaded = _loaded(f"import codex_acp.cli.serve, codex_acp.adapter.serve, {prompts}")
    assert [name for name in loaded if name.startswith("websockets")] == []
    assert [name for name in loaded if name.startswith("codex_acp.adapter.network")] == []


def test_a_server_of_websockets_alone_loads_nothing_of_http() -> None:
    network = "codex_acp.adapter.network"
    loaded = _loaded(f"import {network}.listen, {network}.connection, {network}.websockets")
    others = ("hypercorn", "h2", "h11", "httpx", f"{network}.http")
    assert [name for name in loaded if name.startswith(others)] == []


def test_a_digest_of_the_start_is_that_of_hashlib() -> None:
    assert sha256_hex(b"text") == hashlib.sha256(b"text").hexdigest()
    assert "_hashlib" not in _loaded("from codex_acp._lazy import sha256_hex\nsha256_hex(b'text')")


AT_EACH_ANSWER = """
import os, runpy, sys, threading
real_write = os.write
def write(fd, data):
    if b'"result"' in bytes(data) or b'"turn/start"' in bytes(data):
        real_write(2, ("LOADED " + " ".join(sys.modules) + "\\n").encode())
        sys.modules["codex_acp.adapter.agent"].LOAD_AFTER_SECONDS = 60
    return real_write(fd, data)
os.write = write
start = threading.Thread.start
def start_idle(thread):
    if thread.name == "load ahead":
        thread.run = lambda: None
    start(thread)
threading.Thread.start = start_idle
sys.argv[0] = "codex-acp-sdk"
runpy.run_module("codex_acp", run_name="__main__")
"""
"""Tells what is loaded when an answer or the first turn is written: the thread that
loads ahead does nothing, and the steps after an answer do not start."""


def test_the_first_answers_and_the_first_turn_wait_for_no_model(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, AppServerScript(defaults=True))
    with subprocess.Popen(
        [sys.executable, "-P", "-c", AT_EACH_ANSWER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CODEX_PATH": str(codex.path)},
    ) as agent:
        killer = threading.Timer(60, agent.kill)
        killer.start()
        try:
            assert agent.stdin is not None
            assert agent.stdout is not None
            initialize = {"protocolVersion": 1, "clientInfo": {"name": "zed", "version": "1"}}
            new = {"cwd": str(tmp_path), "mcpServers": []}
            for method, params in (("initialize", initialize), ("session/new", new)):
                agent.stdin.write(_request(method, params))
                agent.stdin.flush()
                answer = json.loads(agent.stdout.readline())
            session_id = answer["result"]["sessionId"]
            prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]}
            agent.stdin.write(_request("session/prompt", prompt))
            agent.stdin.flush()
            assert agent.stderr is not None
            told = []
            for line in agent.stderr:  # the client stays until Codex is asked for the turn
                told += [line.split()[1:]] if line.startswith("LOADED ") else []
                if len(told) == 3:
                    break
            agent.communicate(timeout=30)
        finally:
            killer.cancel()
    assert len(told) == 3, told
    assert "codex_acp.adapter.prompts.early_turn" in told[2]
    for modules in told:
        assert "codex_acp.codex.connection.app_server_connection" in modules
        assert [name for name in modules if _is_heavy(name)] == []
        assert not {"ssl", "_ssl"} & set(modules), "the loop of one client opens no TLS"
        assert not {"_hashlib", "pathlib", "tempfile", "shlex"} & set(modules)
        recorded = {"events", "redaction"}
        assert not {f"codex_acp.transcript.{each}" for each in recorded} & set(modules)


def _request(method: str, params: Mapping[str, object]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n"


def _is_heavy(name: str) -> bool:
    package, *below = name.split(".")
    heavy = package in {"pydantic", "anyio"} or (package == "pydantic_core" and below)
    return bool(heavy) or "models" in below
