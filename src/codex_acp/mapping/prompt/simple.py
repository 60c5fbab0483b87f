"""A prompt of text alone, from the client's request to Codex's: plain JSON, both ways.

That is what most first prompts are, and Codex gets it before the models are loaded. All else, and
what does not fit, is read and written by the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.mapping.events.content import TextBlock
from codex_acp.mapping.prompt.commands import may_need_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.jsonrpc.message import JsonValue

_REQUEST: Final = frozenset({"sessionId", "prompt"})
_TEXT: Final = frozenset({"type", "text"})


def simple_prompt(params: JsonValue) -> tuple[str, list[TextBlock]] | None:
    """The session and the text of a ``session/prompt`` that can be neither command nor skill."""
    if not isinstance(params, dict) or params.keys() != _REQUEST:
        return None
    session_id, prompt = params["sessionId"], params["prompt"]
    if not isinstance(session_id, str) or not isinstance(prompt, list) or not prompt:
        return None
    blocks: list[TextBlock] = []
    for block in prompt:
        if not isinstance(block, dict) or block.keys() != _TEXT or block["type"] != "text":
            return None
        text = block["text"]
        if not isinstance(text, str):
            return None
        blocks.append(TextBlock(text))
    return None if may_need_lists(blocks[0].text) else (session_id, blocks)


def simple_turn_params(
    thread_id: str, message: Sequence[TextBlock], message_id: str
) -> dict[str, JsonValue]:
    """``turn/start`` for such a prompt."""
    return {
        "clientUserMessageId": message_id,
        "input": [{"type": "text", "text": block.text} for block in message],
        "threadId": thread_id,
    }
