"""What somebody writes who has not read the pages: each mistake gets one sentence that says how."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from codex_acp.acp import PromptTurn, connect_agent, run_agent
from codex_acp.acp.types import PromptRequest
from codex_acp.codex import (
    CodexClient,
    LaunchOptions,
    NotificationStream,
    Policy,
    Thread,
    TurnWatchdog,
    allow_commands,
    allow_edits,
    ask,
    first_of,
    image,
    mention,
    signed_bearer_token,
    spawn_app_server,
)
from codex_acp.codex.sync import Codex
from codex_acp.errors import MisuseError, UnknownOption
from codex_acp.fleet import Fleet, LocalEngine, Retries, Task, read_outcomes, read_tasks
from codex_acp.runtime import (
    AgentRuntime,
    AgentSpec,
    FileAccess,
    RestartLimit,
    SessionStore,
    StoredSession,
    TerminalAccess,
    allow_kinds,
)
from codex_acp.transport.link import memory_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def a_client() -> CodexClient:
    return CodexClient(memory_pair()[0])


def a_thread() -> Thread:
    return a_client().threads.get("t")


def a_prompt() -> PromptTurn:
    return PromptTurn(cast("Any", None), PromptRequest(session_id="s", prompt=[]))


def run(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run up to the first wait: no mistake is found later."""
    return coroutine.send(None)


def a_task(**fields: Any) -> Task:
    return Task(**{"id": "a", "prompt": "Hi.", "cwd": "/", **fields})


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: CodexClient.start(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: Codex(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: CodexClient.start(**cast("Any", {"env": {}})), UnknownOption, "ptions(env=...)"),
    (lambda: Codex(**cast("Any", {"codex": "/x"})), UnknownOption, "LaunchOptions(codex=...)"),
    (lambda: CodexClient(memory_pair()[0], policy=cast("Any", "allow")), MisuseError, "policy is"),
    (lambda: CodexClient(memory_pair()[0], policy=cast("Any", Policy)), MisuseError, "policy is"),
    (lambda: first_of(cast("Any", 5)), MisuseError, "first_of wants policies"),
    (lambda: CodexClient(memory_pair()[0], tools=[cast("Any", 5)]), MisuseError, "of a function"),
    (lambda: allow_kinds(cast("Any", "reed")), MisuseError, "use read, edit"),
    (lambda: AgentRuntime(permissions=cast("Any", "allow")), MisuseError, "function, not 'allow'"),
    (lambda: AgentRuntime(on_form=cast("Any", {})), MisuseError, "on_form is a function"),
    (lambda: AgentRuntime(files=cast("Any", True)), MisuseError, "is a FileAccess, not True"),
    (lambda: AgentRuntime(store=cast("Any", "s.json")), MisuseError, "is a SessionStore"),
    (lambda: AgentRuntime(agents=cast("Any", ["a"])), MisuseError, "agents maps names to Agent"),
    (lambda: AgentRuntime(permissions=cast("Any", None)), MisuseError, "is a function, not None"),
    (lambda: AgentRuntime(answer_seconds=cast("Any", "a")), MisuseError, "seconds, not 'a'"),
    (lambda: AgentRuntime(busy_seconds=-1), MisuseError, "busy_seconds is a positive number of s"),
    (lambda: AgentRuntime(opening_at_once=cast("Any", 1.5)), MisuseError, "at least 1, not 1.5"),
    (lambda: AgentRuntime(restarts=cast("Any", 3)), MisuseError, "is a RestartLimit, not 3"),
    (lambda: AgentRuntime(restarts=RestartLimit(0)), MisuseError, "the count of a RestartLimit"),
    (lambda: FileAccess(roots=cast("Any", "/tmp")), MisuseError, "roots is a list, not '/tmp'"),
    (lambda: FileAccess(size_limit=-1), MisuseError, "size_limit is a whole number"),
    (lambda: TerminalAccess(env=cast("Any", {"a": 1})), MisuseError, "env has a text for each"),
    (lambda: TerminalAccess(approve=cast("Any", True)), MisuseError, "approve is a function"),
    (lambda: SessionStore(cast("Any", None)), MisuseError, "store is a path, not None"),
    (lambda: StoredSession("a", "s", "/", cast("Any", 3)), MisuseError, "key is a text, not 3"),
    (lambda: allow_kinds("read", otherwise=cast("Any", 3)), MisuseError, "is a function, not 3"),
    (lambda: AgentSpec(["a"], env=cast("Any", {"a": 1})), MisuseError, "env has a text for each"),
    (lambda: AgentSpec(["a"], cwd=cast("Any", 3)), MisuseError, "cwd is a path, not 3"),
    (lambda: AgentSpec(["a"], name=cast("Any", 3)), MisuseError, "name is a text, not 3"),
    (lambda: AgentSpec(["a"], start_seconds=0), MisuseError, "start_seconds is a positive"),
    (lambda: AgentSpec(["a"], line_limit=0), MisuseError, "line_limit is a whole number"),
    (lambda: AgentSpec(link=cast("Any", 3), name="a"), MisuseError, "link is a function, not 3"),
    (lambda: AgentSpec.remote(cast("Any", 3)), MisuseError, "URL is a text, not 3"),
    (lambda: AgentRuntime().open(cast("Any", ["a"])), MisuseError, "AgentSpec([...]) has a comm"),
    (
        lambda: AgentRuntime(store=SessionStore("x")).open(key=cast("Any", 3)), MisuseError,
        "key is a text, not 3",
    ),
    (
        lambda: AgentRuntime().open(mcp_servers=cast("Any", [{"name": "x"}])), MisuseError,
        "mcp_servers has servers as StdioMcpServer",
    ),
    (lambda: AgentSpec(cast("Any", "my-agent --acp")), MisuseError, "AgentSpec.parse splits"),
    (lambda: AgentSpec(cast("Any", ["my-agent", 3])), MisuseError, "is a list of words"),
    (
        lambda: AgentRuntime(terminals=TerminalAccess()).open(AgentSpec(["a"], version=2)),
        MisuseError, "without files, terminals",
    ),
    (lambda: AgentSpec.parse(cast("Any", ["a"])), MisuseError, "a command line is a text"),
    (
        lambda: AgentRuntime().open(additional_directories="/tmp"), MisuseError,
        "additional_directories is a list, not '/tmp'",
    ),
    (lambda: AgentRuntime().open(cwd=cast("Any", 3)), MisuseError, "a path, not 3"),
    (
        lambda: AgentRuntime().open(permissions=cast("Any", "allow")), MisuseError,
        "permissions is a function, not 'allow'",
    ),
    (
        lambda: AgentRuntime().open(mcp_servers=cast("Any", {"x": {}})), MisuseError,
        "mcp_servers is a list",
    ),
    (lambda: a_task(id=3), MisuseError, "'id' is a text, not 3"),
    (lambda: a_task(prompt=3), MisuseError, "'prompt' is a text or a list of texts"),
    (lambda: a_task(prompt=[3]), MisuseError, "'prompt' is a text or a list of texts"),
    (lambda: a_task(cwd=3), MisuseError, "'cwd' is a path, not 3"),
    (lambda: a_task(agent=["codex"]), MisuseError, "'agent' is a name or an AgentSpec"),
    (lambda: a_task(options={"fast": 3}), MisuseError, "'options' maps ids to texts"),
    (lambda: a_task(policy="ask"), MisuseError, "'policy' is a function"),
    (lambda: a_task(time_limit="1"), MisuseError, "'time_limit' is a number, not '1'"),
    (lambda: a_task(max_tokens=True), MisuseError, "'max_tokens' is a number, not True"),
    (lambda: Fleet(cast("Any", "ray")), MisuseError, "engine is an engine, not 'ray'"),
    (lambda: Fleet(out=cast("Any", 3)), MisuseError, "out is a path, not 3"),
    (lambda: Fleet(permissions=cast("Any", "ask")), MisuseError, "permissions is a function, not"),
    (lambda: Fleet(concurrency=0), MisuseError, "concurrency is a whole number"),
    (lambda: Fleet(max_tokens=cast("Any", "a")), MisuseError, "max_tokens is a whole number"),
    (lambda: Fleet(time_limit=cast("Any", "a")), MisuseError, "time_limit is a positive number"),
    (lambda: Fleet(retries=cast("Any", 3)), MisuseError, "retries is a Retries, not 3"),
    (lambda: Retries(0), MisuseError, "attempts is a whole number of at least 1, not 0"),
    (lambda: LocalEngine(tasks_per_agent=0), MisuseError, "tasks_per_agent is a whole number"),
    (lambda: Fleet().map(cast("Any", a_task())), MisuseError, "tasks is a list"),
    (lambda: Fleet().map(cast("Any", [{"id": "a"}])), MisuseError, "a fleet runs tasks"),
    (lambda: read_tasks(cast("Any", None)), MisuseError, "a file of tasks is a path, not None"),
    (lambda: list(read_outcomes(cast("Any", 3))), MisuseError, "directory is a path, not 3"),
    (lambda: connect_agent(cast("Any", Path("x")), name="a"), MisuseError, "is a list, not Posix"),
    (lambda: connect_agent(cast("Any", ["x", 3]), name="a"), MisuseError, "is a list of words"),
    (lambda: LaunchOptions(codex=cast("Any", 3)), MisuseError, "codex is a path, not 3"),
    (lambda: CodexClient(cast("Any", "codex")), MisuseError, "CodexClient.start makes a client"),
    (lambda: CodexClient(cast("Any", 3)), MisuseError, "CodexClient.start makes a client, not 3"),
    (lambda: CodexClient(memory_pair()[0], tools=cast("Any", print)), MisuseError, "tools is a li"),
    (lambda: allow_edits(within=cast("Any", None)), MisuseError, "within is a path, not None"),
    (lambda: allow_commands(cast("Any", [3])), MisuseError, "a command is a list, not 3"),
    (lambda: image(cast("Any", None)), MisuseError, "an image is a path, not None"),
    (lambda: a_client().threads.get(cast("Any", a_thread())), MisuseError, "named by its id, not "),
    (lambda: a_thread().turn("Hi.", cwd=cast("Any", 3)), MisuseError, "a path, not 3"),
    (lambda: a_thread().turn("Hi.", silent_after=cast("Any", "a")), MisuseError, "silent_after is"),
    (
        lambda: a_thread().turn("Hi.", output_type=cast("Any", {"type": "object"})), MisuseError,
        "give a pydantic model, a dataclass or a TypedDict",
    ),
    (lambda: ask(cast("Any", None)), MisuseError, "ask takes the function to call, not None"),
    (lambda: a_client().handle(cast("Any", print)), MisuseError, '@codex.handle("currentTime/read'),
    (lambda: a_client().handle("currentTime/read")(cast("Any", 3)), MisuseError, "a function, not"),
    (lambda: a_client().handle_others(cast("Any", 3)), MisuseError, "a function, not 3"),
    (lambda: LaunchOptions(env=cast("Any", 3)), MisuseError, "env has a text for each name"),
    (lambda: LaunchOptions(env=cast("Any", {"A": 1})), MisuseError, "another value for ['A']"),
    (lambda: spawn_app_server(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: CodexClient.connect_to(cast("Any", 3)), MisuseError, "the URL of an app-server is a"),
    (lambda: signed_bearer_token(cast("Any", None)), MisuseError, "the secret is a text"),
    (
        lambda: CodexClient(memory_pair()[0], opt_out_notifications=cast("Any", 3)), MisuseError,
        "opt_out_notifications is a list, not 3",
    ),
    (
        lambda: CodexClient(memory_pair()[0], on_line=cast("Any", 3)), MisuseError,
        "on_line is a function, not 3",
    ),
    (
        lambda: CodexClient(memory_pair()[0], client_info=cast("Any", object())), MisuseError,
        "cannot be sent as JSON",
    ),
    (lambda: a_client().use_policy(ask(print), cast("Any", a_thread())), MisuseError, "by its id"),
    (lambda: NotificationStream(a_client(), cast("Any", a_thread())), MisuseError, "by its id"),
    (lambda: NotificationStream(a_client(), limit=cast("Any", "x")), MisuseError, "at least 1"),
    (lambda: TurnWatchdog(a_client(), 1, cast("Any", None)), MisuseError, "report is a function"),
    (lambda: a_client().tool(name=cast("Any", 3))(print), MisuseError, "3 is no name for a tool"),
    (lambda: a_client().handle(cast("Any", None)), MisuseError, '@codex.handle("currentTime/read'),
    (lambda: run(a_thread().rename(cast("Any", 3))), MisuseError, "a thread's name is a text"),
    (lambda: a_thread().turn("Hi.", model=cast("Any", object())), MisuseError, "sent as JSON"),
    (
        lambda: a_thread().turn("Hi.", output_type=cast("Any", {"a": 1})), MisuseError,
        "give a pydantic model",
    ),
    (
        lambda: a_thread().turn("Hi.", output_type=cast("Any", a_client())), MisuseError,
        "give a pydantic model",
    ),
    (
        lambda: a_thread().turn("Hi.", sandbox_policy=cast("Any", "read-only")), MisuseError,
        "{'type': 'readOnly'}, not 'read-only'",
    ),
    (lambda: mention(cast("Any", 3), name="x"), MisuseError, "a mention is 'app://...'"),
    (lambda: mention("app://x", name=cast("Any", 3)), MisuseError, "the name in a mention is a te"),
    (lambda: connect_agent(["x"], name=cast("Any", 3)), MisuseError, "the name of a program is a"),
    (
        lambda: connect_agent(["x"], name="a", version=cast("Any", 1.0)), MisuseError,
        "the version of a program is a text, not 1.0",
    ),
    (lambda: connect_agent(["x"], name="a", env=cast("Any", [3])), MisuseError, "env has a text"),
    (lambda: connect_agent(["x"], name="a", cwd=cast("Any", 3)), MisuseError, "cwd is a path"),
    (
        lambda: connect_agent(["x"], name="a", capabilities=cast("Any", {})), MisuseError,
        "capabilities are ClientCapabilities(...), not {}",
    ),
    (
        lambda: connect_agent(["x"], name="a", requests=cast("Any", 3)), MisuseError,
        "the request handlers are {method: function}",
    ),
    (
        lambda: run(run_agent(print, name="a", capabilities=cast("Any", {}))), MisuseError,
        "capabilities are AgentCapabilities(...), not {}",
    ),
    (
        lambda: run(run_agent(print, name="a", notifications=cast("Any", 3))), MisuseError,
        "the notification handlers are {method: function}",
    ),
    (lambda: run(run_agent(print, name="a", link=cast("Any", 3))), MisuseError, "link is a Link"),
    (
        lambda: run(run_agent(print, name="a", auth_methods=cast("Any", 3))), MisuseError,
        "auth_methods is a list",
    ),
    (lambda: a_prompt().say(cast("Any", 3)), MisuseError, "an agent sends texts here, not 3"),
    (lambda: a_prompt().plan(cast("Any", ["a"])), MisuseError, "a plan is {step: 'pending', 'in_"),
    (lambda: a_prompt().plan(cast("Any", {"a": "done"})), MisuseError, "not {'a': 'done'}"),
    (lambda: a_prompt().tool_call(cast("Any", 3)), MisuseError, "the title of a tool call is a te"),
    (
        lambda: cast("Any", AgentRuntime().open("codex", cwd=".")).run, AttributeError,
        "`session = await runtime.open(...)`",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "said"), MISTAKES)
def test_a_mistake_is_told_in_one_sentence(
    mistake: Callable[[], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        mistake()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_runtime_is_not_closed_from_another_loop() -> None:
    async with AgentRuntime() as runtime:
        with pytest.raises(MisuseError, match="event loop in which it was first used"):
            await asyncio.to_thread(asyncio.run, runtime.aclose())


def test_a_closed_codex_is_not_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    client = a_client()
    monkeypatch.setattr(CodexClient, "start", lambda *_, **__: client)
    codex = Codex()
    codex.close()
    with pytest.raises(MisuseError, match="only once"):
        codex.__enter__()


def test_no_codex_was_started_for_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("it was started")

    monkeypatch.setattr("codex_acp.codex.client.spawn_app_server", fail)
    with pytest.raises(UnknownOption):
        CodexClient.start(LaunchOptions(), **cast("Any", {"env": {}}))
