"""Hooks: a person hears of those that stopped something, failed, or have something to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.mapping.messages.lines import say, say_once
from codex_acp.wire.model import UnknownValue

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState

_TOLD: Final = ("warning", "stop", "feedback", "error")
"""Kinds of a hook's output that are meant for a person; ``context`` is meant for the model."""

_WARNINGS: Final = ("warning", "error")
"""Kinds of entries that a person should see of a hook that ended well."""

OWN_REFUSAL: Final = "[codex-acp] "
"""How `codex.connection.agent_guard` begins why it refused a call: a hook, but nobody's own."""


def hook_completed(state: SessionState, params: models.HookCompletedNotification) -> SessionEvents:
    """``hook/completed`` → a line if the hook blocked or stopped something, failed, or warns.

    The same failure is said once a turn: a hook that is broken fails at every tool call.
    """
    run = params.run
    title = f"The hook {run.event_name} ({run.source_path})"
    status = run.status
    match status:
        case "blocked":
            told = _told(run)
            if told is not None and told.startswith(OWN_REFUSAL):
                return say(state, told.removeprefix(OWN_REFUSAL))
            return say(state, f"{title} blocked this action", "warning", told)
        case "stopped":
            return say(state, f"{title} stopped the turn", "warning", _told(run))
        case "failed":
            text, details = f"{title} failed", _told(run)
            key = (params.turn_id, text, details)
            return say_once(state, text, "error", details, key=key)
        case "running":
            return ()
        case "completed" | UnknownValue():  # whatever a newer Codex may call an end
            warnings = "\n".join(e.text for e in run.entries if e.kind in _WARNINGS and e.text)
            return say(state, f"{title} says", "warning", warnings) if warnings else ()
        case _:
            assert_never(status)


def hook_prompt(state: SessionState, item: models.HookPromptThreadItem) -> SessionEvents:
    """A ``hookPrompt`` item: what a hook told the model to go on with."""
    text = "\n".join(fragment.text for fragment in item.fragments if fragment.text)
    if not text:
        return ()
    return say_once(state, "A hook gave the model more to do", "info", text, key=("hook", item.id))


def _told(run: models.HookRunSummary) -> str | None:
    """The hook's own words."""
    words = [run.status_message, *(entry.text for entry in run.entries if entry.kind in _TOLD)]
    return "\n".join(dict.fromkeys(word for word in words if word)) or None
