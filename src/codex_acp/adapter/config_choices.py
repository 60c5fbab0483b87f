"""Ask Codex for the choices of a session's options, in the background, once per connection.

Models and collaboration modes are asked for once; permission profiles once per working directory,
because a project has its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codex_acp._json import text_at, value_at
from codex_acp.codex.threads.opening import configured_choice
from codex_acp.codex.threads.trust import undecided_root
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.jsonrpc import METHOD_NOT_FOUND
from codex_acp.mapping.settings import Catalogue, collaborations_of, models_of, profiles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.settings import Choice, Collaboration, Model


logger = logging.getLogger(__name__)
T = TypeVar("T", bound=tuple[Any, ...])

ANSWER_SECONDS: Final = 30.0
"""Seconds that Codex may take for one page: it may ask a server for the account's models."""

MAX_PAGES: Final = 100
"""Pages of one list; a cursor that repeats also ends the list."""


class Directory:
    """Profiles and configuration of one working directory. ``config_read`` is Codex's answer to
    ``config/read`` for the directory; None if Codex refused."""

    def __init__(self, cwd: str, config_read: JsonValue) -> None:
        self.cwd = cwd
        self.project: str | None = None
        """The repository around ``cwd``; None: there is none, or the configuration is unknown."""
        self.profiles: tuple[Choice, ...] | None = None
        self.config: dict[str, JsonValue] | None = None
        """The effective ``config.toml``; None: not known."""
        self.config_read: JsonValue = None
        """The whole answer to ``config/read``, with its layers."""
        self.untrusted_root: str | None = None
        """The directory whose trust is undecided; None: decided, or not known."""
        self.now_trusted = False
        """True once a person has trusted `untrusted_root`."""
        self.done: asyncio.Event = asyncio.Event()
        """Set when the profiles are known, or refused."""
        self.on_change: Callable[[], None] | None = None
        """Called when `done` is set; set by the `ConfigSession` of this directory."""
        config = value_at(config_read, "config")
        if isinstance(config, dict):
            mode, profile = configured_choice(config_read)
            self.config_read = config_read
            self.config = {**config, "sandbox_mode": mode, "default_permissions": profile}
            self.project = _repository_of(cwd)
            self.untrusted_root = undecided_root(cwd, config_read)


class Catalogues:
    """The lists of one connection: models and collaboration modes. ``on_change`` is called when a
    list arrives. Until then, the list of the ``earlier`` connection, which was lost, is used."""

    def __init__(
        self,
        codex: AppServerConnection,
        spawn: Spawn,
        on_change: Callable[[], None],
        earlier: Catalogues | None = None,
    ) -> None:
        self.codex = codex
        self._spawn = spawn
        self._on_change = on_change
        self._models: tuple[Model, ...] | None = None
        self._collaborations: tuple[Collaboration, ...] | None = None
        if earlier is not None:
            self._models, self._collaborations = earlier._models, earlier._collaborations
        self.done: asyncio.Event = asyncio.Event()
        """Set when models and collaboration modes are known, or refused."""
        self._unanswered = 2
        """Number of lists that Codex has not answered yet."""
        spawn(self._ask_models)
        spawn(self._ask_collaborations)

    def catalogue(self, directory: Directory) -> Catalogue:
        """Return the choices known so far in a working directory."""
        return Catalogue(self._models, self._collaborations, directory.profiles)

    def ask_about(self, cwd: str, config_read: JsonValue) -> Directory:
        """Ask for the profiles of a working directory; return its `Directory`."""
        directory = Directory(cwd, config_read)
        self._spawn(lambda: self._ask_profiles(directory))
        return directory

    async def _ask_models(self) -> None:
        self._models = await self._list("model/list", {}, models_of, self._models)
        self._count_answer()

    async def _ask_collaborations(self) -> None:
        self._collaborations = await self._list(
            "collaborationMode/list", {}, collaborations_of, self._collaborations
        )
        self._count_answer()

    def _count_answer(self) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self.done.set()
        self._on_change()

    async def _ask_profiles(self, directory: Directory) -> None:
        params: dict[str, JsonValue] = {"cwd": directory.cwd}
        directory.profiles = await self._list("permissionProfile/list", params, profiles_of)
        directory.done.set()
        if directory.on_change is not None:
            directory.on_change()

    async def _list(
        self,
        method: str,
        params: dict[str, JsonValue],
        entries_of: Callable[[JsonValue], Iterator[T]],
        earlier: tuple[T, ...] | None = None,
    ) -> tuple[T, ...] | None:
        """Return the entries of all pages of a list, or the ``earlier`` entries if Codex refuses
        the first page. The first field of an entry is its id: the last entry with an id counts."""
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
        if not pages:
            return earlier
        return tuple({entry[0]: entry for page in pages for entry in entries_of(page)}.values())

    async def _call(self, method: str, params: dict[str, JsonValue]) -> JsonValue:
        """Call Codex and return the result; None, with a line in the log, if the call fails."""
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
    """Return the nearest folder with ``.git``, because Codex trusts a whole repository."""
    path = os.path.abspath(cwd)  # noqa: PTH100 - a string of the protocol, compared as such
    while not os.path.isdir(os.path.join(path, ".git")):  # noqa: PTH112, PTH118
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return None
        path = parent
    return path
