"""Lists that Codex gives page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_PAGES: Final = 50
"""Pages of one list, so that a cursor which never ends does not hold up the caller."""


class _Params(Protocol):
    cursor: str | None


P = TypeVar("P", bound=_Params)
T = TypeVar("T")


class _Page(Protocol[T]):
    data: list[T]
    next_cursor: str | None


async def all_pages(ask: Callable[[P], Awaitable[_Page[T]]], params: P) -> list[T]:
    """The entries of all pages; a cursor that is told again ends them, too. Raises as ``ask``."""
    found: list[T] = []
    for _ in range(MAX_PAGES):
        page = await ask(params)
        found += page.data
        if page.next_cursor is None or page.next_cursor == params.cursor:
            break
        params.cursor = page.next_cursor
    return found
