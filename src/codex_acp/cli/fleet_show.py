"""``codex-acp-sdk fleet show DIR``: what came of the tasks of a fleet, and what is left of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codex_acp.cli.fleet import outcome_json
from codex_acp.cli.fleet_arguments import FAILED, LEFT, USAGE
from codex_acp.cli.fleet_progress import outcome_line
from codex_acp.errors import CodexAcpError
from codex_acp.fleet import read_outcomes
from codex_acp.fleet.journal import read_history
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.fleet.journal import History


def show(out: str, *, as_json: bool) -> int:
    """Print it; the exit code is that of the run that would have ended so."""
    folder = Path(out).absolute()
    try:
        outcomes = {outcome.id: outcome for outcome in read_outcomes(folder)}
        ids, histories = read_history(folder / "journal.jsonl")
    except (CodexAcpError, OSError) as error:
        print(f"codex-acp-sdk fleet: error: {visible(str(error))}", file=sys.stderr)
        return USAGE
    left = [task_id for task_id in ids if task_id not in outcomes]
    for outcome in outcomes.values():
        print(json.dumps(outcome_json(outcome)) if as_json else outcome_line(outcome))
    for task_id in left:
        history = histories.get(task_id)
        if as_json:
            attempts = 0 if history is None else len(history.attempts)
            print(json.dumps({"type": "left", "id": task_id, "attempts": attempts}))
        else:
            print(f"{visible(task_id)}: {_of_left(history)}")
    failed = sum(not outcome.ok for outcome in outcomes.values())
    if not as_json:
        completed = len(outcomes) - failed
        tokens = sum(outcome.usage.total for outcome in outcomes.values())
        counts = f"{completed} completed, {failed} failed, {len(left)} left, {tokens} tokens"
        print(counts)
    return LEFT if left else FAILED if failed else 0


def _of_left(history: History | None) -> str:
    if history is None:
        return "not begun"
    count = len(history.attempts)
    return f"begun {count} times, no outcome" if count > 1 else "begun, no outcome"
