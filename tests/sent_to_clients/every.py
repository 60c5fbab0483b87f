"""All conversations: those that were recorded, and those that were made."""

from __future__ import annotations

from typing import Final

from tests.sent_to_clients.conversation import WIRE, load
from tests.sent_to_clients.made import MADE

RECORDED: Final = tuple(
    load(path) for path in sorted(WIRE.glob("*.jsonl"), key=lambda path: path.stem)
)

ALL: Final = (*RECORDED, *MADE)
