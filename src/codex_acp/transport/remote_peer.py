"""Make the errors for a peer on the network that cannot be reached, or refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from codex_acp._record import record

if TYPE_CHECKING:
    from collections.abc import Iterable

CONNECT_SECONDS: Final = 10.0
"""For the connection and its handshake."""

LEAST_SECRET: Final = 6
"""Characters of a value that is taken out: a shorter one would be in every other word."""

_OF_ADDRESSES: Final = re.compile(r"(?<=://)[^\s/?#@]*@|\?[\w.%~-]+=[^\s\"'<>]*")
"""The login and the query of an address, also of one without a host."""

SAID: Final = 200
"""Characters of what the peer said that are shown."""


def secrets_of_query(url: str) -> list[str]:
    """Return the values in the query of a peer's address, which may be tokens."""
    written = [pair.rpartition("=")[2] for pair in urlsplit(url).query.split("&")]
    values = {*written, *map(unquote, written)}
    return [value for value in values if len(value) >= LEAST_SECRET]


def without_secrets(said: object, secrets: Iterable[str | None]) -> str:
    """Return what a peer or an error says, where it quotes an address or what it was shown."""
    text = str(said)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[token]")
    return _OF_ADDRESSES.sub("", text)


@record
class RemotePeer:
    """``name`` stands for it in messages, ``kind`` says what it should be, ``token_hint`` where
    its tokens come from."""

    name: str
    kind: str = "app-server"
    token_hint: str = "see its --ws-auth"

    def answered(self, status: int, said: str, where: str | None = None) -> str:
        """It refused to talk; ``where`` it points to, which this program does not follow."""
        what = f"{status} {said[:SAID].strip()}".strip()
        if where is not None:
            what += f" and points to {where[:SAID]!r}: connect there if you trust it"
        if status in (401, 403):
            return f"{self.name} refused the token: {what}; {self.token_hint}"
        return f"{self.name} is no {self.kind}: it answered {what}"

    def unreachable(self, error: object) -> str:
        """Nobody is there."""
        why = getattr(error, "strerror", None) or without_secrets(error, ())
        return f"nobody can be reached at {self.name}: {why}"

    def silent(self) -> str:
        """Somebody is there, and says nothing."""
        return f"{self.name} did not answer within {CONNECT_SECONDS:g} s"
