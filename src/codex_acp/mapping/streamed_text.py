"""Track how much of an item's text was sent, and return the rest at its completion.

Codex streams an item's text as deltas and then sends the item whole, which is what counts.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from codex_acp._record import record

MAX_PIECES: Final = 1024
"""Each is an object of its own, ten times as large as its text."""

CHARACTERS_A_PIECE: Final = 64
"""So many joined already allow one more: then joining costs the same for each, however long."""


@record
class SentThought:
    """Parts of one reasoning item that were sent."""

    raw: bool
    """Whether it is the model's raw reasoning, and not its summary."""

    part: int
    """The number of the part that was sent last."""

    pieces: list[str] = field(default_factory=list)
    """The text, as it was sent."""


def add_piece(pieces: list[str], piece: str) -> None:
    """Remember that a piece was sent."""
    if len(pieces) >= MAX_PIECES and len(pieces) >= len(pieces[0]) // CHARACTERS_A_PIECE:
        pieces[:] = ("".join(pieces),)
    pieces.append(piece)


def left_to_send(pieces: list[str], item_id: str, whole: str) -> tuple[str, str] | None:
    """The message id and the text that complete what ``pieces`` have said; None: nothing does.

    A whole that says something else is a message of its own: appended to the other it would make
    no sense. One that differs in blank space only, or is the beginning of what was sent, adds
    nothing. From then on ``pieces`` are the whole, so that it is never sent twice.
    """
    sent = "".join(pieces)
    pieces[:] = (whole,)
    if whole.startswith(sent):
        rest = whole[len(sent) :]
        return (item_id, rest) if rest else None
    if sent.startswith(whole) or sent.split() == whole.split():
        return None
    return f"{item_id}:completed", whole
