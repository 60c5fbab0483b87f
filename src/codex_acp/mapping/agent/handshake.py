"""The answer to ``initialize``, and whom Codex is told it works for: plain JSON, both ways.

A client waits for this answer before anything else, and loading the models takes half as long
again as all that is done before it (benchmarks/README.md). So what `is_simple` is answered before
they are loaded; all else goes through the models first, which read leniently and name a field that
is wrong, and comes here as what they make of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, text_at
from codex_acp._version import __version__
from codex_acp.acp.capabilities import negotiated_version
from codex_acp.acp.negotiation import is_implementation, version_of
from codex_acp.mapping.agent.auth_methods import LoginWays, auth_methods
from codex_acp.mapping.agent.capabilities import (
    AGENT_CAPABILITIES,
    EXTENSIONS,
    agent_info,
    capabilities_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc.message import JsonValue

_HEADER_SAFE: Final = "[A-Za-z0-9._/-]{1,64}"
"""Codex puts the name into an HTTP header of its requests to the model."""


def is_simple(params: JsonValue) -> bool:
    """Whether these params of ``initialize`` fit the schema as they are, as far as it is read."""
    if not isinstance(params, dict) or version_of(params) is None:
        return False
    if not isinstance(params.get("clientCapabilities"), dict | None):
        return False
    info = params.get("clientInfo")
    return info is None or is_implementation(info)


def initialize_result(
    params: Mapping[str, JsonValue], ways: LoginWays, about: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The answer to ``initialize``."""
    version = params.get("protocolVersion")
    return {
        "protocolVersion": negotiated_version(version if isinstance(version, int) else 0),
        "agentCapabilities": capabilities_of(AGENT_CAPABILITIES, ways, about),
        "authMethods": auth_methods(params.get("clientCapabilities"), ways),
        "agentInfo": agent_info(__version__),
        "_meta": dict(EXTENSIONS),
    }


def codex_client_info(params: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """``clientInfo`` for Codex; None, this library's own, without a name that can be used.

    A name that does not fit a header is not changed into another one: Codex then hears ours.
    """
    info = object_at(params, "clientInfo")
    name, title = text_at(info, "name"), text_at(info, "title")
    if name is None or not re.fullmatch(_HEADER_SAFE, name):
        return None
    known: dict[str, JsonValue] = {"name": name, "version": info.get("version")}
    return known if title is None else known | {"title": title}
