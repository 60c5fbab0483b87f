"""PURE: make the settings to paste into an editor, which then starts this agent.

Source: the editors' documentation of ACP agents.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.jsonrpc import JsonValue

NAME: Final = "Codex (Python)"
"""Name of the agent in the editor's list of agents."""


class Editor(NamedTuple):
    """An editor, and the settings for it."""

    title: str
    place: str
    """Name of the settings file, or ``a terminal`` for a command."""
    settings: Callable[[Sequence[str]], str]
    """Makes the settings for the command that starts the agent."""


def _json_settings(command: Sequence[str], **more: str) -> str:
    agent = {**more, "command": command[0], "args": [*command[1:]], "env": {}}
    return json.dumps({"agent_servers": {NAME: agent}}, indent=2)


def _lua_list(words: Sequence[str]) -> str:
    return "{ " + ", ".join(json.dumps(word, ensure_ascii=False) for word in words) + " }"


def _avante_settings(command: Sequence[str]) -> str:
    arguments = _lua_list(command[1:]) if command[1:] else "{}"
    return f"""\
require("avante").setup({{
  provider = "codex-python",
  acp_providers = {{
    ["codex-python"] = {{ command = {json.dumps(command[0])}, args = {arguments} }},
  }},
}})"""


def _codecompanion_settings(command: Sequence[str]) -> str:
    return f"""\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      codex = function()
        return require("codecompanion.adapters").extend("codex", {{
          commands = {{ default = {_lua_list(command)} }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "codex" }} }},
}})"""


def _emacs_settings(command: Sequence[str]) -> str:
    words = " ".join(json.dumps(word, ensure_ascii=False) for word in command)
    return f"(setq agent-shell-openai-codex-acp-command '({words}))"


EDITORS: Final[Mapping[str, Editor]] = {
    "zed": Editor("Zed", "settings.json", lambda command: _json_settings(command, type="custom")),
    "jetbrains": Editor("JetBrains IDEs", "~/.jetbrains/acp.json", _json_settings),
    "avante": Editor("Neovim with avante.nvim", "init.lua", _avante_settings),
    "codecompanion": Editor("Neovim with CodeCompanion", "init.lua", _codecompanion_settings),
    "emacs": Editor("Emacs with agent-shell", "init.el", _emacs_settings),
    "toad": Editor(
        "Toad", "a terminal", lambda command: f"toad acp {shlex.quote(shlex.join(command))}"
    ),
    "acpx": Editor(
        "acpx",
        "a terminal",
        lambda command: (
            f"acpx --agent {shlex.quote(shlex.join(command))} exec 'What is in this directory?'"
        ),
    ),
}
"""Editors by their names on the command line."""


def settings_for(name: str, command: Sequence[str]) -> dict[str, JsonValue]:
    """Return ``editor`` of the doctor's report: the settings for the editor ``name``."""
    editor = EDITORS[name]
    return {
        "name": name, "title": editor.title, "place": editor.place,
        "settings": editor.settings(command),
    }  # fmt: skip
