"""The settings of a fleet; `codex_acp.fleet.Fleet` says what each is for."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from codex_acp.fleet.engines import Engine
    from codex_acp.fleet.jobs import Event
    from codex_acp.fleet.questions import FleetFormCallback, FleetPolicy, FleetUrlCallback


@dataclass(frozen=True, slots=True)
class Retries:
    """At most ``attempts`` in one run; before the second ``seconds`` pass, then twice as many each
    time, at most ``longest``, and up to half of that more by chance.

    Only what may go better is tried again: an overloaded model, an agent or a worker that is gone.
    """

    attempts: int = 3
    seconds: float = 2.0
    longest: float = 120.0

    def pause(self, made: int) -> float:
        """Seconds to wait when ``made`` attempts were made."""
        wait = min(self.seconds * 2.0 ** (made - 1), self.longest)
        return wait * (1 + random.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """As they were given."""

    engine: Engine
    out: str | os.PathLike[str] | None
    resume: bool
    retry_failed: bool
    concurrency: int | None
    permissions: FleetPolicy
    on_form: FleetFormCallback | None
    on_url: FleetUrlCallback | None
    max_tokens: int | None
    time_limit: float | None
    task_time_limit: float | None
    retries: Retries
    on_event: Callable[[str, Event], None] | None
