"""What somebody writes who has not read the pages: each mistake gets one sentence that says how."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from codex_acp.acp import connect_agent
from codex_acp.codex import (
    CodexClient,
    LaunchOptions,
    Policy,
    Thread,
    allow_commands,
    allow_edits,
    ask,
    first_of,
    image,
)
from codex_acp.codex.sync import Codex
from codex_acp.errors import MisuseError, UnknownOption
from codex_acp.runtime import AgentRuntime, AgentSpec, TerminalAccess, allow_kinds
from codex_acp.transport.link import memory_pair

if TYPE_CHECKING:
    from collections.abc import Callable


def a_client() -> CodexClient:
    return CodexClient(memory_pair()[0])


def a_thread() -> Thread:
    return a_client().threads.get("t")


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: CodexClient.start(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: Codex(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: CodexClient.start(**cast("Any", {"env": {}})), UnknownOption, "ptions(env=...)"),
    (lambda: Codex(**cast("Any", {"codex": "/x"})), UnknownOption, "LaunchOptions(codex=...)"),
    (lambda: CodexClient(cast("Any", None), policy=cast("Any", "allow")), MisuseError, "policy is"),
    (lambda: CodexClient(cast("Any", None), policy=cast("Any", Policy)), MisuseError, "policy is"),
    (lambda: first_of(cast("Any", 5)), MisuseError, "first_of wants policies"),
    (lambda: CodexClient(cast("Any", None), tools=[cast("Any", 5)]), MisuseError, "of a function"),
    (lambda: allow_kinds(cast("Any", "reed")), MisuseError, "use read, edit"),
    (lambda: AgentRuntime(permissions=cast("Any", "allow")), MisuseError, "function, not 'allow'"),
    (lambda: AgentRuntime(on_form=cast("Any", {})), MisuseError, "on_form is a function"),
    (lambda: AgentRuntime(files=cast("Any", True)), MisuseError, "is a FileAccess, not True"),
    (lambda: AgentRuntime(store=cast("Any", "s.json")), MisuseError, "is a SessionStore"),
    (lambda: AgentRuntime().open(cast("Any", ["a"])), MisuseError, "AgentSpec([...]) has a comm"),
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
    (lambda: connect_agent(cast("Any", Path("x")), name="a"), MisuseError, "is a list, not Posix"),
    (lambda: connect_agent(cast("Any", ["x", 3]), name="a"), MisuseError, "is a list of words"),
    (lambda: LaunchOptions(codex=cast("Any", 3)), MisuseError, "codex is a path, not 3"),
    (lambda: CodexClient(cast("Any", "codex")), MisuseError, "CodexClient.start makes a client"),
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
