"""One task of a fleet: what is asked of an agent, and where it works.

Owns which tasks make sense, and by what name a task's files are kept. Starts nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.fleet.checkout import is_path, problem_of_repository, problem_of_revision
from codex_acp.runtime import AgentSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.fleet.questions import FleetPolicy
    from codex_acp.jsonrpc.message import JsonValue


AGENTS: Final[Mapping[str, AgentSpec]] = {
    "codex": AgentSpec.codex(shared=True),
    "claude": AgentSpec.claude(),
}
"""The agents known by name. Codex keeps its threads apart, so tasks share a process of it."""

LONGEST_NAME: Final = 100
"""Characters of a file name; file systems allow 255 bytes, with the suffixes."""

LONGEST_ID: Final = 1000

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Task:
    """Raises MisuseError for one that makes no sense.

    It works in ``cwd``, or in a worktree of its own where ``revision`` of ``repository`` is checked
    out: a URL (https, ssh, file) or a path; a branch, tag or commit, by default the repository's
    own HEAD. Nothing that a checkout brings is trusted for that.
    """

    id: str
    prompt: str | Sequence[str]
    """One prompt, or several that are sent one after the other in one session."""
    cwd: str | os.PathLike[str] | None = None
    repository: str | None = field(default=None, repr=False)
    """Its URL may hold a password; git is given that where no other user can read it."""
    revision: str | None = None
    agent: str | AgentSpec = "codex"
    """"codex", "claude", or how to start another one; tasks share its process if that says so."""
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)
    """Config options of the session by their id."""
    policy: FleetPolicy | None = None
    """Answers what the agent asks in this task; None: as the fleet's."""
    output: OutputType | None = None
    """A type, or a JSON Schema, that the last answer must fit."""
    time_limit: float | None = None
    """Seconds, in which a waiting question does not count; None: as the fleet's."""
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise MisuseError(f"task {self.id!r}: {problem}")
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", tuple(self.prompt))

    @property
    def prompts(self) -> tuple[str, ...]:
        """All of them."""
        return (self.prompt,) if isinstance(self.prompt, str) else tuple(self.prompt)

    @property
    def name(self) -> str:
        """The id as a file name."""
        return file_name(self.id)

    @property
    def spec(self) -> AgentSpec:
        """How its agent is started."""
        return self.agent if isinstance(self.agent, AgentSpec) else AGENTS[self.agent]

    @property
    def directory(self) -> str | None:
        """``cwd``, absolute."""
        return None if self.cwd is None else os.path.abspath(self.cwd)  # noqa: PTH100

    @property
    def source(self) -> str | None:
        """``repository``; a path is absolute."""
        if self.repository is None or not is_path(self.repository):
            return self.repository
        return os.path.abspath(self.repository)  # noqa: PTH100 - links stay

    @property
    def settings(self) -> dict[str, str]:
        """Model, mode and effort, where they are set."""
        found = {"model": self.model, "mode": self.mode, "effort": self.effort}
        return {name: value for name, value in found.items() if value is not None}

    def digest(self, schema: Mapping[str, object] | None) -> str:
        """Differs for two tasks that ask for different things."""
        spec = self.spec
        what = {
            "prompts": self.prompts,
            "where": [self.directory, self.source, self.revision],
            # Not the Python that starts our own agent: it may be updated between two runs.
            "agent": [spec.name, *spec.command[1:], sorted(spec.env.items())],
            "settings": [self.settings, dict(self.options), schema],
        }
        text = json.dumps(what, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _problem(self) -> str | None:
        prompts = [self.prompt] if isinstance(self.prompt, str) else list(self.prompt)
        if not 0 < len(self.id) <= LONGEST_ID:
            return f"an id is a text of 1 to {LONGEST_ID} characters"
        if not prompts or not all(text.strip() for text in prompts):
            return "the prompt is empty"
        if (self.cwd is None) == (self.repository is None):
            return "give it either a cwd or a repository"
        if self.repository is not None:
            problem = problem_of_repository(self.repository)
            if problem is not None:
                return problem
        if self.revision is not None:
            if self.repository is None:
                return "a revision needs a repository"
            problem = problem_of_revision(self.revision)
            if problem is not None:
                return problem
        if isinstance(self.agent, str) and self.agent not in AGENTS:
            return f"there is no agent {self.agent!r}; known are {', '.join(AGENTS)}"
        if self.time_limit is not None and not self.time_limit > 0:
            return "a time limit is more than 0 seconds"
        if self.max_tokens is not None and self.max_tokens < 1:
            return "max_tokens is at least 1"
        return None


def file_name(task_id: str) -> str:
    """The id itself where it is a plain name; else without what a name may not have, and with a
    digest that keeps two ids apart."""
    if _PLAIN.fullmatch(task_id) and len(task_id) <= LONGEST_NAME:
        return task_id
    digest = hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    shown = re.sub(r"[^A-Za-z0-9_-]+", "_", task_id)[: LONGEST_NAME - 20]
    return f"{shown}~{digest}"


def duplicates(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return a sentence for each id that two tasks share."""
    found: list[str] = []
    names: dict[str, str] = {}
    for task in tasks:
        folded = task.name.casefold()  # some file systems do not tell a from A
        other = names.get(folded)
        if other is None:
            names[folded] = task.id
        elif other == task.id:
            found.append(f"two tasks have the id {task.id!r}")
        else:
            found.append(f"the ids {other!r} and {task.id!r} differ in nothing but case")
    return tuple(dict.fromkeys(found))


OutputType: TypeAlias = "type[Any] | Mapping[str, Any]"
"""A type that pydantic knows, or a JSON Schema."""

MAX_PROBLEMS: Final = 5
"""Problems of one answer that are reported to the agent."""

_FENCED: Final = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL)
"""An answer in a code fence: models write one although the prompt asks them not to."""


class OutputCheck:
    """Checks answers against a type or a schema. Raises MisuseError if that cannot be checked."""

    def __init__(self, wanted: OutputType) -> None:
        self._adapter: Any = None
        self._validator: Any = None
        if isinstance(wanted, Mapping):
            self.schema: Mapping[str, JsonValue] = dict(wanted)
            self._validator = _validator(self.schema)
            return
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

        try:
            self._adapter = TypeAdapter(wanted)
            self.schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            first = str(error).split("\n", 1)[0]
            name = getattr(wanted, "__name__", wanted)
            raise MisuseError(f"{name} cannot be an output type: {first}") from error

    def check(self, text: str) -> tuple[JsonValue, list[str]]:
        """Return the answer as plain JSON, and its problems."""
        fenced = _FENCED.fullmatch(text)
        try:
            value: JsonValue = json.loads(fenced[1] if fenced else text)
        except (ValueError, RecursionError) as error:
            return None, [f"it is not JSON: {error}"]
        if self._adapter is None:
            found = sorted(self._validator.iter_errors(value), key=lambda e: list(map(str, e.path)))
            problems = [f"{e.json_path}: {e.message}"[:300] for e in found[:MAX_PROBLEMS]]
            return value, problems
        from pydantic import ValidationError

        from codex_acp.wire.codec import problems_of

        try:
            read = self._adapter.validate_json(fenced[1] if fenced else text)
        except ValidationError as error:
            return None, list(problems_of(error, value))[:MAX_PROBLEMS]
        return self._adapter.dump_python(read, mode="json", by_alias=True), []

    def read(self, output: JsonValue) -> object:
        """Return plain JSON as a value of the type; with a JSON Schema, unchanged."""
        if self._adapter is None:
            return output
        return self._adapter.validate_json(json.dumps(output))


def _validator(schema: Mapping[str, JsonValue]) -> Any:
    try:
        from jsonschema import SchemaError
        from jsonschema.validators import validator_for
    except ImportError:
        msg = "a JSON Schema as output needs more: pip install 'codex-acp-sdk[fleet]'"
        raise MisuseError(msg) from None
    cls = validator_for(schema)
    try:
        cls.check_schema(dict(schema))
    except SchemaError as error:
        raise MisuseError(f"the output is no JSON Schema: {error.message}") from None
    return cls(schema)


def checked_answer(
    check: OutputCheck | None, question: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the reply to a worker that asks the driver to check a text."""
    text = question.get("text")
    if check is None or not isinstance(text, str):
        return {"problems": ["nothing was wanted"]}
    try:
        output, problems = check.check(text)
    except (InvalidPayload, RecursionError) as error:
        return {"problems": [str(error)]}
    return {"output": output, "problems": list(problems)}
