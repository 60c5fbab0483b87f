"""What happens in a conversation that is recorded: the model's script and what the client does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from codex_acp.testing import McpTool, ModelResponse, Step
from tests.sent_to_clients.conversation import Json

Action: TypeAlias = "Json"
"""What the client does next: a step of a conversation, or ``{"until": predicate}``."""


@dataclass(frozen=True)
class Scene:
    """A conversation with the real Codex.

    Before each prompt the client waits for the end of the one before, before each answer until it
    is asked something.
    """

    name: str
    about: str
    script: Sequence[ModelResponse | Sequence[Step]]
    client: Sequence[Action] = ({"prompt": "Go."},)
    capabilities: Json = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """In the workspace, by path."""
    home: Mapping[str, Any] = field(default_factory=dict)
    """For `CodexHome`."""
    tools: Sequence[McpTool] = ()
    """Of an MCP server ``notes``, if there are any."""
    early: Sequence[str] = ()
    """Methods of notifications that count although they come before the first prompt."""
    keep: Sequence[str] = ()
    """Methods of notifications that are left out elsewhere, since they come in every turn."""
    prepare: Callable[[Any], None] | None = None
    """What else is put into the `CodexHome`."""


def until(text: str) -> Action:
    """Wait until Codex has sent a message that contains ``text``."""
    return {"until": text}
