"""The slash commands of one session: what each asks of Codex.

Owns the session's list of prompts and skills. Which commands there are and what they say is
`mapping.commands` and `mapping.reports`; running one is `Session`'s.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp.acp._generated.v1.models import TextContentBlock
from codex_acp.adapter.command import Says, StartsTurn
from codex_acp.adapter.goal import pursue
from codex_acp.adapter.user_prompts import read_user_prompts
from codex_acp.adapter.working_tree import uncommitted
from codex_acp.codex._generated.models import (
    BaseBranchReviewTarget,
    CommitReviewTarget,
    CustomReviewTarget,
    GetAccountParams,
    ListMcpServerStatusParams,
    ReviewStartParams,
    SkillsListParams,
    SkillUserInput,
    TextUserInput,
    ThreadCompactStartParams,
    ThreadGoalClearParams,
    ThreadGoalGetParams,
    ThreadGoalSetParams,
    TurnStartParams,
    UncommittedChangesReviewTarget,
)
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping import commands as names
from codex_acp.mapping import reports
from codex_acp.mapping.prompt import user_input

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.acp._generated.v1.models import (
        AvailableCommandsUpdateSessionUpdate,
        ContentBlock,
    )
    from codex_acp.adapter.command import Command
    from codex_acp.codex._generated.models import (
        McpServerStatus,
        ReviewTarget,
        SkillMetadata,
        SkillsListEntry,
        UserInput,
    )
    from codex_acp.codex.client import CodexClient
    from codex_acp.mapping.commands import Typed, UserPrompt
    from codex_acp.mapping.reports import Fact

__all__ = ["SessionCommands"]

logger = logging.getLogger(__name__)

LIST_SECONDS: Final = 3.0
"""How long a prompt that may be a command waits for the lists of prompts and skills."""

MAX_PAGES: Final = 50
"""Of the list of MCP servers; a cursor that never ends must not hold a prompt for ever."""


class SessionCommands:
    """See `Commands`. ``codex`` gives the connection that the session is on now; ``settings``
    what its status shows of its own configuration.
    """

    def __init__(
        self,
        session_id: str,
        cwd: str,
        codex: Callable[[], CodexClient],
        settings: Callable[[], Sequence[Fact]] = tuple,
    ) -> None:
        self._session_id = session_id
        self._cwd = cwd
        self._codex = codex
        self._settings = settings
        self._prompts: dict[str, UserPrompt] = {}
        self._skills: dict[str, SkillMetadata] = {}
        self._lock = anyio.Lock()
        self._list: AvailableCommandsUpdateSessionUpdate | None = None
        self._told: AvailableCommandsUpdateSessionUpdate | None = None

    def outdated(self) -> None:
        """Prompts or skills have changed: the next `load` reads them anew."""
        self._list = None

    def news(self, update: AvailableCommandsUpdateSessionUpdate) -> bool:
        """Whether the client does not have this list yet; it has it from now on."""
        known, self._told = self._told, update
        return known != update

    async def load(self) -> AvailableCommandsUpdateSessionUpdate:
        """The whole list for the client, read when it is first wanted. Never fails."""
        async with self._lock:
            if self._list is None:
                self._list = await self._read()
            return self._list

    async def _read(self) -> AvailableCommandsUpdateSessionUpdate:
        codex = self._codex()
        self._prompts = {p.name: p for p in await read_user_prompts(codex.server.codex_home)}
        try:
            entries = await self._skill_entries()
        except CodexAcpError as error:
            logger.warning("the skills could not be listed: %s", error)
            entries = []
        self._skills = {s.name: s for entry in entries for s in entry.skills if s.enabled}
        return names.available_commands(self._prompts.values(), self._skills.values())

    async def find(self, prompt: Sequence[ContentBlock]) -> Command | None:
        """See `Commands.find`."""
        first = prompt[0] if prompt else None
        if not isinstance(first, TextContentBlock) or not names.may_need_lists(first.text):
            return None
        with anyio.move_on_after(LIST_SECONDS):
            await self.load()
        command = names.typed(first.text)
        found = None if command is None else self._found(command, prompt[1:])
        if found is not None:
            return found
        mentioned = names.skill_mentions(first.text, self._skills)
        return self._turn(user_input(prompt), mentioned) if mentioned else None

    def _found(self, command: Typed, rest: Sequence[ContentBlock]) -> Command | None:
        if command.name.startswith(names.PROMPTS_PREFIX):
            prompt = self._prompts.get(command.name.removeprefix(names.PROMPTS_PREFIX))
            if prompt is None:
                return None
            text = names.expanded(prompt.body, command.arguments)
            return self._turn([TextUserInput(text=text), *_inputs(rest)], ())
        own = self._own(command)
        if own is not None:
            return own
        skill = self._skills.get(command.name)
        if skill is None:
            return None
        text = f"${skill.name} {command.arguments}".rstrip()
        return self._turn([TextUserInput(text=text), *_inputs(rest)], (skill,))

    def _own(self, command: Typed) -> Command | None:
        makers: dict[str, Callable[[str], Command]] = {
            "review": self._review,
            "review-branch": self._review_branch,
            "review-commit": self._review_commit,
            "compact": lambda _: StartsTurn(self._compact),
            "init": lambda _: self._turn([TextUserInput(text=names.INIT_PROMPT)], ()),
            "goal": self._goal,
            "diff": lambda _: Says(self._diff),
            "status": lambda _: Says(self._status),
            "mcp": lambda _: Says(self._mcp),
            "skills": lambda _: Says(self._list_skills),
        }
        make = makers.get(command.name)
        return None if make is None else make(command.arguments)

    # Turns.

    def _turn(self, inputs: list[UserInput], skills: Sequence[SkillMetadata]) -> StartsTurn:
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
        return reports.skills_report(await self._skill_entries())

    async def _skill_entries(self) -> Sequence[SkillsListEntry]:
        return (await self._codex().skills_list(SkillsListParams(cwds=[self._cwd]))).data


def _inputs(rest: Sequence[ContentBlock]) -> list[UserInput]:
    return user_input(rest) if rest else []
