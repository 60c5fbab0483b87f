"""Run the agent of ``codex-acp-sdk run``, ``chat`` and ``demo``, and the prompt of ``run``.

Owns the answers to the agent's questions, the login in the terminal, the effect of signals, and the
exit code of ``run``.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.cli.command_arguments import EXIT_CODES, EXIT_NOBODY_ASKED, RunOptions
from codex_acp.cli.logs import COMMANDS_LEVEL, chosen_level, start_logging
from codex_acp.cli.process import complain
from codex_acp.cli.questions import REJECTING, Questions
from codex_acp.cli.screen import (
    LOG_IN,
    JsonOutput,
    TextOutput,
    describe_error,
    drop_rest,
    is_file,
    is_terminal,
    open_output,
    until_written,
)
from codex_acp.cli.terminal import FAILED, SIGNALLED, USAGE, LineReader, print_error
from codex_acp.errors import CodexAcpError, MisuseError
from codex_acp.routing.display import shortened, visible
from codex_acp.runtime import (
    AgentRuntime,
    AuthenticationRequired,
    OptionNotOffered,
    allow_kinds,
    reject_all,
)
from codex_acp.transport.process_tree import adopt_orphans
from codex_acp.transport.shielding import awaited, finish, run_loop

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable
    from typing import Any

    from codex_acp.cli.command_arguments import AgentOptions
    from codex_acp.runtime import (
        AgentSpec,
        Permission,
        PermissionPolicy,
        Prompt,
        PromptResult,
        Session,
        Setting,
    )

NAME_LIMIT: Final = 40
"""Characters of an agent's name that are shown."""
LOGIN_SECONDS: Final = 0.5
"""Time for the login process to end after SIGTERM, and again after SIGKILL."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Host:
    """Runs the agent of one command. Without ``questions``, no person is asked."""

    def __init__(
        self,
        options: AgentOptions,
        spec: AgentSpec,
        screen: TextOutput,
        questions: Questions | None = None,
        json_output: JsonOutput | None = None,
    ) -> None:
        self._options = options
        self._spec = spec
        self._screen = screen
        self._questions = questions
        self._json_output = json_output
        self._agent_name = spec.name
        """Name of the agent in error messages."""
        self._prompt: Prompt | None = None
        """The prompt that runs."""
        self._signal: int | None = None
        """Number of the last signal since the prompt began."""
        self._task: asyncio.Task[object] | None = None
        """The task of `main`."""
        self.refused: int = 0
        """Number of permissions that were rejected because no person could be asked."""
        policy: PermissionPolicy = self._refuse
        callbacks: dict[str, Any] = {}
        if questions is not None:
            policy = questions.permission
            callbacks = {"on_form": questions.form, "on_url": questions.url}
        kinds: Any = options.allow  # checked by the parser
        self.runtime: AgentRuntime = AgentRuntime(
            permissions=self._with_answers_shown(allow_kinds(*kinds, otherwise=policy)), **callbacks
        )

    async def main(self, converse: Callable[[], Awaitable[int]]) -> int:
        """Run ``converse``; return the exit code of ``converse``, of a signal or of an error."""
        self._task = asyncio.current_task()
        self.handle_signals()
        adopt_orphans(asyncio.get_running_loop())
        try:
            async with self.runtime:
                code = await converse()
            await until_written()
            return code
        except asyncio.CancelledError:
            if self._signal is None:
                raise
            drop_rest()  # the program that reads the output may have stopped
            return SIGNALLED + self._signal
        except CodexAcpError as error:
            try:
                self.show_error(error)
            except CodexAcpError as not_written:  # a full disk
                complain(f"error: {not_written}")
            return USAGE if isinstance(error, MisuseError) else FAILED

    def handle_signals(self) -> None:
        """Handle signals: the first Ctrl-C cancels the prompt, any other signal ends the agent."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    async def open(self, session_id: str | None = None, *, or_new: bool = True) -> Session:
        """Open a session with the settings of the options; offer a login if the agent needs one."""
        try:
            session = await self._open(session_id, or_new=or_new)
        except AuthenticationRequired:
            if not await self._log_in():
                raise
            session = await self._open(session_id, or_new=or_new)
        try:
            for name, setting in settings_of(session).items():
                value: str | None = getattr(self._options, name)
                if value is not None:
                    if not setting:  # not offered by the agent
                        raise OptionNotOffered(session.agent, f"--{name}")
                    await setting.set(value)
        except BaseException:
            await session.aclose()
            raise
        return session

    async def send(self, session: Session, text: str) -> PromptResult:
        """Send a prompt, which Ctrl-C cancels; show the updates and the result."""
        output = self._json_output or self._screen
        self._signal = None
        with self._screen.working("working"):
            async with session.prompt(text) as prompt:
                self._prompt = prompt
                try:
                    async for update in prompt:
                        output.write_update(update, prompt.tool_calls)
                        await self._screen.until_room()
                    result = await prompt.result()
                finally:
                    self._prompt = None
        output.write_result(result)
        return result

    def show_error(self, error: Exception) -> None:
        if self._json_output is not None:
            self._json_output.write_error(error)
        else:
            self._screen.write_error(
                describe_error(error, self._agent_name, ours=self._options.is_ours)
            )

    async def _open(self, session_id: str | None, *, or_new: bool) -> Session:
        with self._screen.working(f"starting {visible(self._spec.name)}"):
            session = await self.runtime.open(
                self._spec, cwd=self._options.cwd, session_id=session_id, or_new=or_new
            )
        info = session.agent_info
        if self._options.command is not None and info is not None:
            # The agent's own name says more than its command.
            self._agent_name = shortened(info.title or info.name, NAME_LIMIT) or self._spec.name
            if self._questions is not None:
                self._questions.agent = self._agent_name
        return session

    async def _log_in(self) -> bool:
        """Offer a login to the person; return whether the login succeeded."""
        if self._questions is None or not self._options.is_ours:
            return False
        if not await self._questions.ask_to_agree(f"Codex is not logged in. Run `{LOG_IN}` now?"):
            return False
        command = (sys.executable, "-P", "-m", "codex_acp", "login")
        login = await asyncio.create_subprocess_exec(*command)
        try:
            return await login.wait() == 0
        finally:
            await finish(asyncio.create_task(_end_login(login)))

    def _refuse(self, permission: Permission) -> None:
        self.refused += 1
        reject_all(permission)

    def _with_answers_shown(self, policy: PermissionPolicy) -> PermissionPolicy:
        """Wrap the policy: show answers that no person gave; tell the screen of rejected calls."""

        async def decide(permission: Permission) -> str | None:
            call_id = permission.tool_call.tool_call_id
            answer: Any = policy(permission)
            try:
                option = await awaited(answer)
            except asyncio.CancelledError:  # the question was withdrawn
                self._screen.note_rejected(call_id)
                raise
            await until_written()  # an answer that cannot be reported is not given
            allowed = permission.kind in self._options.allow
            by = f"--allow {permission.kind}" if allowed else None
            option_id = None if option is None else option.option_id
            if self._json_output is not None:
                self._json_output.write_permission(permission, option_id, by)
            elif self._questions is None or allowed:
                title = visible(permission.tool_call.title or call_id)
                chosen = "rejected, since nobody can be asked"
                if option is not None:
                    chosen = f"{visible(option.name)} (by {by})"
                self._screen.note(f"permission for {title}: {chosen}")
            if option is None or option.kind in REJECTING:
                self._screen.note_rejected(call_id)
            return option_id

        return decide

    def _on_signal(self, number: int) -> None:
        is_first = self._signal is None
        self._signal = number
        if number == signal.SIGINT and is_first and self._prompt is not None:
            self._prompt.cancel()
            self._screen.note_cancel()
            if self._json_output is None:
                # Ctrl-C also ends the reader of a pipe. The next write reports the broken pipe.
                with suppress(OSError, CodexAcpError):
                    self._screen.note("cancelling; Ctrl-C again ends the agent at once")
            return
        self.runtime.kill()
        if self._task is not None:
            self._task.cancel()


async def _end_login(login: asyncio.subprocess.Process) -> None:
    """End the login process by SIGTERM, then SIGKILL, but not the browser that it has opened."""
    for send_signal in (login.terminate, login.kill):
        if login.returncode is None:
            send_signal()
            with suppress(TimeoutError):
                await asyncio.wait_for(login.wait(), LOGIN_SECONDS)


def settings_of(session: Session) -> dict[str, Setting]:
    """Return the settings that the commands can set, by the name of the command's option."""
    options = session.options
    return {"model": options.model, "mode": options.mode, "effort": options.thought_level}


def run(parsed: Namespace) -> int:
    """Send the prompt of the options, and show its result; return the exit code."""
    options = RunOptions(**vars(parsed))
    try:
        text = options.prompt
        if text == "-":
            text = "" if sys.stdin is None else sys.stdin.buffer.read().decode()
        if not text.strip():
            raise MisuseError("the prompt is empty; write it in quotes, or pipe it to `run -`")
        spec, level = options.spec(), chosen_level(default=COMMANDS_LEVEL)
    except UnicodeDecodeError:
        return print_error("run", "the prompt is not UTF-8")
    except (MisuseError, ValueError) as error:
        return print_error("run", error)
    asks = not options.json and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    out, err = open_output(sys.stdout), open_output(sys.stderr)
    screen = TextOutput(
        out,
        err,
        beside_questions=asks and not is_file(out),
        verbose=options.verbose,
        live=not options.json,
    )
    start_logging(level, screen.write_log)
    questions = Questions(screen, LineReader(), spec.name) if asks else None
    json_output = JsonOutput(out) if options.json else None

    async def main() -> int:
        host = Host(options, spec, screen, questions, json_output)

        async def converse() -> int:
            async with await host.open(options.session) as session:
                (json_output or screen).write_session(session)
                code = EXIT_CODES[(await host.send(session, text)).stop_reason]
            return EXIT_NOBODY_ASKED if code == 0 and host.refused else code

        return await host.main(converse)

    return run_loop(main())
