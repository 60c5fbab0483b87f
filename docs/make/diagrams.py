"""The diagrams of the documentation, as values; `svg.py` draws them."""

from __future__ import annotations

from typing import Final

from docs.make.svg import Arrow, Box, Message, flow, sequence

OVERVIEW: Final = flow(
    "The editor speaks ACP with the adapter, which speaks the app-server protocol with Codex",
    (
        Box("editor", 0, 0, "editor, or any ACP client"),
        Box("adapter", 1, 0, "codex-acp-sdk"),
        Box("codex", 2, 0, "codex app-server"),
    ),
    (Arrow("editor", "adapter", "ACP"), Arrow("adapter", "codex", "its protocol")),
)

REQUEST: Final = flow(
    "The routes of a server request: an approval, an elicitation or a decline",
    (
        Box("codex", 0, 1, "Codex: a server request"),
        Box("classify", 1, 1, "classify, by Codex's own items"),
        Box("approval", 2, 0, "Approval: session/request_permission"),
        Box("elicitation", 2, 1, "Elicitation: elicitation/create"),
        Box("decline", 2, 2, "Decline: one line that says why"),
        Box("ledger", 3, 0, "ledger: offered, pending, same digest, same turn"),
        Box("form", 3, 1, "the answer is checked against the form"),
        Box("accept", 4, 0, "accepting reply"),
        Box("answer", 4, 1, "the answer"),
        Box("refusal", 4, 2, "the method's negative reply"),
    ),
    (
        Arrow("codex", "classify"),
        Arrow("classify", "approval"),
        Arrow("classify", "elicitation"),
        Arrow("classify", "decline"),
        Arrow("approval", "ledger"),
        Arrow("elicitation", "form"),
        Arrow("ledger", "accept", "all hold"),
        Arrow("ledger", "refusal", "else"),
        Arrow("form", "answer", "fits"),
        Arrow("form", "refusal", "else"),
        Arrow("decline", "refusal"),
    ),
)

APPROVAL: Final = sequence(
    "An approval from Codex's question to its reply",
    ("Codex", "adapter", "client", "person"),
    (
        Message("Codex", "adapter", "item/started: the command"),
        Message("adapter", "client", "session/update: tool call, pending (4.1)"),
        Message("Codex", "adapter", "requestApproval"),
        Message("adapter", "adapter", "entry: digest of what is shown (3.1)"),
        Message("adapter", "client", "session/request_permission"),
        Message("client", "person", "the whole command (3.8)"),
        Message("person", "client", "an offered option"),
        Message("client", "adapter", "outcome: selected"),
        Message("adapter", "adapter", "still pending, same digest, same turn? (3.2)"),
        Message("adapter", "Codex", "accepting reply, the only one (1.4)"),
        Message("adapter", "client", "session/update: in progress"),
    ),
)

CANCEL: Final = sequence(
    "A cancel while an approval waits",
    ("client", "adapter", "Codex"),
    (
        Message("Codex", "adapter", "requestApproval"),
        Message("adapter", "client", "session/request_permission"),
        Message("client", "adapter", "session/cancel"),
        Message("adapter", "Codex", "reply: cancel (3.5)"),
        Message("adapter", "Codex", "turn/interrupt"),
        Message("adapter", "client", "tool call: failed (4.5)"),
        Message("adapter", "client", "session/prompt answered: cancelled (4.3)"),
        Message("client", "adapter", "outcome: selected allow, too late"),
        Message("adapter", "adapter", "stale: nothing is accepted (3.3)"),
    ),
)

DIRECTORY: Final = sequence(
    "A session opens in a directory that nobody has trusted",
    ("client", "adapter", "Codex"),
    (
        Message("client", "adapter", "session/new in a directory"),
        Message("adapter", "Codex", "config/read, and the login"),
        Message("adapter", "Codex", "thread/start, read-only: no trust is recorded (7.1)"),
        Message("adapter", "client", "one line: Codex does not use its MCP servers and hooks"),
        Message("client", "adapter", "session/prompt"),
        Message("adapter", "Codex", "turn/start with the person's own sandbox (7.2)"),
        Message("client", "adapter", "option Trust this directory"),
        Message("adapter", "Codex", "trust in the person's config.toml"),
    ),
)


def pictures() -> dict[str, str]:
    """Return the SVG of every diagram, by path below ``docs/``."""
    return {
        "images/overview.svg": OVERVIEW,
        "images/server-request.svg": REQUEST,
        "images/approval.svg": APPROVAL,
        "images/cancel.svg": CANCEL,
        "images/directory.svg": DIRECTORY,
    }
