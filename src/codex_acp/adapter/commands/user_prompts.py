"""The prompt files of the user: ``prompts/*.md`` in Codex's home, read anew for each session."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from codex_acp.adapter.in_thread import in_thread
from codex_acp.mapping.prompt.commands import UserPrompt, user_prompt

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 256 * 1024
"""Bytes of one prompt file: people write them by hand."""

MAX_FILES: Final = 200
"""More would fill the client's list of commands and nobody could choose."""


async def read_user_prompts(codex_home: str) -> list[UserPrompt]:
    """All that can be read, by name; what cannot is logged and left out."""
    return await in_thread(lambda: _read(Path(codex_home) / "prompts"))


def _read(folder: Path) -> list[UserPrompt]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except OSError:  # most users have none
        return []
    prompts = []
    for path in files[:MAX_FILES]:
        try:
            if any(char.isspace() for char in path.stem) or not path.is_file():
                continue
            with path.open(encoding="utf-8") as file:
                prompts.append(user_prompt(path.stem, file.read(MAX_BYTES)))
        except (OSError, UnicodeDecodeError) as error:
            logger.warning("the prompt file %s could not be read: %s", path.name, error)
    return prompts
