"""The conversation of one job with its agent: settings, prompts, and the answer that is wanted.

Owns what is sent, what is counted, and which end of a prompt ends the task.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from codex_acp.acp.types import UsageUpdateSessionUpdate
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.fleet.failures import SettingRefused, reason_of
from codex_acp.fleet.jobs import CONTINUE, RETRIED, Job, Post, Reason, Report, Usage
from codex_acp.fleet.session_log import SessionLog
from codex_acp.fleet.worker_questions import ask_permission
from codex_acp.jsonrpc.message import INTERNAL_ERROR, JsonValue
from codex_acp.runtime import OptionNotOffered
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codex_acp.acp.types import PromptResponse, StopReason
    from codex_acp.fleet.agent_pool import Lease
    from codex_acp.fleet.time_limit import TimeLimit
    from codex_acp.runtime import Permission, Prompt, PromptResult, Session, Update

CORRECTIONS: Final = 2
"""Times that an agent is told what is wrong with its answer."""

_WANTED: Final = (
    "\n\nEnd with a last message that is one JSON value and nothing else, without a code fence. "
    "It must fit this JSON Schema:\n"
)
_WRONG: Final = (
    "Your last message is not what was asked for: {}. "
    "Send the JSON value again, corrected, and nothing else."
)

_UNSAID: Final[Mapping[StopReason, str]] = {
    "refusal": "the agent refused to go on, and did not say why",
    "max_tokens": "the model came to its limit of tokens",
    "max_turn_requests": "the agent came to its limit of requests in one turn",
    "cancelled": "the agent says that the prompt was cancelled, and did not say why",
}
"""Reasons of an agent that says nothing."""


class Ended(Exception):
    """The task has ended, though nothing was raised."""

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(reason, message)
        self.reason: Reason = reason
        self.message = message


class SessionRun:
    """The session of one attempt."""

    def __init__(self, job: Job, post: Post, limit: TimeLimit) -> None:
        self._job = job
        self._post = post
        self._limit = limit
        self._log = SessionLog()
        self._usage = Usage()
        self._estimate = 0
        self._session_id: str | None = None
        self._resumed = False
        self._text = ""
        self._output: JsonValue = None
        self._prompt: Prompt | None = None
        self._too_many = False

    def told(self, report: Report) -> Report:
        """The report with what is known here."""
        usage = self._usage
        if self._estimate:  # of a prompt that did not come to its end
            usage += Usage(total=self._estimate, counted=False)
        self._log.note("end", reason=report.reason, message=report.message)
        return replace(
            report,
            text=self._text,
            output=self._output,
            usage=usage,
            session_id=self._session_id,
            resumed=self._resumed,
            transcript=self._log.data(),
        )

    async def run(self, lease: Lease, directory: Path, *, again: bool) -> None:
        """All prompts. Raises Ended, and what the agent's failure is."""
        async with await self._opened(lease, directory, again=again) as session:
            self._session_id = session.session_id
            self._resumed = session.opened.how != "new"
            opened = session.opened
            told = {"sessionId": session.session_id, "how": opened.how, "reason": opened.reason}
            self._post.event({"type": "opened", **told})
            self._log.note("session", agent=session.agent, cwd=str(directory), **told)
            lease.questions.listen(session.session_id, self._ask)
            stop = session.listen(self._heard)
            try:
                await self._set(session)
                await self._prompts(session)
            finally:
                stop()
                lease.questions.leave(session.session_id)

    async def _opened(self, lease: Lease, directory: Path, *, again: bool) -> Session:
        job = self._job
        try:
            async with lease.first_start:
                return await lease.runtime.open(
                    job.agent,
                    cwd=directory,
                    session_id=job.session_id if again else None,
                    permissions=self._permission,
                )
        except ErrorReply as error:
            opens = error.method.startswith("session/") and reason_of(error) == "agent_error"
            if error.code == INTERNAL_ERROR and opens:
                raise Ended("agent_not_started", str(error)) from error
            raise

    async def _set(self, session: Session) -> None:
        options = session.options
        settings = {"model": options.model, "mode": options.mode, "effort": options.thought_level}
        try:
            for name, value in self._job.settings.items():
                if not settings[name]:
                    raise OptionNotOffered(session.agent, f"a setting for {name}")
                await settings[name].set(value)
            for config_id, choice in self._job.options.items():
                await options.set(config_id, choice)
        except CodexAcpError as error:
            if reason_of(error) in RETRIED:
                raise
            raise SettingRefused(str(error)) from error

    async def _prompts(self, session: Session) -> None:
        job = self._job
        first = job.first_prompt if self._resumed else 0
        for number in range(first, len(job.prompts)):
            text = job.prompts[number]
            if self._resumed and job.begun and number == first:
                text = CONTINUE + text
            if job.schema is not None and number == len(job.prompts) - 1:
                text += _WANTED + json.dumps(job.schema)
            self._post.event({"type": "prompt", "number": number})
            await self._prompted(session, text)
            if job.schema is not None and number == len(job.prompts) - 1:
                await self._read_output(session)
            self._post.event({"type": "prompt_ended", "number": number})

    async def _prompted(self, session: Session, text: str) -> None:
        self._log.prompt(text)
        async with session.prompt(text) as prompt:
            self._prompt = prompt
            try:
                result = await prompt.result()
            except BaseException:
                self._text = prompt.messages[-1] if prompt.messages else ""
                raise
            finally:
                self._prompt = None
        self._take(result)
        if self._too_many:
            raise Ended("token_limit", f"it used more than {self._job.max_tokens} tokens")
        if result.stop_reason != "end_turn":
            raise Ended(result.stop_reason, self._text.strip() or _UNSAID[result.stop_reason])

    def _take(self, result: PromptResult) -> None:
        self._text = result.messages[-1] if result.messages else ""
        used = _usage_of(result.response)
        if used is None and self._estimate:
            used = Usage(total=self._estimate, counted=False)
        self._estimate = 0
        self._usage += used or Usage()
        self._tell_usage()

    async def _read_output(self, session: Session) -> None:
        for correction in range(CORRECTIONS + 1):
            checked = await self._post.ask({"kind": "output", "text": self._text})
            problems = checked.get("problems")
            if not problems:
                self._output = checked.get("output")
                return
            told = "; ".join(map(str, problems)) if isinstance(problems, list) else str(problems)
            if correction == CORRECTIONS:
                raise Ended("output_invalid", told)
            await self._prompted(session, _WRONG.format(told))

    def _heard(self, update: Update) -> None:
        self._log.update(update)
        if isinstance(update, UsageUpdateSessionUpdate):
            # What the context holds after a request is what that request took.
            self._estimate += update.used
            self._tell_usage()
        else:
            title = getattr(update, "title", None)
            if getattr(update, "session_update", "") == "tool_call" and isinstance(title, str):
                self._post.event({"type": "tool", "title": title[:500]})

    def _tell_usage(self) -> None:
        tokens, most = self._usage.total + self._estimate, self._job.max_tokens
        self._post.event({"type": "usage", "tokens": tokens})
        if most is not None and tokens > most and not self._too_many:
            self._too_many = True
            if self._prompt is not None:
                self._prompt.cancel()

    async def _permission(self, permission: Permission) -> str | None:
        return await ask_permission(self._ask, permission)

    async def _ask(self, question: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        answer: Mapping[str, JsonValue] | None = None
        with self._limit.paused():
            try:
                answer = await self._post.ask(question)
            finally:
                self._log.question(question, answer)
        return answer


def _usage_of(response: PromptResponse) -> Usage | None:
    """Return the usage of a prompt: from ACP's draft field, or from the ``_meta`` of an agent that
    keeps to the stable schema."""
    places: list[Any] = [plain(response)]  # a field of the schema or not
    places += [part for part in (response.meta or {}).values() if isinstance(part, dict)]
    for place in places:
        found = place.get("usage")
        if isinstance(found, dict) and isinstance(found.get("totalTokens"), int):
            told = [found.get(name) for name in ("totalTokens", "inputTokens", "outputTokens")]
            total, read, written = (count if isinstance(count, int) else 0 for count in told)
            return Usage(total, read, written)
    return None
