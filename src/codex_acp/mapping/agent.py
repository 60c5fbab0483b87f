"""Answer ``initialize`` with capabilities and logins, and introduce the client to Codex.

Messages are plain JSON here: every client waits for this answer first, and the import of the
generated classes would make the wait 1.5 times as long (benchmarks/README.md). Only params for
which `fits_schema` is false are first decoded and encoded by these classes, which read leniently
and name a wrong field. Both versions of ACP write ``auth/status`` of the unstable schema alike.
Also lists the notifications that Codex need not send.

Sources: ACP page "Authentication", ``AuthMethod``, ``AuthState`` and ``AuthAccount`` of ACP's
schema; ``LoginAccountParams`` and ``GetAccountResponse`` of Codex's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from codex_acp._json import object_at, text_at, value_at, without_none
from codex_acp._record import NamedTuple
from codex_acp._version import __version__
from codex_acp.acp._generated.version import SCHEMA_PACKAGE as ACP_PACKAGE
from codex_acp.acp._generated.version import SCHEMA_VERSION as ACP_VERSION
from codex_acp.acp.capabilities import is_implementation, negotiated_version, version_of
from codex_acp.codex._generated.methods import SERVER_NOTIFICATIONS, ServerNotificationMethod
from codex_acp.codex._generated.version import SCHEMA_PACKAGE as CODEX_PACKAGE
from codex_acp.codex._generated.version import SCHEMA_VERSION as CODEX_VERSION
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.codex._generated.models import GetAccountResponse
    from codex_acp.jsonrpc import JsonValue


CHATGPT: Final = "chat-gpt"
"""Codex's login in a browser. Clients know this id and the next two from OpenAI's adapter."""
DEVICE_CODE: Final = "chat-gpt-device-code"
"""Codex's login on another device, where the person types a code."""
API_KEY: Final = "api-key"
"""A key of the OpenAI platform, from ``_meta["api-key"].apiKey`` or the environment."""
GATEWAY: Final = "gateway"
"""A gateway of the client, from ``_meta.gateway``; for clients that advertise one."""
TERMINAL: Final = "codex-login"
"""``codex login`` in a terminal of the client; offered if `CHATGPT` uses a browser instead."""
ALIASES: Final = {"chatgpt": CHATGPT, "openai-api-key": API_KEY, "codex-api-key": API_KEY}
"""Id of Zed's earlier adapter, which some clients still send → id here."""
API_KEY_VARIABLES: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""Environment variables with the key, in order of rank, for a request without a key."""
LOGIN_ARGS: Final = ("login",)
"""Arguments that the client adds to this agent's command line for the login in a terminal."""
DEVICE_CODE_ARGS: Final = (*LOGIN_ARGS, "--device-auth")
"""Arguments for a login on another device, in a terminal."""
TERMINAL_AUTH: Final = "terminal-auth"
"""Key in ``_meta`` of an older client's capabilities: the client runs logins in a terminal. The
same key in ``_meta`` of a login method has the command."""


class LoginWays(NamedTuple):
    """Facts that decide which logins this process can offer."""

    opens_pages: bool = False
    """Whether the process can open a page in a browser."""
    command: tuple[str, ...] = ()
    """Command line of this agent, for clients that need the whole command of a login."""
    offered: bool = True
    """Whether clients of the process may log in at all."""
    is_unreachable: bool = False
    """Whether no browser reaches this machine: the page of a login cannot return to it."""


def auth_methods(capabilities: JsonValue, ways: LoginWays) -> list[dict[str, JsonValue]]:
    """Return the login methods for a client with these ``clientCapabilities``. A login is offered
    if the client can show it: as a page, in a browser of this machine, or in a terminal. If
    ``is_unreachable``, the login whose page returns to this machine is not offered."""
    if not ways.offered:
        return []
    shows_pages = isinstance(value_at(capabilities, "elicitation", "url"), dict)
    has_browser = shows_pages or ways.opens_pages
    takes_args = value_at(capabilities, "auth", "terminal") is True
    needs_whole_command = value_at(capabilities, "_meta", TERMINAL_AUTH) is True  # older clients
    command = ways.command if needs_whole_command else ()
    in_terminal = takes_args or bool(command)
    methods: list[dict[str, JsonValue]] = []
    if not ways.is_unreachable and (has_browser or in_terminal):
        name = "Log in with ChatGPT"
        description = "Opens the login page of OpenAI in a browser on this machine"
        run = {} if has_browser else _run_in_terminal(LOGIN_ARGS, command, takes_args)
        methods.append({"id": CHATGPT, "name": name, "description": description, **run})
    if shows_pages or in_terminal:
        name = "Log in with ChatGPT on another device"
        description = "Shows a page and a code to type there; for remote machines"
        run = {} if shows_pages else _run_in_terminal(DEVICE_CODE_ARGS, command, takes_args)
        methods.append({"id": DEVICE_CODE, "name": name, "description": description, **run})
    description = f"Takes the key from {' or '.join(API_KEY_VARIABLES)}"
    methods.append({"id": API_KEY, "name": "Use an OpenAI API key", "description": description})
    if in_terminal and has_browser:
        name, description = "Log in with `codex login`", "Runs Codex's own login in a terminal"
        run = _run_in_terminal(LOGIN_ARGS, command, takes_args)
        methods.append({"id": TERMINAL, "name": name, "description": description, **run})
    if value_at(capabilities, "auth", "_meta", GATEWAY) is True:
        name, description = "Use a gateway of your client", "Asks the model where your client says"
        # The string "false", as the official adapter writes it: clients may compare with that.
        meta: JsonValue = {GATEWAY: {"protocol": "openai", "restartRequired": "false"}}
        methods.append({"id": GATEWAY, "name": name, "description": description, "_meta": meta})
    return methods


def _run_in_terminal(
    args: tuple[str, ...], command: tuple[str, ...], takes_args: bool
) -> dict[str, JsonValue]:
    """Return the members of a method that runs in a terminal. ``takes_args``: the client adds
    ``args`` to this agent's command line. ``command``: the command line, for an older client."""
    members: dict[str, JsonValue] = {}
    if takes_args:
        members |= {"args": [*args], "type": "terminal"}
    if command:
        program, *first_args = command
        label = "Codex login"
        run: JsonValue = {"label": label, "command": program, "args": [*first_args, *args]}
        members["_meta"] = {TERMINAL_AUTH: run}
    return members


class AuthStatus(NamedTuple):
    """The state of the login, and the account that is logged in."""

    state: str
    """``AuthState`` of ACP."""
    label: str | None = None
    """Name of the account for a person; None if nobody is logged in."""
    email: str | None = None
    active: bool = True
    """Whether the configured model provider uses the account."""

    def wire(self) -> dict[str, JsonValue]:
        """Return ``AuthStatusResponse``, which is also the params of ``auth/status_update``."""
        if self.label is None:
            return {"state": self.state, "accounts": []}
        email = self.email or None
        account = without_none({"label": self.label, "active": self.active, "email": email})
        return {"state": self.state, "accounts": [account]}


UNKNOWN: Final = AuthStatus("unknown")
"""Status while Codex does not answer."""
NOT_REQUIRED: Final = AuthStatus("not_required")
"""Status while model calls go through a gateway of the client."""
_ACCOUNT_NAMES: Final = {"amazonBedrock": "Amazon Bedrock", "gcp": "Google Cloud"}


def auth_status(account: GetAccountResponse) -> AuthStatus:
    """Return the state of the login from the answer of ``account/read``."""
    from codex_acp.codex._generated import models  # here: the handshake needs no model

    who, needed = account.account, account.requires_openai_auth
    if who is None:
        return AuthStatus("unauthenticated" if needed else "not_required")
    state = "authenticated" if needed else "not_required"
    if isinstance(who, models.ChatgptAccount):
        plan = str(who.plan_type)
        label = "ChatGPT" if plan == "unknown" else f"ChatGPT {plan[:1].upper()}{plan[1:]}"
        email = None if who.email is None else visible(who.email)
        return AuthStatus(state, visible(label), email, active=needed)
    if isinstance(who, models.ApiKeyAccount):
        return AuthStatus(state, "OpenAI API key", active=needed)
    kind = str(getattr(who, "type", "another account"))
    # An account of another kind is that of the configured provider.
    return AuthStatus(state, visible(_ACCOUNT_NAMES.get(kind, kind)), active=True)


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
"""``agentCapabilities`` of version 1.

``fork``, ``title``, ``archive``, ``systemPrompt``, ``providers`` and both ``status`` are of the
unstable schema. Text, resource links and stdio MCP servers are the baseline, and not listed. Audio
is not listed: not every model takes it, and the agent has not asked Codex for its models yet.
``concurrentPrompts``: a prompt is steered into a turn that runs, and ends with the turn; during a
review or a compaction, which cannot be steered, the prompt waits.
"""


AGENT_INFO: Final = {"name": "codex-acp-sdk", "title": "Codex", "version": __version__}
"""``agentInfo`` of version 1, which is ``info`` of version 2."""
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

``steering``: the agent has ``_session/steering``; the first agent that had it chose this key.
``schemas``: package → version from which the models were made: two sides that agree on a version of
ACP may know different drafts of it.
"""


def capabilities_of(
    all_capabilities: Mapping[str, JsonValue], ways: LoginWays, own_meta: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the capabilities of either version for one client; without logins and providers if no
    client of this process may change them. ``own_meta`` is added under `META_KEY`."""
    capabilities = dict(all_capabilities)
    if not ways.offered:
        del capabilities["auth"], capabilities["providers"]
    own = {**object_at(all_capabilities, "_meta", META_KEY), **own_meta}
    return {**capabilities, "_meta": {META_KEY: own}}


_HEADER_SAFE: Final = "[A-Za-z0-9._/-]{1,64}"
"""Regular expression of client names that fit an HTTP header: Codex sends it to the model server.
"""


def fits_schema(params: JsonValue) -> bool:
    """Return whether the fields of ``initialize`` that this module reads fit the schema."""
    if not isinstance(params, dict) or version_of(params) is None:
        return False
    if not isinstance(params.get("clientCapabilities"), dict | None):
        return False
    info = params.get("clientInfo")
    return info is None or is_implementation(info)


def initialize_result(
    params: Mapping[str, JsonValue], ways: LoginWays, own_meta: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the answer to ``initialize`` of version 1."""
    version = params.get("protocolVersion")
    return {
        "protocolVersion": negotiated_version(version if isinstance(version, int) else 0),
        "agentCapabilities": capabilities_of(AGENT_CAPABILITIES, ways, own_meta),
        "authMethods": [*auth_methods(params.get("clientCapabilities"), ways)],
        "agentInfo": dict(AGENT_INFO),
        "_meta": dict(EXTENSIONS),
    }


def codex_client_info(params: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """Return ``clientInfo`` for Codex; None if the name does not fit a header. Codex then gets this
    library's name."""
    info = object_at(params, "clientInfo")
    name, title = text_at(info, "name"), text_at(info, "title")
    if name is None or not re.fullmatch(_HEADER_SAFE, name):
        return None
    return {"name": name, "version": info.get("version")} | without_none({"title": title})


_NO_REQUEST: Final = "belongs to a request that this agent never sends: ACP has no method for it"
_OTHER_PRODUCT: Final = "belongs to a feature of OpenAI's own clients"

UNWANTED_FAMILIES: Final[dict[str, str]] = {
    "account/gatewayOAuth/": _NO_REQUEST,
    "app/": _OTHER_PRODUCT,
    "command/exec/": _NO_REQUEST,
    "externalAgentConfig/": _OTHER_PRODUCT,
    "fs/": _NO_REQUEST,
    "fuzzyFileSearch/": _NO_REQUEST,
    "mcpServer/event/": _OTHER_PRODUCT,
    "process/": _NO_REQUEST,
    "project/": _OTHER_PRODUCT,
    "remoteControl/": _OTHER_PRODUCT,
    "thread/attachment/": _OTHER_PRODUCT,
    "thread/environment/": "is not needed: the answer that opens a thread lists its environments",
    "thread/prediction/": _OTHER_PRODUCT,
    "thread/project/": _OTHER_PRODUCT,
    "thread/queue/": _OTHER_PRODUCT,
    "thread/readState/": _OTHER_PRODUCT,
    "thread/realtime/": "belongs to realtime voice, which this agent never starts",
    "thread/search/": _NO_REQUEST,
    "thread/section/": _OTHER_PRODUCT,
    "windows": "belongs to the sandbox of Windows, where this agent does not run",
}
"""Prefix of methods → why the agent does not want them."""
UNWANTED_METHODS: Final[dict[str, str]] = {
    "hook/started": "a hook is shown when it ends, if it has something to say",
    "item/reasoning/summaryPartAdded": "each delta of a summary names the part it belongs to",
    "thread/compacted": "the contextCompaction item has taken its place",
    "turn/diff/updated": "the file changes that it adds up are shown as tool calls",
    "turn/moderationMetadata": _OTHER_PRODUCT,
}
"""Method → why the agent does not want it."""


def why_unwanted(method: str) -> str | None:
    """Return the reason why a method is not wanted, None if it is wanted."""
    if method in UNWANTED_METHODS:
        return UNWANTED_METHODS[method]
    reasons = (why for family, why in UNWANTED_FAMILIES.items() if method.startswith(family))
    return next(reasons, None)


UNWANTED_NOTIFICATIONS: Final = tuple(
    cast("ServerNotificationMethod", method)
    for method in SERVER_NOTIFICATIONS
    if why_unwanted(method) is not None
)
"""Methods that the agent asks Codex not to send (``optOutNotificationMethods``)."""
