"""Introduce this agent: its capabilities and logins, the answer to ``initialize``, and its client.

Plain JSON, both ways: a client waits for the answer before anything else, and loading the models
takes half as long again as all that is done before it (benchmarks/README.md). So what `is_simple`
is answered before they are loaded; all else goes through the models first, which read leniently and
name a field that is wrong, and comes here as what they make of it. The login is told in ACP's
unstable ``auth/status``, which both versions write alike. Codex is told at its own handshake which
notifications this agent never has a use for.

Sources: ACP page "Authentication", ``AuthMethod``, ``AuthState`` and ``AuthAccount`` of ACP's
schema; ``LoginAccountParams`` and ``GetAccountResponse`` of Codex's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from codex_acp._json import object_at, text_at, value_at
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
    from codex_acp.jsonrpc.message import JsonValue


CHATGPT: Final = "chat-gpt"
"""Codex's login in a browser. Clients know this id and the next two from OpenAI's adapter."""

DEVICE_CODE: Final = "chat-gpt-device-code"
"""Codex's login on another device, where the person types a code."""

API_KEY: Final = "api-key"
"""A key of the OpenAI platform, from ``_meta["api-key"].apiKey`` or the environment."""

GATEWAY: Final = "gateway"
"""A gateway of the client, from ``_meta.gateway``; for clients that say that they have one."""

TERMINAL: Final = "codex-login"
"""``codex login`` in a terminal of the client; offered besides a `CHATGPT` that shows a page."""

ALIASES: Final = {"chatgpt": CHATGPT, "openai-api-key": API_KEY, "codex-api-key": API_KEY}
"""Ids of Zed's earlier adapter, which clients written for it still send."""

API_KEY_VARIABLES: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for, in this order, when the request does not carry one."""

LOGIN_ARGS: Final = ("login",)
"""Arguments that the client adds to this agent's command line for the login in a terminal."""

DEVICE_CODE_ARGS: Final = (*LOGIN_ARGS, "--device-auth")
"""Arguments for a login on another device, in a terminal."""

TERMINAL_AUTH: Final = "terminal-auth"
"""Key in ``_meta`` of an older client's capabilities, and of a method. The client runs a login in a
terminal, and the method's ``_meta`` names the command."""


class LoginWays(NamedTuple):
    """Logins that this process can offer."""

    browser: bool = False
    """Whether the process can open a browser."""
    command: tuple[str, ...] = ()
    """Command line of this agent, for clients that need the whole command of a login."""
    offered: bool = True
    """Whether clients of the process may log in at all."""
    no_browser: bool = False
    """Whether no browser can reach this machine, which a login's page has to do at its end."""


def auth_methods(capabilities: JsonValue, ways: LoginWays) -> list[JsonValue]:
    """Return the login methods for a client with these ``clientCapabilities``.

    A login is offered if the client can show it: as a page, in a browser of this machine, or in a
    terminal. With ``no_browser`` the login whose page returns to this machine is not offered.
    """
    if not ways.offered:
        return []
    pages = isinstance(value_at(capabilities, "elicitation", "url"), dict)
    shown = pages or ways.browser
    by_type = value_at(capabilities, "auth", "terminal") is True
    older = value_at(capabilities, "_meta", TERMINAL_AUTH) is True  # from before the schema had it
    command = ways.command if older else ()
    in_terminal = by_type or bool(command)
    methods: list[JsonValue] = []
    if not ways.no_browser and (shown or in_terminal):
        chat_gpt: dict[str, JsonValue] = {
            "id": CHATGPT,
            "name": "Log in with ChatGPT",
            "description": "Opens the login page of OpenAI in a browser on this machine",
        }
        if not shown:
            chat_gpt |= _run_in_terminal(LOGIN_ARGS, command, by_type)
        methods.append(chat_gpt)
    if pages or in_terminal:
        device_code: dict[str, JsonValue] = {
            "id": DEVICE_CODE,
            "name": "Log in with ChatGPT on another device",
            "description": "Shows a page and a code to type there; for remote machines",
        }
        if not pages:
            device_code |= _run_in_terminal(DEVICE_CODE_ARGS, command, by_type)
        methods.append(device_code)
    methods.append(
        {
            "id": API_KEY,
            "name": "Use an OpenAI API key",
            "description": f"Takes the key from {' or '.join(API_KEY_VARIABLES)}",
        }
    )
    if in_terminal and shown:
        codex_login: dict[str, JsonValue] = {
            "id": TERMINAL,
            "name": "Log in with `codex login`",
            "description": "Runs Codex's own login in a terminal",
        }
        methods.append(codex_login | _run_in_terminal(LOGIN_ARGS, command, by_type))
    if value_at(capabilities, "auth", "_meta", GATEWAY) is True:
        protocol: JsonValue = {"protocol": "openai", "restartRequired": "false"}
        gateway: dict[str, JsonValue] = {
            "id": GATEWAY,
            "name": "Use a gateway of your client",
            "description": "Asks the model where your client says",
            "_meta": {GATEWAY: protocol},
        }
        methods.append(gateway)
    return methods


def _run_in_terminal(
    args: tuple[str, ...], command: tuple[str, ...], by_type: bool
) -> dict[str, JsonValue]:
    """Return the members of a method that runs in a terminal, ``by_type`` or by its ``command``."""
    members: dict[str, JsonValue] = {}
    if by_type:
        members |= {"args": list(args), "type": "terminal"}
    if command:
        run: JsonValue = {
            "label": "Codex login",
            "command": command[0],
            "args": [*command[1:], *args],
        }
        members["_meta"] = {TERMINAL_AUTH: run}
    return members


class AuthStatus(NamedTuple):
    """Whether a login is needed, and the account that is there."""

    state: str
    label: str | None = None
    """The account's name for a person; None: there is none."""
    email: str | None = None
    active: bool = True
    """Whether the configured model provider uses it."""

    def wire(self) -> dict[str, JsonValue]:
        """As ``AuthStatusResponse``, and as the params of ``auth/status_update``."""
        if self.label is None:
            return {"state": self.state, "accounts": []}
        account: dict[str, JsonValue] = {"label": self.label, "active": self.active}
        if self.email:
            account["email"] = self.email
        return {"state": self.state, "accounts": [account]}


UNKNOWN: Final = AuthStatus("unknown")
"""While Codex cannot be asked."""

NOT_REQUIRED: Final = AuthStatus("not_required")
"""While a gateway of the client answers."""

_KINDS: Final = {"amazonBedrock": "Amazon Bedrock", "gcp": "Google Cloud"}


def auth_status(account: GetAccountResponse) -> AuthStatus:
    """Return how the login stands, from ``account/read``."""
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
    return AuthStatus(state, visible(_KINDS.get(kind, kind)), active=True)


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
"""Capabilities that ``mapping.prompt`` and ``mapping.session_setup`` can map, no more.

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


_NO_REQUEST: Final = "answers a request that ACP has no method for, so it is never sent"
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
    "thread/environment/": _OTHER_PRODUCT,
    "thread/prediction/": _OTHER_PRODUCT,
    "thread/project/": _OTHER_PRODUCT,
    "thread/queue/": _OTHER_PRODUCT,
    "thread/readState/": _OTHER_PRODUCT,
    "thread/realtime/": "belongs to realtime voice, which this agent never starts",
    "thread/section/": _OTHER_PRODUCT,
    "windows": "belongs to the sandbox of Windows, where this agent does not run",
}
"""Beginning of the method → why it is not wanted."""

UNWANTED_METHODS: Final[dict[str, str]] = {
    "hook/started": "a hook is shown when it ends, if it has something to say",
    "item/reasoning/summaryPartAdded": "each delta of a summary names the part it belongs to",
    "thread/compacted": "the contextCompaction item has taken its place",
    "turn/diff/updated": "the file changes that it adds up are shown as tool calls",
    "turn/moderationMetadata": _OTHER_PRODUCT,
}
"""Method → why it is not wanted; others that begin like it are."""


def why_unwanted(method: str) -> str | None:
    """The reason, or None for a method that is wanted."""
    if method in UNWANTED_METHODS:
        return UNWANTED_METHODS[method]
    families = (why for family, why in UNWANTED_FAMILIES.items() if method.startswith(family))
    return next(families, None)


UNWANTED_NOTIFICATIONS: Final = tuple(
    cast("ServerNotificationMethod", method)
    for method in SERVER_NOTIFICATIONS
    if why_unwanted(method) is not None
)
"""The methods that Codex is asked not to send (``optOutNotificationMethods``)."""
