"""A second machine for Codex: another process on this one, which Codex cannot know."""

from __future__ import annotations

import json
from typing import Final

from codex_acp.codex import find_codex
from codex_acp.testing import CodexHome

PRODUCTION: Final = "production"
"""The environment's id."""


def attach_environment(home: CodexHome) -> None:
    """Give each Codex of a home an environment besides its own machine, as a user would."""
    program = json.dumps(find_codex(environ=home.env).path)
    (home.codex_home / "environments.toml").write_text(
        f'default = "local"\ninclude_local = true\n\n[[environments]]\nid = "{PRODUCTION}"\n'
        f'program = {program}\nargs = ["exec-server", "--listen", "stdio"]\n'
    )
