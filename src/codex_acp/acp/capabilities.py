"""PURE: read ``initialize``: choose the protocol version, and find what the peer can do.

Defines small frozen values and functions on them, and converts ``initialize`` params of a newer
version to the chosen one. Must not know the connection.

Sources: the definitions ``ClientCapabilities`` and ``AgentCapabilities`` of the schema, and
https://agentclientprotocol.com/protocol/v1/initialization. Where the schema of a capability is an
object, any object advertises the capability, even an empty one. Null, an absent field or a value of
another type (read as absent by the models) does not: ``elicitation: {}`` has neither mode.
Version 2: https://agentclientprotocol.com/protocol/v2/initialization, and the descriptions of
``InitializeRequest`` and ``InitializeResponse`` in its schema. Params of a newer version:
``dist/protocol-router.js`` of npm's ``@agentclientprotocol/sdk``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codex_acp._json import object_at, text_at, value_at
from codex_acp._record import record, replace
from codex_acp.errors import RpcError, refuse_unless
from codex_acp.jsonrpc import INVALID_PARAMS, JsonValue, Params

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from codex_acp.acp._generated.v1.models import (
        AgentCapabilities,
        ClientCapabilities,
        Implementation,
    )
    from codex_acp.acp._generated.v2.models import AgentCapabilities as AgentCapabilitiesV2
    from codex_acp.acp._generated.v2.models import ClientCapabilities as ClientCapabilitiesV2


PROTOCOL_VERSION: Final = 1
"""The stable protocol version; a client that speaks only version 1 sends it."""
SUPPORTED_VERSIONS: Final[frozenset[int]] = frozenset({PROTOCOL_VERSION})
"""Every stable protocol version; version 2 is a draft."""


@record(frozen=True)
class ClientFeatures:
    """Features of a client beyond the baseline; by default none."""

    elicitation_form: bool = False
    """``elicitation.form``: ``elicitation/create`` with mode ``form``."""
    elicitation_url: bool = False
    """``elicitation.url``: mode ``url``, and ``elicitation/complete``."""
    read_text_file: bool = False
    """``fs.readTextFile``."""
    write_text_file: bool = False
    """``fs.writeTextFile``."""
    terminal: bool = False
    """``terminal``: all five ``terminal/*`` methods."""
    terminal_auth: bool = False
    """``auth.terminal``: ``authMethods`` may have entries of type ``terminal``."""
    notices: bool = False
    """``session.notices``: updates of kind ``notice``."""
    compaction: bool = False
    """``session.compaction``: ``compaction_update`` and ``compaction_summary_chunk``."""
    boolean_config_options: bool = False
    """``session.configOptions.boolean``: config options of type ``boolean``."""
    terminal_output_meta: bool = False
    """``_meta.terminal_output`` is true: Zed's convention of output in a tool call's ``_meta``."""
    terminal_auth_meta: bool = False
    """``_meta["terminal-auth"]`` is true: Zed's older form of ``auth.terminal``."""
    agent_terminals: bool = False
    """v2: ``terminal_update`` and ``terminal_output_chunk`` of terminals that the agent owns."""
    subagents: bool = False
    """``subagents``: sub-agents as sessions of their own. Every client of v2 has the feature."""

    @property
    def shows_terminals(self) -> bool:
        """Return whether the client shows command output piece by piece, in a terminal."""
        return self.terminal_output_meta or self.agent_terminals


@record(frozen=True)
class AgentFeatures:
    """Features of an agent beyond the baseline; by default none."""

    load_session: bool = False
    """``loadSession``: ``session/load``."""
    list_sessions: bool = False
    """``sessionCapabilities.list``."""
    delete_session: bool = False
    """``sessionCapabilities.delete``."""
    resume_session: bool = False
    """``sessionCapabilities.resume``."""
    close_session: bool = False
    """``sessionCapabilities.close``."""
    additional_directories: bool = False
    """``sessionCapabilities.additionalDirectories``: the field of that name may be sent."""
    logout: bool = False
    """``auth.logout``."""
    prompt_image: bool = False
    """``promptCapabilities.image``."""
    prompt_audio: bool = False
    """``promptCapabilities.audio``."""
    prompt_embedded_context: bool = False
    """``promptCapabilities.embeddedContext``: blocks of type ``resource``."""
    mcp_http: bool = False
    """``mcpCapabilities.http``."""
    mcp_sse: bool = False
    """``mcpCapabilities.sse``."""
    fork_session: bool = False
    """``sessionCapabilities.fork``, which is unstable."""


def client_features(capabilities: ClientCapabilities | None) -> ClientFeatures:
    """Return the features that ``clientCapabilities`` of ``initialize`` advertises, if any."""
    from codex_acp.wire.codec import plain

    return features_in(plain(capabilities))


def features_in(capabilities: object, version: int = PROTOCOL_VERSION) -> ClientFeatures:
    """Return the features that the raw ``capabilities`` advertise, without loading a model.
    Capabilities that are no object advertise no feature. Every client of version 2 can do notices,
    compaction, boolean options, terminals of the agent and sub-agents."""
    elicitation, auth = object_at(capabilities, "elicitation"), object_at(capabilities, "auth")
    features = ClientFeatures(
        elicitation_form=_has_object(elicitation, "form"),
        elicitation_url=_has_object(elicitation, "url"),
    )
    if version != PROTOCOL_VERSION:
        terminal = auth.get("terminal")
        return replace(
            features,
            terminal_auth=terminal is True or isinstance(terminal, dict),
            notices=True,
            compaction=True,
            boolean_config_options=True,
            agent_terminals=True,
            subagents=True,
        )
    fs, meta = object_at(capabilities, "fs"), object_at(capabilities, "_meta")
    session = object_at(capabilities, "session")
    return replace(
        features,
        read_text_file=fs.get("readTextFile") is True,
        write_text_file=fs.get("writeTextFile") is True,
        terminal=value_at(capabilities, "terminal") is True,
        terminal_auth=auth.get("terminal") is True,
        notices=_has_object(session, "notices"),
        compaction=_has_object(session, "compaction"),
        boolean_config_options=_has_object(object_at(session, "configOptions"), "boolean"),
        terminal_output_meta=meta.get("terminal_output") is True,
        terminal_auth_meta=meta.get("terminal-auth") is True,
        subagents=_has_object(object_at(capabilities), "subagents"),
    )


def agent_features(capabilities: AgentCapabilities | None) -> AgentFeatures:
    """Return the features that ``agentCapabilities`` of an answer advertises, if any."""
    from codex_acp.wire.codec import plain

    return _agent_features(plain(capabilities))


def _agent_features(capabilities: object) -> AgentFeatures:
    session = object_at(capabilities, "sessionCapabilities")
    prompt = object_at(capabilities, "promptCapabilities")
    mcp = object_at(capabilities, "mcpCapabilities")
    return AgentFeatures(
        load_session=value_at(capabilities, "loadSession") is True,
        list_sessions=_has_object(session, "list"),
        delete_session=_has_object(session, "delete"),
        resume_session=_has_object(session, "resume"),
        close_session=_has_object(session, "close"),
        fork_session=_has_object(session, "fork"),
        additional_directories=_has_object(session, "additionalDirectories"),
        logout=_has_object(object_at(capabilities, "auth"), "logout"),
        prompt_image=prompt.get("image") is True,
        prompt_audio=prompt.get("audio") is True,
        prompt_embedded_context=prompt.get("embeddedContext") is True,
        mcp_http=mcp.get("http") is True,
        mcp_sse=mcp.get("sse") is True,
    )


def client_features_v2(capabilities: ClientCapabilitiesV2 | None) -> ClientFeatures:
    """Return the features that ``capabilities`` of version 2 advertise, as `features_in`."""
    from codex_acp.wire.codec import plain

    return features_in(plain(capabilities), version=2)


def agent_features_v2(
    capabilities: AgentCapabilitiesV2 | None, *, has_logins: bool = False
) -> AgentFeatures:
    """Return the features in ``capabilities`` of an agent of version 2.

    Every agent of version 2 can list, resume with history and close sessions. ``has_logins``
    says whether the agent named ``authMethods``.
    """
    from codex_acp.acp.v2_to_v1 import agent_capabilities
    from codex_acp.wire.codec import plain

    in_v1 = agent_capabilities(object_at(plain(capabilities)), has_logins=has_logins)
    return _agent_features(in_v1)


def negotiated_version(requested: int, supported: Collection[int] = SUPPORTED_VERSIONS) -> int:
    """Return the version that an agent without version 2 answers to a client's request: the
    ``requested`` version if the agent speaks it, otherwise the agent's highest. ``supported`` must
    not be empty. `AgentSide` with handlers of version 2 uses `choose_version` in place of this."""
    return requested if requested in supported else max(supported)


def is_supported_version(answered: int, supported: Collection[int] = SUPPORTED_VERSIONS) -> bool:
    """Return whether a client can go on with the version that an agent answered."""
    return answered in supported


def _has_object(capabilities: dict[str, Any], key: str) -> bool:
    return isinstance(capabilities.get(key), dict)


UNSUPPORTED_VERSION: Final = -32022
"""Error code ``Unsupported protocol version`` of the schema of version 2."""
MAX_VERSION: Final = 0xFFFF
"""``ProtocolVersion`` of the schema is an unsigned number of 16 bits."""
_UNKNOWN: Final[dict[str, JsonValue]] = {"name": "unknown", "version": "unknown"}
"""``info`` for a client that gives no name and version, both of which version 2 requires."""


def version_of(params: JsonValue) -> int | None:
    """Return the ``protocolVersion`` of params or of a result; None if it is missing or invalid."""
    version = value_at(params, "protocolVersion")
    return version if type(version) is int and 0 <= version <= MAX_VERSION else None


def answered_version(result: JsonValue, offered: Collection[int]) -> int | None:
    """Return the version of an agent's answer to ``initialize``; None if the answer names none.

    Some agents of version 1 repeat any requested version, as an example of the Python SDK does
    (``echo_agent.py``). Such an answer counts as version 1 if it lacks ``info``, which version 2
    requires.
    """
    answered = version_of(result)
    repeated = answered == 2 and 1 in offered and isinstance(result, dict) and "info" not in result
    return 1 if repeated else answered


def choose_version(params: JsonValue, supported: Collection[int]) -> int:
    """Return the version to answer ``initialize`` with: the highest not above the request.

    An agent of version 1 alone answers 1 to everything, as version 1 requires. A request for
    version 0 counts as a request for version 1.
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
        versions = ", ".join(map(str, sorted(supported)))
        raise RpcError(
            UNSUPPORTED_VERSION,
            f"protocol version {requested} is not supported, only {versions}",
            {"requested": requested, "supported": sorted(supported)},
        )
    return max(fitting)


def initialize_params(params: Params, chosen: int) -> Params:
    """Convert ``params`` of a newer version to the chosen version; return other params as given."""
    requested = version_of(params)
    if not isinstance(params, dict) or requested is None or requested <= chosen:
        return params
    if chosen == 1:  # the requested number stays: a handler of version 1 takes any
        info, capabilities = params.get("info"), params.get("capabilities")
        of_v1 = {key: value for key, value in params.items() if key not in ("info", "capabilities")}
        if "clientInfo" not in of_v1 and is_implementation(info):
            of_v1["clientInfo"] = info
        if "clientCapabilities" not in of_v1 and isinstance(capabilities, dict):
            of_v1["clientCapabilities"] = client_capabilities(capabilities)
        return of_v1
    with_info = params if is_implementation(params.get("info")) else {**params, "info": _UNKNOWN}
    return {**with_info, "protocolVersion": chosen}


def client_capabilities(of_v2: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Convert capabilities of version 2 to version 1; each client of 2 takes boolean options."""
    terminal = isinstance(value_at(of_v2, "auth", "terminal"), dict)
    same = {key: of_v2[key] for key in ("elicitation", "_meta") if key in of_v2}
    return {"session": {"configOptions": {"boolean": {}}}, "auth": {"terminal": terminal}, **same}


def implementation(name: str, version: str) -> Implementation:
    """Return a program's name and version as a model. Raises MisuseError unless both are texts."""
    from codex_acp.acp._generated.v1.models import Implementation

    for what, value in (("name", name), ("version", version)):
        refuse_unless(isinstance(value, str), f"the {what} of a program is a text", value)
    return Implementation(name=name, version=version)


def is_implementation(info: JsonValue) -> bool:
    """Return whether ``info`` has a name and a version."""
    return None not in (text_at(info, "name"), text_at(info, "version"))
