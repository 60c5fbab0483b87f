"""PURE: what an event of the transcript says, in words, and between whom.

Owns the words that the terminal and the page show. Approvals, elicitations and declines have a
name, and on the page a shape and a colour, each of their own. Texts are given as they were
recorded: whoever shows them makes them visible.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, assert_never, get_args

from codex_acp.transcript import events

Kind: TypeAlias = Literal["approval", "elicitation", "decline", "prompt", "session", "wire"]
"""Subject of an event; `Told.kind` of each."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Party: TypeAlias = Literal["client", "adapter", "codex"]
"""A lane of the page."""

Tone: TypeAlias = Literal["open", "good", "bad", "halted", "plain"]
"""How it stands: a question is open, an action may run, it may not, it was called off."""

DECIDED: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(
        (
            *get_args(events.ApprovalOutcome), "refused", "declined",
            *get_args(events.ElicitationAction), *get_args(events.ApprovalSettler),
            *get_args(events.ElicitationSettler),
        )
    )
)  # fmt: skip
"""How something may have been decided, and by what; of the `Told.decided`."""

_OUTCOME_TONES: Final[dict[str, Tone]] = {
    "accepted": "good", "rejected": "bad", "cancelled": "halted",
    "accept": "good", "decline": "bad", "cancel": "halted",
}  # fmt: skip

_ABOUT: Final[dict[events.AgreementKind, str]] = {
    "git_programs": "what git may run", "plan": "the plan",
}  # fmt: skip

_ANSWERED: Final[dict[events.ElicitationAction, str]] = {
    "accept": "answered", "decline": "turned down", "cancel": "called off",
}  # fmt: skip
"""Not the words of an approval: who accepts a form has allowed nothing."""


class Told(NamedTuple):
    """An event in words: ``kind`` and ``verb`` first, then what it is about, then the rest."""

    kind: Kind
    verb: str
    about: str
    detail: str
    start: Party
    end: Party
    tone: Tone = "plain"
    decided: tuple[str, ...] = ()
    """How it was decided, if it was: of `DECIDED`, or a stop reason."""


def tell(event: events.TranscriptEvent) -> Told:
    """``event`` in words."""
    match event:
        case events.ApprovalRequested() | events.ApprovalDecided() | events.ApprovalRefused():
            return _tell_approval(event)
        case events.AgreementDecided():
            about = "; ".join((_ABOUT[event.about], *event.subject))
            return Told(
                "approval", event.outcome, about, f"by {_plain(event.by)}", "client", "adapter",
                _OUTCOME_TONES[event.outcome], (event.outcome, event.by),
            )  # fmt: skip
        case events.ElicitationRequested() | events.ElicitationAnswered():
            return _tell_elicitation(event)
        case events.RequestDeclined():
            asked = "after somebody was asked" if event.asked else "nobody was asked"
            what = f" ({event.discriminator})" if event.discriminator else ""
            return Told(
                "decline", "declined", f"{event.ref.method}{what}", f"{asked}: {event.reason}",
                "codex", "adapter", "bad", ("declined",),
            )  # fmt: skip
        case events.PromptStarted():
            return Told("prompt", "started", "", "", "client", "codex")
        case events.PromptEnded(stop_reason=None):
            error = event.error or "with an error"
            return Told("prompt", "failed", "", error, "adapter", "client", "bad", ("error",))
        case events.PromptEnded(stop_reason=reason):
            text = "" if event.error is None else event.error
            decided = (str(reason),)
            return Told("prompt", "ended", str(reason), text, "codex", "client", "plain", decided)
        case events.SessionOpened():
            return Told("session", "opened", event.how, "", "client", "codex")
        case events.SessionClosed():
            return Told("session", "closed", event.reason, "", "client", "codex")
        case events.WireMessage():
            return _tell_wire(event)
        case _:
            assert_never(event)


def _tell_approval(
    event: events.ApprovalRequested | events.ApprovalDecided | events.ApprovalRefused,
) -> Told:
    about = _about(event)
    match event:
        case events.ApprovalRequested():
            choices = ", ".join(option.name for option in event.options)
            return Told(
                "approval", "asked", about, f"choices: {choices}", "codex", "client", "open"
            )
        case events.ApprovalDecided():
            chosen = "" if event.option is None else f" ({event.option.name})"
            policy = "" if event.policy is None else f" {event.policy}"
            how = f"by {_plain(event.by)}{policy}{chosen}; Codex was told: {event.decision}"
            tone, decided = _OUTCOME_TONES[event.outcome], (event.outcome, event.by)
            start, end = _settled(event.by)
            return Told("approval", event.outcome, about, how, start, end, tone, decided)
        case events.ApprovalRefused():
            why = f"{event.code}: {event.reason}"
            return Told(
                "approval", "answer refused", about, why, "client", "adapter", "bad",
                ("refused", event.code),
            )  # fmt: skip
        case _:
            assert_never(event)


def _about(
    event: events.ApprovalRequested | events.ApprovalDecided | events.ApprovalRefused,
) -> str:
    """Name the tool, and what is decided on where that is recorded and says more."""
    name, subject = event.tool.name, "; ".join(event.subject)
    return name if subject in ("", name) else f"{name}: {subject}"


def _tell_elicitation(event: events.ElicitationRequested | events.ElicitationAnswered) -> Told:
    about = f"{'form' if event.mode == 'form' else 'page'} of {event.server or 'Codex'}"
    fields = ", ".join(event.fields)
    match event:
        case events.ElicitationRequested():
            what = event.url if event.url is not None else f"fields: {fields or 'none'}"
            return Told("elicitation", "asked", about, what, "codex", "client", "open")
        case events.ElicitationAnswered():
            how = f"by {_plain(event.by)}"
            if fields:
                how += f"; fields: {fields}"
            if event.problem is not None:
                how += f"; {event.problem}"
            start, end = _settled(event.by)
            tone, decided = _OUTCOME_TONES[event.action], (event.action, event.by)
            verb = _ANSWERED[event.action]
            return Told("elicitation", verb, about, how, start, end, tone, decided)
        case _:
            assert_never(event)


def _tell_wire(event: events.WireMessage) -> Told:
    start: Party = event.peer
    end: Party = "adapter"
    if event.direction == "sent":
        start, end = end, start
    number = "" if event.id is None else f"id {event.id!r}, "
    left_out = "" if event.left_out is None else f", not kept: {event.left_out}"
    detail = f"{number}{event.size} bytes{left_out}"
    tone: Tone = "bad" if event.kind == "error" else "plain"
    return Told("wire", event.kind, event.method or "", detail, start, end, tone)


def _settled(by: events.ApprovalSettler | events.ElicitationSettler) -> tuple[Party, Party]:
    """From whom the decision came, and to whom it went."""
    match by:
        case "client" | "person":
            return "client", "codex"
        case "codex_resolved":
            return "codex", "adapter"
        case "turn_cancelled":
            return "client", "codex"
        case "policy" | "program" | "invalid_answer" | "turn_ended" | "disconnected" | "superseded":
            return "adapter", "codex"
        case _:
            assert_never(by)


def _plain(word: str) -> str:
    return word.replace("_", " ")
