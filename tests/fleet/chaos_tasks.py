"""What a scripted model says and does in each task of a chaos run, and whether all that is kept of
a task tells just that: its outcome, its patch, its transcript, the journal and the printed lines.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from codex_acp.fleet import Outcome, read_outcomes
from codex_acp.fleet.jobs import CONTINUE
from codex_acp.testing import (
    Delay,
    ModelRequest,
    ModelResponse,
    Text,
    Usage,
    add_file,
    exec_command,
)

USED: Final = Usage(input_tokens=9, output_tokens=1)
"""Of each request."""

TORN: Final = b'{"type": "attempt", "id": "task-'
"""The end of a journal that was cut off."""

MOST_TRIES: Final = 30
"""Calls of a tool in one session of which none came to its end."""

LOST: Final = frozenset(
    ("interrupted", "agent_lost", "agent_not_started", "worker_lost", "end_turn")
)
"""How an attempt may end that something was killed in; or well, where that was the driver, before
it had written the outcome."""


class ChaosTask:
    """One task: of one or two parts; some ask for a command, which is allowed in half of them."""

    def __init__(self, number: int) -> None:
        self.id = f"task-{number:04}"
        self.parts = 2 if number % 3 == 0 else 1
        self.asks = number % 4 == 1
        self.allowed = number % 8 == 1

    def prompt(self, part: int) -> str:
        return f"Do part {part} of the task {self.id}."

    def line(self, repository: Path) -> dict[str, Any]:
        """The task as a line of the task file."""
        prompts = [self.prompt(part) for part in range(1, self.parts + 1)]
        policy: Any = {"allow": ["execute"]} if self.allowed else "deny_all"
        where = {"repository": str(repository), "policy": policy}
        return {"id": self.id, "prompt": prompts if self.parts > 1 else prompts[0], **where}

    def said_first(self, part: int) -> tuple[str, ...]:
        return (f"I begin part {part} ", f"of {self.id}: ", "größer 漢字 \U0001f600.\n")

    def said_last(self, part: int) -> tuple[str, ...]:
        return (f"Part {part} of ", f"{self.id} is ", "done.")

    def responses(self) -> Iterator[ModelResponse]:
        for part in range(1, self.parts + 1):
            yield ModelResponse(
                Delay(0.2),
                Text(*self.said_last(part), pause=0.02),
                USED,
                when=partial(self._is_done, part=part),
                repeat=True,
            )
            for tries in range(MOST_TRIES):
                call_id = f"call-{self.id}-{part}-{tries}"
                yield ModelResponse(
                    Delay(0.1),
                    Text(*self.said_first(part), pause=0.02),
                    self._call(part, call_id),
                    USED,
                    when=partial(self._is_at, part=part, tries=tries),
                    repeat=True,
                )

    def _call(self, part: int, call_id: str) -> Any:
        if self.asks:
            command = f"echo {self.id} {part} >> asked-{part}.txt"
            return exec_command(command, justification="to do the task", call_id=call_id)
        return add_file(f"made-{part}.txt", f"{self.id} {part}\n", call_id=call_id)

    @property
    def files(self) -> dict[str, str]:
        """What its patch adds, name and content."""
        if self.asks and not self.allowed:
            return {}
        name = "asked" if self.asks else "made"
        return {f"{name}-{p}.txt": f"{self.id} {p}\n" for p in range(1, self.parts + 1)}

    def _is_of(self, request: ModelRequest, part: int) -> bool:
        return request.last_user_text.endswith(self.prompt(part))

    def _is_at(self, request: ModelRequest, part: int, tries: int) -> bool:
        return self._is_of(request, part) and len(self._outputs(request, part)) == tries

    def _outputs(self, request: ModelRequest, part: int) -> list[str]:
        start = f"call-{self.id}-{part}-"
        return [text for name, text in request.tool_outputs.items() if name.startswith(start)]

    def _is_done(self, request: ModelRequest, part: int) -> bool:
        """Whether a call of the part came to its end: not to that of its Codex, nor, where a yes
        is to come, to the no of a client that was gone."""
        outputs = [text for text in self._outputs(request, part) if "aborted" not in text]
        if self.allowed:
            outputs = [text for text in outputs if "rejected by user" not in text]
        return self._is_of(request, part) and bool(outputs)


class Checks:
    """Compares; each method raises AssertionError."""

    def __init__(
        self, out: Path, source: Path, tasks: Sequence[ChaosTask], requests: Sequence[ModelRequest]
    ) -> None:
        self._out = out
        self._source = source
        self._tasks = {task.id: task for task in tasks}
        self._requests = requests
        self._outcomes = list(read_outcomes(out))
        self.counts: Counter[str] = Counter()

    def check(self, printed: Sequence[str]) -> None:
        """Everything; ``printed`` are the lines of all drivers, one after the other."""
        outcomes = self._outcomes
        assert sorted(outcome.id for outcome in outcomes) == sorted(self._tasks)
        assert all(outcome.ok for outcome in outcomes), [o for o in outcomes if not o.ok][:3]
        journal = self._journal()
        for outcome in outcomes:
            task = self._tasks[outcome.id]
            asked = [r for r in self._requests if f"of the task {task.id}." in r.last_user_text]
            self._attempts(outcome, journal[outcome.id])
            self._asked(outcome, task, asked)
            self._changed(outcome, task)
            self._told(outcome, task)
            self.counts[f"tasks with {len(outcome.attempts)} attempts"] += 1
            resumed = sum(attempt.resumed for attempt in outcome.attempts)
            self.counts["attempts that went on with a session"] += resumed
            self.counts["requests that a model answered"] += len(asked)
            for attempt in outcome.attempts:
                self.counts[f"attempts that ended with {attempt.reason}"] += 1
        sessions = [{a.session_id for a in outcome.attempts} - {None} for outcome in outcomes]
        assert sum(map(len, sessions)) == len(set().union(*sessions)), "two tasks share a session"
        self._printed(printed)
        self._kept()
        again = [a for outcome in outcomes for a in outcome.attempts[1:] if a.session_id]
        assert len(again) < 5 or any(a.resumed for a in again), "no session was gone on with"
        self.counts["outcomes"] = len(outcomes)

    def _journal(self) -> dict[str, list[dict[str, Any]]]:
        """Of each task the lines of its attempts. What was cut off costs no other line."""
        found: dict[str, list[dict[str, Any]]] = {task_id: [] for task_id in self._tasks}
        for line in (self._out / "journal.jsonl").read_bytes().splitlines():
            if line == TORN:
                self.counts["lines of the journal that were cut off"] += 1
                continue
            told = json.loads(line)
            if "id" in told:
                found[told["id"]].append(told)
        return found

    def _attempts(self, outcome: Outcome, journal: list[dict[str, Any]]) -> None:
        """They are those of the journal, and one that goes on does so in the session before."""
        *lost, last = outcome.attempts
        assert last.reason == outcome.reason == "end_turn"
        assert {attempt.reason for attempt in lost} <= LOST, outcome.attempts
        ended = {line["attempt"]: line for line in journal if line["type"] == "attempt_ended"}
        begun = [line for line in journal if line["type"] == "attempt"]
        told = [ended.get(line["attempt"], {}).get("reason", "interrupted") for line in begun]
        assert told == [attempt.reason for attempt in outcome.attempts], (told, outcome)
        earlier: set[str | None] = {None}
        for attempt in outcome.attempts:
            assert attempt.worker or attempt.reason == "interrupted", outcome
            assert (attempt.session_id in earlier) == attempt.resumed or not attempt.session_id
            earlier.add(attempt.session_id)
        assert last.session_id == outcome.session_id

    def _asked(self, outcome: Outcome, task: ChaosTask, asked: list[ModelRequest]) -> None:
        """Each attempt has asked the model, one part after the other, and in one conversation."""
        attempts = len(outcome.attempts)
        assert 1 <= len(asked) <= 2 * task.parts * attempts, f"{task.id}: {len(asked)} requests"
        for request in asked:
            part = next(
                p
                for p in range(1, task.parts + 1)
                if request.last_user_text.endswith(task.prompt(p))
            )
            before = request.last_user_text.removesuffix(task.prompt(part))
            assert before in ("", CONTINUE), before
            earlier = [text for text in request.user_texts if task.prompt(1) in text]
            assert earlier, f"{task.id}: part {part} was asked without the first"
            others = [
                o for o in self._tasks if o != task.id and any(o in t for t in request.user_texts)
            ]
            assert not others, f"{task.id} is in one conversation with {others}"
        if attempts == 1:
            assert len(asked) == 2 * task.parts
            assert outcome.usage.total == 10 * len(asked), outcome.usage
            questions = task.parts if task.asks else 0
            told = (outcome.asked, outcome.allowed)
            assert told == (questions, questions if task.allowed else 0), told

    def _changed(self, outcome: Outcome, task: ChaosTask) -> None:
        """The patch, applied, makes the files of this task and nothing else."""
        assert outcome.path is not None
        assert outcome.changes_note is None, outcome.changes_note
        patch = (outcome.path / "changes.patch").read_bytes()
        if not task.files:
            assert patch == b"", patch
            return
        place = self._out.parent / "applied" / task.id
        subprocess.run(["git", "clone", "-q", self._source, place], check=True)
        before = {path.name: path.read_text() for path in place.iterdir() if path.is_file()}
        applied = subprocess.run(["git", "apply", "-"], cwd=place, input=patch, check=False)
        assert not applied.returncode, f"the patch of {task.id} cannot be applied: {patch!r}"
        after = {path.name: path.read_text() for path in place.iterdir() if path.is_file()}
        if len(outcome.attempts) > 1 and task.asks:  # a command may have run twice
            after = {name: "".join(dict.fromkeys(t.splitlines(True))) for name, t in after.items()}
        assert after == before | task.files, (task.id, after)
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=place, check=True, capture_output=True, text=True
        )
        assert outcome.commit == head.stdout.strip()

    def _told(self, outcome: Outcome, task: ChaosTask) -> None:
        """The outcome and the transcript have what the model said, whole, once and in order."""
        assert outcome.text == "".join(task.said_last(task.parts)), outcome.text
        assert outcome.path is not None
        text = (outcome.path / "transcript.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        first, *_, last = lines
        assert (first["type"], last["type"], last["reason"]) == ("session", "end", "end_turn")
        assert first["sessionId"] == outcome.session_id
        prompts = [line["text"] for line in lines if line["type"] == "prompt"]
        parts = list(range(task.parts - len(prompts) + 1, task.parts + 1))
        resumed = outcome.attempts[-1].resumed
        assert resumed or len(prompts) == task.parts, prompts
        for number, (prompt, part) in enumerate(zip(prompts, parts, strict=True)):
            again = {CONTINUE + task.prompt(part)} if resumed and not number else set()
            assert prompt in {task.prompt(part)} | again, prompt
        said = _said_after_each_prompt(lines)
        assert len(said) == len(parts), said
        for part, words in zip(parts, said, strict=True):
            whole, end = ("".join(f(part)) for f in (task.said_first, task.said_last))
            once_more = {end} if resumed and part == parts[0] else set()
            assert words in {whole + end} | once_more, (task.id, words)
        updates = [line["update"] for line in lines if line["type"] == "update"]
        announced = Counter(u["toolCallId"] for u in updates if u["sessionUpdate"] == "tool_call")
        assert set(announced.values()) <= {1}, announced
        ends = {u["toolCallId"]: u.get("status") for u in updates if "toolCallId" in u}
        assert set(ends.values()) <= {"completed", "failed"}, ends
        questions = [line for line in lines if line["type"] == "question"]
        assert len(questions) <= len(parts) if task.asks else not questions
        assert resumed or not task.asks or len(questions) == len(parts), questions
        assert all(("reject" in line["optionId"]) != task.allowed for line in questions), questions
        assert not any(line["withdrawn"] for line in questions)
        self.counts["questions that were answered"] += len(questions)

    def _printed(self, printed: Sequence[str]) -> None:
        """What the command printed is what is kept, once."""
        found: Mapping[str, Outcome] = {outcome.id: outcome for outcome in self._outcomes}
        told = [json.loads(line) for line in printed]
        counts = Counter(line["id"] for line in told)
        assert set(counts.values()) <= {1}, "an outcome is printed twice"
        for line in told:
            path = found[line["id"]].path
            assert path is not None
            kept = json.loads((path / "outcome.json").read_text())
            assert line == {"type": "result", **kept, "path": str(path)}, line
        self.counts["outcomes that were printed"] = len(told)

    def _kept(self) -> None:
        """Nothing but the outcomes is left, and all of it is the user's alone."""
        left = [path.name for path in self._out.iterdir()]
        assert set(left) <= {"fleet.json", "lock", "journal.jsonl", "tasks"}, left
        for path in self._out.rglob("*"):
            assert not path.stat().st_mode & 0o077, path
            assert not path.name.startswith("."), path


def _said_after_each_prompt(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    said: list[str] = []
    for line in lines:
        if line["type"] == "prompt":
            said.append("")
        elif line["type"] == "update":
            update = line["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                said[-1] += update["content"]["text"]
    return said
