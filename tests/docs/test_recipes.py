"""The recipes are followed: what stands in them is pasted into a copy of the source, and works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from codex_acp.testing import CodexHome, ScriptedModel
from tests.cli.command import WAIT_SECONDS
from tests.docs.pages import ROOT, blocks

SLASH = "docs/recipes/slash-command.md"
OPTION = "docs/recipes/config-option.md"

PLACES = {
    f"{SLASH}-0": ("mapping/commands.py", 4, '    Command("skills", "List the skills"),\n'),
    f"{SLASH}-1": ("adapter/built_in_commands.py", 12, '            "mcp": self._mcp,\n'),
    f"{SLASH}-2": ("adapter/built_in_commands.py", 4, "    # Turns.\n\n"),
    f"{OPTION}-0": ("mapping/settings.py", 4, "    instructions: str | None = None\n"),
    f"{OPTION}-1": ("mapping/settings.py", 8, "    return Settings(\n"),
    f"{OPTION}-2": ("mapping/options.py", 0, 'TIER: Final = "service_tier"\n'),
    f"{OPTION}-3": ("mapping/options.py", 0, "in (*self.choices, *self.grouped))\n\n\n"),
    f"{OPTION}-4": (
        "mapping/options.py",
        4,
        "_PATCHES: Final[dict[str, Callable[[ConfigView, str], JsonObject]]] = {\n",
    ),
    f"{OPTION}-5": ("mapping/settings.py", 8, "    match name:\n"),
    f"{OPTION}-6": ("mapping/settings.py", 8, "    return settings._replace(\n"),
    f"{OPTION}-7": ("mapping/settings.py", 4, "    patch: JsonObject = {}\n"),
}
"""Block → the file it belongs to, how deep it stands there, and the line that it is put behind."""

IN_WORDS = (("mapping/options.py", "_tier(view), ", "_tier(view), _summary(view), "),)
"""What the recipes say of a file without showing it."""

PROGRAM = """
import asyncio, sys
import codex_acp
from codex_acp.acp.types import ValueIdSetSessionConfigOptionRequest as Set
from codex_acp.testing import ScriptedClient

async def main():
    async with ScriptedClient([sys.executable, "-m", "codex_acp"]) as client:
        session = client.session_id
        print((await client.prompt("/where")).text)
        wanted = Set(session_id=session, config_id="reasoning_summary", value="detailed")
        answer = await client.connected.side.session_set_config_option(wanted)
        print({o.id: o.current_value for o in answer.config_options}["reasoning_summary"])

asyncio.run(main())
"""


@pytest.mark.e2e
def test_a_command_and_an_option_are_there_when_their_recipes_were_followed(tmp_path: Path) -> None:
    package = tmp_path / "codex_acp"
    source = ROOT / "src" / "codex_acp"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {str(block): block.text for block in blocks("py")}
    pasted = [
        (name, place, f"{place}{indent(texts[block], ' ' * depth)}\n")
        for block, (name, depth, place) in PLACES.items()
    ]
    for name, before, after in (*pasted, *IN_WORDS):
        text = (package / name).read_text()
        assert before in text, (name, before)
        (package / name).write_text(text.replace(before, after, 1))

    with ScriptedModel([]) as model, CodexHome(model.base_url) as home:
        env = home.env | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM], cwd=home.workspace, env=env,
            capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )  # fmt: skip
        said = done.stdout.splitlines()
        assert done.returncode == 0, done.stderr
        assert str(home.workspace) in said[0]
    assert said[-1] == "detailed"
