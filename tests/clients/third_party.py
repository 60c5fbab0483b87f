"""Where the third-party clients are, and the Codex and model that they are to drive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codex_acp.testing import CodexHome, ScriptedModel, Step, Text, exec_command
from tests.e2e.adapter_bench import COMMAND

TREE_VARIABLE = "CODEX_ACP_CLIENT_TREE"
"""The folder with ``node_modules`` of package.json beside this file."""

NODE_VARIABLE = "CODEX_ACP_NODE"
"""The node that runs them, 22 or later."""

SDK_PYTHON_VARIABLE = "CODEX_ACP_SDK_PYTHON"
"""The Python that has the package ``agent-client-protocol``; by default this one."""

WAIT = 120
"""Seconds for one run of a client; it takes two."""

Script = Sequence[Sequence[Step]]


def command_and_answer(*answers: str) -> list[list[Step]]:
    """A command that has to be asked about, then one answer a turn."""
    ask = exec_command("touch made && echo hi-from-shell", justification="May I write here?")
    script: list[list[Step]] = [[ask]]
    script += [[Text(answer)] for answer in answers]
    return script


class Bench:
    """A throw-away Codex and what a client's process needs to reach it."""

    def __init__(self, model: ScriptedModel, home: CodexHome) -> None:
        self.model = model
        self.home = home
        node = Path(os.environ.get(NODE_VARIABLE, "node"))
        self.tree = Path(os.environ[TREE_VARIABLE])
        self.node = str(node)
        path = os.pathsep.join([str(node.parent), os.environ["PATH"]])
        self.env = {**home.env, "PATH": path, "HOME": str(home.root)}

    @property
    def command_ran(self) -> bool:
        """Whether the command that was asked about has run."""
        return (self.home.workspace / "made").exists()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run node with ``arguments`` in the workspace."""
        return subprocess.run(
            [self.node, *arguments],
            env=self.env,
            cwd=self.home.workspace,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )

    def acpx(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run acpx with our command as its agent."""
        acpx = self.tree / "node_modules" / "acpx" / "dist" / "cli.js"
        where = ("--agent", COMMAND, "--cwd", str(self.home.workspace))
        return self.run(str(acpx), *where, *arguments)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run this Python with ``arguments`` in the workspace."""
        return subprocess.run(
            [os.environ.get(SDK_PYTHON_VARIABLE, sys.executable), *arguments],
            env=self.env,
            cwd=self.home.workspace,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )


@contextmanager
def third_party_bench(script: Script) -> Iterator[Bench]:
    """A bench whose model says ``script``."""
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        yield Bench(model, home)
