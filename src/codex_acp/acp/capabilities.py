"""Read from ``initialize`` what the peer can do, and choose the protocol version.

Pure: small frozen values and functions on them. Must not know who asks, and does no IO.

Sources: the definitions ``ClientCapabilities`` and ``AgentCapabilities`` of the schema, and
https://agentclientprotocol.com/protocol/v1/initialization. A capability that is an object is
advertised by any object, also an empty one; absent, null and a value of another type (which the
models read as absent) are not. So ``elicitation: {}`` advertises no mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codex_acp._json import object_at, value_at
from codex_acp._record import record, replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from codex_acp.acp._generated.v1.models import AgentCapabilities, ClientCapabilities
    from codex_acp.acp._generated.v2.models import AgentCapabilities as AgentCapabilitiesV2
    from codex_acp.acp._generated.v2.models import ClientCapabilities as ClientCapabilitiesV2

PROTOCOL_VERSION: Final = 1
"""The stable protocol version; what a client that has no other sends."""

SUPPORTED_VERSIONS: Final[frozenset[int]] = frozenset({PROTOCOL_VERSION})
"""Every protocol version that is stable."""

_TERMINAL_OUTPUT: Final = "terminal_output"
_TERMINAL_AUTH: Final = "terminal-auth"


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
    """``auth.terminal``: ``authMethods`` may hold some of type ``terminal``."""
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
    """``subagents``, of every client in v2: sub-agents as sessions of their own."""

    @property
    def shows_terminals(self) -> bool:
        """Whether command output can be told piece by piece, as that of a terminal."""
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
    """Return the features that ``clientCapabilities`` of ``initialize`` advertises; None: none."""
    from codex_acp.wire.codec import plain

    return features_in(plain(capabilities))


def features_in(capabilities: object, version: int = PROTOCOL_VERSION) -> ClientFeatures:
    """The same of what was sent, before a model is loaded; of another type it says nothing.

    Every client of version 2 can do notices, compaction, boolean options, terminals of the agent
    and sub-agents.
    """
    elicitation, auth = object_at(capabilities, "elicitation"), object_at(capabilities, "auth")
    features = ClientFeatures(
        elicitation_form=_has(elicitation, "form"), elicitation_url=_has(elicitation, "url")
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
        notices=_has(session, "notices"),
        compaction=_has(session, "compaction"),
        boolean_config_options=_has(object_at(session, "configOptions"), "boolean"),
        terminal_output_meta=meta.get(_TERMINAL_OUTPUT) is True,
        terminal_auth_meta=meta.get(_TERMINAL_AUTH) is True,
        subagents=_has(object_at(capabilities), "subagents"),
    )


def agent_features(capabilities: AgentCapabilities | None) -> AgentFeatures:
    """Return the features that ``agentCapabilities`` of an answer advertises; None: none."""
    from codex_acp.wire.codec import plain

    return _agent_features(plain(capabilities))


def _agent_features(said: object) -> AgentFeatures:
    session, prompt = object_at(said, "sessionCapabilities"), object_at(said, "promptCapabilities")
    mcp = object_at(said, "mcpCapabilities")
    return AgentFeatures(
        load_session=value_at(said, "loadSession") is True,
        list_sessions=_has(session, "list"),
        delete_session=_has(session, "delete"),
        resume_session=_has(session, "resume"),
        close_session=_has(session, "close"),
        fork_session=_has(session, "fork"),
        additional_directories=_has(session, "additionalDirectories"),
        logout=_has(object_at(said, "auth"), "logout"),
        prompt_image=prompt.get("image") is True,
        prompt_audio=prompt.get("audio") is True,
        prompt_embedded_context=prompt.get("embeddedContext") is True,
        mcp_http=mcp.get("http") is True,
        mcp_sse=mcp.get("sse") is True,
    )


def client_features_v2(capabilities: ClientCapabilitiesV2 | None) -> ClientFeatures:
    """Return the features in ``capabilities`` of version 2, with those that `features_in` gives
    every client of that version.
    """
    from codex_acp.wire.codec import plain

    return features_in(plain(capabilities), version=2)


def agent_features_v2(
    capabilities: AgentCapabilitiesV2 | None, *, has_logins: bool = False
) -> AgentFeatures:
    """Return the features in ``capabilities`` of an agent of version 2; it can list, resume with
    history and close sessions. ``has_logins``: it named ``authMethods``.
    """
    from codex_acp.acp.as_v1.values import agent_capabilities
    from codex_acp.wire.codec import plain

    said = agent_capabilities(object_at(plain(capabilities)), has_logins=has_logins)
    return _agent_features(said)


def negotiated_version(requested: int, supported: Collection[int] = SUPPORTED_VERSIONS) -> int:
    """Return the answer of an agent that has version 1 alone to a client's ``protocolVersion``: the
    requested version if the agent speaks it, otherwise the agent's highest. ``supported`` must not
    be empty. `AgentSide` chooses the version itself where it was given handlers of another.
    """
    return requested if requested in supported else max(supported)


def is_supported_version(answered: int, supported: Collection[int] = SUPPORTED_VERSIONS) -> bool:
    """Whether a client can go on with the version an agent answered; if not, it disconnects."""
    return answered in supported


def _has(said: dict[str, Any], key: str) -> bool:
    """Whether there is an object under a key, also an empty one."""
    return isinstance(said.get(key), dict)
