"""The exceptions of running a turn, each with the turn's result so far.

A branch of the exception tree in `codex_acp.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex.connection.server_requests import OpenRequest, as_text
from codex_acp.errors import CodexAcpError

if TYPE_CHECKING:
    from codex_acp.codex.threads.results import RunResult


class TurnUnfinished(CodexAcpError):
    """The base class of errors of a turn; ``result`` has its text, items and usage so far."""

    def __init__(self, message: str, result: RunResult[None]) -> None:
        super().__init__(message)
        self.result = result


class TurnFailed(TurnUnfinished):
    """Codex reported that the turn failed; ``result.error`` has the message and the kind."""

    def __init__(self, result: RunResult[None]) -> None:
        error = result.error
        why = "Codex did not say why" if error is None else error.message
        details = None if error is None else error.additional_details
        super().__init__(f"the turn failed: {why}" + (f" ({details})" if details else ""), result)


class TurnInterrupted(TurnUnfinished):
    """The turn was interrupted: by this program, another client, or an approval's "cancel"."""

    def __init__(self, result: RunResult[None]) -> None:
        super().__init__("the turn was interrupted before it was done", result)


class ReachedElsewhere(TurnUnfinished):
    """The turn was interrupted: its model reached ``threads``, which are not its sub-agents.

    With hooks (``features.hooks``) Codex refuses such a call instead.
    """

    def __init__(self, threads: tuple[str, ...], result: RunResult[None]) -> None:
        super().__init__(
            f"the turn was interrupted: its model reached for {', '.join(threads)}, whose rights "
            "are not its own; Codex refuses that where `features.hooks` is on and it was started "
            "by this library",
            result,
        )
        self.threads = threads


class ThreadClosed(TurnUnfinished):
    """Codex has closed the thread ``thread_id``, so that no turn runs there.

    Another client, or another thread's model (``close_agent``), may have asked Codex to close it.
    """

    def __init__(self, result: RunResult[None]) -> None:
        super().__init__(
            f"Codex has closed thread {result.thread_id}; open it again with its resume()",
            result,
        )
        self.thread_id: str = result.thread_id


class TurnSilent(TurnUnfinished):
    """The turn still runs, but has sent no event for ``seconds`` (docs/contract.md, 6.3).

    ``open_requests`` are the app-server's requests, of all threads, that wait for an answer of this
    program: the usual cause.
    """

    def __init__(
        self, seconds: float, open_requests: tuple[OpenRequest, ...], result: RunResult[None]
    ) -> None:
        super().__init__(
            f"turn {result.turn_id} of thread {result.thread_id} is silent for {seconds:.1f} s; "
            f"open server requests: {as_text(open_requests)}",
            result,
        )
        self.thread_id: str = result.thread_id
        self.turn_id: str = result.turn_id
        self.seconds = seconds
        self.open_requests = open_requests


class OutputInvalid(TurnUnfinished):
    """The turn completed, but its ``text`` does not fit the ``output_type``.

    ``problems`` names each field and its fault.
    """

    def __init__(self, wanted: str, problems: tuple[str, ...], result: RunResult[None]) -> None:
        super().__init__(f"the answer is no {wanted}: {'; '.join(problems)}", result)
        self.text: str = result.text
        self.problems = problems
