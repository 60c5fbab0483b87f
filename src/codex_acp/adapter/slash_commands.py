"""Find the slash command in a prompt, and list a session's commands for its client.

Owns the session's list of prompt files and skills. `mapping.commands` has the texts of the
built-in commands, `built_in_commands` carries them out; `Session` runs the result.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.command_results import MessageCommand
from codex_acp.codex._generated import models
from codex_acp.errors import CodexAcpError
from codex_acp.mapping import commands
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.prompt import user_input
from codex_acp.transport.shielding import in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codex_acp.adapter.built_in_commands import BuiltInCommands
    from codex_acp.adapter.command_results import Command, SessionAccess
    from codex_acp.mapping.commands import TypedCommand, UserPrompt
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.events import CommandsChanged

logger = logging.getLogger(__name__)

LIST_SECONDS: Final = 3.0
"""Seconds to wait for the lists of prompt files and skills, if a prompt may name a command."""

MAX_CHARACTERS: Final = 256 * 1024
"""Characters of one prompt file, which people write by hand."""

MAX_FILES: Final = 200
"""Prompt files that are listed: from a longer list nobody could choose."""


class SessionCommands:
    """The commands of one session."""

    def __init__(self, access: SessionAccess) -> None:
        self._access = access
        self._prompt_files: dict[str, UserPrompt] = {}
        self._skills: dict[str, models.SkillMetadata] = {}
        self._lock = asyncio.Lock()
        self._current_list: CommandsChanged | None = None
        self._sent_list: CommandsChanged | None = None

    def mark_outdated(self) -> None:
        """Make the next `load` read prompt files and skills, because they have changed."""
        self._current_list = None

    def note_sent(self, update: CommandsChanged) -> bool:
        """Note that the client gets a list; return whether the list is new to the client."""
        earlier, self._sent_list = self._sent_list, update
        return earlier != update

    async def load(self) -> CommandsChanged:
        """Return the list for the client; read prompt files and skills if needed. Never fails."""
        async with self._lock:
            if self._current_list is None:
                self._current_list = await self._read()
            return self._current_list

    async def _read(self) -> CommandsChanged:
        app_server = self._access.codex().server
        folder = Path(app_server.codex_home) / "prompts"
        files = await in_worker_thread(lambda: _read_prompt_files(folder))
        self._prompt_files = {file.name: file for file in files}
        try:
            entries = await self._list_skills()
        except CodexAcpError as error:
            logger.warning("the skills could not be listed: %s", error)
            entries = []
        skills = [skill for entry in entries for skill in entry.skills if skill.enabled]
        self._skills = {skill.name: skill for skill in skills}
        return commands.available_commands(
            self._prompt_files.values(),
            self._skills.values(),
            shares_codex=self._access.shares_codex,
        )

    async def find(self, prompt: Sequence[Block]) -> Command | None:
        """Return the command in a prompt; None if the prompt goes to the model unchanged. Raises
        RpcError -32602 for invalid arguments of a command."""
        first = prompt[0] if prompt else None
        if not isinstance(first, TextBlock) or not commands.may_name_command(first.text):
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(LIST_SECONDS):
                await self.load()
        typed = commands.typed_command(first.text)
        command = None if typed is None else self._command_for(typed, prompt[1:])
        if command is not None:
            return command
        mentioned = commands.skill_mentions(first.text, self._skills)
        return _message(user_input(prompt), mentioned) if mentioned else None

    def _command_for(self, typed: TypedCommand, rest: Sequence[Block]) -> Command | None:
        """Return the command that was typed; ``rest`` are the prompt's other blocks. Raises
        RpcError for arguments and blocks that the command does not take."""
        rest = [each for each in rest if not isinstance(each, TextBlock) or each.text.strip()]
        skills: list[models.SkillMetadata] = []
        if typed.name.startswith(commands.PROMPTS_PREFIX):
            file = self._prompt_files.get(typed.name.removeprefix(commands.PROMPTS_PREFIX))
            if file is None:
                return None
            text = commands.filled_prompt(file.body, typed.arguments)
        else:
            built_in = self._built_in.find(typed, rest)
            if built_in is not None:
                return built_in
            skill = self._skills.get(typed.name)
            if skill is None:
                return None
            text = f"${skill.name} {typed.arguments}".rstrip()
            skills.append(skill)
        attached = user_input(rest) if rest else []
        return _message([models.TextUserInput(text=text), *attached], skills)

    async def _list_skills(self) -> Sequence[models.SkillsListEntry]:
        params = models.SkillsListParams(cwds=[self._access.cwd])
        return (await self._access.codex().skills_list(params)).data

    @cached_property
    def _built_in(self) -> BuiltInCommands:
        from codex_acp.adapter.built_in_commands import BuiltInCommands

        return BuiltInCommands(self._access, self._list_skills)


def _message(
    inputs: Sequence[models.UserInput], skills: Iterable[models.SkillMetadata]
) -> MessageCommand:
    used = [models.SkillUserInput(name=skill.name, path=skill.path) for skill in skills]
    return MessageCommand([*inputs, *used])


def _read_prompt_files(folder: Path) -> list[UserPrompt]:
    """Return the prompt files that can be read, sorted by name; log and leave out all others."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except OSError:  # most users have none
        return []
    prompts = []
    for path in files[:MAX_FILES]:
        try:
            if any(char.isspace() for char in path.stem) or not path.is_file():
                continue
            with path.open(encoding="utf-8") as file:
                prompts.append(commands.user_prompt(path.stem, file.read(MAX_CHARACTERS)))
        except (OSError, UnicodeDecodeError) as error:
            logger.warning("the prompt file %s could not be read: %s", path.name, error)
    return prompts
