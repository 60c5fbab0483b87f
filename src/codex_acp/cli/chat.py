"""``codex-acp-sdk chat``: a conversation with any ACP agent, in the terminal.

Owns the loop from prompt to prompt, and which session it is about. What is typed is in
``chat_input``, the commands in ``chat_commands``, the rest in `codex_acp.cli.host`.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codex_acp._urls import bare_url
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    NoticeSessionUpdate,
    UserMessageChunkSessionUpdate,
)
from codex_acp.cli.chat_arguments import CHOOSE, ChatOptions
from codex_acp.cli.chat_commands import ChatCommands, Leave
from codex_acp.cli.chat_input import ChatInput, alone
from codex_acp.cli.endings import failed
from codex_acp.cli.host import Host
from codex_acp.cli.logs import start_logging
from codex_acp.cli.run import log_level
from codex_acp.cli.screen.frame import Line
from codex_acp.cli.screen.live import clipped
from codex_acp.cli.screen.output import TextOutput
from codex_acp.cli.screen.pipes import is_terminal
from codex_acp.cli.screen.questions import Questions
from codex_acp.cli.terminal import LineReader, size_of
from codex_acp.errors import CodexAcpError, MisuseError, TransportError
from codex_acp.routing.display import shortened, visible
from codex_acp.runtime.updates import text_of
from codex_acp.transport.loop_runner import run_loop

if TYPE_CHECKING:
    from typing import TextIO

    from codex_acp.acp.types import SessionInfo
    from codex_acp.runtime import AgentSpec, Session, Update

LISTED: Final = 20
"""Sessions of which a person can choose."""

TITLE_LIMIT: Final = 60

LEAST_TITLE: Final = 12
"""Columns of a title that are shown however narrow the terminal is."""

BETWEEN: Final = 256
"""Updates that come while nothing was asked for, and are kept until the next line is typed."""

REPLAYED: Final = 2_000
"""Characters of an earlier message that are shown when its session is gone on with."""


def chat(options: ChatOptions) -> int:
    """Talk until the person leaves; the exit code."""
    try:
        spec, level = replace(options.spec(), shared=True), log_level()
        if not options.list and not all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))):
            raise MisuseError("chat needs a terminal; `codex-acp-sdk run` sends one prompt without")
    except (MisuseError, ValueError) as error:
        return failed("chat", error)
    screen = TextOutput(sys.stdout, sys.stderr, verbose=options.verbose, markdown=True)
    start_logging(level, screen.logged)

    async def main() -> int:
        questions = Questions(screen, LineReader(), spec.name, alone)
        host = Host(options, spec, screen, None if options.list else questions)
        return await host.main(_Chat(options, spec, screen, host).converse)

    return run_loop(main())


class _Chat:
    """One conversation."""

    def __init__(
        self, options: ChatOptions, spec: AgentSpec, screen: TextOutput, host: Host
    ) -> None:
        self._options = options
        self._spec = spec
        self._screen = screen
        self._host = host
        self._between: deque[Update] = deque(maxlen=BETWEEN)
        self._notices: set[str] = set()
        self._asked = False
        """Whether a prompt runs, whose updates come by themselves."""

    async def converse(self) -> int:
        """Until the person leaves."""
        if self._options.list:
            return await self._list()
        wanted = self._options.resume
        self._input = ChatInput(self._screen)
        if self._options.last or wanted == CHOOSE:
            wanted = await self._chosen()
        session = await self._open(wanted)
        text = self._options.prompt
        try:
            while True:
                if text is None:
                    text = await self._input.line(session)
                    self._host.take_signals()
                if text.strip():
                    session = await self._take(text, session)
                text = None
        except Leave:
            self._screen.say(f"Go on with it: codex-acp-sdk chat {self._way_back(session)}")
            return 0
        finally:
            await session.aclose()

    async def _take(self, text: str, session: Session) -> Session:
        """Do what the line says; gives the session, which may have had to be opened again."""
        try:
            if session.closed:
                session = await self._open(session.session_id, or_new=True)
            if await ChatCommands(self._screen, session).took(text):
                self._show_between()
                return session
            self._show_between()
            self._asked = True
            await self._host.send(session, text)
        except TransportError as error:
            self._host.tell(error)
            self._screen.note("the next prompt starts the agent again, in this session")
        except CodexAcpError as error:
            self._host.tell(error)
        finally:
            self._asked = False
        return session

    async def _open(self, session_id: str | None, *, or_new: bool = False) -> Session:
        session = await self._host.open(session_id, or_new=or_new)
        self._screen.session(session)
        info = session.agent_info
        who = self._spec.name if info is None else f"{info.name} {info.version}"
        if info is not None and info.title and info.title != info.name:
            who = f"{info.title} ({who})"  # the version is that of the agent, not of what it runs
        self._screen.note(
            f"{visible(who)} in {visible(session.cwd)}; /help lists commands, Ctrl-D leaves"
        )
        self._replay(session)
        session.listen(self._heard)
        return session

    def _replay(self, session: Session) -> None:
        """The last exchange, so that one knows where it was left."""
        said: list[tuple[str, str]] = []
        for update in session.history:
            if not isinstance(
                update, UserMessageChunkSessionUpdate | AgentMessageChunkSessionUpdate
            ):
                continue
            prefix = "> " if isinstance(update, UserMessageChunkSessionUpdate) else ""
            text = text_of(update.content)
            if said and said[-1][0] == prefix:
                text = said.pop()[1] + text
            said.append((prefix, text))
        for prefix, text in said[-2:]:
            self._screen.line(Line(shortened(text.strip(), REPLAYED), prefix, "dim"))

    def _heard(self, update: Update) -> None:
        if not self._asked and isinstance(
            update, AgentMessageChunkSessionUpdate | NoticeSessionUpdate
        ):
            self._between.append(update)

    def _show_between(self) -> None:
        while self._between:
            update = self._between.popleft()
            if isinstance(update, NoticeSessionUpdate):
                if update.title in self._notices:
                    continue  # each session of one Codex is told what is wrong with the machine
                self._notices.add(update.title)
            self._screen.update(update, {})

    async def _sessions(self) -> list[SessionInfo]:
        with self._screen.working(f"starting {visible(self._spec.name)}"):
            found = await self._host.runtime.sessions(self._spec, cwd=self._options.cwd or ".")
        return sorted(found, key=lambda info: info.updated_at or "", reverse=True)

    async def _list(self) -> int:
        for info in await self._sessions():
            print(_described(info, sys.stdout, f"{visible(info.session_id)}  "))
        return 0

    async def _chosen(self) -> str | None:
        """The session that is meant; None where there is none yet."""
        found = await self._sessions()
        if not found:
            self._screen.note("there is no earlier session in this directory; this is a new one")
            return None
        if self._options.last or len(found) == 1:
            return found[0].session_id
        for number, info in enumerate(found[:LISTED], 1):
            self._screen.say(_described(info, sys.stderr, f"{number:3}) "))
        number = await self._input.number("Which one? [1] ", len(found[:LISTED]))
        self._host.take_signals()
        return found[number - 1].session_id

    def _way_back(self, session: Session) -> str:
        options = self._options
        which = [] if options.is_ours else ["--agent", options.agent]
        if options.command is not None:
            which = ["--command", "..."]
        elif options.connect is not None:
            which = ["--connect", bare_url(options.connect)]
            if options.token_file is not None:
                which += ["--token-file", options.token_file]
        return " ".join([*which, "--resume", visible(session.session_id)])


def _described(info: SessionInfo, stream: TextIO, before: str) -> str:
    """One line, which on a terminal ends with as much of the title as fits."""
    when = visible((info.updated_at or "")[:16].replace("T", " "))
    before += f"{when:16}  "
    title = visible(info.title or "(without a title)")
    if not is_terminal(stream):
        return before + shortened(title, TITLE_LIMIT)
    room = max(LEAST_TITLE, size_of(stream).columns - 2 - len(before))
    fits = clipped(title, room)
    return before + fits + "…" * (fits != title)
