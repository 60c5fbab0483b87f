"""One line for the person that no item of Codex carries: a decline, a warning, a notice.

Owns that it is bounded and not repeated. Must not know what it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.mapping.events import (
    CompactionChanged,
    Notice,
    PermissionOption,
    PermissionQuestion,
    PlanChanged,
    PlanStep,
    SessionEvent,
    SessionEvents,
    Severity,
    StepStatus,
    TextChunk,
    ThoughtChunk,
    ThoughtLine,
    ToolCallAnnounced,
    ToolCallChanged,
    UserMessage,
    announcement,
    tool_call_id,
)
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
"""Characters of the details: what a hook or a server writes when it fails can be any length."""
_NO_TEXT: Final = "Codex sent a warning without a text"


def notice_of(
    text: str, severity: Severity = "warning", details: str | None = None, *, aside: bool = False
) -> Notice:
    """Return a line for the person. ``text`` stands alone; ``details`` help to act on it.

    All in both is made visible, whoever wrote what they quote.
    """
    text = still_visible(text.strip()) or _NO_TEXT
    details = still_visible(details.strip()) if details else None
    return Notice(severity, text, details, aside)


def say(
    text: str, severity: Severity = "warning", details: str | None = None, *, aside: bool = False
) -> SessionEvents:
    """Tell the person words that Codex passes on, bounded."""
    shown = shortened(text.strip(), TITLE_LIMIT)
    more = shortened(details.strip(), DETAILS_LIMIT) if details else None
    return (notice_of(shown, severity, more, aside=aside),)


def say_once(
    state: SessionState,
    text: str,
    severity: Severity = "warning",
    details: str | None = None,
    *,
    key: tuple[str | None, ...] = (),
    aside: bool = False,
) -> SessionEvents:
    """Tell the person words that Codex passes on, unless this session was told them before.

    ``key`` tells lines apart; by default that is all of the text. ``aside`` as in `Notice`.
    """
    key = key or (text, details)
    if key in state.notices:
        return ()
    state.notices[key] = None
    return say(text, severity, details, aside=aside)


# Messages of the agent and of the person → chunks.


def agent_message_delta(
    state: SessionState, params: models.AgentMessageDeltaNotification
) -> SessionEvents:
    """``item/agentMessage/delta`` → one chunk."""
    return text_delta(state, params.item_id, params.delta)


def agent_message_completed(
    state: SessionState, item: models.AgentMessageThreadItem
) -> SessionEvents:
    """Show the rest of a message, and the questions that it asks the person without waiting."""
    if item.text == state.review_text and item.id not in state.sent_text:
        return ()  # the item that ended the review has said it: see `mapping.messages`
    text = item.text
    for question in item.questions or ():  # and options, which the text may contain already
        lines = [] if question.title in text else [question.title]
        lines += [f"- {option}" for option in question.options or () if option not in text]
        if lines:
            text = "\n\n".join(part for part in (text, "\n".join(lines)) if part)
    return text_completed(state, item.id, text)


def text_delta(state: SessionState, item_id: str, delta: str) -> SessionEvents:
    """A piece of an item that is shown as a message; an empty one sends nothing."""
    if not delta:
        return ()
    pieces = state.sent_text.get(item_id)
    if pieces is None:
        state.sent_text[item_id] = [delta]
    else:
        add_piece(pieces, delta)
    return (TextChunk(item_id, delta),)


def text_completed(state: SessionState, item_id: str, whole: str) -> SessionEvents:
    """Return the text that no delta carried; nothing the second time."""
    left = left_to_send(state.sent_text.setdefault(item_id, []), item_id, whole)
    return () if left is None else (TextChunk(*left),)


def user_message(
    state: SessionState, item: models.UserMessageThreadItem, live: bool
) -> SessionEvents:
    """A message of the person; ``live``: while the turn runs.

    Live, the client knows what it has sent itself: only a message with the id of another client
    (``clientUserMessageId``) is shown.
    """
    from_here = item.client_id is None or item.client_id in state.own_messages
    if live and from_here and not state.is_sub_agent:
        return ()
    if item.id in state.sent_text:
        return ()
    state.sent_text[item.id] = []  # Codex starts and completes it; the second time says nothing
    return (UserMessage(item.id, [content_block(part) for part in item.content], item.client_id),)


# The model's reasoning → thoughts: its summary, or the raw text where there is no summary.

_BLANK_LINE: Final = "\n\n"
"""Between two parts; it comes with the first text of the later one."""


def summary_text_delta(
    state: SessionState, params: models.ReasoningSummaryTextDeltaNotification
) -> SessionEvents:
    """``item/reasoning/summaryTextDelta`` → a thought of the item."""
    return _thought_delta(state, params.item_id, params.summary_index, params.delta, raw=False)


def reasoning_text_delta(
    state: SessionState, params: models.ReasoningTextDeltaNotification
) -> SessionEvents:
    """``item/reasoning/textDelta``: raw reasoning, shown only while there is no summary."""
    return _thought_delta(state, params.item_id, params.content_index, params.delta, raw=True)


def reasoning_completed(state: SessionState, item: models.ReasoningThreadItem) -> SessionEvents:
    """Return the text that no delta carried: of the summary, or of raw text that was begun."""
    summary, content = (_BLANK_LINE.join(filter(None, p)) for p in (item.summary, item.content))
    thought = state.thoughts.setdefault(item.id, SentThought(raw=not summary, part=0))
    whole = content if thought.raw else summary
    left = left_to_send(thought.pieces, item.id, whole) if whole else None
    return () if left is None else (ThoughtChunk(*left),)


def _thought_delta(
    state: SessionState, item_id: str, part: int, delta: str, *, raw: bool
) -> SessionEvents:
    if not delta:
        return ()
    thought = state.thoughts.get(item_id)
    if thought is None:
        state.thoughts[item_id] = SentThought(raw, part, [delta])
        return (ThoughtChunk(item_id, delta),)
    if raw and not thought.raw:
        return ()
    text = delta
    if (raw, part) != (thought.raw, thought.part):
        text = _BLANK_LINE + delta
        if raw != thought.raw:  # the summary begins: what counts from now on
            thought.pieces.clear()
            thought.pieces.append(delta)
        else:
            add_piece(thought.pieces, text)
        thought.raw, thought.part = raw, part
    else:
        add_piece(thought.pieces, delta)
    return (ThoughtChunk(item_id, text),)


# Compaction of the context.


def compaction_started(state: SessionState, item: ContextCompactionThreadItem) -> SessionEvents:
    """A compaction begins."""
    compaction_id = tool_call_id(item.id)
    if compaction_id in state.open_compactions:
        return ()
    state.open_compactions.append(compaction_id)
    return (CompactionChanged(compaction_id, "in_progress", known=False),)


def compaction_completed(state: SessionState, item: ContextCompactionThreadItem) -> SessionEvents:
    """A compaction is done; one that was not seen to begin (a replay) is told whole."""
    compaction_id = tool_call_id(item.id)
    known = compaction_id in state.open_compactions
    if known:
        state.open_compactions.remove(compaction_id)
    return (CompactionChanged(compaction_id, "completed", known=known),)


def close_compactions(state: SessionState) -> SessionEvents:
    """The turn ended: a compaction that has not completed will not do so any more."""
    left, state.open_compactions = state.open_compactions, []
    return [CompactionChanged(compaction_id, "cancelled", known=True) for compaction_id in left]


# Hooks: a person hears of those that stopped something, failed, or have something to say.

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
                return say(told.removeprefix(OWN_REFUSAL))
            return say(f"{title} blocked this action", "warning", told)
        case "stopped":
            return say(f"{title} stopped the turn", "warning", _told(run))
        case "failed":
            text, details = f"{title} failed", _told(run)
            key = (params.turn_id, text, details)
            return say_once(state, text, "error", details, key=key)
        case "running":
            return ()
        case "completed" | UnknownValue():  # whatever a newer Codex may call an end
            warnings = "\n".join(e.text for e in run.entries if e.kind in _WARNINGS and e.text)
            return say(f"{title} says", "warning", warnings) if warnings else ()
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


# Warnings and other news of Codex that belong to no item → one line for the person each.


def warning(state: SessionState, params: models.WarningNotification) -> SessionEvents:
    """``warning``: Codex's own words."""
    return say_once(state, params.message)


def guardian_warning(
    state: SessionState, params: models.GuardianWarningNotification
) -> SessionEvents:
    """``guardianWarning``: words of Codex's reviewer of approvals."""
    return say_once(state, params.message)


def config_warning(state: SessionState, params: models.ConfigWarningNotification) -> SessionEvents:
    """``configWarning``, with the place in the file where it is known.

    One without any place is about the machine (that no bubblewrap is installed), not about what the
    person has written: it is remembered for the session's status.
    """
    place = params.path
    if place is None and not params.details:
        state.remarks[params.summary] = None
        return say_once(state, params.summary, aside=True)
    if place is not None and params.range is not None:
        place = f"{place}:{params.range.start.line}:{params.range.start.column}"
    details = "\n".join(part for part in (params.details, place) if part)
    return say_once(state, params.summary, "warning", details or None)


def deprecation_notice(
    state: SessionState, params: models.DeprecationNoticeNotification
) -> SessionEvents:
    """``deprecationNotice``: nothing is wrong yet."""
    return say_once(state, params.summary, "info", params.details)


def model_rerouted(state: SessionState, params: models.ModelReroutedNotification) -> SessionEvents:
    """``model/rerouted``: another model answers than the one that was chosen."""
    text = f"{params.to_model} answers in place of {params.from_model}"
    details = f"Reason: {params.reason}"
    return say_once(state, text, "warning", details, key=(params.turn_id, text, details))


def model_verification(
    state: SessionState, params: models.ModelVerificationNotification
) -> SessionEvents:
    """``model/verification``: the account lacks what the model asks for."""
    if not params.verifications:
        return ()
    wanted = ", ".join(params.verifications)
    return say_once(state, f"The model asks for a verification of the account: {wanted}")


def safety_buffering_updated(
    state: SessionState, params: models.ModelSafetyBufferingUpdatedNotification
) -> SessionEvents:
    """``model/safetyBuffering/updated``: why nothing comes, if a person is to be told."""
    if not params.show_buffering_ui:
        return ()
    text = f"{params.model} holds its answer back until it has been checked for safety"
    details = [f"Reason: {', '.join(params.reasons)}"] if params.reasons else []
    if params.faster_model:
        details.append(f"{params.faster_model} would answer sooner")
    said = "\n".join(details) or None
    return say_once(state, text, "info", said, key=(params.turn_id, text))


def auth_recovery(state: SessionState, params: models.AuthRecoveryNotification) -> SessionEvents:
    """``modelProvider/authRecoveryStarted``, ``…Completed``: Codex says itself which it is."""
    text = f"{params.provider}: {params.message}"
    return say_once(state, text, "info", key=(params.turn_id, text))


def strict_review_required(
    state: SessionState, params: models.StrictReviewRequiredNotification
) -> SessionEvents:
    """``autoApprovalReview/strictReviewRequired``: why actions are reviewed from now on."""
    text = "Codex reviews every further action of this turn before it runs"
    return say_once(state, text, "info", key=(params.turn_id, text))


def mcp_startup_updated(
    state: SessionState, params: models.McpServerStatusUpdatedNotification
) -> SessionEvents:
    """``mcpServer/startupStatus/updated`` → a line if the server failed, with its error.

    A server that is ready may fail again, and that is news again.
    """
    key = ("mcpServer", params.name)
    if params.status == "ready":
        for said in [said for said in state.notices if said[:2] == key]:
            del state.notices[said]
    if params.status != "failed":
        return ()
    reason = params.failure_reason
    why = (
        ": sign in to it again"
        if reason == "reauthenticationRequired"
        else f": {reason}"
        if reason
        else ""
    )
    text = f'The MCP server "{params.name}" did not start{why}'
    return say_once(state, text, "error", params.error, key=(*key, text, params.error))


# Plans: the list of steps of a turn, and the text that plan mode proposes.

REVIEW: Final = "Implement this plan?"
IMPLEMENT: Final = "implement_plan"
"""Option that has a plan carried out."""


def plan_updated(state: SessionState, params: models.TurnPlanUpdatedNotification) -> SessionEvents:
    """``turn/plan/updated`` → the whole plan; before it the explanation, if it is a new one."""
    told: list[SessionEvent] = []
    if params.explanation and params.explanation != state.plan_explanation:
        state.plan_explanation = params.explanation
        told.append(ThoughtLine(f"{params.turn_id}-plan", params.explanation))
    steps = [PlanStep(step.step, _status(step)) for step in params.plan]
    told.append(PlanChanged(params.turn_id, steps))
    return told


def plan_delta(state: SessionState, params: models.PlanDeltaNotification) -> SessionEvents:
    """``item/plan/delta`` → a piece of the message that is the proposed plan."""
    return text_delta(state, params.item_id, params.delta)


def plan_completed(state: SessionState, item: models.PlanThreadItem) -> SessionEvents:
    """The plan that was proposed: what counts, whatever its deltas have said."""
    state.proposed_plan = (item.id, item.text)
    return text_completed(state, item.id, item.text)


def review_question(
    session_id: str, item_id: str, plan: str
) -> tuple[ToolCallAnnounced, PermissionQuestion]:
    """Return the tool call and the question whether a plan is to be carried out.

    The plan is shown in it, although the agent has just said it: a message hides what it likes.
    """
    call_id, content = tool_call_id(item_id, "plan-review"), [code_content(plan, "markdown")]
    shown = ToolCallChanged(
        id=call_id,
        title=REVIEW,
        kind="switch_mode",
        status="pending",
        content=content,
        raw_input={"plan": plan},
    )
    options = (
        PermissionOption(IMPLEMENT, "Yes, implement this plan", "allow_once"),
        PermissionOption("revise_plan", "No, and tell Codex what to do differently", "reject_once"),
    )
    return announcement(shown, content), PermissionQuestion(session_id, shown, options)


def _status(step: models.TurnPlanStep) -> StepStatus:
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
