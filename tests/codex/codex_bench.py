"""A client of the real Codex with a scripted model, in a throw-away home."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Final, Self

from codex_acp.codex import CodexClient, LaunchOptions, Thread
from codex_acp.testing import (
    CodexHome,
    Entry,
    Expect,
    ExpectNotification,
    ModelResponse,
    ScriptedModel,
    Step,
)

WAIT_SECONDS: Final = 60
"""The machine may be busy; a turn itself takes a tenth of a second."""

HELLO: Final[list[Entry]] = [Expect("initialize"), ExpectNotification("initialized")]
"""What a scripted app-server is told first by every client."""

NO_THREAD: Final = "01a00000-0000-7000-8000-000000000000"
"""An id that no thread has."""


class CodexBench:
    """``async with CodexBench(script, policy=...) as bench``; ``home`` is for `CodexHome`."""

    def __init__(
        self,
        script: Sequence[ModelResponse | Sequence[Step]] = (),
        home: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self._script = script
        self._home = home or {}
        self._settings = settings
        self._outer, self._inner = ExitStack(), AsyncExitStack()
        self.model = ScriptedModel(script)

    async def __aenter__(self) -> Self:
        self._outer.enter_context(self.model)
        self.home = self._outer.enter_context(CodexHome(self.model.base_url, **self._home))
        try:
            self.codex = await self.another_client(**self._settings)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *exc: Any) -> None:
        with self._outer:
            await self._inner.__aexit__(*exc)

    async def another_client(self, **settings: Any) -> CodexClient:
        """One more app-server, in the same home."""
        options = LaunchOptions(env=self.home.env, cwd=self.home.workspace)
        return await self._inner.enter_async_context(CodexClient.start(options, **settings))

    async def thread(self, **options: Any) -> Thread:
        """A new thread in the workspace."""
        return await self.codex.threads.start(cwd=self.home.workspace, **options)
