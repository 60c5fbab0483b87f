"""Reads what a person types into ``codex-acp-sdk chat``: with line editing, history and completion.

Owns the history's file, which is the user's alone. The only module that uses prompt_toolkit.
"""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from codex_acp.cli.chat_commands import ALWAYS_OURS, OURS, Leave, values_of
from codex_acp.routing.display import shortened, visible
from codex_acp.transcript.private_file import open_private

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.output import Output

    from codex_acp.cli.screen.output import TextOutput
    from codex_acp.runtime import Session

PROMPT: Final = "> "

DESCRIPTION_LIMIT: Final = 60

HISTORY_LIMIT: Final = 1024 * 1024
"""Bytes of history; a file that has more is begun anew, and the old one kept beside it."""


class ChatInput:
    """Reads lines. While it does, nothing else is written."""

    def __init__(self, screen: TextOutput) -> None:
        self._screen = screen
        self._session: PromptSession[str] = PromptSession(
            history=self._history(),
            key_bindings=_bindings(),
            output=_output(),
            complete_while_typing=True,
            enable_suspend=True,
        )

    async def line(self, session: Session) -> str:
        """Read a line, when no question is open. Raises Leave for Ctrl-D, and for Ctrl-C twice."""
        warned = False
        await self._screen.free.wait()
        with self._screen.held():
            while True:
                try:
                    return await self._session.prompt_async(PROMPT, completer=_Commands(session))
                except EOFError:
                    raise Leave from None
                except KeyboardInterrupt:
                    if warned and not self._session.default_buffer.text:
                        raise Leave from None
                    warned = True
                    self._screen.ask("[Ctrl-C again leaves]\n")

    async def number(self, question: str, most: int) -> int:
        """A number from 1 on; Enter is 1. Raises Leave."""
        asking: PromptSession[str] = PromptSession(output=_output(), enable_suspend=True)
        with self._screen.held():
            while True:
                try:
                    text = (await asking.prompt_async(question)).strip()
                except (EOFError, KeyboardInterrupt):
                    raise Leave from None
                if not text:
                    return 1
                if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most:
                    return int(text)
                self._screen.ask(f"[a number from 1 to {most}]\n")

    def _history(self) -> History:
        path = history_path()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > HISTORY_LIMIT:
                path.replace(path.with_name(f"{path.name}.old"))
            os.close(open_private(path, tighten=True))
        except (OSError, ValueError) as error:
            self._screen.note(f"what is typed is not kept: {visible(str(error))}")
            return InMemoryHistory()
        return FileHistory(str(path))


def history_path() -> Path:
    """Where what was typed is kept."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "codex-acp-sdk" / "history"


@asynccontextmanager
async def alone() -> AsyncIterator[None]:
    """A question comes while a line is typed: that is put aside until it is answered."""
    async with in_terminal():
        yield


class _Commands(Completer):
    """Completes a command at the beginning, and what may follow one of ours."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/"):
            return
        name, space, rest = text[1:].partition(" ")
        if space:
            for value in values_of(self._session, name):
                if value.startswith(rest):
                    yield Completion(value, -len(rest), display=visible(value))
            return
        for word, description in self._known().items():
            if word.startswith(name) and word.isprintable() and " " not in word:
                yield Completion(
                    word,
                    -len(name),
                    display=f"/{visible(word)}",
                    display_meta=shortened(visible(description), DESCRIPTION_LIMIT),
                )

    def _known(self) -> dict[str, str]:
        theirs = {command.name: command.description for command in self._session.commands}
        return OURS | theirs | {name: OURS[name] for name in ALWAYS_OURS}


def _output() -> Output:
    """That never asks the terminal where its cursor is: the menu has its room without.

    One that does not answer makes Ctrl-Z wait a second, in which what is typed is still read, and
    one that answers late types it into a question.
    """
    output = create_output(sys.stderr)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
