"""Pieces of one text that follow each other in one read, taken as one notification.

A model's words come by the thousand, and each piece would be looked at, decoded and mapped by
itself, to be joined again on its way to the client. Owns what is a piece of the same text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.message import JsonValue

PIECES: Final = frozenset({"item/agentMessage/delta", "item/commandExecution/outputDelta"})
"""Notifications of which two with the texts ``a`` and ``b`` say what one with ``ab`` says."""

MEMBERS: Final = frozenset({"threadId", "turnId", "itemId", "delta"})
"""What they have; one with more is taken by itself, so that nothing new is lost."""


class JoinedPieces:
    """Gives what one thread reports to ``take``, in order; the pieces that came last it keeps."""

    __slots__ = ("_method", "_params", "_take", "_texts")

    def __init__(self, take: Callable[[str, JsonValue], None]) -> None:
        self._take = take
        self._method: str | None = None
        """None: nothing is kept."""
        self._params: dict[str, JsonValue] = {}
        """Of the first piece."""
        self._texts: list[str] = []

    def hear(self, method: str, params: JsonValue) -> None:
        """A notification came."""
        if method in PIECES and isinstance(params, dict) and params.keys() == MEMBERS:
            text = params["delta"]
            if isinstance(text, str):
                if method != self._method or not self._goes_on(params):
                    if self._texts:
                        self.flush()
                    self._method, self._params = method, params
                self._texts.append(text)
                return
        if self._texts:
            self.flush()
        self._take(method, params)

    def flush(self) -> None:
        """What is kept comes before all else that happens."""
        method = self._method
        if method is None:
            return
        params, texts = self._params, self._texts
        self._method, self._texts = None, []
        self._take(method, params if len(texts) == 1 else {**params, "delta": "".join(texts)})

    def _goes_on(self, params: dict[str, JsonValue]) -> bool:
        first = self._params
        return params["itemId"] == first["itemId"] and params["turnId"] == first["turnId"]
