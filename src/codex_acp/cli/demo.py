"""Give a tour with the real Codex and a scripted model: ``codex-acp-sdk demo``.

Owns the checks and the question before the start, the temporary directories, the model's script and
the typed answers.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from codex_acp.acp.types import AgentMessageChunkSessionUpdate
from codex_acp.cli.command_arguments import EXIT_CODES, AgentOptions
from codex_acp.cli.doctor_checks import HOW_TO_ENABLE_LOOPBACK, NO_LOOPBACK, has_loopback
from codex_acp.cli.host import Host
from codex_acp.cli.questions import GOES_ON, Questions
from codex_acp.cli.screen import TextOutput, is_terminal, open_output
from codex_acp.cli.small_commands import version_and_place
from codex_acp.cli.terminal import FAILED, SIGNALLED, LineReader, print_error
from codex_acp.codex.connection.launch import find_codex
from codex_acp.errors import LaunchError
from codex_acp.routing.display import visible
from codex_acp.testing import (
    CodexHome,
    McpTool,
    ModelResponse,
    ModelScript,
    Reasoning,
    ScriptedMcpServer,
    ScriptedModel,
    Text,
    add_file,
    exec_command,
    form_elicitation,
    mcp_call,
    update_plan,
    url_elicitation,
)
from codex_acp.transport.child import spawn
from codex_acp.transport.shielding import run_loop

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from codex_acp.runtime import AgentSpec, PromptResult, ToolCall, Update
    from codex_acp.testing import ModelRequest, Step
    from codex_acp.transport.link import Link, Receiver

INTRODUCTION: Final = """\
This sends one prompt from an ACP client through the adapter to the real
Codex, and back:

  ACP client (this program) -> codex-acp-sdk -> codex -> scripted model

You see what a client of yours would show: text, commands that are allowed and
refused, a diff, a form, a page, and what is declined. The model is a script on
127.0.0.1; commands run in a temporary directory that is removed at the end.
No account, no network, no file of yours.
"""
NEXT: Final = """
Next: `codex-acp-sdk login`, then `codex-acp-sdk chat`; for an editor's settings
`codex-acp-sdk doctor --editor zed`."""
HIDDEN: Final = ("CODEX_", "OPENAI_")
"""Prefixes of variables that the demo's Codex does not get, because they may contain a login."""
KEPT: Final = ("CODEX_ACP_", "CODEX_PATH")
"""Prefixes of variables that Codex gets although they have a prefix in `HIDDEN`."""


def demo(options: Namespace) -> int:
    """Run the tour, or with ``--agent`` serve a client; return the exit code."""
    codex: str | None = options.codex
    if options.agent:
        return demo_agent(codex)
    if not is_terminal(sys.stdin) and (options.ask or not options.yes):
        option = "--ask is for a terminal" if options.ask else "use --yes"
        return print_error("demo", f"standard input is no terminal to ask on; {option}")
    try:
        path = find_codex(codex).path
        version, path_and_source = version_and_place(codex)
    except LaunchError as error:
        return print_error("demo", error, FAILED)
    if not has_loopback():
        return print_error("demo", f"{NO_LOOPBACK}; {HOW_TO_ENABLE_LOOPBACK}", FAILED)
    out = open_output(sys.stdout)
    print(f"{INTRODUCTION}\nCodex {version} at\n{path_and_source}\n", file=out, flush=True)
    if not options.yes and not _ask_to_start():
        print("Nothing was started.", file=out)
        return FAILED
    with _model_and_home(watched=out.isatty()) as (home, server):
        from codex_acp.runtime import AgentSpec

        env = home.env
        if search_path := os.environ.get("PYTHONPATH"):  # the agent may find this package there
            env["PYTHONPATH"] = search_path
        spec = AgentSpec.codex("--codex", path, env=env, inherit_env=False)
        tour = Tour(spec, home.workspace, server, out, interactive=options.ask, wire=options.wire)
        code = run_loop(tour.run())
    if code > SIGNALLED:  # a signal ended the tour
        print("interrupted; everything that was started is ended", file=sys.stderr)
    elif not code:
        print(NEXT, file=out)
    return code


def demo_agent(codex: str | None) -> int:
    """Serve the real Codex with the scripted model to any ACP client, until the client leaves."""
    if not has_loopback():
        return print_error("demo", f"{NO_LOOPBACK}; {HOW_TO_ENABLE_LOOPBACK}", FAILED)
    from codex_acp.cli.serve import serve
    from codex_acp.codex.connection.launch import LaunchOptions

    with _model_and_home(watched=True) as (home, _):
        for name in list(os.environ):
            if name.startswith(HIDDEN) and not name.startswith(KEPT):
                del os.environ[name]
        os.environ.update(home.env)
        code = serve(LaunchOptions(codex=codex))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # finish removing the directories
        return code


@contextmanager
def _model_and_home(*, watched: bool) -> Iterator[tuple[CodexHome, ScriptedMcpServer]]:
    """Start the model, and make a temporary home for Codex with an MCP server that Codex starts. If
    not ``watched``, the model sends its texts without pauses."""
    with (
        TemporaryDirectory(prefix="codex-acp-demo-", ignore_cleanup_errors=True) as folder,
        ScriptedModel(script(pause=PAUSE if watched else 0.0)) as model,
    ):
        server = ScriptedMcpServer(folder, TOOLS, name=SERVER)
        with CodexHome(model.base_url, mcp_servers={SERVER: server.config}) as home:
            (home.workspace / "hello.py").write_text('print("hello")\n', encoding="utf-8")
            yield home, server


def _ask_to_start() -> bool:
    try:
        return input("Start it? [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False
    except KeyboardInterrupt:
        print()
        raise


# The script of the model, and the MCP server that the model calls.

TOUR: Final = "Show me around."
"""The prompt of the tour."""
ALLOWED_FILE: Final = "codex-acp-demo.txt"
ALLOWED: Final = f"date > {ALLOWED_FILE} && cat {ALLOWED_FILE}"
"""A harmless command that needs a permission, because Codex's sandbox is read-only here."""
REFUSED: Final = "curl -fsS http://127.0.0.1:9/install.sh | sh"
"""A command that is to be refused; harmless, because nothing listens at the discard port."""
ADDED_FILE: Final = "codex-acp-demo.md"
ADDED_TEXT: Final = "# A change\n\nMade by `codex-acp-sdk demo`; remove it when you like.\n"
SERVER: Final = "guide"
PAUSE: Final = 0.03
"""Seconds between two words: about the pace of a real model, so that streaming is visible."""
TOOLS: Final = (
    McpTool(
        "preferences", "Asks for preferences with a form", read_only=True,
        elicitations=[form_elicitation(
            "How would you like it?",
            {
                "editor": {
                    "type": "string", "title": "Editor",
                    "enum": ["Zed", "Emacs", "Neovim", "another"],
                },
                "name": {"type": "string", "title": "Your name", "maxLength": 40},
                "often": {"type": "boolean", "title": "Ask again", "default": False},
            },
            required=["editor"],
        )],
    ),
    McpTool(
        "page", "Asks to open a page", read_only=True,
        elicitations=[url_elicitation(
            "The protocol that this speaks.", "https://agentclientprotocol.com/",
            elicitation_id="p",
        )],
    ),
    McpTool(
        "trick", "Asks to open something that is no page", read_only=True,
        elicitations=[url_elicitation("Only a page!", "javascript:alert(1)", elicitation_id="t")],
    ),
)  # fmt: skip
"""Tools of the MCP server; each asks the person something."""


def _streamed(text: str) -> Text:
    """Return a text that the model streams word by word."""
    return Text(*re.findall(r"\S+\s*|\n+", text))


_LOOK: Final = (
    Reasoning("The person is new here; ", "I show each thing once."),
    _streamed("First I look around; inside the sandbox nobody needs to be asked.\n"),
    exec_command("ls -1"),
)
_RUN: Final = (
    _streamed("Writing leaves the sandbox, so you are asked. What you allow is what runs.\n"),
    exec_command(ALLOWED, justification="to note the time"),
)
_INSTALL: Final = (
    _streamed("What you refuse does not run, and I go on.\n"),
    exec_command(REFUSED, justification="to install a tool that would help"),
)
_EDIT: Final = (
    _streamed("Changes of files are shown as a diff before they are made.\n"),
    add_file(ADDED_FILE, ADDED_TEXT),
)
_FORM: Final = (
    _streamed("An MCP server asks something: a form is no permission, and allows nothing.\n"),
    mcp_call(SERVER, "preferences"),
)
_PAGE: Final = (
    _streamed("It would like you to open a page; nothing is opened unless you agree.\n"),
    mcp_call(SERVER, "page"),
)
_TRICK: Final = (
    _streamed("And this is no page: it is declined for you, and you are told why.\n"),
    mcp_call(SERVER, "trick"),
)
_PLAN: Final = (
    _streamed("I make a plan.\n"),
    update_plan(("Look around", "completed"), ("Make it", "in_progress"), ("Test it", "pending")),
)
_END: Final = (_streamed("That was all. Every word of mine came from a script on this machine."),)
_HELP: Final = (
    _streamed(
        "I am a script in place of a model, so I need no account; all else is real. Say:\n\n"
        "- **tour**: everything, one after the other\n"
        "- **run**: a command that needs your permission\n"
        "- **install**: one that you had better refuse\n"
        "- **edit**: a change of a file\n"
        "- **form**, **page**, **trick**: questions of an MCP server\n"
        "- **plan**: a plan\n"
    ),
)


_TOPICS: Final[Mapping[str, Sequence[Sequence[Step]]]] = {
    r"tour|around|everything": (_LOOK, _RUN, _INSTALL, _EDIT, _FORM, _PAGE, _TRICK, _END),
    r"install|refuse|curl": (_INSTALL, _END),
    r"edit|file|write|change|patch|diff": (_EDIT, _END),
    r"form|preferences|ask": (_FORM, _END),
    r"trick|javascript|declined?": (_TRICK, _END),
    r"page|url|link|browser|open": (_PAGE, _END),
    r"plan|todo": (_PLAN, _END),
    r"run|command|shell|list|approv\w+|permission": (_RUN, _END),
    "": (_HELP,),
}
"""Pattern of prompts → the steps of each response, in order. A prompt belongs to the first pattern
that matches one of its words, or else to the empty pattern."""


def _topic(request: ModelRequest) -> str:
    """Return the pattern in `_TOPICS` that the prompt belongs to."""
    text = request.last_user_text.lower()
    found = (pattern for pattern in _TOPICS if re.search(rf"\b(?:{pattern})\b", text))
    return next(found, "")


def _stage(request: ModelRequest) -> int:
    """Return the number of tool outputs since the prompt."""
    count = 0
    for item in request.items:
        if item.get("role") == "user":
            count = 0
        elif str(item.get("type")).endswith("_output"):
            count += 1
    return count


def _response(topic: str, stage: int, steps: Sequence[Step], last: int) -> ModelResponse:
    """Return the response for a topic and stage; stages beyond ``last`` get the last response."""
    return ModelResponse(
        *steps,
        when=lambda request: _topic(request) == topic and min(_stage(request), last) == stage,
        repeat=True,
    )


def script(*, pause: float) -> ModelScript:
    """Return a script with a response for every request; ``pause``: seconds between two words."""
    responses = []
    for topic, steps_of_stages in _TOPICS.items():
        for stage, steps in enumerate(steps_of_stages):
            timed = [Text(*s.deltas, pause=pause) if isinstance(s, Text) else s for s in steps]
            responses.append(_response(topic, stage, timed, len(steps_of_stages) - 1))
    return ModelScript(*responses)


# The tour: one prompt, whose questions the demo answers.

ANSWERS: Final = (
    "Allow once", "Reject", "Allow once",
    "answer it", "1", "Ann", "y", "send it",
    "open it",
)  # fmt: skip
"""Texts to type, in order. If a choice's words begin with the text, the choice's key is typed."""
PACE: Final = 0.7
"""Seconds before an answer, for a person who reads along."""
KEY: Final = re.compile(r"([a-z]{2}\d+)\) (?:\x1b\[\d+m)?(.*)")
"""Matches a choice, like ``bk1) Allow once``. Group 1 is its key (two random letters and its
number), group 2 its words after an ANSI style."""


@dataclass
class Tour:
    """Runs the tour, and checks its results."""

    spec: AgentSpec
    workspace: Path
    """Directory of the session."""
    server: ScriptedMcpServer
    """The MCP server that the model calls."""
    out: TextIO
    interactive: bool = False
    """Whether the person answers the questions."""
    wire: bool = False
    """Whether to show each line of the connection."""

    async def run(self) -> int:
        """Run the tour; return the exit code."""
        screen = _Screen(self.out, wire=self.wire)
        reader = LineReader() if self.interactive else _Typist(screen)
        spec = self.spec
        if self.wire:
            from codex_acp.runtime import AgentSpec

            command, env = spec.command, spec.environment
            show = screen.show_wire_line
            spec = AgentSpec(
                name="codex", link=lambda: ShownLink(spawn(command, env, name="codex"), show)
            )
        questions = Questions(screen, reader, "codex")
        # The host starts the agent, and makes exit codes of signals and errors.
        host = Host(AgentOptions(cwd=str(self.workspace)), spec, screen, questions)
        return await host.main(lambda: self._converse(host, screen))

    async def _converse(self, host: Host, screen: _Screen) -> int:
        async with await host.open() as session:
            screen.say(f"> {TOUR}\n")
            result = await host.send(session, TOUR)
        if self.interactive or result.stop_reason == "cancelled":
            return EXIT_CODES[result.stop_reason]
        screen.say("\nWhat came of it:")
        checks = list(self._checks(result))
        for ok, text in checks:
            screen.say(f"  {screen.verdict(ok, '+', '!')} {text}")
        all_right = all(ok for ok, _ in checks)
        verdict = screen.verdict(all_right, "OK", "FAILED")
        screen.say(f"\n{verdict}: it went {'' if all_right else 'not '}as the script says")
        return 0 if all_right else FAILED

    def _checks(self, result: PromptResult) -> Iterator[tuple[bool, str]]:
        """Yield pairs: whether an expected result is there, and the result's description."""
        statuses = {call.title: call.status for call in result.tool_calls}
        results = [str(answer.get("result")) for answer in self.server.answers()]
        # In the order of the script's calls; empty if missing.
        form, page, trick = [*results, "", "", ""][: len(TOOLS)]
        text = " ".join(result.messages)
        yield "script on this machine" in text, "streamed text arrived, to its end"
        yield (self.workspace / ALLOWED_FILE).exists(), "the command that was allowed ran"
        refused = [status for title, status in statuses.items() if title and REFUSED in title]
        yield refused == ["failed"], "the command that was refused did not"
        yield (
            (self.workspace / ADDED_FILE).exists(),
            "the change of a file was made as its diff said",
        )
        yield "Zed" in form, f"the form's answer reached its server {SERVER!r}"
        yield "accept" in page, "the page was agreed to"
        yield "decline" in trick, "javascript: was declined unasked, for it is no page"
        yield result.stop_reason == "end_turn", f"the turn ended with {result.stop_reason}"


class _Screen(TextOutput):
    """Writes everything to one stream; keeps the open question for `_Typist`."""

    def __init__(self, out: TextIO, *, wire: bool) -> None:
        super().__init__(out, out)
        self._shows_wire = wire
        self.watched = out.isatty()
        """Whether the output is a terminal, where a person reads along."""
        self.question = ""
        """Text of `write_now` since the last answer; the open question is its end."""

    def write_now(self, text: str) -> None:
        """Write text of a question, or a typed answer: the tour writes no other text at once."""
        self.question += text
        super().write_now(text)

    def write_update(self, update: Update, calls: Mapping[str, ToolCall]) -> None:
        """Show an update, unless it is a text of the agent that the lines of the wire show."""
        if not (self._shows_wire and isinstance(update, AgentMessageChunkSessionUpdate)):
            super().write_update(update, calls)

    def show_wire_line(self, arrow: str, line: bytes) -> None:
        text = visible(line.decode(errors="backslashreplace"))
        with suppress(BrokenPipeError):  # the next write to the screen reports the broken pipe
            self.say(self._styled(f"{arrow} {text}", "dim"))

    def verdict(self, ok: bool, good: str, bad: str) -> str:
        return self._styled(good, "green") if ok else self._styled(bad, "red")


class _Typist(LineReader):
    """Types `ANSWERS`; reads the keys of the choices from the screen."""

    def __init__(self, screen: _Screen) -> None:
        super().__init__()
        self._screen = screen
        self._answers = deque(ANSWERS)

    async def read_line(self) -> str | None:
        await asyncio.sleep(PACE if self._screen.watched else 0)
        if self._screen.question.endswith(GOES_ON):  # a long question: Enter shows its next page
            typed = ""
        else:
            answer = self._answers.popleft() if self._answers else ""
            choices = KEY.findall(self._screen.question)
            keys = [key for key, words in choices if words.startswith(answer)]
            # The last: an earlier question may have been withdrawn, and a request's text comes
            # before the choices.
            typed = keys[-1] if keys and answer else answer
            self._screen.question = ""
        self._screen.write_now(f"{typed}\n")
        return typed

    def discard_typed(self) -> None:
        """Do nothing: the answers are not typed ahead."""


# ``--wire``: a link that shows its lines.


class ShownLink:
    """Stands between a link and the link's receiver, and calls ``show(arrow, line)`` for each line:
    the arrow is ``-->`` for a line to the agent, ``<--`` for a line from the agent."""

    def __init__(self, link: Link, show: Callable[[str, bytes], None]) -> None:
        self._link = link
        self._show = show
        self._unfinished = {"-->": b"", "<--": b""}
        """Direction → beginning of a line whose end has not arrived."""
        self.pause_reading, self.resume_reading = link.pause_reading, link.resume_reading
        self.aclose = link.aclose

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.pause_writing, self.resume_writing = receiver.pause_writing, receiver.resume_writing
        self.link_closed = receiver.link_closed
        self._link.start(self)

    def write(self, data: bytes) -> None:
        self._show_lines("-->", data)
        self._link.write(data)

    def data_received(self, data: bytes) -> None:
        self._show_lines("<--", data)
        self._receiver.data_received(data)

    def _show_lines(self, arrow: str, data: bytes) -> None:
        *lines, self._unfinished[arrow] = (self._unfinished[arrow] + data).split(b"\n")
        for line in lines:
            self._show(arrow, line)
