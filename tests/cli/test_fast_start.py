"""What is loaded when Codex is spawned: next to nothing, so that it boots while we import."""

from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

import codex_acp
from codex_acp.codex.connection.launch import UNLOAD_AT_ONCE

HEAVY = (
    "argparse", "subprocess", "signal", "re", "enum", "anyio", "asyncio", "dataclasses", "inspect",
    "json", "logging", "pathlib", "pydantic", "pydantic_core", "typing",
)  # fmt: skip
SOURCE = str(Path(codex_acp.__file__).parents[1])

AT_SPAWN = f"""
import sys
sys.path.insert(0, {SOURCE!r})
import os
import runpy
def spawned(path, argv, env, **options):
    heavy = [m for m in sys.modules if m.split(".")[0] in {HEAVY!r} or "_generated" in m]
    print(argv, heavy, flush=True)
    os._exit(0)
os.posix_spawn = spawned
sys.argv[0] = "codex-acp-sdk"
"""
"""Without -S, .pth files of the environment load more than we do; runpy loads nothing heavy."""

AS_MODULE = 'runpy.run_module("codex_acp", run_name="__main__")'
AS_SCRIPT = "from codex_acp.cli.main import main; sys.exit(main())"


def at_spawn(start: str, *arguments: str, **variables: str) -> tuple[list[str], list[str]]:
    """Return the arguments that Codex is given besides our hook, and what heavy is loaded then."""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", AT_SPAWN + start, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        env={"CODEX_PATH": "/bin/sh", **variables},
    )
    end = done.stdout.index("] [") + 1
    argv, heavy = literal_eval(done.stdout[:end]), literal_eval(done.stdout[end:].strip())
    (first, hook, second, trust) = argv[2:6]
    assert (first, second) == ("-c", "-c")
    assert hook.startswith("hooks.PreToolUse=")
    assert trust.startswith("hooks.state=")
    return argv[:2] + argv[6:], heavy


@pytest.mark.parametrize("arguments", [[], ["serve"]], ids=["alone", "serve"])
@pytest.mark.parametrize("start", [AS_MODULE, AS_SCRIPT], ids=["module", "script"])
def test_codex_is_spawned_before_anything_heavy_is_loaded(start: str, arguments: list[str]) -> None:
    assert at_spawn(start, *arguments) == (["/bin/sh", "app-server", *UNLOAD_AT_ONCE], [])


def test_a_token_is_hidden_before_codex_is_spawned_and_costs_nothing_heavy() -> None:
    _, heavy = at_spawn(AS_SCRIPT, CODEX_ACP_TOKEN="a-token-of-all-clients")
    assert heavy == []


def test_options_cost_the_parser_and_no_more_than_that() -> None:
    command, modules = at_spawn(AS_SCRIPT, "-c", "model=x")
    assert command == ["/bin/sh", "app-server", *UNLOAD_AT_ONCE, "-c", "model=x"]
    assert "argparse" in modules
    for name in ("asyncio", "anyio", "pydantic", "logging", "_generated"):
        assert not [module for module in modules if name in module.split(".")]
