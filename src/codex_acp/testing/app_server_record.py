"""The record that a scripted app-server process leaves, as tests read it.

Owns what the lines mean: ``{"at": "start", "argv": [...]}``, ``{"at": "in", "message": {...}}``,
``{"at": "in", "line": "..."}`` for what was not JSON, ``{"at": "out", "message": {...}}``,
``{"at": "answer", "id": ..., "name": ..., "message": {...}}``,
``{"at": "end", "why": ..., "remaining": [...], "unexpected": [...]}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from codex_acp.testing.record_file import read_record

if TYPE_CHECKING:
    from os import PathLike

    from codex_acp.testing.app_server_entries import JsonObject, RequestId


@dataclass(frozen=True, slots=True)
class AppServerRecord:
    """Messages that a scripted app-server process saw; ``lines`` holds the record as it was
    written."""

    lines: tuple[JsonObject, ...]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> AppServerRecord:
        """Read what has been written so far; a last line that is cut off is left out."""
        return cls(read_record(path))

    @property
    def argv(self) -> list[str]:
        """The arguments of the newest process, without the program."""
        starts = [line["argv"] for line in self.lines if line["at"] == "start"]
        return cast("list[str]", starts[-1]) if starts else []

    @property
    def received(self) -> list[JsonObject]:
        """Every message of the client."""
        return self._messages("in")

    @property
    def sent(self) -> list[JsonObject]:
        """Every message to the client."""
        return self._messages("out")

    def requests(self, method: str) -> list[JsonObject]:
        """The client's messages of this method."""
        return [message for message in self.received if message.get("method") == method]

    def answers_to(self, request_id: RequestId) -> list[JsonObject]:
        """The client's answers with exactly this id; ``0`` and ``"0"`` are told apart."""
        key = (type(request_id), request_id)
        return [
            cast("JsonObject", line["message"])
            for line in self.lines
            if line["at"] == "answer" and (type(line["id"]), line["id"]) == key
        ]

    @property
    def end(self) -> JsonObject | None:
        """The last line of a process that ended by itself, None of one that was killed."""
        last = self.lines[-1] if self.lines else None
        return last if last is not None and last["at"] == "end" else None

    @property
    def finished(self) -> bool:
        """Whether the process ended by itself with every entry played and nothing unexpected."""
        return self.end is not None and not self.end["remaining"] and not self.end["unexpected"]

    def _messages(self, at: str) -> list[JsonObject]:
        return [
            cast("JsonObject", line["message"])
            for line in self.lines
            if line["at"] == at and "message" in line
        ]
