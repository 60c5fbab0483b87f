"""Load the modules of a first prompt, in a thread, while Codex opens the first session.

Loading starts no earlier, because Codex boots on several processors until then, and loading would
slow Codex down. Without a request for a session, loading starts after `IDLE_SECONDS`. A first
prompt of text reaches Codex before the modules are loaded. The event loop is not blocked, but the
import of a module that the thread is loading waits for the thread.
Owns the lists of modules and the thread; creates no object of the modules.
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
    "codex_acp.mapping.v1.updates",
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
"""Modules in the order of loading: first for the request of a prompt, then for its updates. A name
after a colon is a generated class, whose validators are built, too."""

LATER: Final = ("codex_acp.acp._generated.v1.methods:PromptRequest",)
"""Classes that the first prompt of text does not need, but the next request does."""

END_SECONDS: Final = 5.0
"""Seconds that `LoadAhead.give_up` waits for the module that is being loaded."""

IDLE_SECONDS: Final = 0.25
"""Seconds after the answer to ``initialize`` at which loading starts without a session."""

SWITCH_SECONDS: Final = 0.0005
"""Seconds after which the thread gives the interpreter to the event loop if the loop has work."""


class LoadAhead:
    """Loads the modules of a prompt once, in a thread; then calls the callbacks that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self.prompt_ready: asyncio.Event = asyncio.Event()
        """Set when the modules that a prompt needs are loaded, in any thread."""
        self._over = False  # True once nothing more will be loaded
        self._given_up = False
        self._acp_version = 1

    def note_version(self, version: int) -> None:
        """Note the client's version of ACP, and start loading if the client stays idle."""
        self._acp_version = version
        self._loop.call_later(IDLE_SECONDS, self.start)

    def start(self) -> None:
        """Start loading; no effect if loading has started."""
        if self._thread is not None or self._over:
            return
        thread = threading.Thread(target=self._run, name="load ahead", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is left: each module loads where it is used
            logger.warning("nothing is loaded ahead: %s", error)
            self._end()
        else:
            self._thread = thread

    @property
    def loading(self) -> bool:
        """Whether loading has started, and not all modules that a prompt needs are loaded."""
        return self._thread is not None and not self.prompt_ready.is_set()

    def call_when_loaded(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once loading has ended; at once if it has ended, or has not started."""
        if self._over or self._thread is None:
            callback()
        else:
            self._callbacks.append(callback)

    def give_up(self) -> None:
        """Load no further module, and wait for the module that is being loaded: Python aborts if it
        ends while a thread imports a compiled module."""
        self._given_up = True
        if self._thread is not None:
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        usual_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            self._load(FOR_A_PROMPT)
            self._call_in_loop(self.prompt_ready.set)
            self._load(LATER)
        except Exception:  # the import raises again where the module is used
            logger.exception("some modules could not be loaded ahead")
        finally:
            sys.setswitchinterval(usual_seconds)
        self._call_in_loop(self._end)

    def _load(self, names: tuple[str, ...]) -> None:
        for name in names:
            if self._given_up:
                return
            module, _, model = name.replace(".v1.", f".v{self._acp_version}.").partition(":")
            loaded: Any = import_module(module)
            if model:
                loaded.MODELS.decoder(model)  # builds the validator

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            logger.debug("the loop has ended before all was loaded")

    def _end(self) -> None:
        self._over = True
        self.prompt_ready.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
