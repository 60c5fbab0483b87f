"""The settings of one session's thread as Codex reports them, and their changes.

A sink of the thread's notifications. Must not know ACP's methods.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, value_at
from codex_acp.adapter.refused_calls import refused_call
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError, TransportError
from codex_acp.jsonrpc.message import AGENT_LOST, INTERNAL_ERROR, JsonValue
from codex_acp.mapping.config.changes import applied, meets
from codex_acp.mapping.config.modes import configured_access
from codex_acp.mapping.config.options import ConfigView, Option
from codex_acp.mapping.config.values import Access, Settings, settings_of_thread, settings_of_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.config.catalogues import Catalogues, Place

    JsonObject = dict[str, JsonValue]

logger = logging.getLogger(__name__)

SETTINGS_UPDATED: Final = "thread/settings/updated"

REPORT_SECONDS: Final = 1.0
"""How long after its answer Codex may take to report the settings: usually a millisecond."""


class _Wanted:
    """A change that Codex was asked for and has not reported."""

    def __init__(self, patch: JsonObject, *, exactly: bool) -> None:
        self.patch = patch
        self.exactly = exactly
        self.reported = False
        """Whether Codex has reported settings since, whatever they are."""
        self.met = asyncio.Event()


class ConfigSession(NotificationSink):
    """One session. ``changed`` is called when Codex has changed the settings by itself, and when
    what depends on the working directory has come.

    ``result`` is that of the method that began the thread; of a ``new`` thread it tells what is
    configured.
    """

    def __init__(
        self,
        session_id: str,
        catalogues: Catalogues,
        place: Place,
        result: JsonValue,
        changed: Callable[[ConfigSession], None],
        *,
        new: bool,
    ) -> None:
        self.id = session_id
        self.place = place
        self.settings: Settings = settings_of_thread(result)
        self.told_options: list[Option] | None = None
        """The list as the client has it; None before it has one."""
        self.told_mode: str | None = None
        """The current mode as the client has it."""
        self.told_modes: frozenset[str] = frozenset()
        """The modes that the client knows of."""
        self.lock: asyncio.Lock = asyncio.Lock()
        """One change at a time."""
        self._catalogues = catalogues
        self._changed = changed
        self._roots = _more_roots(result)
        self._configured = self.settings.access if new else None
        self.unrestored: str | None = None
        """Why the thread has not the access that is configured; None: it has it."""
        self.began: str | None = None
        """Line about the mode that it was put into by itself."""
        self.chosen: tuple[str, Access] | None = None
        """The mode that a person chose last, and what Codex made of it."""
        self._preset_effort = False
        self._models: tuple[str, ...] = (self.settings.model,)
        self._wanted: _Wanted | None = None
        self._follow()

    def move(self, catalogues: Catalogues, result: JsonValue) -> Settings:
        """Go on with the same thread, resumed on another connection; gives what it had before."""
        before = self.settings
        self.leave()
        self._catalogues, self.settings = catalogues, settings_of_thread(result)
        self._follow()
        return before

    def leave(self) -> None:
        """Hear nothing more."""
        self.place.changed = None
        self._catalogues.codex.unsubscribe(self.id, self)

    def _follow(self) -> None:
        self.place.changed = lambda: self._changed(self)
        self._catalogues.codex.subscribe(self.id, self, frozenset({SETTINGS_UPDATED}))

    def view(self, *, booleans: bool) -> ConfigView:
        """Return the present values of the options."""
        return ConfigView(
            self.settings,
            self._catalogues.catalogue(self.place),
            self.configured,
            self.chosen,
            self._models,
            preset_effort=self._preset_effort,
            booleans=booleans,
            untrusted=self.place.untrusted,
            trusted=self.place.trusted,
        )

    @property
    def configured(self) -> Access | None:
        """Return the configured access, remembered of the thread's start or read."""
        config = self.place.config
        if self._configured is None and config is not None:
            place = self.place
            self._configured = configured_access(config, place.cwd, place.project, self._roots)
        return self._configured

    def told(self, options: list[Option]) -> list[Option]:
        """The client is given these, as ``configOptions`` and as ``modes``."""
        modes = options[0]
        self.told_options, self.told_mode = options, modes.current
        self.told_modes = frozenset(modes.values)
        return options

    # Changes.

    async def change(self, patch: JsonObject, *, exactly: bool = True) -> None:
        """Have Codex take a patch; `settings` is what it made of it. Nothing if it is in force.

        Without ``exactly`` the next report is the answer, whatever it says: Codex may write a path
        in another way. Raises RpcError with Codex's message if it refuses.
        """
        if meets(self.settings, patch):
            return
        before, effort = self.settings, patch.get("effort")
        wanted = self._wanted = _Wanted(patch, exactly=exactly)
        try:
            await self.ask("thread/settings/update", {"threadId": self.id, **patch})
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await wanted.met.wait()
        finally:
            self._wanted = None
        if not wanted.reported:
            logger.info("session %s: Codex took %s and reported nothing", self.id, list(patch))
            self.settings = applied(self.settings, patch)
        if effort is not None or self.settings.effort != before.effort:
            preset = "collaborationMode" in patch and before.effort is None
            self._preset_effort = preset and self.settings.effort is not None

    async def ask(self, method: str, params: JsonObject) -> None:
        """Have Codex change something. Raises RpcError with Codex's message if it refuses."""
        try:
            await self._catalogues.codex.call_raw(method, params)
        except ErrorReply as error:
            raise refused_call("Codex refused the change", error) from error
        except CodexAcpError as error:
            data = {"reason": AGENT_LOST} if isinstance(error, TransportError) else None
            message = f"the change did not reach Codex: {error}"
            raise RpcError(INTERNAL_ERROR, message, data) from error

    async def restore(self, patch: JsonObject) -> None:
        """Give a new thread the access that is configured, which it was not started with.

        Never raises: a thread without it can do less.
        """
        try:
            await self.change(patch, exactly=False)
        except RpcError as error:
            logger.warning("session %s: %s", self.id, error)
            self._configured, self.unrestored = None, error.message
        else:
            self._configured = self.settings.access

    def mode_chosen(self, mode: str, patch: JsonObject) -> None:
        """Remember the mode that a person has chosen, if Codex has made it what it is."""
        if meets(self.settings, patch):
            self.chosen = (mode, self.settings.access)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method != SETTINGS_UPDATED:
            return
        settings = settings_of_update(params)
        if settings is None:
            logger.warning("session %s: %s without settings", self.id, method)
            return
        self.settings = settings
        if settings.model not in self._models:
            self._models = (*self._models, settings.model)
        wanted = self._wanted
        if wanted is None:
            self._changed(self)
            return
        wanted.reported = True
        if not wanted.exactly or meets(settings, wanted.patch):
            wanted.met.set()


def _more_roots(result: JsonValue) -> tuple[str, ...]:
    """The directories of the thread besides its working directory."""
    cwd, roots = value_at(result, "cwd"), list_at(result, "runtimeWorkspaceRoots")
    return tuple(root for root in roots if isinstance(root, str) and root != cwd)
