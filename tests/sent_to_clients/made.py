"""Conversations of what the scripted model cannot provoke: made by hand, to fit Codex's schema.

Values are those that a reader of the golden pages can tell apart; the rest is what is required.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tests.sent_to_clients.conversation import Conversation, Json, stored
from tests.support.notification_samples import SAMPLES as NOTIFICATIONS
from tests.support.tool_call_samples import SAMPLES as ITEMS

_SOURCE: Final = "Made by hand to fit the schema of Codex: the scripted model cannot provoke it"
_PLACE: Final = {"threadId": "thread-1", "turnId": "turn-1"}
_ALL: Final[Json] = {"session": {"notices": {}, "compaction": {}}}


def _says(method: str, params: Json) -> Json:
    return {"codex": {"method": method, "params": params}}


def _turn(status: str) -> Json:
    turn = {"id": "turn-1", "items": [], "status": status}
    return {"threadId": "thread-1", "turn": turn}


def _started(item: Json) -> Json:
    return _says("item/started", {**_PLACE, "startedAtMs": 1_000, "item": item})


def _completed(item: Json) -> Json:
    return _says("item/completed", {**_PLACE, "completedAtMs": 2_000, "item": item})


def _of_item(method: str, item: str, **more: Any) -> Json:
    return _says(f"item/{method}", {**_PLACE, "itemId": item, **more})


def _made(name: str, about: str, *steps: Json, **more: Any) -> Conversation:
    """``steps`` within one turn."""
    whole = [
        {"client": {"prompt": "Go."}},
        _says("turn/started", _turn("inProgress")),
        *steps,
        _says("turn/completed", _turn("completed")),
    ]
    return Conversation(name, about, _SOURCE, steps=whole, history=stored(whole), **more)


def _placed(params: Json) -> Json:
    """A sample, in the thread and the turn of these conversations."""
    given = {key: value for key, value in _PLACE.items() if key in params}
    return {**params, **given}


def _samples(*methods: str) -> list[Json]:
    """The samples of these notifications, each behind what comes before it."""
    chosen = [sample for sample in NOTIFICATIONS if sample.method in methods]
    assert {sample.method for sample in chosen} == set(methods)
    told = [step for s in chosen for step in (*s.before, (s.method, s.params))]
    return [_says(method, _placed(params)) for method, params in told]


def _items(*types: str) -> list[Json]:
    """The samples of these types of items: started, if they are seen to, and completed."""
    found = []
    chosen = [sample for sample in ITEMS if sample.completed["type"] in types]
    assert {sample.completed["type"] for sample in chosen} == set(types)
    for number, sample in enumerate(chosen, start=1):
        for item, told in ((sample.started, _started), (sample.completed, _completed)):
            if item is not None:
                found.append(told({**item, "id": f"item-{number}"}))
    return found


def _patch_growing() -> Iterable[Json]:
    added = {"path": "$CWD/new.py", "kind": {"type": "add"}}
    item: Json = {"type": "fileChange", "id": "patch", "status": "inProgress", "changes": []}
    yield _started(item)
    for text in ("x = 1\n", "x = 1\ny = 2\n"):
        yield _of_item("fileChange/patchUpdated", "patch", changes=[{**added, "diff": text}])
        yield {"wait": 0.5}
    whole = {**added, "diff": "x = 1\ny = 2\nz = 3\n"}
    yield _completed({**item, "status": "completed", "changes": [whole]})


def _mcp_progress() -> Iterable[Json]:
    item: Json = {
        "type": "mcpToolCall",
        "id": "call",
        "server": "notes",
        "tool": "index",
        "arguments": {},
        "status": "inProgress",
    }
    yield _started(item)
    for message in ("a third", "two thirds"):
        yield _of_item("mcpToolCall/progress", "call", message=message)
        yield {"wait": 0.5}
    result = {"content": [{"type": "text", "text": "Indexed."}]}
    yield _completed({**item, "status": "completed", "result": result, "durationMs": 5})


def _typed() -> Iterable[Json]:
    item: Json = {
        "type": "commandExecution",
        "id": "run",
        "command": "/bin/bash -lc 'read x; echo got $x'",
        "cwd": "$CWD",
        "processId": "1001",
        "source": "unifiedExecStartup",
        "status": "inProgress",
        "commandActions": [{"type": "unknown", "command": "read x; echo got $x"}],
    }
    yield _started(item)
    typed = {"processId": "1001", "stdin": "yes\n"}
    yield _of_item("commandExecution/terminalInteraction", "run", **typed)
    yield {"wait": 0.5}
    yield _of_item("commandExecution/outputDelta", "run", delta="got yes\n")
    ended = {"status": "completed", "aggregatedOutput": "got yes\n", "exitCode": 0}
    yield _completed({**item, **ended, "durationMs": 5})


def _plan_text() -> Iterable[Json]:
    yield _started({"type": "plan", "id": "plan", "text": ""})
    for text in ("# Plan\n", "1. Look\n"):
        yield _of_item("plan/delta", "plan", delta=text)
    yield _completed({"type": "plan", "id": "plan", "text": "# Plan\n1. Look\n2. Mend"})


def _raw_reasoning() -> Iterable[Json]:
    yield _started({"type": "reasoning", "id": "think", "summary": [], "content": []})
    yield _of_item("reasoning/textDelta", "think", contentIndex=0, delta="Hm. ")
    yield _of_item("reasoning/textDelta", "think", contentIndex=0, delta="Yes.")
    yield _completed({"type": "reasoning", "id": "think", "summary": [], "content": ["Hm. Yes."]})


_NEWS: Final = (
    "model/rerouted", "model/verification", "model/safetyBuffering/updated",
    "modelProvider/authRecoveryStarted", "modelProvider/authRecoveryCompleted",
    "autoApprovalReview/strictReviewRequired", "deprecationNotice", "configWarning",
    "guardianWarning", "account/rateLimits/updated",
)  # fmt: skip

MADE: Final = (
    _made("made-news", "News of the model, the provider and the account.", *_samples(*_NEWS)),
    _made(
        "made-news-noticed",
        "The same, for a client that shows notices.",
        *_samples(*_NEWS),
        capabilities=_ALL,
    ),
    _made(
        "made-session",
        "What becomes of the thread elsewhere: archived and back, changed, deleted.",
        *_samples("thread/archived", "thread/unarchived", "thread/reverted", "thread/deleted"),
    ),
    _made("made-dynamic-tool", "A tool of some other client.", *_items("dynamicToolCall")),
    _made("made-function-output", "The output of a function.", *_items("functionCallOutput")),
    _made("made-web-search", "Searches of the web.", *_items("webSearch")),
    _made("made-image", "Images that are made, or are not.", *_items("imageGeneration")),
    _made("made-agents", "The older tools of sub-agents.", *_items("collabAgentToolCall")),
    _made("made-unknown", "An item of a type that nobody knows.", *_items("telepathy")),
    _made("made-patch", "A patch that is shown while it is written.", *_patch_growing()),
    _made("made-mcp-progress", "An MCP tool tells how far it is.", *_mcp_progress()),
    _made("made-typed", "A command that waits for input, which is typed.", *_typed()),
    _made("made-plan", "A plan that is a text.", *_plan_text()),
    _made("made-reasoning", "Reasoning that has no summary.", *_raw_reasoning()),
)
