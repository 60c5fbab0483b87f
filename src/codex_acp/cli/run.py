"""``codex-acp-sdk run``: one prompt to any ACP agent, in the terminal or for a script.

Owns the exit code, and what Ctrl-C does. What is shown is in `codex_acp.cli.run_screen` and
``run_json``, what is asked in ``run_questions``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.cli.logs import LEVEL_VARIABLE, chosen_level, start_logging
from codex_acp.cli.run_arguments import EXIT_CODES, FAILED, USAGE
from codex_acp.cli.run_json import JsonOutput
from codex_acp.cli.run_questions import Questions
from codex_acp.cli.run_screen import TextOutput
from codex_acp.cli.terminal import LineReader
from codex_acp.errors import CodexAcpError, MisuseError
from codex_acp.routing.display import visible
from codex_acp.runtime import (
    AgentRuntime,
    AgentSpec,
    AuthenticationRequired,
    OptionNotOffered,
    allow_kinds,
    reject_all,
)
from codex_acp.transport.orphans import adopt_orphans

if TYPE_CHECKING:
    from typing import Any, TextIO

    from codex_acp.cli.run_arguments import RunOptions
    from codex_acp.runtime import Permission, PermissionPolicy, Prompt, Session, Setting

__all__ = ["run"]

SIGNALLED: Final = 128
"""Plus the signal's number: the exit code after a signal, as shells have it."""


def run(options: RunOptions) -> int:
    """Run the prompt; the exit code."""
    try:
        text = sys.stdin.read() if options.prompt == "-" else options.prompt
        if not text.strip():
            msg = "the prompt is empty"
            raise MisuseError(msg)
        spec = None if options.command is None else AgentSpec.parse(options.command)
        if options.trust:
            if spec is not None or options.agent != "codex":
                msg = "--trust is for the agent codex; give another agent its own option"
                raise MisuseError(msg)
            spec = AgentSpec.codex(*(word for each in options.trust for word in ("--trust", each)))
        if options.cwd is not None and not Path(options.cwd).is_dir():
            msg = f"{options.cwd!r} is no directory"
            raise MisuseError(msg)
        # A failing agent is told of anyway; whoever wants more asks for it.
        level = chosen_level(None if os.environ.get(LEVEL_VARIABLE) else "ERROR")
    except (MisuseError, ValueError) as error:
        print(f"codex-acp-sdk run: error: {error}", file=sys.stderr)
        return USAGE
    asks = not options.json and _is_a_terminal()
    screen = TextOutput(sys.stdout, sys.stderr, guarded=asks and not _is_a_file(sys.stdout))
    start_logging(level, screen.logged)
    return asyncio.run(_Run(options, text, spec, screen, asks=asks).main())


class _Run:
    """One run, from the start of the agent to its end."""

    def __init__(
        self,
        options: RunOptions,
        text: str,
        spec: AgentSpec | None,
        screen: TextOutput,
        *,
        asks: bool,
    ) -> None:
        self._options = options
        self._text = text
        self._agent = options.agent if spec is None else spec
        self._screen = screen
        self._json = JsonOutput(sys.stdout) if options.json else None
        self._output = self._json or self._screen
        self._prompt: Prompt | None = None
        self._signal: int | None = None
        name = options.agent if spec is None else spec.name
        self._questions = Questions(self._screen, LineReader(), name) if asks else None
        self._runtime = self._new_runtime()

    async def main(self) -> int:
        """The exit code."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled, number)
        adopt_orphans(loop)
        try:
            async with self._runtime:
                return await self._converse()
        except asyncio.CancelledError:
            if self._signal is None:
                raise
            return SIGNALLED + self._signal
        except MisuseError as error:
            self._output.error(error)
            return USAGE
        except CodexAcpError as error:
            self._output.error(_helpful(error))
            return FAILED

    async def _converse(self) -> int:
        options = self._options
        async with self._runtime.open(
            self._agent, cwd=options.cwd, session_id=options.session
        ) as session:
            self._output.session(session)
            await _set("model", session.options.model, options.model, session)
            await _set("mode", session.options.mode, options.mode, session)
            await _set("effort", session.options.thought_level, options.effort, session)
            async with session.prompt(self._text) as prompt:
                self._prompt = prompt
                async for update in prompt:
                    await self._screen.free.wait()
                    self._output.update(update, prompt.tool_calls)
                result = await prompt.result()
            self._output.result(session, result)
            return EXIT_CODES[result.stop_reason]

    def _new_runtime(self) -> AgentRuntime:
        policy: PermissionPolicy = reject_all
        callbacks: dict[str, Any] = {}
        if self._questions is not None:
            policy = self._questions.permission
            callbacks = {"on_form": self._questions.form, "on_url": self._questions.url}
        kinds: Any = self._options.allow
        return AgentRuntime(
            permissions=self._told(allow_kinds(*kinds, otherwise=policy)), **callbacks
        )

    def _told(self, policy: PermissionPolicy) -> PermissionPolicy:
        """The policy, whose answers are shown where nobody was asked."""

        async def decide(permission: Permission) -> str | None:
            answer: Any = policy(permission)
            option = await answer if asyncio.iscoroutine(answer) else answer
            if self._json is not None:
                self._json.asked(permission, None if option is None else option.option_id)
            elif self._questions is None or permission.kind in self._options.allow:
                title = visible(permission.tool_call.title or permission.tool_call.tool_call_id)
                chosen = None if option is None else visible(option.name)
                self._screen.permission(f"permission for {title}", chosen)
            return None if option is None else option.option_id

        return decide

    def _signalled(self, number: int) -> None:
        """The first Ctrl-C is for the prompt; anything else ends the agent at once."""
        first = self._signal is None
        self._signal = number
        if number == signal.SIGINT and first and self._prompt is not None:
            self._prompt.cancel()
            if not self._options.json:
                self._screen.note("cancelling; Ctrl-C again ends the agent at once")
            return
        self._runtime.kill()
        if self._task is not None:
            self._task.cancel()


async def _set(name: str, setting: Setting, value: str | None, session: Session) -> None:
    if value is None:
        return
    if not setting:
        raise OptionNotOffered(session.agent, f"--{name}")
    await setting.set(value)


def _helpful(error: CodexAcpError) -> CodexAcpError:
    """With the next step, where there is one that the agent cannot know."""
    if isinstance(error, AuthenticationRequired):
        ways = ", ".join(method.name for method in error.methods) or "none that it names"
        return CodexAcpError(f"{error}; log in with the agent's own command first (ways: {ways})")
    return error


def _is_a_terminal() -> bool:
    with suppress(AttributeError, ValueError):  # there is none, or it is closed
        return sys.stdin.isatty() and sys.stderr.isatty()
    return False


def _is_a_file(stream: TextIO) -> bool:
    """Whether what is written goes to a file: no screen shows it beside the questions."""
    with suppress(AttributeError, OSError, ValueError):
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    return False
