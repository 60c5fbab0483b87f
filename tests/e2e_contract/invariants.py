"""What must hold of every transcript, whatever a test is about (contract 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from codex_acp.transcript.events import Entry


def check_transcript(entries: Iterable[Entry], requests: Sequence[dict[str, Any]]) -> None:
    """Each request of Codex is in the transcript, and as one thing only."""
    families: dict[object, set[str]] = {}
    for entry in entries:
        family, _, _ = entry.event.type.partition(".")
        request_id = getattr(entry.event.ref, "codex_request_id", None)
        if request_id is not None:
            families.setdefault(request_id, set()).add(family)
    for request in requests:
        found = families.get(request["id"], set())
        assert len(found) == 1, f"{request['method']} is in the transcript as {found or 'nothing'}"
        assert found <= {"approval", "elicitation", "request"}
