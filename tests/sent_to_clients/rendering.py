"""A conversation that was played, as a page to be read in review."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from tests.sent_to_clients.conversation import Conversation, Json
from tests.sent_to_clients.player import Line, Played
from tests.sent_to_clients.stage import told_in

_LEGEND: Final = """\
`<` Codex says, `>` the client is sent, `2>` what one of ACP v2 is sent instead, `}` the client
does, `]` Codex is told."""

_LOADED: Final = """\
What `session/load` shows of it afterwards, from what Codex has stored:"""


def rendered(conversation: Conversation, played: Played, in_v2: Played) -> str:
    """The page: what was sent live, then what a load shows of it; in both versions of ACP."""
    client = json.dumps(conversation.capabilities) if conversation.capabilities else "none"
    lines = [
        f"# {conversation.name}",
        "",
        conversation.about,
        "",
        f"{conversation.source}. Capabilities of the client: {client}.",
        _LEGEND,
        "",
        "```",
        *_side_by_side(played.live, in_v2.live),
        "```",
    ]
    if played.loaded:
        lines += [
            "",
            _LOADED,
            "",
            "```",
            *(f"> {_json(_update(each))}" for each in played.loaded),
            *(f"2> {_json(_update(each))}" for each in in_v2.loaded),
            "```",
        ]
    return "\n".join(lines) + "\n"


def _side_by_side(first: list[Line], second: list[Line]) -> Iterator[str]:
    """Behind each thing that Codex says or the client does, what the adapter says for it."""
    for ours, theirs in zip(_steps(first), _steps(second), strict=True):
        yield from map(_line, ours)
        yield from (f"2{_line(line)}" for line in theirs if line.to == "client")
        assert [line for line in ours if line.by != "adapter"] == [
            line for line in theirs if line.by != "adapter"
        ]


def _steps(lines: list[Line]) -> list[list[Line]]:
    """The lines, cut before each that the adapter has not said."""
    steps: list[list[Line]] = [[]]
    for line in lines:
        if line.by != "adapter":
            steps.append([])
        steps[-1].append(line)
    return steps


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
        return _update(told_in(message["params"]))
    return {key: value for key, value in message.items() if key not in ("jsonrpc", "id")}


def _update(update: Json) -> Json:
    """With its kind first."""
    return {"sessionUpdate": update["sessionUpdate"], **update}


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
