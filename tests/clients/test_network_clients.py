"""The SDKs' own clients over both profiles, with the real Codex behind ``serve --listen``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.third_party import Bench, command_and_answer, third_party_bench
from tests.network.listening_adapter import TOKEN, ListeningAdapter

pytestmark = pytest.mark.e2e

HERE = Path(__file__).parent

CHOICES = pytest.mark.parametrize(
    ("choose", "runs"), [("allow_once", True), ("reject_once", False)]
)

PROFILES = pytest.mark.parametrize("scheme", ["ws", "http"])


@contextmanager
def listening(tmp_path: Path, scheme: str) -> Iterator[tuple[Bench, str]]:
    with (
        third_party_bench(command_and_answer("All done.")) as bench,
        ListeningAdapter(bench.env, tmp_path, "--keep", "1h", scheme="http") as adapter,
    ):
        yield bench, adapter.url.replace("http", scheme, 1)


def npm(bench: Bench, url: str, choose: str, earlier: str = "") -> Any:
    """A run of the npm SDK's client."""
    cwd = str(bench.home.workspace)
    arguments = (str(bench.tree), url, TOKEN, cwd, choose, "Go.", earlier)
    return bench.run(str(HERE / "network_client.mjs"), *arguments)


@PROFILES
@CHOICES
def test_the_npm_sdks_client_gets_a_whole_turn(
    tmp_path: Path, scheme: str, choose: str, runs: bool
) -> None:
    with listening(tmp_path, scheme) as (bench, url):
        done = npm(bench, url, choose)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        assert seen["ended"]["stopReason"] == "end_turn"
        assert len(seen["asked"]) == 1
        assert bench.command_ran is runs
        kinds = {update["sessionUpdate"] for update in seen["updates"]}
        assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= kinds
        assert "error" not in done.stderr.lower(), "the SDK complains of what it cannot read"


@PROFILES
def test_the_npm_sdks_client_comes_back_to_a_question(tmp_path: Path, scheme: str) -> None:
    with listening(tmp_path, scheme) as (bench, url):
        left = npm(bench, url, "leave")
        assert left.returncode == 9, left.stderr
        done = npm(bench, url, "allow_once", left.stdout.strip())
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        assert len(seen["asked"]) == 1
        assert bench.command_ran


@PROFILES
@CHOICES
def test_the_python_sdks_client_gets_a_whole_turn(
    tmp_path: Path, scheme: str, choose: str, runs: bool
) -> None:
    with listening(tmp_path, scheme) as (bench, url):
        cwd = str(bench.home.workspace)
        arguments = (url, TOKEN, cwd, choose, "Go.")
        done = bench.python(str(HERE / "network_client.py"), *arguments)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        assert seen["stopReason"] == "end_turn"
        assert seen["asked"] == 1
        assert bench.command_ran is runs
        assert seen["opened"] in seen["listed"]
