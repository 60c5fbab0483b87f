"""Hold a conversation with any ACP agent in the terminal: ``codex-acp-sdk chat``.

Owns the loop over prompts, chat's own slash commands, and the line editor for the person.
`codex_acp.cli.host` runs the agent.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from codex_acp._files import open_private
from codex_acp._urls import bare_url
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    BooleanSessionConfigOption,
    NoticeSessionUpdate,
    UserMessageChunkSessionUpdate,
)
from codex_acp.cli.command_arguments import CHOOSE, ChatOptions
from codex_acp.cli.host import Host, settings_of
from codex_acp.cli.logs import COMMANDS_LEVEL, chosen_level, start_logging
from codex_acp.cli.questions import Questions
from codex_acp.cli.screen import TextOutput, is_terminal
from codex_acp.cli.terminal import Line, LineReader, clipped, print_error, size_of
from codex_acp.errors import CodexAcpError, MisuseError, TransportError
from codex_acp.routing.display import shortened, visible
from codex_acp.runtime.errors import AgentStartError
from codex_acp.runtime.results import text_of
from codex_acp.transport.shielding import run_loop

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from prompt_toolkit import Application
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.output import Output

    from codex_acp.acp.types import SessionInfo
    from codex_acp.runtime import AgentSpec, Session, Setting, Update

NO_SESSION: Final = "there is no earlier session in this directory"
LISTED: Final = 20
"""Most sessions that the person can choose from."""
TITLE_LIMIT: Final = 60
"""Characters of a session's title, if the output is no terminal."""
LEAST_TITLE: Final = 12
"""Fewest columns of a title, however narrow the terminal is."""
MAX_KEPT_UPDATES: Final = 256
"""Most updates that are kept while no prompt runs, and shown after the person's next line."""
REPLAYED: Final = 2_000
"""Characters of an earlier message that are shown when its session is resumed."""


def chat(parsed: Namespace) -> int:
    """Run the command; return the exit code."""
    options = ChatOptions(**vars(parsed))
    try:
        spec = replace(options.spec(), shared=True)  # the agent that lists sessions also opens one
        level = chosen_level(default=COMMANDS_LEVEL)
        if not options.list and not all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))):
            raise MisuseError("chat needs a terminal; `codex-acp-sdk run` sends one prompt without")
    except (MisuseError, ValueError) as error:
        return print_error("chat", error)
    screen = TextOutput(sys.stdout, sys.stderr, verbose=options.verbose, markdown=True)
    start_logging(level, screen.write_log)

    async def main() -> int:
        # During a question, `in_terminal` hides the input line of the chat.
        questions = Questions(screen, LineReader(), spec.name, in_terminal)
        host = Host(options, spec, screen, None if options.list else questions)
        return await host.main(_Chat(options, spec, screen, host).converse)

    return run_loop(main())


class _Chat:
    """One run of the command: the loop over prompts."""

    def __init__(
        self, options: ChatOptions, spec: AgentSpec, screen: TextOutput, host: Host
    ) -> None:
        self._options = options
        self._spec = spec
        self._screen = screen
        self._host = host
        self._kept_updates: deque[Update] = deque(maxlen=MAX_KEPT_UPDATES)
        self._shown_notices: set[str] = set()
        """Titles of the notices that were shown."""
        self._prompt_runs = False
        """Whether a prompt runs; then `Host.send` shows the updates."""

    async def converse(self) -> int:
        """List the sessions, or handle the person's lines until they leave."""
        if self._options.list:
            sessions = await self._list_sessions()
            if not sessions:
                self._screen.note(NO_SESSION)
            for info in sessions:
                print(_session_line(info, sys.stdout, f"{visible(info.session_id)}  "))
            return 0
        session_id = self._options.resume
        self._input = ChatInput(self._screen)
        if self._options.last or session_id == CHOOSE:
            session_id = await self._choose_session()
        session = await self._open(session_id)
        text = self._options.prompt
        try:
            while True:
                if text is None:
                    text = await self._input.read_line(session)
                    self._host.handle_signals()  # prompt_toolkit removes the handler of Ctrl-C
                if text.strip():
                    session = await self._handle_line(text, session)
                text = None
        except Leave:
            self._screen.say(f"Go on with it: codex-acp-sdk chat {self._resume_arguments(session)}")
            return 0
        finally:
            await session.aclose()

    async def _handle_line(self, text: str, session: Session) -> Session:
        """Run a command or send a prompt; return the session, which is opened again if closed."""
        try:
            if session.closed:
                session = await self._open(session.session_id, or_new=True)
            if await ChatCommands(self._screen, session).run_if_ours(text):
                self._show_kept_updates()
                return session
            self._show_kept_updates()
            self._prompt_runs = True
            await self._host.send(session, text)
        except (AgentStartError, TransportError) as error:
            self._host.show_error(error)
            self._screen.note("the next prompt tries to open this session again")
        except CodexAcpError as error:
            self._host.show_error(error)
        finally:
            self._prompt_runs = False
        return session

    async def _open(self, session_id: str | None, *, or_new: bool = False) -> Session:
        """Open a session; show its agent and the last two messages of its history."""
        session = await self._host.open(session_id, or_new=or_new)
        self._screen.write_session(session)
        info = session.agent_info
        who = self._spec.name if info is None else f"{info.name} {info.version}"
        if info is not None and info.title and info.title != info.name:
            who = f"{info.title} ({who})"  # not "TITLE VERSION": the title may name another program
        self._screen.note(
            f"{visible(who)} in {visible(session.cwd)}; /help lists commands, Ctrl-D leaves"
        )
        messages: list[tuple[str, str]] = []  # prefix and text
        for update in session.history:
            if isinstance(update, UserMessageChunkSessionUpdate):
                prefix = "> "
            elif isinstance(update, AgentMessageChunkSessionUpdate):
                prefix = ""
            else:
                continue
            text = text_of(update.content)
            if messages and messages[-1][0] == prefix:  # a further chunk of the same message
                text = messages.pop()[1] + text
            messages.append((prefix, text))
        for prefix, text in messages[-2:]:
            self._screen.write_line(Line(shortened(text.strip(), REPLAYED), prefix, "dim"))
        session.listen(self._keep_update)
        return session

    def _keep_update(self, update: Update) -> None:
        """Keep a message or notice that arrives while no prompt runs."""
        if not self._prompt_runs and isinstance(
            update, AgentMessageChunkSessionUpdate | NoticeSessionUpdate
        ):
            self._kept_updates.append(update)

    def _show_kept_updates(self) -> None:
        while self._kept_updates:
            update = self._kept_updates.popleft()
            if isinstance(update, NoticeSessionUpdate):
                if update.title in self._shown_notices:
                    continue  # Codex sends some notices to each session
                self._shown_notices.add(update.title)
            self._screen.write_update(update, calls={})

    async def _list_sessions(self) -> list[SessionInfo]:
        with self._screen.working(f"starting {visible(self._spec.name)}"):
            sessions = await self._host.runtime.sessions(self._spec, cwd=self._options.cwd or ".")
        return sorted(sessions, key=lambda info: info.updated_at or "", reverse=True)

    async def _choose_session(self) -> str | None:
        """Return the id of the latest or the chosen session; None if there is no session."""
        sessions = (await self._list_sessions())[:LISTED]
        if not sessions:
            self._screen.note(f"{NO_SESSION}; this is a new one")
            return None
        if self._options.last or len(sessions) == 1:
            return sessions[0].session_id
        for number, info in enumerate(sessions, 1):
            self._screen.say(_session_line(info, sys.stderr, f"{number:3}) "))
        number = await self._input.read_number("Which one? [1] ", len(sessions))
        self._host.handle_signals()  # as in `converse`
        return sessions[number - 1].session_id

    def _resume_arguments(self, session: Session) -> str:
        """Return the arguments with which ``chat`` resumes the session."""
        options = self._options
        words = [] if options.is_ours else ["--agent", options.agent]
        if options.command is not None:
            words = ["--command", options.command]
        elif options.connect is not None:
            words = ["--connect", bare_url(options.connect)]
            if options.token_file is not None:
                words += ["--token-file", options.token_file]
        if options.codex is not None:
            words += ["--codex", options.codex]
        for trusted in options.trust:
            words += ["--trust", trusted]
        if session.cwd != str(Path.cwd()):
            words += ["--cwd", session.cwd]
        # In one word: an id that begins with "-" would be read as an option.
        return visible(shlex.join([*words, f"--resume={session.session_id}"]))


def _session_line(info: SessionInfo, stream: TextIO, prefix: str) -> str:
    """Describe a session in one line; a terminal's width limits the title."""
    when = visible((info.updated_at or "")[:16].replace("T", " "))
    prefix += f"{when:16}  "
    title = visible(info.title or "(without a title)")
    if not is_terminal(stream):
        return prefix + shortened(title, TITLE_LIMIT)
    # A column for the "…"; the last column stays free.
    room = max(LEAST_TITLE, size_of(stream).columns - 2 - len(prefix))
    shown = clipped(title, room)
    return prefix + (shown if shown == title else f"{shown}…")


# The slash commands of chat itself. The agent's commands are sent as prompts.

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
"""Commands that stay chat's own even if the agent has commands with these names."""
ON_OFF: Final = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_NAME: Final = re.compile(r"[\w:-]+")
"""Matches the name of a command, but no path, which has further slashes."""


class Leave(Exception):
    """The person leaves the conversation."""


class ChatCommands:
    """Runs chat's own slash commands."""

    def __init__(self, screen: TextOutput, session: Session) -> None:
        self._screen = screen
        self._session = session

    async def run_if_ours(self, text: str) -> bool:
        """Run a line that is a command of chat; return whether it is. Raises Leave, MisuseError."""
        words = text.split()
        if not words[0].startswith("/"):
            return False
        name, rest = words[0][1:], words[1:]
        theirs = {command.name for command in self._session.commands}
        if name in theirs and name not in ALWAYS_OURS:
            return False
        if name not in OURS:
            # After a space, or for an agent without commands, the line is a prompt.
            if not (text.startswith("/") and theirs and _NAME.fullmatch(name)):
                return False
            near = difflib.get_close_matches(name, [*OURS, *theirs], 1)
            hint = f"did you mean /{near[0]}?" if near else "/help lists them."
            msg = f"there is no command /{name}; {hint} A space before it sends it as it is"
            raise MisuseError(msg)
        if name in ("exit", "quit"):
            raise Leave
        if name == "help":
            show = self._screen.list_entry
            for word, summary in OURS.items():
                if word in ALWAYS_OURS or word not in theirs:
                    show(f"/{word}", summary)
            if theirs:
                self._screen.say(f"commands of {visible(self._session.agent)}:")
            for command in self._session.commands:
                show(f"/{visible(command.name)}", visible(command.description))
        elif name == "options":
            await self._run_options(rest)
        else:
            await self._run_setting(name, settings_of(self._session)[name], rest)
        return True

    async def _run_options(self, rest: Sequence[str]) -> None:
        options = self._session.options
        if rest and options.get(rest[0]) is None:
            raise MisuseError(f"there is no option {rest[0]!r}; /options lists them")
        if len(rest) >= 2:
            word = " ".join(rest[1:])
            is_bool = isinstance(options.get(rest[0]), BooleanSessionConfigOption)
            if is_bool and word.lower() not in ON_OFF:
                raise MisuseError(f"{rest[0]} is on or off, not {word!r}")
            await options.set(rest[0], ON_OFF[word.lower()] if is_bool else word)
        for option in options.all:
            now = option.current_value
            shown = ("off", "on")[now] if isinstance(now, bool) else str(now)
            self._screen.list_entry(visible(option.id), visible(shown))

    async def _run_setting(self, name: str, setting: Setting, rest: Sequence[str]) -> None:
        if not setting:
            self._screen.note(f"{visible(self._session.agent)} has no {name} to set")
            return
        if rest:
            await setting.set(_value_named(setting, " ".join(rest)))
        self._screen.note(f"{name}: {visible(str(setting.current))}")
        if not rest:
            for choice in setting.choices:
                self._screen.list_entry(visible(choice.value), visible(choice.name))


def _value_named(setting: Setting, word: str) -> str:
    """Return the value of the choice that has ``word`` as value or name. Raises MisuseError."""
    for choice in setting.choices:
        if word.casefold() in (choice.value.casefold(), choice.name.casefold()):
            return choice.value
    values = [choice.value for choice in setting.choices]
    near = difflib.get_close_matches(word, values, 1)
    if near:
        hint = f"; did you mean {near[0]!r}?"
    else:
        hint = f"; use one of {', '.join(values)}" if values else ""
    raise MisuseError(f"there is no {word!r} to choose{hint}")


# The line editor, with history and completion.

PROMPT: Final = "> "
MENU_ROWS: Final = 8
"""Most rows of the menu of completions."""
DESCRIPTION_LIMIT: Final = 60
"""Characters of a command's description in the menu."""
HISTORY_LIMIT: Final = 1024 * 1024
"""Most bytes of the history file; a larger file is renamed to ``history.old``."""


class ChatInput:
    """Reads the person's lines, while the screen holds its output back."""

    def __init__(self, screen: TextOutput) -> None:
        self._screen = screen
        bindings = KeyBindings()

        @bindings.add("escape", "enter")
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        self._line_editor: PromptSession[str] = PromptSession(
            history=self._open_history(),
            key_bindings=bindings,
            output=_make_output(),
            complete_while_typing=True,
            enable_suspend=True,
        )
        self._line_editor.app.before_render += self._fit_rows

    def _fit_rows(self, app: Application[str]) -> None:
        """Reserve no more rows for the menu than the window has, else prompt_toolkit fails."""
        rows = app.output.get_size().rows
        self._line_editor.reserve_space_for_menu = min(MENU_ROWS, rows)

    async def read_line(self, session: Session) -> str:
        """Read a line as soon as no question is open. Raises Leave after Ctrl-D or two Ctrl-C."""
        warned = False
        await self._screen.no_question.wait()
        with self._screen.holding_back():
            while True:
                try:
                    completer = _Completer(session)
                    return await self._line_editor.prompt_async(PROMPT, completer=completer)
                except EOFError:
                    raise Leave from None
                except KeyboardInterrupt:
                    if warned and not self._line_editor.default_buffer.text:
                        raise Leave from None
                    warned = True
                    self._screen.write_now("[Ctrl-C again leaves]\n")

    async def read_number(self, question: str, most: int) -> int:
        """Ask for a number from 1 to ``most``; Enter is 1. Raises Leave."""
        editor: PromptSession[str] = PromptSession(output=_make_output(), enable_suspend=True)
        with self._screen.holding_back():
            while True:
                try:
                    text = (await editor.prompt_async(question)).strip()
                except (EOFError, KeyboardInterrupt):
                    raise Leave from None
                if not text:
                    return 1
                digits = text.lstrip("0")
                if digits in map(str, range(1, most + 1)):  # `int` also reads "+1" and "1_0"
                    return int(digits)
                self._screen.write_now(f"[a number from 1 to {most}]\n")

    def _open_history(self) -> History:
        """Return the history file, or a history in memory if the file cannot be written."""
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        try:
            path = Path(state).expanduser() / "codex-acp-sdk" / "history"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > HISTORY_LIMIT:
                path.replace(path.with_name(f"{path.name}.old"))
            os.close(open_private(path, tighten=True))
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no home directory
            self._screen.note(f"what is typed is not kept: {visible(str(error))}")
            return InMemoryHistory()
        return FileHistory(str(path))


class _Completer(Completer):
    """Completes slash commands, and the values of chat's own commands."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/"):
            return
        name, space, rest = text[1:].partition(" ")
        if space:
            if name == "options":
                values = [option.id for option in self._session.options.all]
            else:
                setting = settings_of(self._session).get(name)
                values = [] if setting is None else [choice.value for choice in setting.choices]
            for value in values:
                if value.startswith(rest):
                    yield Completion(value, -len(rest), display=visible(value))
            return
        theirs = {command.name: command.description for command in self._session.commands}
        # If two commands have one name, `ChatCommands` makes the same choice.
        commands = OURS | theirs | {word: OURS[word] for word in ALWAYS_OURS}
        for word, description in commands.items():
            if word.startswith(name) and word.isprintable() and " " not in word:
                about = shortened(visible(description), DESCRIPTION_LIMIT)
                shown = f"/{visible(word)}"
                yield Completion(word, -len(name), display=shown, display_meta=about)


def _make_output() -> Output:
    """Return an output that never asks the terminal for the cursor's position (CPR)."""
    output = create_output(sys.stderr)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False  # a late reply would be read as typed text
    return output
