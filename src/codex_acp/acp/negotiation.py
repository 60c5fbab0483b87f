"""PURE: choose the version of ACP, and read ``initialize`` of one version as that of another.

Sources: https://agentclientprotocol.com/protocol/v2/initialization, the descriptions of
``InitializeRequest`` and ``InitializeResponse`` in the schema of version 2, and for what an agent
does with params of a newer version ``dist/protocol-router.js`` of npm's
``@agentclientprotocol/sdk``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at, value_at
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue, Params

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


UNSUPPORTED_VERSION: Final = -32022
"""``Unsupported protocol version`` of the schema of version 2."""

MAX_VERSION: Final = 0xFFFF
"""``ProtocolVersion`` of the schema is an unsigned number of 16 bits."""

_UNKNOWN: Final[dict[str, JsonValue]] = {"name": "unknown", "version": "unknown"}
"""Name and version of a client that does not give them, where version 2 requires them."""


def version_of(params: JsonValue) -> int | None:
    """Return the ``protocolVersion`` of params or of a result; None if there is no valid one."""
    version = value_at(params, "protocolVersion")
    return version if type(version) is int and 0 <= version <= MAX_VERSION else None


def answered_version(result: JsonValue, offered: Collection[int]) -> int | None:
    """Return the version of an agent's answer to ``initialize``; None if it names none.

    Some agents of version 1 repeat any version that they are asked for, as an example of the Python
    SDK does (``echo_agent.py``). Such an answer counts as version 1 if it lacks ``info``, which
    version 2 requires.
    """
    answered = version_of(result)
    repeated = answered == 2 and 1 in offered and isinstance(result, dict) and "info" not in result
    return 1 if repeated else answered


def choose_version(params: JsonValue, supported: Collection[int]) -> int:
    """Return the version to answer ``initialize`` with: the highest not above the request.

    An agent of version 1 alone answers 1 to everything, as that version requires. A request for
    version 0 counts as one for version 1.
    Raises RpcError: -32602 for an invalid version, -32022 if no version fits.
    """
    if set(supported) == {1}:
        return 1
    requested = version_of(params)
    if requested is None:
        problem = f"protocolVersion: should be a whole number from 0 to {MAX_VERSION}"
        raise RpcError(
            INVALID_PARAMS, f"invalid params: initialize: {problem}", {"problems": [problem]}
        )
    fitting = [version for version in supported if version <= max(requested, 1)]
    if not fitting:
        known = ", ".join(map(str, sorted(supported)))
        raise RpcError(
            UNSUPPORTED_VERSION,
            f"protocol version {requested} is not supported, only {known}",
            {"requested": requested, "supported": sorted(supported)},
        )
    return max(fitting)


def initialize_params(params: Params, chosen: int) -> Params:
    """Return ``params`` for the chosen version, if they were written for a newer one."""
    requested = version_of(params)
    if not isinstance(params, dict) or requested is None or requested <= chosen:
        return params
    if chosen == 1:
        return _as_version_1(params)
    known = params if is_implementation(params.get("info")) else {**params, "info": _UNKNOWN}
    return {**known, "protocolVersion": chosen}


def _as_version_1(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return params with the client's ``info`` and ``capabilities`` under the names of version
    1."""
    kept = {key: value for key, value in params.items() if key not in ("info", "capabilities")}
    info, capabilities = params.get("info"), params.get("capabilities")
    if "clientInfo" not in kept and is_implementation(info):
        kept["clientInfo"] = info
    if "clientCapabilities" not in kept and isinstance(capabilities, dict):
        kept["clientCapabilities"] = client_capabilities(capabilities)
    return kept


def client_capabilities(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return capabilities of version 2 as those of version 1.

    Version 2 takes boolean options for granted; in version 1 they are a capability.
    """
    terminal = isinstance(value_at(given, "auth", "terminal"), dict)
    found: dict[str, JsonValue] = {
        "session": {"configOptions": {"boolean": {}}},
        "auth": {"terminal": terminal},
    }
    return found | {key: given[key] for key in ("elicitation", "_meta") if key in given}


def is_implementation(info: JsonValue) -> bool:
    """Return whether a side gives its name and version."""
    return None not in (text_at(info, "name"), text_at(info, "version"))
