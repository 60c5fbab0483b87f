"""What is said of a peer on the network that cannot be reached, or refuses."""

from __future__ import annotations

from typing import Final

from codex_acp._record import record

CONNECT_SECONDS: Final = 10.0
"""For the connection and its handshake."""

SAID: Final = 200
"""Characters of what the peer said that are shown."""


def without_token(said: str, token: str | None) -> str:
    """What a peer said, where it quotes the token that it was shown."""
    return said.replace(token, "[token]") if token else said


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
        why = getattr(error, "strerror", None) or error
        return f"nobody can be reached at {self.name}: {why}"

    def silent(self) -> str:
        """Somebody is there, and says nothing."""
        return f"{self.name} did not answer within {CONNECT_SECONDS:g} s"
