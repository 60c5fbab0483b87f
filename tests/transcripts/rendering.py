"""A transcript that was played, as a page to be read in review."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.transcripts.player import Line, Played
    from tests.transcripts.transcript import Json, Transcript

__all__ = ["rendered"]

_LEGEND: Final = """\
`<` Codex says, `>` the client is sent, `}` the client does, `]` Codex is told."""

_LOADED: Final = """\
What `session/load` shows of it afterwards, from what Codex has stored:"""


def rendered(transcript: Transcript, played: Played) -> str:
    """The page: the live conversation, then what a load shows of it."""
    client = json.dumps(transcript.capabilities) if transcript.capabilities else "none"
    lines = [
        f"# {transcript.name}",
        "",
        transcript.about,
        "",
        f"{transcript.source}. Capabilities of the client: {client}.",
        _LEGEND,
        "",
        "```",
        *map(_line, played.live),
        "```",
    ]
    if played.loaded:
        lines += [
            "",
            _LOADED,
            "",
            "```",
            *(f"> {_json(_update(each))}" for each in played.loaded),
            "```",
        ]
    return "\n".join(lines) + "\n"


def _line(line: Line) -> str:
    message = line.message
    if line.by == "client":
        return f"}} {_json(message)}"
    if line.by == "codex":
        return f"< {_json(message)}"
    if line.to == "codex":
        return f"] {_json(_shown(message))}"
    return f"> {_json(_shown(message))}"


def _shown(message: Json) -> Json:
    """Without what is the same in all of them."""
    if message.get("method") == "session/update":
        return _update(message["params"]["update"])
    return {key: value for key, value in message.items() if key not in ("jsonrpc", "id")}


def _update(update: Json) -> Json:
    """With its kind first."""
    return {"sessionUpdate": update["sessionUpdate"], **update}


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
