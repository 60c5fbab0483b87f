"""Warnings and other news of Codex that belong to no item → one line for the person each.

A line is not repeated: a warning once a session, what concerns one turn once in that turn.
Some name no thread and concern the whole app-server: whoever calls decides which sessions hear it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.messages.lines import say_once

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState


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
        for said in [said for said in state.said if said[:2] == key]:
            del state.said[said]
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
