"""What a client has in the end, live and after a load: the same, but for what is told here.

Not compared, because only one of the two can know it:

* Tool calls of what Codex does not store: a command or an edit that was declined, the review of an
  approval, permissions that were granted.
* Whole texts in a diff. Live, the file is there as it was; a load comes later, when it may have
  changed, and shows the patch. So both are compared as they are when no file can be read.
* What was typed into a command, and that some of its output was not streamed: a terminal of Zed's
  only grows, and Codex stores the output alone.
* The person's own messages, which a client has itself, and what the adapter says by itself: news
  (chunks without a message id) and the answers of its slash commands.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from codex_acp.acp.capabilities import ClientFeatures, client_features
from codex_acp.acp.types import ClientCapabilities
from tests.sent_to_clients.conversation import Json
from tests.support.tool_calls import Folded

_TYPED: Final = re.compile(r"\n?\[typed\] [^\n]*\n")


class Shown(NamedTuple):
    """What a client has."""

    calls: dict[str, Json]
    """Tool calls by id."""
    terminals: dict[str, str]
    """What the terminals of a client like Zed hold."""
    texts: dict[tuple[str, str], str]
    """The agent's messages and thoughts by kind and message id, in the order of their begin."""


def features_of(capabilities: Json) -> ClientFeatures:
    """The features that ``clientCapabilities`` advertise."""
    return client_features(ClientCapabilities.model_validate(capabilities))


def shown(updates: list[Json], client: ClientFeatures) -> Shown:
    """Fold updates as a client does."""
    folded = Folded(client)
    folded.take(updates)
    texts: dict[tuple[str, str], str] = {}
    for update in updates:
        kind, message = update["sessionUpdate"], update.get("messageId")
        if kind not in ("agent_message_chunk", "agent_thought_chunk") or message is None:
            continue
        if not message.startswith("said-"):
            text = texts.get((kind, message), "") + update["content"]["text"]
            texts[kind, message] = text
    return Shown(folded.calls, folded.terminals, texts)


def assert_same(live: Shown, loaded: Shown, stored: set[str]) -> None:
    """Raise AssertionError unless a load shows what was shown live of the ``stored`` items."""
    assert {call: live.calls[call] for call in live.calls if call in stored} == loaded.calls
    assert live.texts == loaded.texts
    assert {name for name in live.terminals if name in stored} == loaded.terminals.keys()
    for name, output in loaded.terminals.items():
        assert _TYPED.sub("", live.terminals[name]).endswith(output)
    left = {call for call in live.calls if call not in stored and _is_open(live.calls[call])}
    assert not left, "what is not stored has ended live"


def _is_open(call: Json) -> bool:
    return call.get("status", "pending") in ("pending", "in_progress")
