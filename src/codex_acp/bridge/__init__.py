"""Translate Codex's app-server protocol to ACP and back, without IO, for your own adapters and
tools.

::

    bridge = Bridge("the thread's id")
    told = bridge.heard(method, params)  # a notification of Codex
    told.v1(), told.v2()                 # its updates, in either version of ACP

    match bridge.asked(request_id, method, params):  # a request of Codex
        case Approval() as approval:
            told = bridge.answered(approval, ...)  # the client's answer to approval.v1()
        case Elicitation() as elicitation:
            told = bridge.answered(elicitation, ...)
        case Decline() as decline:
            told = decline.told
    told.replies  # send these to Codex

The bridge uses the agent's routing table, mapping and ledger. Every request gets exactly one reply.
A reply accepts an action only if the client chose an option that was offered for this action. The
bridge does no IO, does not wait and uses no clock: the program reads and writes the messages.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "bridge": "Approval Bridge Decline Elicitation Reply Route RunningTurn Told",
        "codex_acp.codex.approvals.running_items": "PathLook",
        "codex_acp.codex.approvals.real_paths": "look_at",
        "codex_acp.mapping.events": "PromptFailure PromptStop",
    },
)
