"""Map a client's directories and MCP servers to the params of a thread.

The same for ``thread/start``, ``thread/resume`` and ``thread/fork``. Plain JSON in and out.
Source: ACP page "Session Setup"; schema definitions ThreadStartParams, ThreadResumeParams.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SERVERS: Final = "mcp_servers"


def absolute(path: str, where: str) -> str:
    """The path. Raises RpcError -32602 that names the field ``where`` if it is none."""
    if not path.startswith("/"):
        raise RpcError(INVALID_PARAMS, f"{where}: {path!r} is not an absolute path")
    if "\0" in path:
        raise RpcError(INVALID_PARAMS, f"{where}: {path!r} holds a NUL character")
    return path


def thread_params(
    cwd: str,
    directories: Sequence[str],
    servers: Mapping[str, Mapping[str, object]],
    *,
    stored: bool,
) -> dict[str, JsonValue]:
    """``cwd``, ``runtimeWorkspaceRoots`` and ``config`` of a thread.

    The roots are what Codex's sandbox lets a command write to, in a mode that lets it write at
    all. Codex restores those of a ``stored`` thread by itself; ACP wants just the ones given now.
    Raises RpcError -32602 for a path that is not absolute, or is none at all.
    """
    params: dict[str, JsonValue] = {"cwd": absolute(cwd, "cwd")}
    roots: list[JsonValue] = [cwd]
    for number, directory in enumerate(directories):
        if absolute(directory, f"additionalDirectories.{number}") not in roots:
            roots.append(directory)
    if stored or len(roots) > 1:
        params["runtimeWorkspaceRoots"] = roots
    if servers:
        tables: dict[str, JsonValue] = {}
        for name, table in servers.items():  # a table of all would hide what ``-c`` has set there
            tables[f"{_SERVERS}.{name}"] = dict(table)  # type: ignore[arg-type] # of plain JSON
        params["config"] = tables
    return params


def simple_thread_params(params: JsonValue) -> dict[str, JsonValue] | None:
    """Those of a ``session/new`` with a directory alone; None for all else, and what is wrong.

    That is what most clients send first, and it is answered before the models are loaded.
    """
    if not isinstance(params, dict):
        return None
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not cwd.startswith("/") or "\0" in cwd:
        return None
    if "mcpServers" not in params or params["mcpServers"] not in (None, []):
        return None
    if params.get("systemPrompt") is not None:
        return None
    return None if params.get("additionalDirectories") not in (None, []) else {"cwd": cwd}


def started_thread(result: JsonValue) -> str | None:
    """The id in the answer of ``thread/start``; None if there is none."""
    return text_at(result, "thread", "id")


def given_servers(params: Mapping[str, JsonValue]) -> frozenset[str]:
    """Names of the MCP servers in the ``config`` of a thread, by any dotted key."""
    config = object_at(params, "config")
    dotted = (key.split(".")[1] for key in config if key.startswith(_SERVERS + "."))
    return frozenset((*object_at(config, _SERVERS), *dotted))


def configured_servers(result: JsonValue) -> frozenset[str]:
    """Names of the MCP servers in the answer of ``config/read``."""
    return given_servers({"config": value_at(result, "config")})


def without_clashes(
    servers: Mapping[str, Mapping[str, object]], configured: frozenset[str]
) -> tuple[dict[str, Mapping[str, object]], list[str]]:
    """The servers whose names the user's configuration does not have, and a line for each other.

    Codex would mix the two tables: the client's command with the trust that the person gave to
    the configured server, or an address beside a command, which it refuses.
    """
    kept = {name: table for name, table in servers.items() if name not in configured}
    said = [
        f'The MCP server "{name}" of your client was left out: your Codex configuration has one '
        "of that name, and that one is used."
        for name in servers
        if name in configured
    ]
    return kept, said


# The id of a session, which is that of its thread: Codex knows it under several spellings.

_HYPHENATED: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SPELLING: Final = re.compile(
    rf"(?i:(?:urn:uuid:)?({_HYPHENATED})|\{{({_HYPHENATED})\}}|([0-9a-f]{{32}}))"
)


def canonical_id(session_id: str) -> str:
    """The id as Codex itself writes it; what is no UUID is as it was."""
    found = _SPELLING.fullmatch(session_id)
    if found is None:
        return session_id
    digits = next(filter(None, found.groups())).lower().replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# ``systemPrompt`` of the requests that open a session (unstable) → Codex's instructions.


APPENDED: Final = "developerInstructions"
MODES: Final = {"append": APPENDED, "override": "baseInstructions"}
"""Mode → the param of a thread that it is."""


def instructions(prompt: object) -> dict[str, JsonValue]:
    """Return the params of a thread that carry a system prompt, which is plain JSON.

    Raises RpcError -32602.
    """
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


# The MCP servers that a client gives a session → Codex's configuration of them.


_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_:@/-]+")
"""Codex refuses to start a server whose name has these; in an editor it may be "My Notes". A dot
it takes, but not in a key: the table of all servers would hide those of Codex's command line."""


def server_config(servers: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    """Name, as Codex takes it → its table below ``mcp_servers``. ``servers`` are plain JSON.

    Raises RpcError -32602 for a transport that Codex lacks and for a name given twice.
    """
    config: dict[str, dict[str, object]] = {}
    names: set[str] = set()
    for number, server in enumerate(servers):
        where = f"mcpServers.{number}"
        table, name = _table(server, where), server["name"]
        if name in names:
            raise RpcError(INVALID_PARAMS, f"{where}: the name {name!r} is given twice")
        names.add(name)
        plain = _NOT_IN_A_NAME.sub("_", name) or "server"
        free, more = plain, 2
        while free in config:
            free, more = f"{plain}_{more}", more + 1
        config[free] = table
    return config


def _table(server: Mapping[str, Any], where: str) -> dict[str, object]:
    """v1 writes all lists, also empty ones, and no type for stdio; v2 may leave lists out."""
    match server.get("type", "stdio"):
        case "stdio":
            env = {variable["name"]: variable["value"] for variable in server.get("env") or ()}
            return {"command": server["command"], "args": server.get("args") or [], "env": env}
        case "http":
            headers = {header["name"]: header["value"] for header in server.get("headers") or ()}
            return {"url": server["url"], "http_headers": headers}
    kind = server["type"]
    message = f"{where}: Codex has no transport of the type {kind!r}; give an http or stdio server"
    raise RpcError(INVALID_PARAMS, message)


# A client's own gateway to the model, and the threads that go through it.


PROVIDER: Final = "openai"
"""The one provider that a client may route: that of Codex itself."""
API_TYPE: Final = "openai"
"""The protocol that Codex speaks with it: OpenAI's, by its responses."""
GATEWAY_PROVIDER: Final = "custom-gateway"
"""Name that Codex stores with a thread; the official adapter uses it, too."""
OPENAI_URL: Final = "https://api.openai.com/v1"
MAX_URL: Final = 2_000
MAX_HEADERS: Final = 64
MAX_HEADER: Final = 16_384
"""Characters of one header's value; servers take less."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+")


class Gateway(NamedTuple):
    """Where the model is asked, and what is sent along."""

    base_url: str
    headers: dict[str, str]
    name: str


def gateway_of(
    base_url: object, headers: object, name: str = "The client's gateway", *, where: str = ""
) -> Gateway:
    """Check a client's gateway. Raises RpcError -32602, which quotes no header's value."""
    if not isinstance(base_url, str) or not base_url or len(base_url) > MAX_URL:
        raise RpcError(INVALID_PARAMS, f"{where}baseUrl: has to be an address")
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        raise RpcError(INVALID_PARAMS, f"{where}baseUrl: is no address") from None
    del port
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.netloc.split("@")[-1]):
        raise RpcError(INVALID_PARAMS, f"{where}baseUrl: has to be an http or https address")
    if "@" in parts.netloc:
        raise RpcError(
            INVALID_PARAMS, f"{where}baseUrl: must not hold a user or a password; send a header"
        )
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise RpcError(INVALID_PARAMS, f"{where}baseUrl: holds what an address cannot hold")
    given = {} if headers is None else headers
    if not isinstance(given, dict) or len(given) > MAX_HEADERS:
        raise RpcError(
            INVALID_PARAMS, f"{where}headers: has to be an object of at most {MAX_HEADERS} texts"
        )
    for key, value in given.items():
        if not isinstance(key, str) or not _HEADER_NAME.fullmatch(key):
            raise RpcError(
                INVALID_PARAMS, f"{where}headers: one has a name that HTTP does not allow"
            )
        if not isinstance(value, str) or len(value) > MAX_HEADER:
            raise RpcError(
                INVALID_PARAMS, f"{where}headers.{key}: has to be a text, and not that long"
            )
        if not _HEADER_VALUE.fullmatch(value):
            raise RpcError(INVALID_PARAMS, f"{where}headers.{key}: holds what a header cannot hold")
    return Gateway(base_url, dict(given), name)


def through(params: Mapping[str, JsonValue], gateway: Gateway) -> dict[str, JsonValue]:
    """Params of ``thread/start``, ``resume`` or ``fork`` whose turns go through it."""
    headers: dict[str, JsonValue] = dict(gateway.headers)
    provider: JsonValue = {
        "name": gateway.name,
        "base_url": gateway.base_url,
        "http_headers": headers,
        "wire_api": "responses",
        "requires_openai_auth": False,
    }
    return _with_provider(params, provider)


def as_configured(params: Mapping[str, JsonValue], read: JsonValue) -> dict[str, JsonValue]:
    """Params of a thread whose stored provider is the gateway's name: it means the configured one.

    Without an address it is OpenAI's, by whatever login there is.
    """
    tables = object_at(read, "config", "model_providers")
    configured = object_at(tables, native_provider(read))
    native: JsonValue = {key: value for key, value in configured.items() if value is not None} or {
        "name": "OpenAI",
        "wire_api": "responses",
        "requires_openai_auth": True,
    }
    return _with_provider(params, native)


def _with_provider(params: Mapping[str, JsonValue], provider: JsonValue) -> dict[str, JsonValue]:
    config = dict(object_at(params, "config"))
    providers = config.get("model_providers")
    if isinstance(providers, dict):
        config["model_providers"] = {**providers, GATEWAY_PROVIDER: provider}
    else:  # a whole table would hide what else there is of providers
        config[f"model_providers.{GATEWAY_PROVIDER}"] = provider
    return {**params, "modelProvider": GATEWAY_PROVIDER, "config": config}


def native_provider(read: JsonValue) -> str:
    """The provider that is configured, by the answer of ``config/read``."""
    return text_at(read, "config", "model_provider") or PROVIDER


def native_base_url(read: JsonValue) -> str:
    """Where Codex asks by itself, by the answer of ``config/read``; without a password."""
    base_url = text_at(read, "config", "model_providers", native_provider(read), "base_url")
    try:
        parts = urlsplit(base_url or OPENAI_URL)
    except ValueError:
        return OPENAI_URL
    return urlunsplit(parts._replace(netloc=parts.netloc.split("@")[-1]))
