"""Hold this agent's capabilities for the answer to ``initialize``.

As JSON, which a process just started can send before it has loaded a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at
from codex_acp.acp._generated.version import SCHEMA_PACKAGE as ACP_PACKAGE
from codex_acp.acp._generated.version import SCHEMA_VERSION as ACP_VERSION
from codex_acp.codex._generated.version import SCHEMA_PACKAGE as CODEX_PACKAGE
from codex_acp.codex._generated.version import SCHEMA_VERSION as CODEX_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.agent.auth_methods import LoginWays

META_KEY: Final = "codex-acp-sdk"
"""Key of this agent's own data in a ``_meta``."""

AGENT_CAPABILITIES: Final[dict[str, JsonValue]] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {
        "list": {},
        "delete": {},
        "additionalDirectories": {},
        "resume": {},
        "close": {},
        "systemPrompt": {"mode": {"override": {}}},
        "fork": {},
        "archive": {},
        "status": {},
        "title": {},
    },
    "auth": {"logout": {}, "status": {}},
    "_meta": {META_KEY: {"concurrentPrompts": "steer"}},
    "providers": {},
}
"""Capabilities that ``mapping.prompt.message`` and ``mapping.session.setup`` can map, no
more.

``fork``, ``title``, ``archive``, ``systemPrompt``, ``providers`` and both ``status`` are of the
unstable schema. Text, resource links and stdio MCP servers are every agent's baseline and are not
listed. Audio is passed on to a model that takes it and refused by the others: which models there
are, Codex has not told yet, so it is not promised. ``concurrentPrompts``: a prompt sent while one
runs is steered into the running turn and ends with it; what Codex takes no message into (a review,
a compaction) it waits for.
"""


EXTENSIONS: Final[dict[str, JsonValue]] = {
    "steering": {"supported": True},
    META_KEY: {
        "schemas": {
            ACP_PACKAGE.removeprefix("npm:"): ACP_VERSION,
            CODEX_PACKAGE.removeprefix("npm:"): CODEX_VERSION,
        }
    },
}
"""``_meta`` of the answer to ``initialize``.

``steering``: ``_session/steering`` is offered, in the words of the agent that had it first.
``schemas``: package → version of what the models are made of, since two sides that agree on a
version of ACP may know different drafts of it.
"""


def capabilities_of(
    all_of_them: Mapping[str, JsonValue], ways: LoginWays, about: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Those of either version for one client: logins and providers are of the process, which is
    not every client's own. ``about`` is what more stands below `META_KEY`.
    """
    capabilities = dict(all_of_them)
    if not ways.offered:
        del capabilities["auth"], capabilities["providers"]
    own = {**object_at(all_of_them, "_meta", META_KEY), **about}
    return {**capabilities, "_meta": {META_KEY: own}}


def agent_info(version: str) -> dict[str, JsonValue]:
    """Name and version of this agent (``agentInfo``)."""
    return {"name": "codex-acp-sdk", "title": "Codex", "version": version}
