"""Run any number of jobs at once, on the machine with their directories.

A job is one attempt of a task. A worker ends a job's agent and removes its worktree. Must not
know the engines, nor where outcomes are kept.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from codex_acp._json import object_at
from codex_acp.acp.types import (
    AcceptCreateElicitationResponse,
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    AvailableCommandsUpdateSessionUpdate,
    DeclineCreateElicitationResponse,
    SelectedRequestPermissionOutcome,
    TextContentBlock,
    UsageUpdateSessionUpdate,
)
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.fleet.changes import Baseline, Changes, changes_since, directory_baseline
from codex_acp.fleet.checkout import Checkout, Checkouts
from codex_acp.fleet.jobs import (
    CONTINUE,
    RETRIED,
    Job,
    Post,
    Reason,
    Report,
    SettingRefused,
    Usage,
    now,
    reason_of,
)
from codex_acp.fleet.private_files import make_private, remove_tree
from codex_acp.fleet.questions import kind_of
from codex_acp.jsonrpc import INTERNAL_ERROR, JsonValue
from codex_acp.runtime import AgentRuntime, AnswerTooLarge, OptionNotOffered, Permission
from codex_acp.transport.shielding import shielded
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from typing import Self

    from codex_acp.acp.types import CreateElicitationResponse, PromptResponse, StopReason
    from codex_acp.runtime import (
        AgentSpec,
        Form,
        FormAnswer,
        Prompt,
        Session,
        Update,
        UrlAnswer,
        UrlRequest,
    )

    AskDriver = Callable[[Form | UrlRequest], Awaitable[CreateElicitationResponse]]
    """Sends an elicitation of a task to the driver; returns the driver's answer."""


class TimeLimit:
    """``async with TimeLimit(seconds):`` raises TimeoutError after ``seconds``; None for no limit.
    `expired` says whether a TimeoutError came from this limit or from the code in the block."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._pauses = 0
        """Number of open `paused` blocks."""
        self._seconds_left = 0.0
        """The time that was left when the clock was last stopped."""

    async def __aenter__(self) -> Self:
        self._timeout = asyncio.timeout(self._seconds)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._timeout.__aexit__(*exc)

    @property
    def expired(self) -> bool:
        return self._timeout.expired()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock within the block. Blocks may overlap."""
        loop, end = asyncio.get_running_loop(), self._timeout.when()
        self._pauses += 1
        if self._pauses == 1 and end is not None and not self.expired:
            self._seconds_left = end - loop.time()
            with suppress(RuntimeError):  # here and below: the limit's block was left meanwhile
                self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._seconds is not None and not self.expired:
                with suppress(RuntimeError):
                    self._timeout.reschedule(loop.time() + max(self._seconds_left, 0.0))


class Elicitations:
    """Passes the forms and URL requests of one agent's process to the driver."""

    def __init__(self) -> None:
        self.ask_driver: dict[str, AskDriver] = {}
        """Session id → function of the task that has the session."""

    async def form(self, request: Form | UrlRequest) -> FormAnswer:
        """Ask the driver to answer a form; decline if no task has the session."""
        ask = self.ask_driver.get(getattr(request, "session_id", ""))  # a login's form has none
        answer = DeclineCreateElicitationResponse() if ask is None else await ask(request)
        if isinstance(answer, AcceptCreateElicitationResponse):
            return answer.content or {}
        return "decline" if isinstance(answer, DeclineCreateElicitationResponse) else "cancel"

    async def url(self, request: UrlRequest) -> UrlAnswer:
        """Ask the driver whether to open a page; decline if no task has the session."""
        answer = await self.form(request)
        return answer if isinstance(answer, str) else "accept"


TASKS_PER_AGENT: Final = 8
"""Tasks that share an agent's process at once; a loss of the process hits all these tasks."""


@dataclass(eq=False, slots=True)
class Lease:
    """An agent's process, and the number of tasks that use the process."""

    key: tuple[object, ...]
    """Key of the agent's spec, and whether the process may send forms and URL requests."""
    runtime: AgentRuntime
    elicitations: Elicitations
    tasks: int = 0
    spoiled: bool = False
    """Whether no more tasks may use the process, which ends with its last task."""


@dataclass(slots=True)
class AgentPool:
    """All agents of a worker. At most ``tasks_per_agent`` tasks share a process."""

    tasks_per_agent: int = TASKS_PER_AGENT
    _leases: list[Lease] = field(default_factory=list)

    def borrow(self, spec: AgentSpec, *, forms: bool, urls: bool) -> Lease:
        """Return a process for one more session of ``spec``; the session starts the process."""
        key = (spec.key, forms, urls)
        for lease in self._leases if spec.shared else ():
            if lease.key == key and not lease.spoiled and lease.tasks < self.tasks_per_agent:
                lease.tasks += 1
                return lease
        elicitations = Elicitations()
        on_form, on_url = elicitations.form, elicitations.url
        runtime = AgentRuntime(on_form=on_form if forms else None, on_url=on_url if urls else None)
        lease = Lease(key, runtime, elicitations, tasks=1, spoiled=not spec.shared)
        self._leases.append(lease)
        return lease

    async def give_back(self, lease: Lease, *, spoiled: bool) -> None:
        """End a task's use of a process; ``spoiled``: the task may go on working in the process."""
        lease.tasks -= 1
        lease.spoiled = lease.spoiled or spoiled
        if lease.spoiled and not lease.tasks:
            try:
                await lease.runtime.aclose()
            finally:
                if lease in self._leases:  # not if `aclose` has ended the process
                    self._leases.remove(lease)

    def kill(self) -> None:
        """Kill all agents with their child processes at once."""
        for lease in self._leases:
            lease.runtime.kill()

    async def aclose(self) -> None:
        await asyncio.gather(*(lease.runtime.aclose() for lease in self._leases))
        self._leases.clear()


CORRECTIONS: Final = 2
"""How often the agent is asked to correct an invalid answer."""
_OUTPUT_PROMPT: Final = (
    "\n\nEnd with a last message that is one JSON value and nothing else, without a code fence. "
    "It must fit this JSON Schema:\n"
)
_CORRECTION_PROMPT: Final = (
    "Your last message is not what was asked for: {}. "
    "Send the JSON value again, corrected, and nothing else."
)
_DEFAULT_MESSAGES: Final[Mapping[StopReason, str]] = {
    "refusal": "the agent refused to go on, and did not say why",
    "max_tokens": "the model came to its limit of tokens",
    "max_turn_requests": "the agent came to its limit of requests in one turn",
    "cancelled": "the agent says that the prompt was cancelled, and did not say why",
}
"""Messages of a failed task whose agent sent no text."""


class Ended(Exception):
    """Ends the task with ``reason``: a limit, a refusal, or an output that stays invalid."""

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(reason, message)
        self.reason: Reason = reason
        self.message = message


class _Attempt:
    """Runs one job: makes its worktree, runs its session there, and makes the report."""

    def __init__(self, worker: Worker, job: Job, post: Post) -> None:
        self._worker = worker
        self._job = job
        self._post = post
        self._limit = TimeLimit(job.time_limit)
        self._checkout: Checkout | None = None
        self._baseline: Baseline | str | None = None
        """Baseline of the directory; if there is none, the reason why there will be no patch."""
        self._baseline_git_dir: Path | None = None
        """Git directory of the baseline of a job without a worktree."""
        self._log = SessionLog()
        self._usage = Usage()
        """Usage of the prompts that have ended."""
        self._estimate = 0
        """Tokens of the running prompt, estimated from the size of the context."""
        self._session_id: str | None = None
        self._resumed = False
        self._text = ""
        """The agent's last message."""
        self._output: JsonValue = None
        self._prompt: Prompt | None = None
        """The prompt that runs."""
        self._too_many_tokens = False

    async def run(self) -> Report:
        started = time.monotonic()
        try:
            reason, message = await self._work_in_time()
            if isinstance(self._baseline, Baseline):
                changes = await changes_since(self._baseline)
            else:
                changes = Changes(None, note=self._baseline)
            if reason == "end_turn" and changes.missing is not None:
                reason, message = "changes_incomplete", changes.missing
            self._log.note("end", reason=reason, message=message)
            report = Report(
                reason=reason,
                message=message,
                text=self._text,
                output=self._output,
                # An estimate is left if the last prompt has not ended.
                usage=self._usage + Usage(total=self._estimate, counted=not self._estimate),
                session_id=self._session_id,
                resumed=self._resumed,
                seconds=round(time.monotonic() - started, 3),
                commit=self._checkout.commit if self._checkout else None,
                changes=changes.patch,
                changes_note="; ".join(filter(None, (changes.missing, changes.note))) or None,
                transcript=self._log.data(),
            )
        except BaseException:
            if self._checkout is not None:
                self._checkout.lock.release()
            raise
        else:
            if self._checkout is not None:
                self._worker.kept[self._job.attempt_id] = self._checkout
        finally:
            if (git_dir := self._baseline_git_dir) is not None:
                await shielded(asyncio.create_task(asyncio.to_thread(remove_tree, git_dir)))
        return report

    async def _work_in_time(self) -> tuple[Reason, str | None]:
        """Work within the time limit; return why the work ended."""
        try:
            async with self._limit:
                await self._work()
        except Ended as ended:
            return ended.reason, ended.message
        except Exception as error:  # noqa: BLE001 - any error fails this task alone
            if isinstance(error, TimeoutError) and self._limit.expired:
                return "time_limit", f"it took longer than {self._job.time_limit:g} seconds"
            return reason_of(error), str(error).strip() or type(error).__name__
        return "end_turn", None

    async def _work(self) -> None:
        """Make the worktree or look at the directory, then run the session there."""
        job = self._job
        resume = job.session_id is not None
        if job.repository is not None:
            self._checkout = await self._worker.checkouts.make(job, resume=resume)
            directory = self._checkout.path
            self._baseline = self._checkout.baseline
            resume = resume and self._checkout.left_over
        else:
            directory = Path(job.cwd or ".")
            if not directory.is_dir():
                raise Ended("directory", f"{str(directory)!r} is no directory on this machine")
            scratch = make_private(self._worker.root / job.fleet_id / "scratch")
            self._baseline_git_dir = scratch / uuid.uuid4().hex
            self._baseline = await directory_baseline(directory, self._baseline_git_dir)
        self._post.event({"type": "place", "cwd": str(directory)})
        await self._run_in_process(directory, resume=resume)

    async def _run_in_process(self, directory: Path, *, resume: bool) -> None:
        """Run the session in an agent's process from the pool."""
        pool, job = self._worker.pool, self._job
        lease = pool.borrow(job.agent, forms=job.forms, urls=job.urls)
        spoiled = True  # if the job is cancelled
        try:
            await self._run_session(lease, directory, resume=resume)
            spoiled = False
        except Ended as ended:
            spoiled = ended.reason in MAY_STILL_RUN
            raise
        except Exception as error:
            runs_on = reason_of(error) in MAY_STILL_RUN or isinstance(error, AnswerTooLarge)
            spoiled = runs_on or self._limit.expired
            raise
        finally:
            await pool.give_back(lease, spoiled=spoiled)

    async def _run_session(self, lease: Lease, directory: Path, *, resume: bool) -> None:
        """Open a new session, or with ``resume`` the session of the last attempt; send all prompts.
        Raises Ended, and the errors of the agent."""
        async with await self._open(lease, directory, resume=resume) as session:
            opened, session_id = session.opened, session.session_id
            self._session_id = session_id
            self._resumed = opened.how != "new"
            event = {"sessionId": session_id, "how": opened.how, "reason": opened.reason}
            self._post.event({"type": "opened", **event})
            self._log.note("session", agent=session.agent, cwd=str(directory), **event)
            lease.elicitations.ask_driver[session_id] = self._ask
            stop_listening = session.listen(self._on_update)
            try:
                await self._set_options(session)
                await self._send_prompts(session)
            finally:
                stop_listening()
                lease.elicitations.ask_driver.pop(session_id, None)

    async def _set_options(self, session: Session) -> None:
        """Set the settings and options of the task. Raises SettingRefused, or the
        agent's error if the error's reason is in `RETRIED`."""
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

    async def _open(self, lease: Lease, directory: Path, *, resume: bool) -> Session:
        job = self._job
        try:
            return await lease.runtime.open(
                job.agent,
                cwd=directory,
                session_id=job.session_id if resume else None,
                permissions=self._choose_option,
            )
        except ErrorReply as error:
            in_session = error.method.startswith("session/")
            if in_session and error.code == INTERNAL_ERROR and reason_of(error) == "agent_error":
                # A broken process: with this reason, the task is tried again in another process.
                raise Ended("agent_not_started", str(error)) from error
            raise

    async def _send_prompts(self, session: Session) -> None:
        job = self._job
        first = job.first_prompt if self._resumed else 0
        for number in range(first, len(job.prompts)):
            text = job.prompts[number]
            if self._resumed and job.prompt_sent and number == first:
                text = CONTINUE + text
            needs_output = job.schema is not None and number == len(job.prompts) - 1
            if needs_output:
                text += _OUTPUT_PROMPT + json.dumps(job.schema)
            self._post.event({"type": "prompt", "number": number})
            await self._send_prompt(session, text)
            if needs_output:
                await self._read_output(session)
            self._post.event({"type": "prompt_ended", "number": number})

    async def _send_prompt(self, session: Session, text: str) -> None:
        self._log.note("prompt", text=text)
        async with session.prompt(text) as prompt:
            self._prompt = prompt
            try:
                result = await prompt.result()
            finally:
                self._prompt = None
                self._text = prompt.messages[-1] if prompt.messages else ""
        usage = _usage_of(result.response)
        if usage is None and self._estimate:
            usage = Usage(total=self._estimate, counted=False)
        self._estimate = 0
        self._usage += usage or Usage()
        self._report_usage()
        if self._too_many_tokens:
            raise Ended("token_limit", f"it used more than {self._job.max_tokens} tokens")
        if result.stop_reason != "end_turn":
            raise Ended(
                result.stop_reason, self._text.strip() or _DEFAULT_MESSAGES[result.stop_reason]
            )

    async def _read_output(self, session: Session) -> None:
        """Have the driver check the last message; have the agent correct an invalid one."""
        for correction in range(CORRECTIONS + 1):
            output, problems = await self._post.ask(self._text)
            if not problems:
                self._output = output
                return
            text = "; ".join(problems)
            if correction == CORRECTIONS:
                raise Ended("output_invalid", text)
            await self._send_prompt(session, _CORRECTION_PROMPT.format(text))

    def _on_update(self, update: Update) -> None:
        self._log.update(update)
        if isinstance(update, UsageUpdateSessionUpdate) and _is_count(update.used):
            # A request of the model takes as many tokens as the context has after it.
            self._estimate += update.used
            self._report_usage()
        else:
            title = getattr(update, "title", None)
            if getattr(update, "session_update", "") == "tool_call" and isinstance(title, str):
                self._post.event({"type": "tool", "title": title[:500]})

    def _report_usage(self) -> None:
        """Send the usage to the driver; cancel the prompt if the task has used too many tokens."""
        tokens, limit = self._usage.total + self._estimate, self._job.max_tokens
        self._post.event({"type": "usage", "tokens": tokens})
        if limit is not None and tokens > limit and not self._too_many_tokens:
            self._too_many_tokens = True
            if self._prompt is not None:
                self._prompt.cancel()

    async def _choose_option(self, permission: Permission) -> str | None:
        outcome = await self._ask(permission)
        is_selected = isinstance(outcome, SelectedRequestPermissionOutcome)
        return outcome.option_id if is_selected else None

    async def _ask(self, question: Permission | Form | UrlRequest) -> Any:
        """Ask the driver; meanwhile the task's time limit stands still."""
        answer: Any = None
        with self._limit.paused():
            try:
                answer = await self._post.ask(question)
            finally:
                self._log.question(question, answer)
        return answer


def _usage_of(response: PromptResponse) -> Usage | None:
    """Return the usage of a prompt, from ``usage``, a draft field of ACP, in the answer or in a
    value of the answer's ``_meta``; None if there is none."""
    places: list[Any] = [plain(response)]
    places += [part for part in (response.meta or {}).values() if isinstance(part, dict)]
    for place in places:
        usage = place.get("usage")
        if isinstance(usage, dict) and _is_count(usage.get("totalTokens")):
            counts = [usage.get(name) for name in ("totalTokens", "inputTokens", "outputTokens")]
            total, input_, output = (count if _is_count(count) else 0 for count in counts)
            return Usage(total, input_, output)
    return None


def _is_count(value: object) -> TypeGuard[int]:
    """Return whether an agent's number can be a count of tokens. A sum of larger numbers may have
    more digits than Python writes, and a negative number would add to a budget."""
    return type(value) is int and 0 <= value < 1 << 63


MAY_STILL_RUN: Final[frozenset[Reason]] = frozenset(
    ("time_limit", "token_limit", "cancelled", "agent_lost", "agent_not_found", "agent_not_started")
)
"""Reasons after which a task's work may go on in the agent's process."""


class Worker:
    """Runs jobs; keeps their worktrees below ``root``, a private directory of this user."""

    def __init__(self, root: Path, *, tasks_per_agent: int = TASKS_PER_AGENT) -> None:
        self.root = root
        self.pool: AgentPool = AgentPool(tasks_per_agent)
        self.checkouts: Checkouts = Checkouts(root)
        self.kept: dict[str, Checkout] = {}
        """Worktrees of ended jobs, by ``attempt_id``, until `settle` removes or releases them."""

    async def run(self, job: Job, post: Post) -> Report:
        """Run a job; errors are in the report. A cancelled job ends and leaves its worktree."""
        return await _Attempt(self, job, post).run()

    async def settle(self, attempt_id: str, *, written: bool) -> None:
        """Remove an attempt's worktree if the outcome was ``written``; else unlock the worktree."""
        checkout = self.kept.pop(attempt_id, None)
        if checkout is None:
            return
        if written:
            await self.checkouts.remove(checkout)
        else:
            checkout.lock.release()

    async def aclose(self, remove: Sequence[str] = ()) -> None:
        """End every agent, and ``remove`` the directories of the fleets with these ids."""
        await self.pool.aclose()
        for checkout in self.kept.values():
            checkout.lock.release()
        for fleet_id in remove:
            await asyncio.to_thread(remove_tree, self.root / fleet_id)


LOG_LIMIT: Final = 16 * 1024 * 1024
"""Characters of a transcript; further lines are only counted."""

MESSAGE_LIMIT: Final = 256 * 1024
"""Characters of a message on one line; a longer message goes on in another line."""


class SessionLog:
    """The transcript of one task: the events of its session, one JSON object a line.

    Each line has ``time`` and ``type``:

    * ``session``: how it was opened; ``prompt``: its ``text``; ``end``: the ``reason``
    * ``update``: an ``update`` of ACP's ``session/update``, with the pieces of one message joined
    * ``question``: the option chosen for a tool call, or the names of a form's fields, never values
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._left_out = 0
        """Lines that were only counted."""
        self._pieces: list[str] = []
        """Texts of the message that begins with `_chunk`; no line has them yet."""
        self._pieces_size = 0
        self._chunk: AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate | None = None

    def update(self, update: Update) -> None:
        if isinstance(
            update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate
        ) and isinstance(update.content, TextContentBlock):
            text, message = update.content.text, (update.session_update, update.message_id)
            first = self._chunk
            if first is None or (first.session_update, first.message_id) != message:
                self._flush()
                self._chunk = update
            self._pieces.append(text)
            self._pieces_size += len(text)
            if self._pieces_size > MESSAGE_LIMIT:
                self._flush()
        elif not isinstance(update, AvailableCommandsUpdateSessionUpdate):  # for an editor's menu
            self.note("update", update=plain(update))

    def question(self, question: Permission | Form | UrlRequest, answer: Any) -> None:
        """Log a question and its answer, which is None if the question was withdrawn."""
        members: dict[str, object] = {"kind": kind_of(question), "withdrawn": answer is None}
        if isinstance(question, Permission):
            members["toolCallId"] = question.tool_call.tool_call_id
            members["optionId"] = getattr(answer, "option_id", None)
        elif answer is not None:
            members["action"] = answer.action
            members["fields"] = sorted(getattr(answer, "content", None) or ())
        self.note("question", **members)

    def note(self, kind: str, /, **members: object) -> None:
        self._flush()
        self._add(_line(kind, **members))

    def data(self) -> bytes:
        self._flush()
        if self._left_out:
            self._lines.append(_line("left_out", lines=self._left_out))
            self._left_out = 0
        return "".join(self._lines).encode("utf-8", "replace")

    def _flush(self) -> None:
        """Add a line with the joined pieces."""
        if self._chunk is None:
            return
        update = object_at(plain(self._chunk))
        update["content"] = {**update["content"], "text": "".join(self._pieces)}
        self._chunk, self._pieces, self._pieces_size = None, [], 0
        self._add(_line("update", update=update))

    def _add(self, line: str) -> None:
        if self._size + len(line) > LOG_LIMIT:
            self._left_out += 1
        else:
            self._size += len(line)
            self._lines.append(line)


def _line(kind: str, /, **members: object) -> str:
    return json.dumps({"time": now(), "type": kind, **members}, default=str) + "\n"
