"""Define a task of a fleet: its prompts, its agent, and the directory or repository of its work.

Owns the checks of tasks and of their answers, and the file name of a task. Starts nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from codex_acp._json import without_none
from codex_acp.errors import MisuseError
from codex_acp.fleet.checkout import is_path, problem_of_repository, problem_of_revision
from codex_acp.runtime import AgentSpec

if TYPE_CHECKING:
    from referencing import Specification

    from codex_acp.fleet.questions import FleetPolicy
    from codex_acp.jsonrpc import JsonValue


AGENTS: Final[Mapping[str, AgentSpec]] = {
    "codex": AgentSpec.codex(shared=True),
    "claude": AgentSpec.claude(),
}
"""The agents known by name. Tasks share a Codex process, because its threads do not mix."""

LONGEST_NAME: Final = 100
"""Characters of a task's file name; file systems allow 255 bytes, with suffixes."""

LONGEST_ID: Final = 1000
"""Characters of a task's id."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

OutputType: TypeAlias = "type[Any] | Mapping[str, Any]"
"""A type that pydantic can validate, or a JSON Schema."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. Raises MisuseError if its fields do not go together.

    The agent works in ``cwd``, or in a worktree of ``repository`` (a URL with https, ssh or file,
    or a path) that only this task uses. The worktree has ``revision`` (a branch, tag or commit; by
    default the repository's HEAD). A checkout makes no file of the repository trusted.
    """

    id: str
    prompt: str | Sequence[str]
    """One prompt, or several for the same session, one after the other."""
    cwd: str | os.PathLike[str] | None = None
    repository: str | None = field(default=None, repr=False)
    """The URL may contain a password; git gets the password where no other user can read it."""
    revision: str | None = None
    agent: str | AgentSpec = "codex"
    """"codex", "claude", or the spec of another agent; with ``shared``, tasks share a process."""
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)
    """Values of the session's config options, by id."""
    policy: FleetPolicy | None = None
    """Answers the agent's permission questions in this task; None for the fleet's policy."""
    output: OutputType | None = None
    """The type or JSON Schema that the agent's last message must fit."""
    time_limit: float | None = None
    """Seconds, without the time that questions wait; None for the fleet's ``task_time_limit``."""
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        problem = self._problem_of_types() or self._problem_of_values()
        if problem is not None:
            raise MisuseError(f"task {self.id!r}: {problem}")
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", tuple(self.prompt))

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts as a tuple, even if there is one."""
        return (self.prompt,) if isinstance(self.prompt, str) else tuple(self.prompt)

    @property
    def name(self) -> str:
        """The id as a file name."""
        return file_name(self.id)

    @property
    def spec(self) -> AgentSpec:
        """Spec of the agent."""
        return self.agent if isinstance(self.agent, AgentSpec) else AGENTS[self.agent]

    @property
    def directory(self) -> str | None:
        """``cwd``, absolute."""
        return None if self.cwd is None else os.path.abspath(self.cwd)  # noqa: PTH100

    @property
    def source(self) -> str | None:
        """``repository``, made absolute if it is a path."""
        if self.repository is None or not is_path(self.repository):
            return self.repository
        return os.path.abspath(self.repository)  # noqa: PTH100 - does not resolve links

    @property
    def settings(self) -> dict[str, str]:
        """``model``, ``mode`` and ``effort``, without None."""
        return without_none({"model": self.model, "mode": self.mode, "effort": self.effort})

    def digest(self, schema: Mapping[str, object] | None) -> str:
        """Return a hash of all fields that the result depends on; ``schema`` is the output's."""
        spec = self.spec
        content = {
            "prompts": self.prompts,
            "where": [self.directory, self.source, self.revision],
            # Without command[0]: our own agent's Python may be updated between two runs.
            "agent": [spec.name, *spec.command[1:], sorted(spec.env.items())],
            "settings": [self.settings, dict(self.options), schema],
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _problem_of_types(self) -> str | None:
        """Return the problem of a field whose value has another type; None if there is none."""
        for names, kind, wanted in (
            ("id", str, "a text"),
            ("repository revision model mode effort", str | None, "a text"),
            ("cwd", str | os.PathLike | None, "a path"),
            ("agent", str | AgentSpec, "a name or an AgentSpec"),
            ("time_limit", int | float | None, "a number"),
            ("max_tokens", int | None, "a number"),
        ):
            for name in names.split():
                value = getattr(self, name)
                if not isinstance(value, kind) or isinstance(value, bool):
                    return f"{name!r} is {wanted}, not {value!r:.60}"
        given: Any = self
        # A value of another type becomes (None,), which fails its check.
        prompts = given.prompts if isinstance(given.prompt, str | Sequence) else (None,)
        if not all(isinstance(text, str) for text in prompts):
            return "'prompt' is a text or a list of texts"
        values = given.options.values() if isinstance(given.options, Mapping) else (None,)
        if not all(isinstance(value, str | bool) for value in values):
            return "'options' maps ids to texts, true or false"
        return None if given.policy is None or callable(given.policy) else "'policy' is a function"

    def _problem_of_values(self) -> str | None:
        if not 0 < len(self.id) <= LONGEST_ID:
            return f"an id is a text of 1 to {LONGEST_ID} characters"
        if not self.prompts or not all(text.strip() for text in self.prompts):
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
    """Return the id if it is a plain file name; else the id with ``_`` for other characters, and a
    digest, so that two ids never have one name."""
    if _PLAIN_NAME.fullmatch(task_id) and len(task_id) <= LONGEST_NAME:
        return task_id
    digest = hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", task_id)[: LONGEST_NAME - 20]
    return f"{readable}~{digest}"


def problems_of_ids(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return a sentence for each pair of tasks whose files would have the same name."""
    problems: list[str] = []
    id_of: dict[str, str] = {}
    for task in tasks:
        folded = task.name.casefold()  # for file systems that ignore case
        other_id = id_of.get(folded)
        if other_id is None:
            id_of[folded] = task.id
        elif other_id == task.id:
            problems.append(f"two tasks have the id {task.id!r}")
        else:
            problems.append(f"the ids {other_id!r} and {task.id!r} differ in nothing but case")
    return tuple(dict.fromkeys(problems))


MAX_PROBLEMS: Final = 5
"""Most problems of one answer that are sent to the agent."""

_PROBLEM_LIMIT: Final = 300
"""Characters of a problem's sentence: a validator may quote a whole answer or schema."""

_FENCED: Final = re.compile(r"\s*```[\w-]*\n(.*?)\n?```\s*", re.DOTALL)
"""An answer in a code fence: models write the fence although the prompt forbids it."""


class OutputCheck:
    """Checks answers against a type or a schema. Raises MisuseError if neither is usable."""

    def __init__(self, output_type: OutputType) -> None:
        self._adapter: Any = None
        """pydantic's TypeAdapter; None for a JSON Schema."""
        self._validator: Any = None
        """jsonschema's validator; None for a type."""
        if isinstance(output_type, Mapping):
            self.schema: Mapping[str, JsonValue] = dict(output_type)
            self._validator = _make_validator(self.schema)
            return
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

        try:
            self._adapter = TypeAdapter(output_type)
            self.schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            first_line = str(error).split("\n", 1)[0]
            name = getattr(output_type, "__name__", output_type)
            raise MisuseError(f"{name} cannot be an output type: {first_line}") from error

    def check(self, text: str) -> tuple[JsonValue, list[str]]:
        """Return the answer as plain JSON, and its problems."""
        if fenced := _FENCED.fullmatch(text):
            text = fenced[1]
        try:
            value: JsonValue = json.loads(text)
            # Refuse NaN, and a value too deep for ``outcome.json``, where it is nested deeper.
            json.dumps([[[[value]]]], indent=1, allow_nan=False)
        except (ValueError, RecursionError) as error:
            return None, [f"it is not JSON: {error}"]
        if self._adapter is None:
            errors = sorted(
                self._validator.iter_errors(value), key=lambda e: list(map(str, e.path))
            )[:MAX_PROBLEMS]
            return value, [f"{e.json_path}: {e.message}"[:_PROBLEM_LIMIT] for e in errors]
        from pydantic import ValidationError

        from codex_acp.wire.codec import problems_of

        try:
            typed = self._adapter.validate_json(text)
        except ValidationError as error:
            return None, list(problems_of(error, value))[:MAX_PROBLEMS]
        return self._adapter.dump_python(typed, mode="json", by_alias=True), []

    def read(self, output: JsonValue) -> object:
        """Convert plain JSON to the output type; for a JSON Schema, return the JSON unchanged."""
        if self._adapter is None:
            return output
        return self._adapter.validate_json(json.dumps(output))


def _make_validator(schema: Mapping[str, JsonValue]) -> Any:
    try:
        from jsonschema import SchemaError
        from jsonschema.validators import validator_for
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import specification_with
    except ImportError:
        msg = "a JSON Schema as output needs more: pip install 'codex-acp-sdk[fleet]'"
        raise MisuseError(msg) from None
    try:
        cls: Any = validator_for(schema)
        cls.check_schema(dict(schema))
        specification = specification_with(cls.ID_OF(cls.META_SCHEMA))
        resolver = REGISTRY.resolver_with_root(specification.create_resource(schema))
        _check_references(schema, resolver, specification, set())
    except SchemaError as error:
        raise MisuseError(f"the output is no JSON Schema: {error.message}") from None
    except (Unresolvable, ValueError) as error:
        msg = f"the output refers to a schema that it does not contain: {error}"[:_PROBLEM_LIMIT]
        raise MisuseError(msg) from None
    except Exception as error:  # noqa: BLE001 - whatever the validator makes of a schema
        msg = f"the output is no usable JSON Schema: {error!r}"[:_PROBLEM_LIMIT]
        raise MisuseError(msg) from None
    # Without this registry, the validator would fetch references by HTTP.
    return cls(schema, registry=REGISTRY)


def _check_references(
    schema: Any, resolver: Any, specification: Specification[Any], seen: set[int]
) -> None:
    """Raise Unresolvable or ValueError for a reference that leads out of the schema. ``seen`` has
    the ids of the schemas that were checked."""
    if id(schema) in seen:
        return
    seen.add(id(schema))
    resource = specification.create_resource(schema)
    if isinstance(schema, Mapping):
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(reference := schema.get(keyword), str):
                found = resolver.lookup(reference)
                _check_references(found.contents, found.resolver, specification, seen)
    for inner in resource.subresources():
        _check_references(inner.contents, resolver.in_subresource(inner), specification, seen)


def checked_answer(check: OutputCheck | None, text: str) -> tuple[JsonValue, list[str]]:
    """Return the output in an agent's last message, and its problems. Raises nothing."""
    if check is None:
        return None, ["nothing was wanted"]
    try:
        return check.check(text)
    except Exception as error:  # noqa: BLE001 - whatever a validator makes of an agent's answer
        problem = f"it cannot be checked: {type(error).__name__}: {error}"[:_PROBLEM_LIMIT]
        return None, [problem]
