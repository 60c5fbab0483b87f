"""Map a client's directories, MCP servers, system prompt and gateway to the params of a thread.

The params serve ``thread/start``, ``thread/resume`` and ``thread/fork``. All is plain JSON.
Source: ACP page "Session Setup"; schema definitions ThreadStartParams, ThreadResumeParams.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codex_acp._json import list_at, object_at, text_at, without_none
from codex_acp._record import NamedTuple
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import INVALID_PARAMS, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SERVERS: Final = "mcp_servers"


def _invalid(problem: str) -> RpcError:
    return RpcError(INVALID_PARAMS, problem)


def checked_path(path: str, where: str) -> str:
    """Return an absolute path unchanged; raise RpcError -32602 at ``where`` for another path."""
    if not path.startswith("/"):
        raise _invalid(f"{where}: {path!r} is not an absolute path")
    if "\0" in path:
        raise _invalid(f"{where}: {path!r} holds a NUL character")
    return path


def thread_params(
    cwd: str,
    directories: Sequence[str],
    servers: Mapping[str, Mapping[str, object]],
    *,
    stored: bool,
) -> dict[str, JsonValue]:
    """Return ``cwd``, ``runtimeWorkspaceRoots`` and ``config`` of a thread.

    In a mode that may write, the sandbox lets commands write below the roots. Codex restores the
    roots of a ``stored`` thread, but ACP wants only the roots of the request: for a stored thread,
    these are always sent. Raises RpcError -32602 for a path that is not absolute.
    """
    params: dict[str, JsonValue] = {"cwd": checked_path(cwd, "cwd")}
    roots: list[JsonValue] = [cwd]
    for number, directory in enumerate(directories):
        if checked_path(directory, f"additionalDirectories.{number}") not in roots:
            roots.append(directory)
    if stored or len(roots) > 1:
        params["runtimeWorkspaceRoots"] = roots
    if servers:
        tables: dict[str, JsonValue] = {}
        # A key for each: one table of all servers would replace the servers of the option ``-c``.
        for name, table in servers.items():
            tables[f"{_SERVERS}.{name}"] = dict(table)  # type: ignore[arg-type] # of plain JSON
        params["config"] = tables
    return params


def simple_thread_params(params: JsonValue) -> dict[str, JsonValue] | None:
    """Return the params for a ``session/new`` with a directory alone, else None. The first request
    of most clients has no more, and is answered before the models are loaded."""
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


def server_names(source: JsonValue) -> frozenset[str]:
    """Return the names of the MCP servers in the ``config`` of a thread's params, also of dotted
    keys, or in the answer of ``config/read``."""
    config = object_at(source, "config")
    dotted = (key.split(".")[1] for key in config if key.startswith(_SERVERS + "."))
    return frozenset((*object_at(config, _SERVERS), *dotted))


def without_clashes(
    servers: Mapping[str, Mapping[str, object]], configured: frozenset[str]
) -> tuple[dict[str, Mapping[str, object]], list[str]]:
    """Return the servers whose names are not configured, and a notice for each other server. Codex
    would merge the two tables: the client's command would get the trust that the person gave the
    configured server, or Codex would refuse a table with both ``command`` and ``url``."""
    kept = {name: table for name, table in servers.items() if name not in configured}
    notices = [
        f'The MCP server "{name}" of your client was left out: your Codex configuration has one '
        "of that name, and that one is used."
        for name in servers
        if name in configured
    ]
    return kept, notices


# The id of a session, which is the id of its thread: Codex accepts several spellings.

_HYPHENATED: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SPELLING: Final = re.compile(
    rf"(?i:(?:urn:uuid:)?({_HYPHENATED})|\{{({_HYPHENATED})\}}|([0-9a-f]{{32}}))"
)


def canonical_id(session_id: str) -> str:
    """Return the id as Codex itself writes it; an id that is no UUID unchanged."""
    match = _SPELLING.fullmatch(session_id)
    if match is None:
        return session_id
    digits = next(filter(None, match.groups())).lower().replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


# ``systemPrompt`` (unstable) of the requests that open a session, as Codex's instructions.

APPENDED: Final = "developerInstructions"
PROMPT_MODES: Final = {"append": APPENDED, "override": "baseInstructions"}
"""Mode of a system prompt → param of the thread."""


def instructions(prompt: object) -> dict[str, JsonValue]:
    """Return the params of a thread for a system prompt; raise RpcError -32602 for a bad prompt."""
    if prompt is None:
        return {}
    mode, content = text_at(prompt, "mode"), list_at(prompt, "content")
    if mode not in PROMPT_MODES:
        raise _invalid("systemPrompt.mode: has to be append or override")
    if not content:
        raise _invalid("systemPrompt.content: has to be a list of text blocks")
    texts: list[str] = []
    for number, block in enumerate(content):
        text = text_at(block, "text")
        if text is None or text_at(block, "type") != "text":
            raise _invalid(f"systemPrompt.content.{number}: has to be a text block")
        texts.append(text)
    return {PROMPT_MODES[mode]: "\n\n".join(texts)}


def with_configured_instructions(
    params: Mapping[str, JsonValue], config_read: JsonValue
) -> dict[str, JsonValue]:
    """Return ``params`` with the configured instructions before the appended ones. ``config_read``
    is the answer of ``config/read``."""
    given = params.get(APPENDED)
    configured = text_at(config_read, "config", "developer_instructions")
    if not isinstance(given, str) or configured is None or not configured.strip():
        return dict(params)
    return {**params, APPENDED: f"{configured}\n\n{given}"}


# The MCP servers that a client gives a session.

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_:@/-]+")
"""Characters that Codex does not allow in a server's name, such as the space in "My Notes"; and the
dot, because here the name is a part of a dotted key."""


def server_config(servers: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    """Return the table of each server by its name in Codex. ``servers`` are plain JSON. Raises
    RpcError -32602 for a transport that Codex lacks, and for a name that is given twice."""
    config: dict[str, dict[str, object]] = {}
    names: set[str] = set()
    for number, server in enumerate(servers):
        where = f"mcpServers.{number}"
        table, name = _server_table(server, where), server["name"]
        if name in names:
            raise _invalid(f"{where}: the name {name!r} is given twice")
        names.add(name)
        base = free = _NOT_IN_A_NAME.sub("_", name) or "server"
        suffix = 2
        while free in config:
            free, suffix = f"{base}_{suffix}", suffix + 1
        config[free] = table
    return config


def _server_table(server: Mapping[str, Any], where: str) -> dict[str, object]:
    """Return the table of a server. Version 1 of ACP gives no type for stdio; version 2 may leave
    out empty lists."""
    match server.get("type", "stdio"):
        case "stdio":
            env = {variable["name"]: variable["value"] for variable in server.get("env") or ()}
            return {"command": server["command"], "args": server.get("args") or [], "env": env}
        case "http":
            headers = {header["name"]: header["value"] for header in server.get("headers") or ()}
            return {"url": server["url"], "http_headers": headers}
    kind = server["type"]
    message = f"{where}: Codex has no transport of the type {kind!r}; give an http or stdio server"
    raise _invalid(message)


# A client's own gateway to the model, and the threads that use it.

PROVIDER: Final = "openai"
"""The provider for which a client may set a gateway: Codex's own."""
API_TYPE: Final = "openai"
"""Protocol between Codex and the gateway: OpenAI's Responses API."""
GATEWAY_PROVIDER: Final = "custom-gateway"
"""Provider that Codex stores with a thread; the official adapter uses the same name."""
OPENAI_URL: Final = "https://api.openai.com/v1"
MAX_URL: Final = 2_000
"""Characters of a gateway's URL."""
MAX_HEADERS: Final = 64
MAX_HEADER: Final = 16_384
"""Characters of one header's value; servers allow fewer."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+")


class Gateway(NamedTuple):
    """Address to which Codex sends the calls of the model, and headers to send with them."""

    base_url: str
    headers: dict[str, str]
    name: str


def gateway_of(
    base_url: object, headers: object, name: str = "The client's gateway", *, where: str = ""
) -> Gateway:
    """Check a client's gateway. Raises RpcError -32602, which quotes no header's value."""
    from urllib.parse import urlsplit  # imported late: most starts do not need it

    if not isinstance(base_url, str) or not base_url or len(base_url) > MAX_URL:
        raise _invalid(f"{where}baseUrl: has to be an address")
    try:
        parts = urlsplit(base_url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        raise _invalid(f"{where}baseUrl: is no address") from None
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.netloc.split("@")[-1]):
        raise _invalid(f"{where}baseUrl: has to be an http or https address")
    if "@" in parts.netloc:
        raise _invalid(f"{where}baseUrl: must not hold a user or a password; send a header")
    if not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise _invalid(f"{where}baseUrl: holds what an address cannot hold")
    given = {} if headers is None else headers
    if not isinstance(given, dict) or len(given) > MAX_HEADERS:
        raise _invalid(f"{where}headers: has to be an object of at most {MAX_HEADERS} texts")
    for key, value in given.items():
        if not isinstance(key, str) or not _HEADER_NAME.fullmatch(key):
            raise _invalid(f"{where}headers: one has a name that HTTP does not allow")
        if not isinstance(value, str) or len(value) > MAX_HEADER:
            raise _invalid(f"{where}headers.{key}: has to be a text, and not that long")
        if not _HEADER_VALUE.fullmatch(value):
            raise _invalid(f"{where}headers.{key}: holds what a header cannot hold")
    return Gateway(base_url, dict(given), name)


def with_gateway(params: Mapping[str, JsonValue], gateway: Gateway) -> dict[str, JsonValue]:
    """Return the params of a thread whose model calls go through ``gateway``."""
    headers: dict[str, JsonValue] = dict(gateway.headers)
    provider: JsonValue = {
        "name": gateway.name,
        "base_url": gateway.base_url,
        "http_headers": headers,
        "wire_api": "responses",
        "requires_openai_auth": False,
    }
    return _with_provider(params, provider)


def without_gateway(
    params: Mapping[str, JsonValue], config_read: JsonValue
) -> dict[str, JsonValue]:
    """Return params that let a thread with a stored gateway use the configured provider: the
    gateway's name gets the provider's table, or OpenAI's if there is none. ``config_read`` is the
    answer of ``config/read``."""
    tables = object_at(config_read, "config", "model_providers")
    configured = object_at(tables, configured_provider(config_read))
    provider = without_none(configured)
    openai: JsonValue = {"name": "OpenAI", "wire_api": "responses", "requires_openai_auth": True}
    return _with_provider(params, provider or openai)


def _with_provider(params: Mapping[str, JsonValue], provider: JsonValue) -> dict[str, JsonValue]:
    config = dict(object_at(params, "config"))
    providers = config.get("model_providers")
    if isinstance(providers, dict):
        config["model_providers"] = {**providers, GATEWAY_PROVIDER: provider}
    else:  # the whole table would hide the configured providers
        config[f"model_providers.{GATEWAY_PROVIDER}"] = provider
    return {**params, "modelProvider": GATEWAY_PROVIDER, "config": config}


def configured_provider(config_read: JsonValue) -> str:
    """Return the configured provider from the answer of ``config/read``."""
    return text_at(config_read, "config", "model_provider") or PROVIDER


def configured_base_url(config_read: JsonValue) -> str:
    """Return the URL of the configured provider from the answer of ``config/read``, without a
    password."""
    from urllib.parse import urlsplit, urlunsplit  # imported late: most starts do not need it

    tables = object_at(config_read, "config", "model_providers")
    base_url = text_at(tables, configured_provider(config_read), "base_url")
    try:
        parts = urlsplit(base_url or OPENAI_URL)
    except ValueError:
        return OPENAI_URL
    return urlunsplit(parts._replace(netloc=parts.netloc.split("@")[-1]))
