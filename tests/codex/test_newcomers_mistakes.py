"""What somebody writes who has not read the pages: each mistake gets one sentence that says how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from codex_acp.codex import CodexClient, LaunchOptions, Policy, first_of
from codex_acp.codex.sync import Codex
from codex_acp.errors import MisuseError, UnknownOption
from codex_acp.runtime import AgentRuntime, allow_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: CodexClient.start(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: Codex(cast("Any", "codex")), MisuseError, "LaunchOptions(codex='codex')"),
    (lambda: CodexClient.start(**cast("Any", {"env": {}})), UnknownOption, "ptions(env=...)"),
    (lambda: Codex(**cast("Any", {"codex": "/x"})), UnknownOption, "LaunchOptions(codex=...)"),
    (lambda: CodexClient(cast("Any", None), policy=cast("Any", "allow")), MisuseError, "no policy"),
    (lambda: CodexClient(cast("Any", None), policy=cast("Any", Policy)), MisuseError, "no policy"),
    (lambda: first_of(cast("Any", 5)), MisuseError, "first_of wants policies"),
    (lambda: CodexClient(cast("Any", None), tools=[cast("Any", 5)]), MisuseError, "of a function"),
    (lambda: allow_kinds(cast("Any", "reed")), MisuseError, "use read, edit"),
    (lambda: AgentRuntime(permissions=cast("Any", "allow")), MisuseError, "'allow' is none"),
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


def test_no_codex_was_started_for_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("it was started")

    monkeypatch.setattr("codex_acp.codex.client.spawn_app_server", fail)
    with pytest.raises(UnknownOption):
        CodexClient.start(LaunchOptions(), **cast("Any", {"env": {}}))
