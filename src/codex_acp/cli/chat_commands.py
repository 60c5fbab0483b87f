"""The commands of ``codex-acp-sdk chat`` itself: a line that begins with a slash and is no prompt.

The agent's own commands are prompts, and go before ours of the same name but for those that leave.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from codex_acp.acp.types import BooleanSessionConfigOption
from codex_acp.errors import MisuseError
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.cli.screen.output import TextOutput
    from codex_acp.runtime import Session, Setting

OURS: Final = {
    "help": "list the commands",
    "exit": "leave; so does Ctrl-D",
    "quit": "leave",
    "model": "show the model, or set it",
    "mode": "show the mode, or set it",
    "effort": "show how much is thought, or set it",
    "options": "show every option, or set one: /options NAME VALUE",
}

ALWAYS_OURS: Final = ("help", "exit", "quit")
"""Commands that no agent can take away."""

ON_OFF: Final = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


_NAME: Final = re.compile(r"[\w:-]+")


class Leave(Exception):
    """The person leaves."""


class ChatCommands:
    """Commands that are typed in one session."""

    def __init__(self, screen: TextOutput, session: Session) -> None:
        self._screen = screen
        self._session = session

    async def took(self, text: str) -> bool:
        """Whether it was a command of ours, which is done then. Raises Leave, and as options do."""
        words = text.split()
        if not words[0].startswith("/"):
            return False
        name, rest = words[0][1:], words[1:]
        theirs = {command.name for command in self._session.commands}
        if name in theirs and name not in ALWAYS_OURS:
            return False
        if name not in OURS:
            self._must_not_be_meant(text, name, theirs)
            return False
        if name in ("exit", "quit"):
            raise Leave
        if name == "help":
            self._help(theirs)
        elif name == "options":
            await self._options(rest)
        else:
            await self._setting(name, _settings(self._session)[name], rest)
        return True

    @staticmethod
    def _must_not_be_meant(text: str, name: str, theirs: set[str]) -> None:
        """A command that nobody has is no prompt, but a path may begin one."""
        if text.startswith("/") and theirs and _NAME.fullmatch(name):
            near = difflib.get_close_matches(name, [*OURS, *theirs], 1)
            hint = f"did you mean /{near[0]}?" if near else "/help lists them."
            msg = f"there is no command /{name}; {hint} A space before it sends it as it is"
            raise MisuseError(msg)

    def _help(self, theirs: set[str]) -> None:
        show = self._screen.described
        for name, words in OURS.items():
            if name in ALWAYS_OURS or name not in theirs:
                show(f"/{name}", words)
        if theirs:
            self._screen.say(f"commands of {visible(self._session.agent)}:")
        for command in self._session.commands:
            show(f"/{visible(command.name)}", visible(command.description))

    async def _options(self, rest: Sequence[str]) -> None:
        options = self._session.options
        if len(rest) >= 2:
            option = options.get(rest[0])
            word = " ".join(rest[1:])
            is_bool = isinstance(option, BooleanSessionConfigOption)
            await options.set(rest[0], ON_OFF.get(word.lower(), word) if is_bool else word)
        for option in options.all:
            self._screen.described(visible(option.id), visible(str(option.current_value)))

    async def _setting(self, name: str, setting: Setting, rest: Sequence[str]) -> None:
        if not setting:
            self._screen.note(f"{visible(self._session.agent)} has no {name} to set")
            return
        if rest:
            await setting.set(_value(setting, " ".join(rest)))
        self._screen.note(f"{name}: {visible(str(setting.current))}")
        if not rest:
            for choice in setting.choices:
                self._screen.described(visible(choice.value), visible(choice.name))


def values_of(session: Session, name: str) -> list[str]:
    """Return the words that may follow one of our commands, to be completed."""
    if name == "options":
        return [option.id for option in session.options.all]
    setting = _settings(session).get(name)
    return [] if setting is None else [choice.value for choice in setting.choices]


def _settings(session: Session) -> dict[str, Setting]:
    options = session.options
    return {"model": options.model, "mode": options.mode, "effort": options.thought_level}


def _value(setting: Setting, word: str) -> str:
    """The value with this id or name. Raises MisuseError that names the nearest."""
    for choice in setting.choices:
        if word.casefold() in (choice.value.casefold(), choice.name.casefold()):
            return choice.value
    values = [choice.value for choice in setting.choices]
    near = difflib.get_close_matches(word, values, 1, 0) if values else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise MisuseError(f"there is no {word!r} to choose{hint}")
