"""Asks one connection to Codex for the choices of options, while something else is waited for.

Models and collaboration modes are asked for once; permission profiles and the configuration for
each working directory anew, because a project has its own. Must not know a session.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final, TypeVar

from codex_acp._json import text_at, value_at
from codex_acp.codex.threads.opening import configured_choice
from codex_acp.codex.threads.trust import undecided_root
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.jsonrpc.message import METHOD_NOT_FOUND
from codex_acp.mapping.config.values import (
    Catalogue,
    collaborations_of,
    models_of,
    profiles_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.config.values import Choice, Collaboration, Model


logger = logging.getLogger(__name__)
T = TypeVar("T")

ANSWER_SECONDS: Final = 30.0
"""How long Codex may take for one page: it may ask a server for the models of an account."""

MAX_PAGES: Final = 100
"""Of one list; a cursor that repeats ends it, too."""


class Place:
    """Choices that depend on a working directory; `done` is set when all of it is known, or
    refused."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.project: str | None = None
        self.profiles: tuple[Choice, ...] | None = None
        self.config: dict[str, JsonValue] | None = None
        """The effective ``config.toml``; None if it was not asked for, or refused."""
        self.read: JsonValue = None
        """The whole answer that it is from, with its layers."""
        self.untrusted: str | None = None
        """Directory that a person could decide to trust; None: that was decided, or is not known.
        """
        self.trusted = False
        """Whether that was decided since."""
        self.done: asyncio.Event = asyncio.Event()
        self.changed: Callable[[], None] | None = None
        """Called when all of it has come: nobody else's options depend on it."""

    def configured(self, read: JsonValue) -> None:
        """Codex has told the configuration: the answer of ``config/read``."""
        config = value_at(read, "config")
        if not isinstance(config, dict):
            return
        mode, profile = configured_choice(read)
        self.read = read
        self.config = {**config, "sandbox_mode": mode, "default_permissions": profile}
        self.project = _repository_of(self.cwd)
        self.untrusted = undecided_root(self.cwd, read)


class Catalogues:
    """The lists of one connection. ``changed`` is called when one for all sessions has come.

    Until then those of an ``earlier`` connection, now lost, are the best there is.
    """

    def __init__(
        self,
        codex: AppServerConnection,
        spawn: Spawn,
        changed: Callable[[], None],
        earlier: Catalogues | None = None,
    ) -> None:
        self.codex = codex
        self._spawn = spawn
        self._changed = changed
        self._models: tuple[Model, ...] | None = None
        self._collaborations: tuple[Collaboration, ...] | None = None
        if earlier is not None:
            self._models, self._collaborations = earlier._models, earlier._collaborations
        self.done: asyncio.Event = asyncio.Event()
        """Set when models and collaboration modes are known, or refused."""
        self._open = 2
        """Lists that are asked for and have not come."""
        spawn(self._ask_models)
        spawn(self._ask_collaborations)

    def catalogue(self, place: Place) -> Catalogue:
        """Return the choices known so far in a working directory."""
        return Catalogue(self._models, self._collaborations, place.profiles)

    def place(self, cwd: str, *, with_config: bool, read: JsonValue = None) -> Place:
        """Ask for what depends on a working directory; the configuration only ``with_config``.

        ``read`` is the answer of a ``config/read`` there, if there is one.
        """
        place = Place(cwd)
        place.configured(read)
        self._spawn(lambda: self._ask_of(place, with_config=with_config))
        return place

    async def _ask_models(self) -> None:
        found = await self._list("model/list", {}, models_of)
        if found is not None:
            self._models = tuple({each.slug: each for each in found}.values())
        self._answered()

    async def _ask_collaborations(self) -> None:
        found = await self._list("collaborationMode/list", {}, collaborations_of)
        if found is not None:
            self._collaborations = tuple({each.mode: each for each in found}.values())
        self._answered()

    def _answered(self) -> None:
        self._open -= 1
        if not self._open:
            self.done.set()
        self._changed()

    async def _ask_of(self, place: Place, *, with_config: bool) -> None:
        found = await self._list("permissionProfile/list", {"cwd": place.cwd}, profiles_of)
        if found is not None:
            place.profiles = tuple({each.value: each for each in found}.values())
        if with_config and place.config is None:
            place.configured(await self._call("config/read", {"cwd": place.cwd}))
        place.done.set()
        if place.changed is not None:
            place.changed()

    async def _list(
        self,
        method: str,
        params: dict[str, JsonValue],
        entries_of: Callable[[JsonValue], Iterator[T]],
    ) -> list[T] | None:
        """The entries of all pages of a list; None if the first is refused."""
        pages: list[JsonValue] = []
        cursors: set[str] = set()
        for _ in range(MAX_PAGES):
            page = await self._call(method, params)
            if page is None:
                break
            pages.append(page)
            cursor = text_at(page, "nextCursor")
            if not cursor or cursor in cursors:
                break
            cursors.add(cursor)
            params = {**params, "cursor": cursor}
        return [entry for page in pages for entry in entries_of(page)] if pages else None

    async def _call(self, method: str, params: dict[str, JsonValue]) -> JsonValue:
        """The result; None, with a line in the log, if Codex has none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self.codex.call_raw(method, params)
        except CodexAcpError as error:
            missing = isinstance(error, ErrorReply) and error.code == METHOD_NOT_FOUND
            level = logging.INFO if missing else logging.WARNING
            logger.log(level, "config options do without %s: %s", method, error)
        except TimeoutError:
            logger.warning("config options do without %s: no answer in time", method)
        return None


def _repository_of(cwd: str) -> str | None:
    """The nearest folder that has ``.git``: trust in a project is by its repository."""
    path = os.path.abspath(cwd)  # noqa: PTH100 - a string of the protocol, compared as such
    while True:
        if os.path.isdir(os.path.join(path, ".git")):  # noqa: PTH112, PTH118
            return path
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return None
        path = parent
