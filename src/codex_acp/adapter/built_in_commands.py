"""Carry out the built-in slash commands of a session, whose names `mapping.commands` has.

Loaded with the first command that is typed. git runs inside Codex's sandbox, read-only, because the
folder's own configuration can name programs that git would start.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp._json import text_at
from codex_acp.adapter.command_results import (
    Command,
    MessageCommand,
    SessionAccess,
    TextCommand,
    TurnCommand,
)
from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.codex._generated import models
from codex_acp.codex.approvals.running_items import full_server_name
from codex_acp.codex.connection.calls import all_pages
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, ConnectionClosed, ErrorReply, RpcError, TransportError
from codex_acp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from codex_acp.mapping import commands
from codex_acp.mapping.commands import RECONNECT, TypedCommand, built_in_name
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.prompt import user_input
from codex_acp.routing.display import block, inline
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.content import Block


logger = logging.getLogger(__name__)

STOP_SECONDS: Final = 5.0
"""Seconds that Codex may take to pause a goal, and again to interrupt the goal's turn."""

IDLE_SECONDS: Final = 5.0
"""Seconds without a turn after which Codex is asked for the state of an active goal."""

IN_PLAN_MODE: Final = (
    "Codex works towards no goal in plan mode. Turn plan mode off, then `/goal resume` begins."
)

GIT_MILLISECONDS: Final = 20_000
"""Milliseconds that one call of git may take."""

_WITHOUT_ARGUMENTS: Final = frozenset(each.name for each in commands.BUILT_IN if not each.hint)
_GIT: Final = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.pager=cat")
_DIFF: Final = ("--no-color", "--no-ext-diff", "--no-textconv")
"""With these options git starts no program that the folder's configuration names."""

_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's hash of a tree without files, the base of a diff in a repository without a commit."""


class BuiltInCommands:
    """The built-in commands of one session. ``list_skills`` asks Codex for the skills."""

    def __init__(
        self,
        access: SessionAccess,
        list_skills: Callable[[], Awaitable[Sequence[models.SkillsListEntry]]],
    ) -> None:
        self._access = access
        self._session_id = access.session_id
        self._cwd = access.cwd
        self._codex = access.codex
        self._set_plan_mode = access.set_plan_mode
        self._list_skills = list_skills

    def find(self, command: TypedCommand, rest: Sequence[Block]) -> Command | None:
        """Return the built-in command that was typed, if any; ``rest``: the prompt's other blocks.
        Raises RpcError for arguments and blocks that the command does not take."""
        name, arguments = built_in_name(command.name), command.arguments
        if name == "plan":
            return self._plan(arguments, rest)
        if name == "init":
            instructions = models.TextUserInput(text=commands.INIT_PROMPT)
            return MessageCommand([instructions, *_inputs(arguments, rest)])
        if name is None:
            return None
        is_text = any(isinstance(each, TextBlock) for each in rest)
        # An editor may attach the open file to every prompt.
        if rest and (is_text or name not in _WITHOUT_ARGUMENTS):
            why = f"/{name} takes no attachments or mentions: write all of it as one text"
            raise RpcError(INVALID_PARAMS, why)
        if arguments and name in _WITHOUT_ARGUMENTS:
            raise RpcError(INVALID_PARAMS, f"/{name} takes nothing")
        makers: dict[str, Callable[[str], Command]] = {
            "review": self._review,
            "review-branch": self._review_branch,
            "review-commit": self._review_commit,
            "compact": lambda _: TurnCommand(
                "thread/compact/start", models.ThreadCompactStartParams(thread_id=self._session_id)
            ),
            "goal": self._goal,
            "diff": lambda _: TextCommand(lambda: _uncommitted_changes(self._codex(), self._cwd)),
            "status": lambda _: TextCommand(self._status),
            "mcp": self._mcp,
            "skills": lambda _: TextCommand(self._skills),
            "ps": lambda _: TextCommand(self._background),
            "stop": lambda process: TextCommand(lambda: self._stop(process)),
            "rename": self._rename,
            "logout": lambda _: self._logout(),
        }
        return makers[name](arguments)

    # Turns.

    def _review(self, instructions: str) -> TurnCommand:
        if instructions:
            return self._review_turn(models.CustomReviewTarget(instructions=instructions))
        return self._review_turn(models.UncommittedChangesReviewTarget())

    def _review_branch(self, branch: str) -> TurnCommand:
        if not branch:
            raise RpcError(INVALID_PARAMS, "/review-branch needs the branch to compare with")
        return self._review_turn(models.BaseBranchReviewTarget(branch=branch))

    def _review_commit(self, sha: str) -> TurnCommand:
        if not sha:
            raise RpcError(INVALID_PARAMS, "/review-commit needs the commit, a hash or a name")
        return self._review_turn(models.CommitReviewTarget(sha=sha))

    def _review_turn(self, target: models.ReviewTarget) -> TurnCommand:
        params = models.ReviewStartParams(thread_id=self._session_id, target=target)
        return TurnCommand("review/start", params)

    def _goal(self, arguments: str) -> TextCommand:
        thread_id = self._session_id

        async def show() -> str:
            return commands.goal_report(await _goal_of(self._codex(), thread_id))

        async def clear() -> str:
            params = models.ThreadGoalClearParams(thread_id=thread_id)
            cleared = (await self._codex().thread_goal_clear(params)).cleared
            return "The goal is cleared." if cleared else "There was no goal."

        async def pause() -> str:
            params = models.ThreadGoalSetParams(thread_id=thread_id, status="paused", origin="user")
            return commands.goal_report((await self._codex().thread_goal_set(params)).goal)

        async def work() -> str:
            params = models.ThreadGoalSetParams(thread_id=thread_id, status="active", origin="user")
            if arguments != "resume":
                params.objective = arguments
            return await _pursue_goal(self._access, params)

        without_turns = {"": show, "clear": clear, "pause": pause}
        run = without_turns.get(arguments, work)
        return TextCommand(run, starts_turns=arguments not in without_turns)

    def _plan(self, arguments: str, rest: Sequence[Block]) -> Command:
        """Make the command ``/plan``: alone it toggles plan mode, ``on`` and ``off`` set the mode;
        any other content turns the mode on and is a message to the model."""
        new_mode = None if rest else {"on": True, "off": False}.get(arguments.casefold())
        if new_mode is None and (arguments or rest):
            return MessageCommand(_inputs(arguments, rest), lambda: self._set_plan_mode(True))

        async def switch() -> str:
            if await self._set_plan_mode(new_mode):
                return "Plan mode is on: Codex plans with you before it does the work."
            return "Plan mode is off: Codex does the work again."

        return TextCommand(switch)

    # Texts.

    async def _status(self) -> str:
        codex = self._codex()
        facts = [commands.Fact("Session", self._session_id), commands.Fact("Folder", self._cwd)]
        facts += commands.setting_facts(self._access.options())
        remarks = self._access.remarks()
        facts += (commands.Fact("Codex remarks", inline(remark)) for remark in remarks)
        account = await codex.account_read(models.GetAccountParams(refresh_token=False))
        facts.append(commands.account_fact(account))
        if account.account is not None:
            try:
                limits = await codex.account_rate_limits_read()
                facts += commands.limit_facts(limits.rate_limits)
            except ErrorReply as error:  # an API key has no such limits
                logger.info("the account's limits are not known: %s", error)
        facts.append(commands.Fact("Codex", codex.server.user_agent))
        return commands.status_report(facts)

    def _mcp(self, arguments: str) -> TextCommand:
        async def show() -> str:
            return commands.mcp_report(await self._mcp_servers())

        async def reconnect() -> str:
            servers = await self._mcp_servers()
            names = [full_server_name(each.name, each.environment_id) for each in servers]
            mcp = self._access.mcp()
            mcp.forget(self._session_id)
            await self._codex().config_mcp_server_reload()
            slow = await mcp.wait_started(self._session_id, names)
            return commands.mcp_report(await self._mcp_servers(), slow)

        if arguments.casefold() == RECONNECT:
            self._check_not_shared("/mcp reconnect")
            return TextCommand(reconnect)
        if arguments:
            raise RpcError(INVALID_PARAMS, f"/mcp takes nothing, or {RECONNECT}")
        return TextCommand(show)

    async def _background(self) -> str:
        calls = TurnCalls(self._codex(), self._session_id)
        return commands.background_report(await calls.background_terminals())

    async def _stop(self, process: str) -> str:
        calls = TurnCalls(self._codex(), self._session_id)
        running = await calls.background_terminals()
        to_stop = [each for each in running if process in ("", each.process_id)]
        if process and not to_stop:
            message = f"/stop: no process {process!r} runs in the background; /ps lists them"
            raise RpcError(INVALID_PARAMS, message)
        not_stopped = [each for each in to_stop if not await calls.terminate(each.process_id)]
        return commands.stopped_report(len(to_stop) - len(not_stopped), not_stopped)

    def _rename(self, name: str) -> TextCommand:
        title = " ".join(name.split())
        if not title:
            raise RpcError(INVALID_PARAMS, "/rename needs the new name")

        async def rename() -> str:
            params = models.ThreadSetNameParams(thread_id=self._session_id, name=title)
            await self._codex().thread_name_set(params)
            return f"This session is called {inline(title)} now."

        return TextCommand(rename)

    def _logout(self) -> TextCommand:
        self._check_not_shared("/logout")

        async def log_out() -> str:
            await self._access.log_out()
            return "Codex is logged out, in all sessions."

        return TextCommand(log_out)

    def _check_not_shared(self, command: str) -> None:
        if self._access.shares_codex:
            message = f"{command} is for whoever runs this server: others may use its Codex, too"
            raise RpcError(INVALID_REQUEST, message)

    async def _mcp_servers(self) -> list[models.McpServerStatus]:
        params = models.ListMcpServerStatusParams(thread_id=self._session_id)
        servers = await all_pages(self._codex().mcp_server_status_list, params)
        for server in servers:  # the error may quote the server's secrets
            server.tools_error = server.tools_error and scrub(server.tools_error)
        return servers

    async def _skills(self) -> str:
        return commands.skills_report(await self._list_skills())


def _inputs(text: str, rest: Sequence[Block]) -> list[models.UserInput]:
    """Return the input for the arguments of a command and the prompt's other blocks."""
    inputs: list[models.UserInput] = [models.TextUserInput(text=text)] if text else []
    return inputs + (user_input(rest) if rest else [])


class _GoalWatcher(NotificationSink):
    """Follows the goal and the running turn of a thread by the thread's notifications."""

    def __init__(self) -> None:
        self.active = True
        """Whether Codex begins turns for the goal."""
        self.turn_id: str | None = None
        """The running turn; None between turns."""
        self.changed = asyncio.Event()
        self.lost: TransportError | None = None

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method == "thread/goal/updated":
            self.active = text_at(params, "goal", "status") == "active"
        elif method == "thread/goal/cleared":
            self.active = False
        elif method in ("turn/started", "turn/completed"):
            began = method == "turn/started"
            self.turn_id = text_at(params, "turn", "id") if began else None
        else:
            return
        self.changed.set()

    def on_closed(self, error: TransportError | None) -> None:
        self.lost = error or ConnectionClosed("Codex has ended")
        self.changed.set()

    @property
    def over(self) -> bool:
        """Whether no turn for the goal runs, and none will."""
        return self.lost is not None or (not self.active and self.turn_id is None)


async def _pursue_goal(access: SessionAccess, goal: models.ThreadGoalSetParams) -> str:
    """Set the goal, for which Codex begins turns; when Codex stops working on the goal, return a
    report of the goal. If the caller is cancelled, pause the goal, and interrupt its turn, unless
    the end of this turn answers a prompt. Raises CodexAcpError."""
    codex, thread_id = access.codex(), access.session_id
    watcher, is_waiting = _GoalWatcher(), False
    codex.subscribe(thread_id, watcher)
    try:
        await codex.thread_goal_set(goal)
        while not (watcher.over or is_waiting):
            watcher.changed.clear()
            idle_seconds = IDLE_SECONDS if watcher.turn_id is None else None
            with anyio.move_on_after(idle_seconds) as limit:
                await watcher.changed.wait()
            if limit.cancelled_caught:
                state = await _goal_of(codex, thread_id)
                if watcher.turn_id is None:  # no turn began during the call
                    watcher.active = state is not None and state.status == "active"
                    is_waiting = watcher.active and access.in_plan_mode()
    except asyncio.CancelledError:
        params = models.ThreadGoalSetParams(thread_id=thread_id, status="paused")
        turn_id = watcher.turn_id
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(STOP_SECONDS), suppress(CodexAcpError):
                await codex.thread_goal_set(params)
            if turn_id is not None and not access.turn_has_prompts():
                turn = models.TurnInterruptParams(thread_id=thread_id, turn_id=turn_id)
                with anyio.move_on_after(STOP_SECONDS), suppress(CodexAcpError):
                    await codex.turn_interrupt(turn)
        raise
    finally:
        codex.unsubscribe(thread_id, watcher)
    if watcher.lost is not None:
        raise watcher.lost
    report = commands.goal_report(await _goal_of(codex, thread_id))
    return f"{report}\n\n{IN_PLAN_MODE}" if is_waiting else report


async def _goal_of(codex: AppServerConnection, thread_id: str) -> models.ThreadGoal | None:
    return (await codex.thread_goal_get(models.ThreadGoalGetParams(thread_id=thread_id))).goal


async def _uncommitted_changes(codex: AppServerConnection, cwd: str) -> str:
    """Return the changes since the last commit as Markdown, or why git cannot show them."""
    inside = await _git(codex, cwd, "rev-parse", "--show-toplevel")
    if inside.exit_code != 0:
        return "This folder is not in a git repository."
    head = await _git(codex, cwd, "rev-parse", "--verify", "--quiet", "HEAD")
    base = "HEAD" if head.exit_code == 0 else _EMPTY_TREE
    diff = await _git(codex, cwd, "diff", *_DIFF, base, "--")
    if diff.exit_code != 0:
        return f"git could not show the changes:\n{block(diff.stderr.strip())}"
    listed = await _git(codex, cwd, "ls-files", "--others", "--exclude-standard", "-z")
    new_files = [name for name in listed.stdout.split("\0") if name]
    return commands.diff_report(diff.stdout, new_files)


async def _git(codex: AppServerConnection, cwd: str, *arguments: str) -> models.CommandExecResponse:
    return await codex.command_exec(
        models.CommandExecParams(
            command=[*_GIT, *arguments],
            cwd=cwd,
            timeout_ms=GIT_MILLISECONDS,
            output_bytes_cap=4 * commands.DIFF_LIMIT,  # a character has up to four bytes
            sandbox_policy=models.ReadOnlySandboxPolicy(),
        )
    )
