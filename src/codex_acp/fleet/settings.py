"""The settings of a fleet; `codex_acp.fleet.Fleet` says what each is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from codex_acp.fleet.engines import Engine
    from codex_acp.fleet.jobs import Event
    from codex_acp.fleet.questions import FleetFormCallback, FleetPolicy, FleetUrlCallback
    from codex_acp.fleet.retries import Retries


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """As they were given."""

    engine: Engine
    out: str | os.PathLike[str] | None
    resume: bool
    concurrency: int | None
    permissions: FleetPolicy
    on_form: FleetFormCallback | None
    on_url: FleetUrlCallback | None
    max_tokens: int | None
    time_limit: float | None
    task_time_limit: float | None
    retries: Retries
    on_event: Callable[[str, Event], None] | None
