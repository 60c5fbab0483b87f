"""Remember the owner of each stored session, where the tokens of a server have several.

Each session that is made is written down, a JSON object a line, in a file for the server's user
alone. With one owner nothing is written: all that Codex has stored is theirs.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

from codex_acp._files import append_line, open_private
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR

if TYPE_CHECKING:
    from codex_acp.adapter.network.tokens import Tokens

logger = logging.getLogger(__name__)


class Owners:
    """``path`` is the file; without one, what several owners have is forgotten at the end.

    Raises MisuseError if the file cannot be read.
    """

    def __init__(self, tokens: Tokens, path: str | None = None) -> None:
        self._tokens = tokens
        self._path = path
        self._of: dict[str, str] = {}
        self._several = tokens.several_owners
        if path is not None and os.path.exists(path):  # noqa: PTH110
            self._read(path)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._tokens.owners

    def owns(self, owner: str, session_id: str) -> bool:
        """Whether a session that Codex has stored is this owner's.

        Whose it was stays so when a token is taken away, or the file of tokens is just rewritten.
        """
        made_by = self._of.get(session_id)
        return made_by == owner if made_by is not None else not self._are_several()

    def knows(self, session_id: str) -> bool:
        """Whether it is written down whose a session is."""
        return session_id in self._of

    def made(self, owner: str, session_id: str) -> None:
        """Remember that a session is this owner's.

        Raises RpcError -32603 if that cannot be written: after a restart it would be nobody's.
        """
        if not self._are_several() or self._of.get(session_id) == owner:
            return
        if self._path is not None:
            self._append(self._path, {"sessionId": session_id, "owner": owner})
        self._of[session_id] = owner

    def _append(self, path: str, entry: dict[str, str]) -> None:
        try:
            file = open_private(path, tighten=True, readable=True)
            try:
                append_line(file, json.dumps(entry).encode() + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            logger.error("the file of owners %r cannot be written: %s", path, error)
            why = error.strerror or str(error)
            message = (
                f"the server cannot write down whose the session is ({why}), so it was not opened; "
                "whoever runs the server has to mend that"
            )
            raise RpcError(INTERNAL_ERROR, message) from error

    def _are_several(self) -> bool:
        """Once they were, they stay so until the server ends."""
        self._several = self._several or self._tokens.several_owners
        return self._several

    def _read(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise MisuseError(f"the file of owners {path!r} cannot be read: {error}") from error
        for line in lines:
            try:
                entry = json.loads(line)
                self._of[str(entry["sessionId"])] = str(entry["owner"])
            except (ValueError, KeyError, TypeError):
                logger.warning("a line of %s was left out: it cannot be read", path)
