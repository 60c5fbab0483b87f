"""The tour of ``codex-acp-sdk demo``: one prompt, whose questions the demonstration answers itself.

What is shown and asked is what ``run`` shows and asks; the answers are typed as a person types
them. Owns what must have come of it. Must not know how Codex and the model are started.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp.acp.types import AgentMessageChunkSessionUpdate
from codex_acp.cli.demo_script import ALLOWED, CHANGED, REFUSED, SERVER, TOUR
from codex_acp.cli.demo_wire import ShownLink
from codex_acp.cli.endings import FAILED
from codex_acp.cli.host import Host
from codex_acp.cli.run_arguments import EXIT_CODES, AgentOptions
from codex_acp.cli.screen.output import TextOutput
from codex_acp.cli.screen.questions import GOES_ON, Questions
from codex_acp.cli.terminal import LineReader
from codex_acp.routing.display import visible
from codex_acp.transport.child import spawn
from codex_acp.transport.loop_runner import run_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import TextIO

    from codex_acp.runtime import AgentSpec, PromptResult, ToolCall, Update
    from codex_acp.testing import ScriptedMcpServer

ANSWERS: Final = (
    "Allow once", "Reject", "Allow once",
    "answer it", "1", "Ann", "y", "send it",
    "open it",
)  # fmt: skip
"""Answers that are typed: the key of the choice that begins so, else the words themselves."""

PACE: Final = 0.7
"""Seconds for a person who watches to read a question."""

KEY: Final = re.compile(r"([a-z]{2}\d+)\) (?:\x1b\[\d+m)?(.*)")
"""A choice: its key, and its words, which have a style where the terminal has."""


@dataclass
class Tour:
    """``spec`` is the agent, ``server`` the MCP server that it calls in ``workspace``.

    ``asks``: the person answers; ``wire``: every line of the connection is shown.
    """

    spec: AgentSpec
    workspace: Path
    server: ScriptedMcpServer
    out: TextIO
    asks: bool = False
    wire: bool = False

    def run(self) -> int:
        """The exit code: 0 if all went as it must."""
        return run_loop(self._main())

    async def _main(self) -> int:
        screen = _Screen(self.out, wire=self.wire)
        reader = LineReader() if self.asks else _Typist(screen)
        spec = self._shown(screen) if self.wire else self.spec
        questions = Questions(screen, reader, "codex")
        host = Host(AgentOptions(cwd=str(self.workspace)), spec, screen, questions)
        return await host.main(lambda: self._converse(host, screen))

    async def _converse(self, host: Host, screen: _Screen) -> int:
        async with await host.open() as session:
            screen.say(f"> {TOUR}\n")
            result = await host.send(session, TOUR)
        if self.asks or result.stop_reason == "cancelled":
            return EXIT_CODES[result.stop_reason]
        screen.say("\nWhat came of it:")
        checked = list(self._checked(result))
        for ok, what in checked:
            screen.say(f"  {screen.mark(ok)} {what}")
        all_right = all(ok for ok, _ in checked)
        screen.verdict(all_right, f"it went {'' if all_right else 'not '}as the script says")
        return 0 if all_right else FAILED

    def _checked(self, result: PromptResult) -> Iterator[tuple[bool, str]]:
        """Yield what must have come of it, with whether it has, in words."""
        ran = {call.title: call.status for call in result.tool_calls}
        answers = [answer.get("result") for answer in self.server.answers()]
        text = " ".join(result.messages)
        yield "script on this machine" in text, "streamed text arrived, to its end"
        yield (self.workspace / ALLOWED.split()[2]).exists(), "the command that was allowed ran"
        refused = [status for title, status in ran.items() if title and REFUSED in title]
        yield refused == ["failed"], "the command that was refused did not"
        yield (self.workspace / CHANGED).exists(), "the change of a file was made as its diff said"
        given = str(answers[:1])
        yield "Zed" in given, f"the form's answer reached its server {SERVER!r}"
        yield "accept" in str(answers[1:2]), "the page was agreed to"
        declined = "decline" in str(answers[2:3])
        yield declined, "javascript: was declined unasked, for it is no page"
        yield result.stop_reason == "end_turn", f"the turn ended with {result.stop_reason}"

    def _shown(self, screen: _Screen) -> AgentSpec:
        from codex_acp.runtime import AgentSpec

        def link() -> ShownLink:
            spec = self.spec
            return ShownLink(spawn(spec.command, spec.environment, name="codex"), screen.wire)

        return AgentSpec(name="codex", link=link)


class _Screen(TextOutput):
    """All of it on one stream."""

    def __init__(self, out: TextIO, *, wire: bool) -> None:
        super().__init__(out, out)
        self._wire = wire
        self.watched = out.isatty()
        """Whether somebody reads along."""
        self.asked = ""
        """The question that stands there."""

    def ask(self, text: str) -> None:
        self.asked += text
        super().ask(text)

    def update(self, update: Update, calls: Mapping[str, ToolCall]) -> None:
        """With the wire, of which one line says it already, no pieces of text."""
        if not (self._wire and isinstance(update, AgentMessageChunkSessionUpdate)):
            super().update(update, calls)

    def wire(self, arrow: str, line: bytes) -> None:
        """A line of the connection, as it is."""
        text = visible(line.decode(errors="backslashreplace"))
        with suppress(BrokenPipeError):  # whoever writes next says that nobody reads any more
            self.say(self._styled(f"{arrow} {text}", "dim"))

    def mark(self, ok: bool) -> str:
        """Before something that was checked."""
        return self._styled("+", "green") if ok else self._styled("!", "red")

    def verdict(self, ok: bool, text: str) -> None:
        """How it went."""
        word = self._styled("OK", "green") if ok else self._styled("FAILED", "red")
        self.say(f"\n{word}: {text}")


class _Typist(LineReader):
    """Types the answers, reading the keys of the choices from the screen."""

    def __init__(self, screen: _Screen) -> None:
        super().__init__()
        self._screen = screen
        self._answers = deque(ANSWERS)

    async def line(self) -> str | None:
        await asyncio.sleep(PACE if self._screen.watched else 0)
        goes_on = self._screen.asked.endswith(GOES_ON)  # a page of several, on a small terminal
        answer = self._answers.popleft() if self._answers and not goes_on else ""
        keys = [key for key, words in KEY.findall(self._screen.asked) if words.startswith(answer)]
        self._screen.asked = "" if not goes_on else self._screen.asked
        typed = keys[-1] if keys and answer else answer
        self._screen.ask(f"{typed}\n")
        return typed

    def drop(self) -> None:
        """There is nothing."""
