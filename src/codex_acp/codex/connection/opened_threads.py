"""PURE: the threads that this side has opened on one connection.

Each stands by itself, whatever is said of it elsewhere: a model may name any thread that it has
heard of as an agent that it talks to, and Codex 0.163 passes its message on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

MAX_OPENED: Final = 10_000
"""Threads that are remembered, the last opened ones."""

_OPENING: Final = frozenset({"thread/fork", "thread/resume", "thread/start"})


class OpenedThreads:
    """Told of each call that was answered; the threads, by their ids."""

    __slots__ = ("_opened",)

    def __init__(self) -> None:
        self._opened: dict[str, None] = {}

    def answered(self, method: str, result: JsonValue) -> None:
        """A call of this side has succeeded."""
        thread_id = text_at(result, "thread", "id")
        if method in _OPENING and thread_id is not None:
            self._opened.pop(thread_id, None)
            self._opened[thread_id] = None
            if len(self._opened) > MAX_OPENED:
                del self._opened[next(iter(self._opened))]

    def __contains__(self, thread_id: object) -> bool:
        return thread_id in self._opened
