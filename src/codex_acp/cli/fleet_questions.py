"""The questions of all tasks on one terminal, one at a time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from codex_acp.cli.screen.questions import Questions
from codex_acp.routing.display import shortened, visible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codex_acp.acp.types import PermissionOption
    from codex_acp.cli.screen.output import TextOutput
    from codex_acp.cli.terminal import LineReader
    from codex_acp.fleet import TaskPermission
    from codex_acp.runtime import Form, FormAnswer, UrlAnswer, UrlRequest

SHOWN_ID = 40


class FleetQuestions:
    """Names the task of each question, and the others that wait."""

    def __init__(self, screen: TextOutput, reader: LineReader) -> None:
        self._screen = screen
        self._reader = reader
        self._one_at_a_time = asyncio.Lock()
        self._waiting: list[str] = []

    async def permission(self, permission: TaskPermission) -> PermissionOption | None:
        """The option that the person chose; None rejects."""
        async with self._turn(permission.task_id) as questions:
            return await questions.permission(permission)

    async def form(self, task_id: str, form: Form) -> FormAnswer:
        """Ask the person to fill in a form."""
        async with self._turn(task_id) as questions:
            return await questions.form(form)

    async def url(self, task_id: str, request: UrlRequest) -> UrlAnswer:
        """Whether the person opens it."""
        async with self._turn(task_id) as questions:
            return await questions.url(request)

    @asynccontextmanager
    async def _turn(self, task_id: str) -> AsyncIterator[Questions]:
        name = shortened(visible(task_id), SHOWN_ID)
        self._waiting.append(name)
        try:
            async with self._one_at_a_time:
                others = list(self._waiting)
                others.remove(name)
                more = f" ({len(others)} more wait: {', '.join(others[:5])})" if others else ""
                yield Questions(self._screen, self._reader, f"task {name}{more}")
        finally:
            self._waiting.remove(name)
