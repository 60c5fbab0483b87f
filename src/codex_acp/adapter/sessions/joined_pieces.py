"""Pieces of one text that follow each other in one read, taken as one.

A model's words come by the thousand, and each piece would be looked at, decoded and mapped by
itself, to be joined again on its way to the client. Owns what is a piece of the same text: its
members are all known and all text, so that no model has to read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.notifications import PIECES

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.message import JsonValue


MEMBERS: Final = frozenset({"threadId", "turnId", "itemId", "delta"})
"""Members of a piece; one with more is taken by itself, so that nothing new is lost."""


class JoinedPieces:
    """Gives what one thread reports to ``take``, in order; the pieces that came last it keeps.

    Those it gives to ``take_pieces``: their method, their turn, their item, and the text.
    """

    __slots__ = ("_item_id", "_method", "_take", "_take_pieces", "_texts", "_turn_id")

    def __init__(
        self,
        take: Callable[[str, JsonValue], None],
        take_pieces: Callable[[str, str, str, str], None],
    ) -> None:
        self._take = take
        self._take_pieces = take_pieces
        self._texts: list[str] = []
        """Empty: nothing is kept, and the rest means nothing."""
        self._method = self._turn_id = self._item_id = ""

    def hear(self, method: str, params: JsonValue) -> None:
        """A notification came."""
        if method in PIECES and type(params) is dict and params.keys() == MEMBERS:
            turn_id, item_id, text = params["turnId"], params["itemId"], params["delta"]
            if type(text) is str and type(item_id) is str and type(turn_id) is str:
                if not (
                    item_id == self._item_id and turn_id == self._turn_id and method == self._method
                ):
                    self.flush()
                    self._method, self._turn_id, self._item_id = method, turn_id, item_id
                self._texts.append(text)
                return
        if self._texts:
            self.flush()
        self._take(method, params)

    def flush(self) -> None:
        """Give what is kept, before all else that happens."""
        texts = self._texts
        if texts:
            self._texts = []
            text = texts[0] if len(texts) == 1 else "".join(texts)
            self._take_pieces(self._method, self._turn_id, self._item_id, text)
