"""Loads the modules of a first prompt, in a thread, as soon as the first session is open.

Not before: until then Codex works on more processors than one, and takes longer for each that is
not its own. A client that opens none yet leaves the time for it, and one that loads a session needs
it for the history. A first prompt of text is with Codex by then, and the event loop goes on. A
module that is needed before the thread is done is waited for where it is imported.
Owns the lists and the thread; makes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

FOR_A_PROMPT: Final = (
    "codex_acp.wire.codec",  # pydantic-core
    "codex_acp.acp._generated.v1.models.turn",
    "codex_acp.mapping.v1.content",
    "codex_acp.adapter.session.driver",
    "codex_acp.codex._generated.models.turn",
    "codex_acp.adapter.sessions.prompt_message",
    "codex_acp.adapter.sessions.session",
    "codex_acp.adapter.server.request_intake",
    "codex_acp.adapter.sessions.session_services",
    "codex_acp.codex._generated.methods:ThreadStartedNotification",
    "codex_acp.codex._generated.methods:TurnStartResponse",
    "codex_acp.codex._generated.methods:ItemStartedNotification",
    "codex_acp.mapping.v1.updates",
)
"""In this order: what a prompt's request needs comes before what is shown of its turn.

Behind a colon is a model whose validator, and those of all that it holds, are made as well.
"""

LATER: Final = ("codex_acp.acp._generated.v1.methods:PromptRequest",)
"""Models that the first prompt of text does without, but not what follows it."""

V1: Final = ".v1."
"""Part of a name above that is replaced for another version of ACP."""

END_SECONDS: Final = 5.0
"""Seconds that the end waits for the module that is being loaded."""

IDLE_SECONDS: Final = 0.25
"""Seconds behind the answer to ``initialize`` after which loading begins without a session."""

SWITCH_SECONDS: Final = 0.0005
"""Seconds after which the thread lets go of the interpreter if the event loop has work."""


class LoadAhead:
    """Loads the modules once, in a thread; ``then`` runs callbacks that have to wait for that."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._due = False
        self._prompt_ready = asyncio.Event()
        self._over = False
        self._given_up = False
        self._version = 1

    def introduced(self, version: int) -> None:
        """Note the client's version of ACP, and load while the client is idle."""
        self._version = version
        self.start_within(IDLE_SECONDS)

    def start_within(self, seconds: float) -> None:
        """Begin then, or sooner; once it has begun this does nothing."""
        self._due = True
        self._loop.call_later(seconds, self._start)

    def _start(self) -> None:
        if self._thread is not None or self._over:
            return
        thread = threading.Thread(target=self._run, name="load ahead", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # there is none left: what is needed loads where it is used
            logger.warning("nothing is loaded ahead: %s", error)
            self._end()
        else:
            self._thread = thread

    @property
    def loading(self) -> bool:
        """Return whether loading is due, and not all that a prompt needs is there."""
        return self._due and not self._prompt_ready.is_set()

    async def for_a_prompt(self) -> None:
        """Wait until what a prompt needs is loaded."""
        await self._prompt_ready.wait()

    def needed(self) -> None:
        """Note that all a prompt needs was loaded by somebody who could not wait."""
        self._prompt_ready.set()

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on the loop when all is loaded: at once if it is, or is not due."""
        if self._over or not self._due:
            callback()
        else:
            self._waiting.append(callback)

    def give_up(self) -> None:
        """Load no more, and wait for the module that is being loaded.

        An interpreter that ends while another thread imports a compiled module is aborted.
        """
        self._given_up = True
        if self._thread is not None:
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            self._load(FOR_A_PROMPT)
            self._tell(self._prompt_ready.set)
            self._load(LATER)
        except Exception:  # whoever needs the module is told by its import
            logger.exception("not all could be loaded ahead")
        finally:
            sys.setswitchinterval(usual)
        self._tell(self._end)

    def _load(self, names: tuple[str, ...]) -> None:
        for name in names:
            if self._given_up:
                return
            module, _, model = name.replace(V1, V1.replace("1", str(self._version))).partition(":")
            loaded: Any = import_module(module)
            if model:
                loaded.MODELS.decoder(model)

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            logger.debug("the loop has ended before all was loaded")

    def _end(self) -> None:
        self._over = True
        self._prompt_ready.set()
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
