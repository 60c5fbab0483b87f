"""A worker: does jobs, any number at once, next to the directories that they work in.

Owns the agents and the worktrees of its jobs, and that nothing of a job is left when it has ended.
Must not know which engine runs it, nor where outcomes are kept.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from codex_acp._json import object_at, value_at
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    AvailableCommandsUpdateSessionUpdate,
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
    reason_of,
)
from codex_acp.fleet.private_files import make_private, remove_tree
from codex_acp.fleet.questions import permission_question
from codex_acp.jsonrpc.message import INTERNAL_ERROR, JsonValue
from codex_acp.runtime import AgentRuntime, OptionNotOffered
from codex_acp.transport.shielding import shielded
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from typing import Self

    from codex_acp.acp.types import PromptResponse, StopReason
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.runtime import (
        AgentSpec,
        Form,
        FormAnswer,
        Permission,
        Prompt,
        Session,
        Update,
        UrlAnswer,
        UrlRequest,
    )

    Ask = Callable[[Mapping[str, JsonValue]], Awaitable[Mapping[str, JsonValue]]]


class TimeLimit:
    """``async with TimeLimit(seconds) as limit:`` raises TimeoutError when they are over; None for
    no limit. A failed block whose own code raised TimeoutError is told from it by `expired`."""

    def __init__(self, seconds: float | None) -> None:
        self._left = seconds
        self._pauses = 0
        self._since = 0.0

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(self._left)
        self._since = self._loop.time()
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._timeout.__aexit__(*exc)

    @property
    def expired(self) -> bool:
        return self._timeout.expired()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time does not run meanwhile; several may overlap."""
        self._pauses += 1
        if self._pauses == 1 and self._left is not None and not self._timeout.expired():
            self._left -= self._loop.time() - self._since
            with suppress(RuntimeError):
                self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._left is not None and not self._timeout.expired():
                self._since = self._loop.time()
                with suppress(RuntimeError):  # the block has been left meanwhile
                    self._timeout.reschedule(self._since + max(self._left, 0.0))


class WorkerQuestions:
    """The callbacks of one runtime for forms and URLs, which have no policy for each session."""

    def __init__(self) -> None:
        self._asks: dict[str, Ask] = {}

    def listen(self, session_id: str, ask: Ask) -> None:
        """Questions of this session are asked by ``ask`` from now on."""
        self._asks[session_id] = ask

    def leave(self, session_id: str) -> None:
        self._asks.pop(session_id, None)

    async def form(self, form: Form) -> FormAnswer:
        """Asked at the driver; of no session of ours: declined."""
        answer = await self._elicit("form", form)
        content = answer.get("content")
        if answer.get("action") == "accept" and isinstance(content, dict):
            return cast("FormAnswer", content)
        return "decline" if answer.get("action") == "decline" else "cancel"

    async def url(self, request: UrlRequest) -> UrlAnswer:
        """Ask at the driver whether to open a page; decline for no session of ours."""
        action = (await self._elicit("url", request)).get("action")
        return cast("UrlAnswer", action) if action in ("accept", "decline") else "cancel"

    async def _elicit(self, kind: str, request: Form | UrlRequest) -> Mapping[str, JsonValue]:
        ask = self._asks.get(getattr(request, "session_id", ""))
        if ask is None:
            return {"action": "decline"}
        answer = (await ask({"kind": kind, "request": object_at(plain(request))})).get("answer")
        return answer if isinstance(answer, dict) else {}


TASKS_PER_AGENT: Final = 8
"""Tasks of one agent's process at once: what one loss of it costs at most."""


class FirstStart:
    """The first process of an agent is up before the next is started: what an agent sets up in an
    empty home it sets up once. Codex 0.163 fails when two begin with its database at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._over = asyncio.Event()

    async def __aenter__(self) -> None:
        if not self._over.is_set():
            await self._lock.acquire()
            if self._over.is_set():
                self._lock.release()

    async def __aexit__(self, failed: object, *_exc: object) -> None:
        if self._over.is_set():
            return
        if failed is None:
            self._over.set()
        self._lock.release()


@dataclass(eq=False, slots=True)
class Lease:
    """A place in an agent's process."""

    runtime: AgentRuntime
    questions: WorkerQuestions
    first_start: FirstStart
    """To be entered while the session is opened."""
    tasks: int = 0
    spoiled: bool = False


@dataclass(slots=True)
class AgentPool:
    """Every agent of a worker. ``tasks_per_agent`` bounds what shares one."""

    tasks_per_agent: int = TASKS_PER_AGENT
    _leases: dict[tuple[object, ...], list[Lease]] = field(default_factory=dict)
    _first: dict[tuple[object, ...], FirstStart] = field(default_factory=dict)

    def take(self, spec: AgentSpec, *, forms: bool, urls: bool) -> Lease:
        """A place for one session of ``spec``; its process is started when that is opened."""
        key = (spec.key, forms, urls)
        if spec.shared:
            for lease in self._leases.get(key, ()):
                if not lease.spoiled and lease.tasks < self.tasks_per_agent:
                    lease.tasks += 1
                    return lease
        questions = WorkerQuestions()
        runtime = AgentRuntime(
            on_form=questions.form if forms else None, on_url=questions.url if urls else None
        )
        first = self._first.setdefault(spec.key, FirstStart())
        lease = Lease(runtime, questions, first, tasks=1, spoiled=not spec.shared)
        self._leases.setdefault(key, []).append(lease)
        return lease

    async def give_back(self, lease: Lease, *, clean: bool) -> None:
        """The task has ended; ``clean`` unless something of it may still run in the process."""
        lease.tasks -= 1
        lease.spoiled = lease.spoiled or not clean
        if lease.spoiled and not lease.tasks:
            for leases in self._leases.values():
                if lease in leases:
                    leases.remove(lease)
            await lease.runtime.aclose()

    async def aclose(self) -> None:
        leases = [lease for leases in self._leases.values() for lease in leases]
        self._leases.clear()
        await asyncio.gather(*(lease.runtime.aclose() for lease in leases))


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
        """Return the report with what is known here."""
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
                options = session.options
                settings = {
                    "model": options.model,
                    "mode": options.mode,
                    "effort": options.thought_level,
                }
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

    async def _prompts(self, session: Session) -> None:
        job = self._job
        first = job.first_prompt if self._resumed else 0
        for number in range(first, len(job.prompts)):
            text = job.prompts[number]
            if self._resumed and job.prompt_sent and number == first:
                text = CONTINUE + text
            if job.schema is not None and number == len(job.prompts) - 1:
                text += _WANTED + json.dumps(job.schema)
            self._post.event({"type": "prompt", "number": number})
            await self._prompted(session, text)
            if job.schema is not None and number == len(job.prompts) - 1:
                await self._read_output(session)
            self._post.event({"type": "prompt_ended", "number": number})

    async def _prompted(self, session: Session, text: str) -> None:
        self._log.note("prompt", text=text)
        async with session.prompt(text) as prompt:
            self._prompt = prompt
            try:
                result = await prompt.result()
            except BaseException:
                self._text = prompt.messages[-1] if prompt.messages else ""
                raise
            finally:
                self._prompt = None
        self._text = result.messages[-1] if result.messages else ""
        used = _usage_of(result.response)
        if used is None and self._estimate:
            used = Usage(total=self._estimate, counted=False)
        self._estimate = 0
        self._usage += used or Usage()
        self._tell_usage()
        if self._too_many:
            raise Ended("token_limit", f"it used more than {self._job.max_tokens} tokens")
        if result.stop_reason != "end_turn":
            raise Ended(result.stop_reason, self._text.strip() or _UNSAID[result.stop_reason])

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
        chosen = (await self._ask(permission_question(permission))).get("optionId")
        return chosen if isinstance(chosen, str) else None

    async def _ask(self, question: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        answer: Mapping[str, JsonValue] | None = None
        with self._limit.paused():
            try:
                answer = await self._post.ask(question)
            finally:
                self._log.question(question, answer)
        return answer


def _usage_of(response: PromptResponse) -> Usage | None:
    """Return the usage of a prompt: from ACP's draft field, or from the ``_meta`` of the answer."""
    places: list[Any] = [plain(response)]  # a field of the schema or not
    places += [part for part in (response.meta or {}).values() if isinstance(part, dict)]
    for place in places:
        found = place.get("usage")
        if isinstance(found, dict) and isinstance(found.get("totalTokens"), int):
            told = [found.get(name) for name in ("totalTokens", "inputTokens", "outputTokens")]
            total, read, written = (count if isinstance(count, int) else 0 for count in told)
            return Usage(total, read, written)
    return None


FORCED: Final[frozenset[Reason]] = frozenset(
    ("time_limit", "token_limit", "cancelled", "agent_lost", "agent_not_found", "agent_not_started")
)
"""After these something may still run in the agent's process, if there is one."""


class Worker:
    """Its worktrees are below ``root``, a directory that is this user's alone."""

    def __init__(self, root: Path, *, tasks_per_agent: int = TASKS_PER_AGENT) -> None:
        self._root = root
        self.pool: AgentPool = AgentPool(tasks_per_agent)
        self.checkouts: Checkouts = Checkouts(root)
        self.kept: dict[str, Checkout] = {}
        """By attempt: worktrees of jobs that have reported, until the driver says what of them."""

    async def run(self, job: Job, post: Post) -> Report:
        """Do the job. Raises nothing but its cancellation, which ends it and leaves its
        worktree."""
        return await _Attempt(self, job, post).run()

    def scratch(self, job: Job) -> Path:
        """Return a directory for one attempt."""
        return make_private(self._root / job.fleet_id / "scratch") / uuid.uuid4().hex

    async def settle(self, attempt_id: str, *, written: bool) -> None:
        """Remove an attempt's worktree if its outcome is ``written``, else leave it to a later
        attempt."""
        checkout = self.kept.pop(attempt_id, None)
        if checkout is None:
            return
        if written:
            await self.checkouts.remove(checkout)
        else:
            checkout.lock.release()

    async def aclose(self, remove: Sequence[str] = ()) -> None:
        """End every agent, and remove what is left of the fleets with these ids."""
        await self.pool.aclose()
        for checkout in self.kept.values():
            checkout.lock.release()
        for fleet_id in remove:
            await asyncio.to_thread(remove_tree, self._root / fleet_id)


class _Attempt:
    def __init__(self, worker: Worker, job: Job, post: Post) -> None:
        self._worker = worker
        self._job = job
        self._post = post
        self._limit = TimeLimit(job.time_limit)
        self._checkout: Checkout | None = None
        self._baseline: Baseline | None = None
        self._scratch: Path | None = None
        self._note: str | None = None
        self._session = SessionRun(job, post, self._limit)

    async def run(self) -> Report:
        started = time.monotonic()
        try:
            reason, message = await self._ended()
            if self._baseline is None:
                changes = Changes(None, note=self._note)
            else:
                changes = await changes_since(self._baseline)
            if reason == "end_turn" and changes.missing is not None:
                reason, message = "changes_incomplete", changes.missing
            report = Report(
                reason=reason,
                message=message,
                changes=changes.patch,
                changes_note="; ".join(filter(None, (changes.missing, changes.note))) or None,
                seconds=round(time.monotonic() - started, 3),
                commit=self._checkout.commit if self._checkout else None,
            )
            report = self._session.told(report)
        except BaseException:
            if self._checkout is not None:
                self._checkout.lock.release()
            raise
        else:
            if self._checkout is not None:
                self._worker.kept[self._job.attempt_id] = self._checkout
        finally:
            if self._scratch is not None:
                await shielded(asyncio.create_task(asyncio.to_thread(remove_tree, self._scratch)))
        return report

    async def _ended(self) -> tuple[Reason, str | None]:
        try:
            async with self._limit:
                await self._work()
        except Ended as ended:
            return ended.reason, ended.message
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this task's
            if isinstance(error, TimeoutError) and self._limit.expired:
                return "time_limit", f"it took longer than {self._job.time_limit:g} seconds"
            return reason_of(error), str(error).strip() or type(error).__name__
        return "end_turn", None

    async def _work(self) -> None:
        job = self._job
        again = job.session_id is not None
        if job.repository is not None:
            self._checkout = await self._worker.checkouts.make(job, again=again)
            directory = self._checkout.path
            self._baseline = self._checkout.baseline
            again = again and self._checkout.left_over
        else:
            directory = Path(job.cwd or ".")
            if not directory.is_dir():
                raise Ended("directory", f"{str(directory)!r} is no directory on this machine")
            self._scratch = self._worker.scratch(job)
            found = await directory_baseline(directory, self._scratch)
            if isinstance(found, Baseline):
                self._baseline = found
            else:
                self._note = found
        self._post.event({"type": "place", "cwd": str(directory)})
        await self._converse(directory, again=again)

    async def _converse(self, directory: Path, *, again: bool) -> None:
        job = self._job
        lease: Lease = self._worker.pool.take(job.agent, forms=job.forms, urls=job.urls)
        clean = False
        try:
            await self._session.run(lease, directory, again=again)
            clean = True
        except Ended as ended:
            clean = ended.reason not in FORCED
            raise
        except Exception as error:
            clean = reason_of(error) not in FORCED and not self._limit.expired
            raise
        finally:
            await self._worker.pool.give_back(lease, clean=clean)


LOG_LIMIT: Final = 16 * 1024 * 1024
"""Characters that are kept; what an agent says beyond that is counted, not kept."""

JOINED: Final = 256 * 1024
"""Characters of one message above which a new line is begun."""


class SessionLog:
    """The transcript of one task: its session's events in order, one JSON object a line.

    ``{"time", "type": "prompt", "text"}``, ``{"type": "update", "update"}`` as ACP's
    ``session/update`` has it (the pieces of one message joined), ``{"type": "question", "kind",
    "toolCallId", "optionId"}`` (of a form the names of its fields, never a value),
    ``{"type": "end", "reason"}``.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._left_out = 0
        self._pieces: list[str] = []
        self._waiting = 0
        self._chunk: AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate | None = None

    def update(self, update: Update) -> None:
        """Note what the agent said or did."""
        if isinstance(update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate):
            content = update.content
            if isinstance(content, TextContentBlock):
                kind, message_id = update.session_update, update.message_id
                before = self._chunk
                if before is None or (before.session_update, before.message_id) != (
                    kind,
                    message_id,
                ):
                    self._flush()
                    self._chunk = update
                self._pieces.append(content.text)
                self._waiting += len(content.text)
                if self._waiting > JOINED:
                    self._flush()
                return
        if not isinstance(update, AvailableCommandsUpdateSessionUpdate):  # said to an editor's menu
            self.note("update", update=plain(update))

    def question(
        self, question: Mapping[str, JsonValue], answer: Mapping[str, JsonValue] | None
    ) -> None:
        """Note that a question was answered, or withdrawn (None)."""
        kind = question.get("kind")
        given = value_at(answer, "answer")
        told: dict[str, object] = {"kind": kind, "withdrawn": answer is None}
        if kind == "permission":
            told["toolCallId"] = value_at(question, "toolCall", "toolCallId")
            told["optionId"] = value_at(answer, "optionId")
        elif isinstance(given, dict):
            told["action"] = given.get("action")
            told["fields"] = sorted(object_at(given, "content"))
        self.note("question", **told)

    def note(self, kind: str, /, **members: object) -> None:
        """Add a line of its own."""
        self._flush()
        self._take(_line(kind, **members))

    def data(self) -> bytes:
        self._flush()
        if self._left_out:
            self._lines.append(_line("left_out", lines=self._left_out))
            self._left_out = 0
        return "".join(self._lines).encode("utf-8", "replace")

    def _flush(self) -> None:
        if self._chunk is None:
            return
        update = object_at(plain(self._chunk))
        update["content"] = {**update["content"], "text": "".join(self._pieces)}
        self._chunk, self._pieces, self._waiting = None, [], 0
        self._take(_line("update", update=update))

    def _take(self, line: str) -> None:
        if self._size + len(line) > LOG_LIMIT:
            self._left_out += 1
        else:
            self._size += len(line)
            self._lines.append(line)


def _line(kind: str, /, **members: object) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "type": kind, **members}, default=str) + "\n"
