"""What prompts are to their session: what each comes to, how it ends, what it needs meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from codex_acp.errors import RpcError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.prompts.run import PromptRun
    from codex_acp.codex._generated.models import UserInput
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptStop


class TurnWork(NamedTuple):
    """A prompt that runs as a turn."""

    start: Callable[[str], Awaitable[str | None]]
    """Begins the turn with a message of this id; the turn's id, None if it is not told."""
    message: list[UserInput] | None
    """What is steered into a running turn instead; None: it has to be a turn of its own."""


class Speech(NamedTuple):
    """A prompt that is answered without a turn."""

    run: Callable[[], Awaitable[None]]


class NotTaken(RpcError):
    """A prompt that failed, and of which nothing has happened: it may be run once more."""


class NothingRuns(RpcError):
    """A message that was meant for a running turn alone, and there is none that could take it."""


class PromptAnswer(NamedTuple):
    """How a prompt has ended."""

    end: PromptEnd
    usage: dict[str, JsonValue] | None = None
    """Of the turn that this prompt began; one that was steered into a turn has none of its own."""
    untaken: bool = False
    """Whether it failed because Codex had ended before it read anything of it."""


class PromptDone(NamedTuple):
    """How a prompt has ended that has not failed."""

    stop: PromptStop
    usage: dict[str, JsonValue] | None = None
    """Of the turn that it began."""


class PromptHost(Protocol):
    """The session, as far as its prompts need it."""

    @property
    def client_gone(self) -> bool:
        """Whether nothing that is sent arrives any more."""

    def message_named(self, message_id: str) -> None:
        """A message of the client goes to Codex under this id."""

    def prompt_cancelled(self) -> None:
        """Settle what is asked of the person."""

    def turn_begins(self) -> None:
        """A turn is about to be asked for."""

    def works(self) -> None:
        """A turn has begun, for a prompt or by itself."""

    def rests(self, end: PromptEnd) -> None:
        """It is over."""

    def turn_over(self, run: PromptRun, end: PromptEnd, *, goes_on: bool) -> None:
        """Send what is still to be sent of a turn; its prompts are answered after this.

        ``goes_on``: a message that it has not read is the next turn.
        """

    def say(self, text: str) -> None:
        """One line for the person."""
