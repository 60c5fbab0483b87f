"""What each slash command of a session asks of Codex. Loaded when one was typed, not before.

Owns the turns and the texts that they come to. Which commands there are is `commands`'.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.commands.command import Says, StartsTurn
from codex_acp.adapter.commands.goal import pursue
from codex_acp.adapter.commands.working_tree import uncommitted
from codex_acp.codex._generated.models import (
    BaseBranchReviewTarget,
    CommitReviewTarget,
    CustomReviewTarget,
    GetAccountParams,
    ListMcpServerStatusParams,
    ReviewStartParams,
    SkillUserInput,
    TextUserInput,
    ThreadCompactStartParams,
    ThreadGoalClearParams,
    ThreadGoalGetParams,
    ThreadGoalSetParams,
    TurnStartParams,
    UncommittedChangesReviewTarget,
)
from codex_acp.errors import ErrorReply, RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.prompt import reports
from codex_acp.mapping.prompt.commands import INIT_PROMPT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.adapter.commands.command import Command
    from codex_acp.codex._generated.models import (
        McpServerStatus,
        ReviewTarget,
        SkillMetadata,
        SkillsListEntry,
        UserInput,
    )
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.mapping.prompt.commands import Typed
    from codex_acp.mapping.prompt.reports import Fact

__all__ = ["CommandRuns"]

logger = logging.getLogger(__name__)

MAX_PAGES: Final = 50
"""Of the list of MCP servers; a cursor that never ends must not hold a prompt for ever."""


class CommandRuns:
    """Of one session. ``codex`` gives the connection that it is on now; ``settings`` what its
    status shows of its own configuration; ``skills`` lists them anew.
    """

    def __init__(
        self,
        session_id: str,
        cwd: str,
        codex: Callable[[], AppServerConnection],
        settings: Callable[[], Sequence[Fact]],
        skills: Callable[[], Awaitable[Sequence[SkillsListEntry]]],
    ) -> None:
        self._session_id = session_id
        self._cwd = cwd
        self._codex = codex
        self._settings = settings
        self._skills = skills

    def built_in(self, command: Typed) -> Command | None:
        """A command of this agent; None: it has none of that name. Raises as `Commands.find`."""
        makers: dict[str, Callable[[str], Command]] = {
            "review": self._review,
            "review-branch": self._review_branch,
            "review-commit": self._review_commit,
            "compact": lambda _: StartsTurn(self._compact),
            "init": lambda _: self.turn([TextUserInput(text=INIT_PROMPT)], ()),
            "goal": self._goal,
            "diff": lambda _: Says(self._diff),
            "status": lambda _: Says(self._status),
            "mcp": lambda _: Says(self._mcp),
            "skills": lambda _: Says(self._list_skills),
        }
        make = makers.get(command.name)
        return None if make is None else make(command.arguments)

    # Turns.

    def turn(self, inputs: list[UserInput], skills: Sequence[SkillMetadata]) -> StartsTurn:
        """A message to the model, with the skills that it names."""
        inputs += [SkillUserInput(name=skill.name, path=skill.path) for skill in skills]

        async def start() -> str:
            params = TurnStartParams(thread_id=self._session_id, input=inputs)
            return (await self._codex().turn_start(params)).turn.id

        return StartsTurn(start, inputs)

    def _review(self, what: str) -> StartsTurn:
        if what:
            return self._reviews(CustomReviewTarget(instructions=what))
        return self._reviews(UncommittedChangesReviewTarget())

    def _review_branch(self, branch: str) -> StartsTurn:
        if not branch:
            raise RpcError(INVALID_PARAMS, "/review-branch needs the branch to compare with")
        return self._reviews(BaseBranchReviewTarget(branch=branch))

    def _review_commit(self, sha: str) -> StartsTurn:
        if not sha:
            raise RpcError(INVALID_PARAMS, "/review-commit needs the commit, a hash or a name")
        return self._reviews(CommitReviewTarget(sha=sha))

    def _reviews(self, target: ReviewTarget) -> StartsTurn:
        async def start() -> str:
            params = ReviewStartParams(thread_id=self._session_id, target=target)
            return (await self._codex().review_start(params)).turn.id

        return StartsTurn(start)

    async def _compact(self) -> None:
        params = ThreadCompactStartParams(thread_id=self._session_id)
        await self._codex().thread_compact_start(params)

    def _goal(self, arguments: str) -> Says:
        thread_id = self._session_id

        async def show() -> str:
            found = await self._codex().thread_goal_get(ThreadGoalGetParams(thread_id=thread_id))
            return reports.goal_report(found.goal)

        async def clear() -> str:
            params = ThreadGoalClearParams(thread_id=thread_id)
            cleared = (await self._codex().thread_goal_clear(params)).cleared
            return "The goal is cleared." if cleared else "There was no goal."

        async def pause() -> str:
            params = ThreadGoalSetParams(thread_id=thread_id, status="paused", origin="user")
            return reports.goal_report((await self._codex().thread_goal_set(params)).goal)

        async def work() -> str:
            params = ThreadGoalSetParams(thread_id=thread_id, status="active", origin="user")
            if arguments != "resume":
                params.objective = arguments
            return await pursue(self._codex(), thread_id, params)

        known = {"": show, "clear": clear, "pause": pause}
        return Says(known.get(arguments, work))

    # Texts.

    async def _diff(self) -> str:
        return await uncommitted(self._codex(), self._cwd)

    async def _status(self) -> str:
        codex = self._codex()
        facts = [reports.Fact("Session", self._session_id), reports.Fact("Folder", self._cwd)]
        facts += self._settings()
        account = await codex.account_read(GetAccountParams(refresh_token=False))
        facts.append(reports.account_fact(account))
        if account.account is not None:
            try:
                limits = await codex.account_rate_limits_read()
                facts += reports.limit_facts(limits.rate_limits)
            except ErrorReply as error:  # an API key has no such limits
                logger.info("the account's limits are not known: %s", error)
        facts.append(reports.Fact("Codex", codex.server.user_agent))
        return reports.status_report(facts)

    async def _mcp(self) -> str:
        servers: list[McpServerStatus] = []
        params = ListMcpServerStatusParams(thread_id=self._session_id)
        for _ in range(MAX_PAGES):
            page = await self._codex().mcp_server_status_list(params)
            servers += page.data
            if page.next_cursor is None or page.next_cursor == params.cursor:
                break
            params.cursor = page.next_cursor
        return reports.mcp_report(servers)

    async def _list_skills(self) -> str:
        return reports.skills_report(await self._skills())
