"""``systemPrompt`` of the requests that open a session (unstable) → Codex's instructions.

Only ``append``: the text is put behind the person's own ``developer_instructions``. It changes what
the model is told, and nothing that is allowed: sandbox, approvals and tools are as without it.
Source: ACP ``SystemPrompt``, Codex ``developerInstructions`` of ``thread/start``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc.message import JsonValue

INSTRUCTIONS: Final = "developerInstructions"


def system_prompt_text(prompt: object) -> str | None:
    """Its text; None without one. ``prompt`` is plain JSON. Raises RpcError -32602."""
    if prompt is None:
        return None
    given = prompt if isinstance(prompt, dict) else {}
    if given.get("mode") != "append":
        raise _wrong("mode: Codex's own instructions can be added to (append), not replaced")
    content = given.get("content")
    if not isinstance(content, list) or not content:
        raise _wrong("content: has to be a list of text blocks")
    texts: list[str] = []
    for number, block in enumerate(content):
        text = block.get("text") if isinstance(block, dict) else None
        if not isinstance(text, str) or block.get("type") != "text":
            msg = f"content.{number}: has to be a text block"
            raise _wrong(msg)
        texts.append(text)
    return "\n\n".join(texts)


def behind_configured(params: Mapping[str, JsonValue], read: JsonValue) -> dict[str, JsonValue]:
    """Params of a thread with the configured instructions in front of those that were given."""
    given = params.get(INSTRUCTIONS)
    config = read.get("config") if isinstance(read, dict) else None
    configured = config.get("developer_instructions") if isinstance(config, dict) else None
    if not isinstance(given, str) or not isinstance(configured, str) or not configured.strip():
        return dict(params)
    return {**params, INSTRUCTIONS: f"{configured}\n\n{given}"}


def _wrong(what: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"systemPrompt.{what}")
