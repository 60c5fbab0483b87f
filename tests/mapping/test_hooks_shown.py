"""Hooks: said when they stopped something, failed, or have a word for the person."""

from __future__ import annotations

import pytest

from codex_acp.codex.types import HookPromptFragment, HookPromptThreadItem
from codex_acp.mapping.messages import hook_prompt
from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import hook
from tests.support.updates import ALL, Json, said, step, wired


def ended(
    state: SessionState, status: str, *entries: tuple[str, str], message: str | None = None
) -> list[Json]:
    return step(state, "hook/completed", hook(status, *entries, message=message))


@pytest.mark.parametrize(
    ("status", "severity"), [("blocked", "warning"), ("stopped", "warning"), ("failed", "error")]
)
def test_a_hook_that_stood_in_the_way_is_named_with_its_words(status: str, severity: str) -> None:
    ((notice),) = ended(SessionState(ALL), status, ("feedback", "Not now."), message="exit 2")

    assert notice["severity"] == severity
    assert "preToolUse" in notice["title"]
    assert "/project/.codex/hooks.json" in notice["title"]
    assert notice["description"] == "exit 2\nNot now."


def test_what_a_hook_tells_the_model_is_not_told_to_the_person() -> None:
    ((notice),) = ended(SessionState(ALL), "blocked", ("context", "for the model"))

    assert "description" not in notice


def test_words_that_come_twice_are_said_once() -> None:
    ((notice),) = ended(SessionState(ALL), "blocked", ("stop", "No."), message="No.")

    assert notice["description"] == "No."


def test_every_block_is_said_but_the_same_failure_once_a_turn() -> None:
    state = SessionState()

    assert len(ended(state, "blocked") + ended(state, "blocked")) == 2
    assert len(ended(state, "failed") + ended(state, "failed")) == 1


@pytest.mark.parametrize("status", ["completed", "running", "daydreaming"])
def test_a_hook_that_ended_well_is_not_mentioned(status: str) -> None:
    assert ended(SessionState(), status, ("context", "c"), ("feedback", "f")) == []


def test_a_hook_that_ended_well_may_warn() -> None:
    ((line),) = said(ended(SessionState(), "completed", ("warning", "Slow disk.")))

    assert "Slow disk." in line


def test_what_a_hook_gives_the_model_to_do_is_said_once() -> None:
    state = SessionState()
    fragments = [HookPromptFragment(hook_run_id="run", text="Run the tests.")]
    item = HookPromptThreadItem(id="h1", fragments=fragments)

    ((line),) = said(wired(state, hook_prompt(state, item)))
    assert "Run the tests." in line
    assert hook_prompt(state, item) == ()
    assert hook_prompt(state, HookPromptThreadItem(id="h2", fragments=[])) == ()
