"""A session's config options: what the agent last reported, and how to set them.

Owns the one rule that the agent's word is the truth: nothing changes here before it has said so.
Must not know what an option means, except how the model, the mode and the thought level are found.
Source: https://agentclientprotocol.com/protocol/v1/session-config-options, and ``session-modes``
for agents that only have those.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from codex_acp.acp import types
from codex_acp.errors import MisuseError
from codex_acp.runtime.errors import OptionNotOffered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.runtime.agent_process import AgentProcess

Settings: TypeAlias = "tuple[types.SessionConfigOption, ...]"
"""All options of a session, in the agent's order, as they came."""

MODE: Final = "mode"
MODEL: Final = "model"
THOUGHT_LEVEL: Final = "thought_level"


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a setting may have. ``group`` is the name of its group, if it is in one."""

    value: str
    name: str
    description: str | None = None
    group: str | None = None


class ConfigOptions:
    """The options of one session, made by it; in the agent's order of priority."""

    def __init__(self, session_id: str, process: AgentProcess) -> None:
        self._session_id = session_id
        self._process = process
        self._all: Settings = ()
        self._modes: types.SessionModeState | None = None
        self._mode_reports = 0
        self._watchers: list[_Watcher] = []

    def __repr__(self) -> str:
        return f"ConfigOptions({[option.id for option in self._all]!r})"

    @property
    def all(self) -> Settings:
        """The complete list as the agent last reported it."""
        return self._all

    @property
    def modes(self) -> types.SessionModeState | None:
        """The older way of modes, if the agent reported any."""
        return self._modes

    @property
    def model(self) -> Setting:
        """The option of category ``model``, to be read and set."""
        return Setting(self, MODEL)

    @property
    def mode(self) -> Setting:
        """The option of category ``mode``, else the session's legacy modes."""
        return Setting(self, MODE)

    @property
    def thought_level(self) -> Setting:
        """The option of category ``thought_level``: how much the model reasons."""
        return Setting(self, THOUGHT_LEVEL)

    def get(self, config_id: str) -> types.SessionConfigOption | None:
        """The option with this id, or None."""
        return next((option for option in self._all if option.id == config_id), None)

    def find(self, category: str) -> types.SessionConfigOption | None:
        """The first option of a category; where none has it, the one whose id is that word."""
        for option in self._all:
            if option.category == category:
                return option
        option_of_id = self.get(category)
        # One that has another category is something else that happens to have the name.
        return option_of_id if option_of_id is not None and not option_of_id.category else None

    async def set(self, config_id: str, value: str | bool) -> Settings:
        """Set one option, also while a prompt runs; the complete list as the agent answers it.

        Raises OptionNotOffered if there is no such option, MisuseError for a value of the wrong
        type, and ErrorReply if the agent refuses.
        """
        option = self.get(config_id)
        if option is None:
            raise OptionNotOffered(self._process.agent, f"the config option {config_id!r}")
        params: types.SetSessionConfigOptionRequest
        if isinstance(option, types.BooleanSessionConfigOption):
            if not isinstance(value, bool):
                msg = f"the config option {config_id!r} is true or false, not {value!r}"
                raise MisuseError(msg)
            params = types.BooleanSetSessionConfigOptionRequest(
                session_id=self._session_id, config_id=config_id, value=value
            )
        else:
            if not isinstance(value, str):
                msg = f"the config option {config_id!r} has named values, not {value!r}"
                raise MisuseError(msg)
            params = types.ValueIdSetSessionConfigOptionRequest(
                session_id=self._session_id, config_id=config_id, value=value
            )
        call = self._process.client.session_set_config_option(params)
        response = await self._process.ask("session/set_config_option", call)
        self.reported(response.config_options)
        return self._all

    async def set_mode(self, mode_id: str) -> None:
        """Set a legacy mode. Raises OptionNotOffered if the agent reported none."""
        if self._modes is None:
            raise OptionNotOffered(self._process.agent, "session modes")
        before = self._mode_reports
        request = types.SetSessionModeRequest(session_id=self._session_id, mode_id=mode_id)
        call = self._process.client.session_set_mode(request)
        await self._process.ask("session/set_mode", call)
        if self._mode_reports == before:  # else it has said itself which mode it is in
            self.mode_reported(mode_id)

    def watch(self) -> _Watcher:
        """An async iterator of complete lists: the current one at once, then each newer one.

        One that is slow is given the latest and not those between. Ends with the session;
        use it as a context manager, or call ``aclose``, to end it before.
        """
        watcher = _Watcher(self)
        self._watchers.append(watcher)
        return watcher

    # What the session calls.

    def reported(self, options: Sequence[types.SessionConfigOption] | None) -> None:
        """The agent has reported the complete list; None: it has said nothing of options."""
        if options is not None:
            self._all = tuple(options)
            self._wake()

    def modes_reported(self, modes: types.SessionModeState | None) -> None:
        """The agent has reported its legacy modes."""
        if modes is not None:
            self._modes = modes
            self._wake()

    def mode_reported(self, mode_id: str) -> None:
        """The agent is in this legacy mode now."""
        self._mode_reports += 1
        if self._modes is not None:
            self._modes = self._modes.model_copy(update={"current_mode_id": mode_id})
            self._wake()

    def ended(self) -> None:
        """The session has ended: so do those who watch."""
        for watcher in tuple(self._watchers):
            watcher.end()

    def forget(self, watcher: _Watcher) -> None:
        """Forget a watcher."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def _wake(self) -> None:
        for watcher in self._watchers:
            watcher.wake()


class Setting:
    """One thing to set, wherever the agent has it. False where the agent has it nowhere."""

    def __init__(self, options: ConfigOptions, category: str) -> None:
        self._options = options
        self._category = category

    def __repr__(self) -> str:
        return f"Setting({self._category!r})"

    def __bool__(self) -> bool:
        return self.option is not None or self._legacy is not None

    @property
    def option(self) -> types.SessionConfigOption | None:
        """The config option as it came; None where there is none."""
        return self._options.find(self._category)

    @property
    def current(self) -> str | bool | None:
        """The value that the agent last reported; None where it is not offered."""
        if self.option is not None:
            return self.option.current_value
        return self._legacy.current_mode_id if self._legacy is not None else None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Return the values that it may be set to, groups made flat; empty for true and false."""
        option = self.option
        if isinstance(option, types.SelectSessionConfigOption):
            return _choices(option)
        if option is None and self._legacy is not None:
            modes = self._legacy.available_modes
            return tuple(Choice(mode.id, mode.name, mode.description) for mode in modes)
        return ()

    async def set(self, value: str | bool) -> None:
        """Set it; afterwards `current` is what the agent made of it.

        Raises as `ConfigOptions.set`.
        """
        option = self.option
        if option is not None:
            await self._options.set(option.id, value)
        elif self._legacy is not None:
            await self._options.set_mode(str(value))
        else:
            await self._options.set(self._category, value)

    @property
    def _legacy(self) -> types.SessionModeState | None:
        return self._options.modes if self._category == MODE else None


class _Watcher:
    """Iterates over changes, as `ConfigOptions.watch` says."""

    def __init__(self, options: ConfigOptions) -> None:
        self._options = options
        self._news = asyncio.Event()
        self._news.set()
        self._over = False

    def wake(self) -> None:
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._options.forget(self)
        self._news.set()

    async def aclose(self) -> None:
        """Watch no more."""
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Settings:
        await self._news.wait()
        if self._over:
            raise StopAsyncIteration
        self._news.clear()
        return self._options.all

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.end()


def _choices(option: types.SelectSessionConfigOption) -> tuple[Choice, ...]:
    found = []
    for entry in option.options:
        if isinstance(entry, types.SessionConfigSelectGroup):
            found += [Choice(o.value, o.name, o.description, entry.name) for o in entry.options]
        else:
            found.append(Choice(entry.value, entry.name, entry.description))
    return tuple(found)
