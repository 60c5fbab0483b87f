"""``systemPrompt`` of the requests that open a session (unstable) → Codex's instructions.

``append`` puts the text behind the person's own ``developer_instructions``, ``override`` in the
place of what Codex tells every model. It changes what the model is told, and nothing that is
allowed: sandbox, approvals and tools are as without it. Source: ACP ``SystemPrompt``; of Codex's
``thread/start`` ``developerInstructions`` and ``baseInstructions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, text_at
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping


APPENDED: Final = "developerInstructions"
MODES: Final = {"append": APPENDED, "override": "baseInstructions"}
"""Mode → the param of a thread that it is."""


def instructions(prompt: object) -> dict[str, JsonValue]:
    """Return the params of a thread that carry a system prompt. ``prompt`` is plain JSON. Raises
    RpcError -32602."""
    if prompt is None:
        return {}
    mode, content = text_at(prompt, "mode"), list_at(prompt, "content")
    if mode not in MODES:
        raise _wrong("mode: has to be append or override")
    if not content:
        raise _wrong("content: has to be a list of text blocks")
    texts: list[str] = []
    for number, block in enumerate(content):
        text = text_at(block, "text")
        if text is None or text_at(block, "type") != "text":
            raise _wrong(f"content.{number}: has to be a text block")
        texts.append(text)
    return {MODES[mode]: "\n\n".join(texts)}


def behind_configured(params: Mapping[str, JsonValue], read: JsonValue) -> dict[str, JsonValue]:
    """Params of a thread with the configured instructions in front of those that were given."""
    given = params.get(APPENDED)
    configured = text_at(read, "config", "developer_instructions")
    if not isinstance(given, str) or configured is None or not configured.strip():
        return dict(params)
    return {**params, APPENDED: f"{configured}\n\n{given}"}


def _wrong(what: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"systemPrompt.{what}")
