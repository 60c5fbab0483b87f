"""The token that ``--connect`` shows: of a file, else of the environment."""

from __future__ import annotations

import os
from pathlib import Path

from codex_acp.errors import MisuseError


def remote_token(file: str | None) -> str | None:
    """The token of the file's first line, with or without a name; None if there is no token.

    Taken out of the environment, which agents and their commands inherit. Raises MisuseError.
    """
    from codex_acp.adapter.network.tokens import TOKEN_VARIABLE

    found = os.environ.pop(TOKEN_VARIABLE, None)
    if file is None:
        return found or None
    try:
        lines = Path(file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"the token file {file!r} cannot be read: {why}"
        raise MisuseError(msg) from error
    words = next((line.split() for line in lines if line.strip() and line[0] != "#"), [])
    if not words:
        msg = f"the token file {file!r} has no token"
        raise MisuseError(msg)
    return words[0] if len(words) == 1 else words[1]
