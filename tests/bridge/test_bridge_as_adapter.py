"""What a bridge tells of recorded conversations is what the whole adapter sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codex_acp.acp.capabilities import features_in
from codex_acp.bridge import Approval, Bridge, Decline, Elicitation, Told
from codex_acp.wire.codec import plain
from tests.sent_to_clients.conversation import Conversation, Json
from tests.sent_to_clients.every import RECORDED
from tests.sent_to_clients.player import play

TOLD = {
    "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
    "plan_update", "notice", "terminal_update", "terminal_output_chunk",
}  # fmt: skip
"""Updates of what Codex does; others are about what the client does to its session."""

ELSEWHERE = {
    "auto-review", "command-cancelled", "command-interrupted", "command-output", "goal", "patch",
    "patch-approved", "patch-declined", "permissions", "question-async", "review",
    "sub-agents", "title",
}  # fmt: skip
"""Conversations in which files, a timer, a client's calls or sub-agents' sessions have a part."""


class _Told:
    """What was said to the client and to Codex, for comparing."""

    def __init__(self) -> None:
        self.updates: list[Json] = []
        self.asked: list[Json] = []
        self.replies: list[Json] = []

    def update(self, update: Json) -> None:
        """Note an update; pieces of one message are one."""
        kind = update["sessionUpdate"]
        last = self.updates[-1] if self.updates else {}
        if kind not in TOLD:
            return
        if kind.endswith("_chunk") and "content" in update:
            same = (last.get("sessionUpdate"), last.get("messageId")) == (
                kind,
                update.get("messageId"),
            )
            if same and "text" in last.get("content", {}):
                last["content"]["text"] += update["content"]["text"]
                return
        self.updates.append(update)

    def ask(self, params: Json) -> None:
        """Note a question, without ids that only have to be unlike others."""
        kept = {k: v for k, v in params.items() if k not in ("elicitationId", "options")}
        self.asked.append({**kept, "options": [o["kind"] for o in params.get("options", ())]})


async def _adapter(conversation: Conversation, cwd: Path, version: int) -> _Told:
    told = _Told()
    for line in (await play(conversation, cwd, version=version)).live:
        message = line.message
        if line.by == "adapter" and line.to == "client":
            if message.get("method") == "session/update":
                told.update(message["params"]["update"])
            elif "id" in message and "method" in message:
                told.ask(message["params"])
        elif line.by == "adapter" and "method" not in message:
            told.replies.append({k: v for k, v in message.items() if k != "jsonrpc"})
    return told


def _bridge(conversation: Conversation, cwd: str, version: int) -> _Told:
    bridge = Bridge("thread-1", features_in(conversation.capabilities, version), roots=[cwd])
    found, last = _Told(), None

    def tell(told: Told) -> None:
        for each in told.v1() if version == 1 else told.v2():
            update = json.loads(json.dumps(plain(each)).replace(cwd, "$CWD"))
            update = json.loads(json.dumps(update).replace(cwd.removeprefix("/"), "$CWD"))
            found.update(update["update"])
        found.replies.extend(json.loads(json.dumps(r.message())) for r in told.replies)

    for step in json.loads(json.dumps(conversation.steps).replace("$CWD", cwd)):
        message, action = step.get("codex", {}), step.get("client", {})
        if "id" in message:
            last = bridge.asked(message["id"], message["method"], message["params"])
            tell(last.told)
            if not isinstance(last, Decline):
                params = plain(last.v1() if version == 1 else last.v2())
                found.ask(json.loads(json.dumps(params).replace(cwd, "$CWD")))
        elif message:
            tell(bridge.heard(message["method"], message["params"], 1_000.0))
        elif "answer" in action and isinstance(last, Approval | Elicitation):
            tell(bridge.answered(last, _answer(action["answer"], last)))
    return found


def _answer(given: Any, asked: Approval | Elicitation) -> Json:
    if isinstance(given, str) and isinstance(asked, Approval):
        chosen = next(o.option_id for o in asked.v1().options if o.kind == given)
        return {"outcome": {"outcome": "selected", "optionId": chosen}}
    assert isinstance(given, dict)
    return given


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "conversation", [c for c in RECORDED if c.name not in ELSEWHERE], ids=lambda c: c.name
)
async def test_1_1_a_bridge_tells_asks_and_replies_as_the_adapter_does(
    conversation: Conversation, version: int, tmp_path: Path
) -> None:
    ours = _bridge(conversation, str(tmp_path), version)
    theirs = await _adapter(conversation, tmp_path, version)
    assert ours.replies == theirs.replies
    assert ours.asked == theirs.asked
    assert ours.updates == theirs.updates
