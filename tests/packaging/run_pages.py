"""``python -m tests.packaging.run_pages DIST [PAGE...]``: the commands of the pages, page by page.

Run by the Python of an environment that has only what the pages install; ``DIST`` is where pip
finds the wheels. Codex is the real one, with a scripted model.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from codex_acp.testing import CodexHome, ModelResponse, ScriptedClient, ScriptedModel, Text
from tests.cli.on_terminal import OnTerminal
from tests.docs.pages import ROOT, blocks
from tests.packaging.page_commands import CHOOSE_FIRST, NOT_RUN, QUESTION, WAYS, Way, command_lines
from tests.packaging.scripted_login import Issuer

SECONDS = 600
BIN = Path(sys.executable).parent


class Failed(Exception):
    """A command did not do what its page says."""


def main(dist: str, *pages: str) -> int:
    """0 if every command ends as it should; else the first one that does not is shown."""
    # A run in a shell's background ignores Ctrl-C, and what it starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for page, lines in command_lines().items():
        if pages and page not in pages:
            continue
        with ExitStack() as stack:
            model = stack.enter_context(
                ScriptedModel([ModelResponse(Text("Nothing ", "at all."), repeat=True)])
            )
            home = stack.enter_context(CodexHome(model.base_url))
            there = _Page(page, home, dist, stack)
            for line in lines:
                if line not in NOT_RUN:
                    there.run(line)
            there.end()
    _log_in()
    return 0


class _Page:
    """A page's commands, in a directory that has what the page tells of."""

    def __init__(self, name: str, home: CodexHome, dist: str, stack: ExitStack) -> None:
        self._name = name
        self._place = home.workspace
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self._going_on: list[tuple[str, OnTerminal, Way]] = []
        self._stack = stack
        (agent,) = (b.text for b in blocks("python") if str(b) == "docs/tutorials/own-agent.md-0")
        (self._place / "my_agent.py").write_text(agent, encoding="utf-8")
        (self._place / "notes.txt").touch()
        token = secrets.token_urlsafe(32)
        (self._place / "tokens").write_text(f"{token}\n")
        (self._place / "tokens").chmod(0o600)
        programs = home.root / "programs"
        programs.mkdir()
        for program, does in {
            "my-agent": f'exec "{sys.executable}" "{self._place}/my_agent.py"',
            "jq": "exec cat",  # there need not be one here
        }.items():
            (programs / program).write_text(f"#!/bin/sh\n{does}\n")
            (programs / program).chmod(0o755)
        self._env = home.env | {
            "PATH": os.pathsep.join([str(BIN), str(programs), home.env["PATH"]]),
            "TOKEN": token,
            "PIP_FIND_LINKS": dist,
            "PIP_QUIET": "1",
            "TERM": "xterm",
            "NO_COLOR": "1",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }

    def run(self, line: str) -> None:
        """Run a line as it stands. Raises Failed if it does not end as it should."""
        print(f"{self._name}: $ {line}", flush=True)
        way = WAYS[line]
        meant = line.replace("8765", self._port).replace("/srv/project", str(self._place))
        if way.as_agent:
            said, code = asyncio.run(self._as_agent(meant)), 0
        elif way.typed:
            said, code = self._on_terminal(meant, way)
        elif way.goes_on:
            terminal = self._stack.enter_context(_terminal(meant, self._env, self._place))
            try:
                terminal.until(way.shows)
            except (AssertionError, OSError) as error:
                message = f"{line}\nnever shows {way.shows!r} in:\n{terminal.screen}"
                raise Failed(message) from error
            self._going_on.append((line, terminal, way))
            return
        else:
            place = self._checkout() if way.in_checkout else self._place
            if way.installs:
                meant = f"python3 -m venv new && . new/bin/activate && {meant}"
                meant += " && codex-acp-sdk --version"
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", meant], cwd=place, env=self._env,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                check=False,
            )  # fmt: skip
            said, code = done.stdout + done.stderr, done.returncode
        _check(line, way, said, code)
        connection = re.search(r"^acp-connection-id: *(\S+)", said, re.IGNORECASE | re.MULTILINE)
        if connection:
            self._env["CONNECTION"] = connection[1]

    def end(self) -> None:
        """Ctrl-C for what still runs, from the last that was started."""
        for line, terminal, way in reversed(self._going_on):
            terminal.process.send_signal(signal.SIGINT)
            said = terminal.screen + terminal.rest()
            _check(line, way, said, terminal.end()[0])

    def _on_terminal(self, line: str, way: Way) -> tuple[str, int]:
        with _terminal(line, self._env, self._place) as terminal:
            for number, (awaited, typed) in enumerate(way.typed):
                earlier = sum(text == awaited for text, _ in way.typed[:number])
                terminal.until(awaited, times=earlier + 1)
                if typed == CHOOSE_FIRST:
                    terminal.choose(1)
                else:
                    terminal.type(typed)
            terminal.rest()
            return terminal.screen, terminal.end()[0]

    async def _as_agent(self, line: str) -> str:
        command = ["bash", "-c", f"exec {line}"]
        client = ScriptedClient(command, env=self._env, cwd=self._place)
        async with client:
            said = (await client.prompt(QUESTION)).text
        shutil.copy(Path(self._env["HOME"]) / "codex.jsonl", self._place)
        return said

    def _checkout(self) -> Path:
        """The files of the project, and nothing that lies beside them here."""
        copy = self._place / "checkout"
        if not copy.exists():
            listed = subprocess.run(
                ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
            )
            for name in filter(None, listed.stdout.split("\0")):
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        return copy


def _terminal(line: str, env: Mapping[str, str], place: Path) -> OnTerminal:
    shell = f"cd '{place}' && exec {line}"
    return OnTerminal(dict(env), shell=shell, stdout_too=True)


def _check(line: str, way: Way, said: str, code: int) -> None:
    if code != way.exit_code or way.shows not in said:
        message = f"{line}\nended with {code}, and {way.shows!r} is to stand in:\n{said}"
        raise Failed(message)


def _log_in() -> None:
    """What `codex-acp-sdk login` leads to, with a server that says yes."""
    with Issuer() as issuer, ScriptedModel([]) as model, CodexHome(model.base_url) as home:
        login = [str(BIN / "codex-acp-sdk"), "login"]
        for words in (["--device-auth", "--experimental_issuer", issuer.url], ["status"]):
            done = subprocess.run(
                [*login, *words], env=home.env, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
            way = Way("ogged in")
            _check(
                " ".join(["codex-acp-sdk login", *words]),
                way,
                done.stdout + done.stderr,
                done.returncode,
            )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
