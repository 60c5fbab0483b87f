"""Map the texts for the person: messages, thoughts, compactions, hooks, warnings and plans.

Limits the length of notices, and shows each once. Must not know tool calls, except the one that
asks about a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.codex.approvals.running_items import full_server_name
from codex_acp.mapping import events
from codex_acp.mapping.events import SessionEvent, SessionEvents, Severity, StepStatus, tool_call_id
from codex_acp.mapping.prompt import content_block
from codex_acp.mapping.state import SentThought, add_piece, left_to_send
from codex_acp.routing.changes import code_content
from codex_acp.routing.display import TITLE_LIMIT, shortened, still_visible
from codex_acp.wire.model import UnknownValue

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.codex._generated.models import ContextCompactionThreadItem
    from codex_acp.mapping.state import SessionState

DETAILS_LIMIT: Final = 20_000
"""Characters of a notice's details: a hook or server may write any length when it fails."""
_NO_TEXT: Final = "Codex sent a warning without a text"


def make_notice(
    text: str, severity: Severity = "warning", details: str | None = None, *, optional: bool = False
) -> events.Notice:
    """Return a notice of any length, with invisible characters escaped. ``text`` must be clear
    without ``details``; `Notice` explains ``optional``."""
    text = still_visible(text.strip()) or _NO_TEXT
    details = still_visible(details.strip()) if details else None
    return events.Notice(severity, text, details, optional)


def notice_events(
    text: str, severity: Severity = "warning", details: str | None = None, *, optional: bool = False
) -> SessionEvents:
    """Return the events of one notice with a text of Codex, shortened."""
    text = shortened(text.strip(), TITLE_LIMIT)
    details = shortened(details.strip(), DETAILS_LIMIT) if details else None
    return (make_notice(text, severity, details, optional=optional),)


def notice_once(
    state: SessionState,
    text: str,
    severity: Severity = "warning",
    details: str | None = None,
    *,
    key: tuple[str | None, ...] = (),
    optional: bool = False,
) -> SessionEvents:
    """Return `notice_events`, or nothing if the session had a notice with this ``key`` before. The
    default key is the whole text."""
    key = key or (text, details)
    if key in state.notices:
        return ()
    state.notices[key] = None
    return notice_events(text, severity, details, optional=optional)


# Messages of the agent and of the person.


def message_delta(
    state: SessionState, params: models.AgentMessageDeltaNotification | models.PlanDeltaNotification
) -> SessionEvents:
    """Map ``item/agentMessage/delta`` and ``item/plan/delta``: both are shown as messages."""
    return text_delta(state, params.item_id, params.delta)


def agent_message_completed(
    state: SessionState, item: models.AgentMessageThreadItem
) -> SessionEvents:
    """Show the rest of a message, and the questions that it asks without waiting for an answer."""
    if item.text == state.review_text and item.id not in state.sent_text:
        return ()  # `mapping.items` showed this text when the review ended
    text = item.text
    for question in item.questions or ():
        missing = [] if question.title in text else [question.title]
        missing += [f"- {option}" for option in question.options or () if option not in text]
        text = "\n\n".join(filter(None, (text, "\n".join(missing))))
    return text_completed(state, item.id, text)


def text_delta(state: SessionState, item_id: str, delta: str) -> SessionEvents:
    """Show the next piece of an item's text as a message."""
    if not delta:
        return ()
    pieces = state.sent_text.get(item_id)
    if pieces is None:
        state.sent_text[item_id] = [delta]
    else:
        add_piece(pieces, delta)
    return (events.TextChunk(item_id, delta),)


def text_completed(state: SessionState, item_id: str, whole: str) -> SessionEvents:
    """Show the part of the whole text that no delta has shown."""
    left = left_to_send(state.sent_text.setdefault(item_id, []), item_id, whole)
    return () if left is None else (events.TextChunk(*left),)


def user_message(
    state: SessionState, item: models.UserMessageThreadItem, live: bool
) -> SessionEvents:
    """Show a message of the person. ``live``: its turn runs. The client has its own live messages,
    so a live message is shown only if another client sent it (``clientUserMessageId`` tells the
    client), or if it went to a sub-agent."""
    is_own = item.client_id is None or item.client_id in state.own_messages
    if live and is_own and not state.is_sub_agent:
        return ()
    if item.id in state.sent_text:
        return ()
    state.sent_text[item.id] = []  # shown once, although Codex reports its start and its end
    content = [content_block(part) for part in item.content]
    return (events.UserMessage(item.id, content, item.client_id),)


# The model's reasoning: the summary, or the raw text if there is no summary.

_BLANK_LINE: Final = "\n\n"
"""Separator of two parts, sent with the first text of the second part."""


def summary_text_delta(
    state: SessionState, params: models.ReasoningSummaryTextDeltaNotification
) -> SessionEvents:
    """Map ``item/reasoning/summaryTextDelta``."""
    return _thought_delta(state, params.item_id, params.summary_index, params.delta, raw=False)


def reasoning_text_delta(
    state: SessionState, params: models.ReasoningTextDeltaNotification
) -> SessionEvents:
    """Map ``item/reasoning/textDelta``: raw reasoning, shown only while there is no summary."""
    return _thought_delta(state, params.item_id, params.content_index, params.delta, raw=True)


def reasoning_completed(state: SessionState, item: models.ReasoningThreadItem) -> SessionEvents:
    """Show the rest of the summary that no delta has shown. Show the rest of the raw text instead
    if the deltas were raw, or if there is no summary."""
    summary = _BLANK_LINE.join(filter(None, item.summary))
    raw_text = _BLANK_LINE.join(filter(None, item.content))
    thought = state.thoughts.setdefault(item.id, SentThought(raw=not summary, part=0))
    whole = raw_text if thought.raw else summary
    left = left_to_send(thought.pieces, item.id, whole) if whole else None
    return () if left is None else (events.ThoughtChunk(*left),)


def _thought_delta(
    state: SessionState, item_id: str, part: int, delta: str, *, raw: bool
) -> SessionEvents:
    if not delta:
        return ()
    thought = state.thoughts.get(item_id)
    if thought is None or (thought.raw and not raw):  # the summary replaces the raw text
        state.thoughts[item_id] = SentThought(raw, part, [delta])
        return (events.ThoughtChunk(item_id, delta if thought is None else _BLANK_LINE + delta),)
    if raw and not thought.raw:
        return ()
    text = delta if part == thought.part else _BLANK_LINE + delta
    thought.part = part
    add_piece(thought.pieces, text)
    return (events.ThoughtChunk(item_id, text),)


# Compaction of the context.


def compaction_started(state: SessionState, item: ContextCompactionThreadItem) -> SessionEvents:
    """Show that a compaction began."""
    compaction_id = tool_call_id(item.id)
    if compaction_id in state.open_compactions:
        return ()
    state.open_compactions.append(compaction_id)
    return (events.CompactionChanged(compaction_id, "in_progress", announced=False),)


def compaction_completed(state: SessionState, item: ContextCompactionThreadItem) -> SessionEvents:
    """Show that a compaction ended, announced before or not (in a replay)."""
    compaction_id = tool_call_id(item.id)
    announced = compaction_id in state.open_compactions
    if announced:
        state.open_compactions.remove(compaction_id)
    return (events.CompactionChanged(compaction_id, "completed", announced=announced),)


def close_compactions(state: SessionState) -> SessionEvents:
    """Cancel the open compactions, because the turn ended."""
    open_ids, state.open_compactions = state.open_compactions, []
    return [events.CompactionChanged(open_id, "cancelled", announced=True) for open_id in open_ids]


# Hooks: shown if they stopped something, failed, or have a message for the person.

_FOR_PERSON: Final = ("warning", "stop", "feedback", "error")
"""Kinds of a hook's output for the person; ``context`` is for the model."""
_WARNINGS: Final = ("warning", "error")
"""Kinds of output that are shown even if the hook ended well."""
OWN_REFUSAL: Final = "[codex-acp] "
"""Prefix of the refusals of `codex.connection.agent_guard`: a hook of this package."""


def hook_completed(state: SessionState, params: models.HookCompletedNotification) -> SessionEvents:
    """Map ``hook/completed`` to a notice if the hook blocked or stopped something, failed or warns.
    A failure is shown once per turn: a broken hook fails at every tool call."""
    run = params.run
    title = f"The hook {run.event_name} ({run.source_path})"
    status = run.status
    match status:
        case "blocked":
            output = _output_for_person(run)
            if output is not None and output.startswith(OWN_REFUSAL):
                return notice_events(output.removeprefix(OWN_REFUSAL))
            return notice_events(f"{title} blocked this action", "warning", output)
        case "stopped":
            return notice_events(f"{title} stopped the turn", "warning", _output_for_person(run))
        case "failed":
            text, details = f"{title} failed", _output_for_person(run)
            key = (params.turn_id, text, details)
            return notice_once(state, text, "error", details, key=key)
        case "running":
            return ()
        case "completed" | UnknownValue():
            warnings = "\n".join(e.text for e in run.entries if e.kind in _WARNINGS and e.text)
            return notice_events(f"{title} says", "warning", warnings) if warnings else ()
        case _:
            assert_never(status)


def hook_prompt(state: SessionState, item: models.HookPromptThreadItem) -> SessionEvents:
    """Show a ``hookPrompt`` item: a text with which a hook had the model continue."""
    text = "\n".join(fragment.text for fragment in item.fragments if fragment.text)
    if not text:
        return ()
    key = ("hook", item.id)
    return notice_once(state, "A hook gave the model more to do", "info", text, key=key)


def _output_for_person(run: models.HookRunSummary) -> str | None:
    entries = [entry.text for entry in run.entries if entry.kind in _FOR_PERSON]
    lines = dict.fromkeys(line for line in (run.status_message, *entries) if line)
    return "\n".join(lines) or None


# Warnings and other notifications that belong to no item.


def warning(
    state: SessionState, params: models.WarningNotification | models.GuardianWarningNotification
) -> SessionEvents:
    """Map ``warning``, and ``guardianWarning`` of Codex's reviewer of approvals."""
    return notice_once(state, params.message)


def config_warning(state: SessionState, params: models.ConfigWarningNotification) -> SessionEvents:
    """Map ``configWarning``, with the place in the file if Codex gives one. A warning without place
    or details is about the machine (bubblewrap is not installed), and not about a file of the
    person. ``/status`` shows the warnings about the machine, too (`SessionState.remarks`)."""
    place = params.path
    if place is None and not params.details:
        state.remarks[params.summary] = None
        return notice_once(state, params.summary, optional=True)
    if place is not None and params.range is not None:
        place = f"{place}:{params.range.start.line}:{params.range.start.column}"
    details = "\n".join(part for part in (params.details, place) if part)
    return notice_once(state, params.summary, "warning", details or None)


def deprecation_notice(
    state: SessionState, params: models.DeprecationNoticeNotification
) -> SessionEvents:
    """Map ``deprecationNotice``."""
    return notice_once(state, params.summary, "info", params.details)


def model_rerouted(state: SessionState, params: models.ModelReroutedNotification) -> SessionEvents:
    """Map ``model/rerouted``: another model answers than the chosen one."""
    text = f"{params.to_model} answers in place of {params.from_model}"
    details = f"Reason: {params.reason}"
    return notice_once(state, text, "warning", details, key=(params.turn_id, text, details))


def model_verification(
    state: SessionState, params: models.ModelVerificationNotification
) -> SessionEvents:
    """Map ``model/verification``: the account lacks a verification that the model requires."""
    if not params.verifications:
        return ()
    wanted = ", ".join(params.verifications)
    return notice_once(state, f"The model asks for a verification of the account: {wanted}")


def safety_buffering_updated(
    state: SessionState, params: models.ModelSafetyBufferingUpdatedNotification
) -> SessionEvents:
    """Map ``model/safetyBuffering/updated``: why the answer is delayed, if Codex wants it shown."""
    if not params.show_buffering_ui:
        return ()
    text = f"{params.model} holds its answer back until it has been checked for safety"
    details = [f"Reason: {', '.join(params.reasons)}"] if params.reasons else []
    if params.faster_model:
        details.append(f"{params.faster_model} would answer sooner")
    return notice_once(state, text, "info", "\n".join(details) or None, key=(params.turn_id, text))


def auth_recovery(state: SessionState, params: models.AuthRecoveryNotification) -> SessionEvents:
    """Map ``modelProvider/authRecoveryStarted`` and ``…Completed``; the message names the stage."""
    text = f"{params.provider}: {params.message}"
    return notice_once(state, text, "info", key=(params.turn_id, text))


def strict_review_required(
    state: SessionState, params: models.StrictReviewRequiredNotification
) -> SessionEvents:
    """Map ``autoApprovalReview/strictReviewRequired``: Codex reviews all further actions."""
    text = "Codex reviews every further action of this turn before it runs"
    return notice_once(state, text, "info", key=(params.turn_id, text))


def mcp_startup_updated(
    state: SessionState, params: models.McpServerStatusUpdatedNotification
) -> SessionEvents:
    """Map ``mcpServer/startupStatus/updated`` to a notice with the error if the server failed. If
    the server was ready in between, an equal failure is shown again."""
    name = full_server_name(params.name, params.environment_id)
    key = ("mcpServer", name)
    if params.status == "ready":
        for old in [each for each in state.notices if each[:2] == key]:
            del state.notices[old]
    if params.status != "failed":
        return ()
    why = f": {params.failure_reason}" if params.failure_reason else ""
    if params.failure_reason == "reauthenticationRequired":
        why = ": sign in to it again"
    text = f'The MCP server "{name}" did not start{why}'
    return notice_once(state, text, "error", params.error, key=(*key, text, params.error))


# Plans: the steps of a turn, and the text that plan mode proposes.

PLAN_QUESTION: Final = "Implement this plan?"
IMPLEMENT: Final = "implement_plan"
"""Id of the option that lets Codex implement a plan."""


def plan_updated(state: SessionState, params: models.TurnPlanUpdatedNotification) -> SessionEvents:
    """Map ``turn/plan/updated`` to the explanation, if it is new, and the whole plan."""
    shown: list[SessionEvent] = []
    if params.explanation and params.explanation != state.plan_explanation:
        state.plan_explanation = params.explanation
        shown.append(events.ThoughtLine(f"{params.turn_id}-plan", params.explanation))
    steps = [events.PlanStep(step.step, _step_status(step)) for step in params.plan]
    shown.append(events.PlanChanged(params.turn_id, steps))
    return shown


def plan_completed(state: SessionState, item: models.PlanThreadItem) -> SessionEvents:
    """Remember the proposed plan, and show the part that no delta has shown."""
    state.proposed_plan = (item.id, item.text)
    return text_completed(state, item.id, item.text)


def plan_question(
    session_id: str, item_id: str, plan: str
) -> tuple[events.ToolCallAnnounced, events.PermissionQuestion]:
    """Return the tool call and the question whether to implement a plan. The question shows the
    plan again as a code block: Markdown of a message could hide parts of it."""
    call_id, content = tool_call_id(item_id, "plan-review"), [code_content(plan, "markdown")]
    shown = events.ToolCallChanged(
        id=call_id,
        title=PLAN_QUESTION,
        kind="switch_mode",
        status="pending",
        content=content,
        raw_input={"plan": plan},
    )
    options = (
        events.PermissionOption(IMPLEMENT, "Yes, implement this plan", "allow_once"),
        events.PermissionOption(
            "revise_plan", "No, and tell Codex what to do differently", "reject_once"
        ),
    )
    question = events.PermissionQuestion(session_id, shown, options)
    return events.announcement(shown, content), question


def _step_status(step: models.TurnPlanStep) -> StepStatus:
    status = step.status
    match status:
        case "pending":
            return "pending"
        case "completed":
            return "completed"
        case "inProgress":
            return "in_progress"
        case UnknownValue():
            return "pending"
        case _:
            assert_never(status)
