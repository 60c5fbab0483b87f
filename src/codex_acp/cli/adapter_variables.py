"""Read the environment variables that `@agentclientprotocol/codex-acp` reads, too.

Loaded only if one of the variables is set, before Codex is spawned. An invalid value ends the
command: a part of the settings may be less safe than none. The log and each new session name the
settings that change what Codex may do.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from codex_acp._json import object_at
from codex_acp.adapter.session_defaults import (
    MODE_VARIABLE,
    SessionDefaults,
    gateway_problem,
    known_mode,
    with_value,
)
from codex_acp.errors import MisuseError
from codex_acp.testing.codex_home import toml_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.jsonrpc import JsonValue

CONFIG: Final = "CODEX_CONFIG"
PROVIDER: Final = "MODEL_PROVIDER"
LOGIN: Final = "DEFAULT_AUTH_REQUEST"
LOGS: Final = "APP_SERVER_LOGS"
LOG_NAME: Final = "app-server.log"
"""Name of the log file in the directory that `LOGS` names."""
LOGINS: Final = ("api-key", "chat-gpt", "chat-gpt-device-code", "gateway")
"""Values of ``methodId`` in `LOGIN`."""
ACCESS: Final = frozenset({
    "approval_policy", "approvals_reviewer", "default_permissions", "hooks", "mcp_servers",
    "notify", "permissions", "projects", "sandbox_mode", "sandbox_workspace_write",
    "shell_environment_policy",
})  # fmt: skip
"""Settings that decide what Codex may do, who answers its questions and what programs it starts."""
_PRIVATE: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|pwd|credentials?$|cookie|(?:api|access|private)_?key"
    r"|headers|query_params|^env$"
)
"""Keys whose values may not be on a command line, which other users of the machine can read."""
_ALWAYS_PRIVATE: Final = re.compile(r"mcp_servers(?:\.[^.]+\.args)?")
"""Keys that are private in any case: the arguments of an MCP server may have a secret of any form,
and the whole table of servers has such arguments."""
_SERVER: Final = re.compile(r"mcp_servers\.[^.]+\.")
"""Matches the prefix of an MCP server's settings. All settings of a server go together: Codex does
not start with a server without command or URL, and a thread's table replaces all servers."""
_SEARCHED: Final = re.compile(r"(?:mcp_servers|model_providers)(?:\.|$)")
"""Settings whose texts are searched for secrets: Codex takes these also with each thread."""
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
"""A TOML key that needs no quotes."""


class AdapterVariables(NamedTuple):
    """Settings from the variables."""

    arguments: tuple[str, ...]
    """Arguments of ``codex app-server``, with the ``-c`` arguments of this command line."""
    defaults: SessionDefaults
    log_file: str | None
    notes: tuple[str, ...]
    """Lines for the log."""


def read_variables(environment: Mapping[str, str], given: Sequence[str] = ()) -> AdapterVariables:
    """Read the variables, which the ``-c`` arguments in ``given`` override. Raises MisuseError."""
    config = _parse_object(CONFIG, environment.get(CONFIG))
    arguments, private, given = _split_private(dict(_leaves("", config)), given)
    provider = environment.get(PROVIDER)
    if provider:
        arguments += ["-c", f"model_provider={_to_toml(PROVIDER, provider)}"]
    mode = _read_mode(environment.get(MODE_VARIABLE))
    notes = [f"{MODE_VARIABLE}: new sessions begin in the mode {mode}"] if mode else []
    keys = sorted({key.partition(".")[0] for key in config})
    if keys:
        notes.append(f"{CONFIG} sets {', '.join(keys)}")
    if provider:
        notes.append(f"{PROVIDER}: the model provider is {provider!r}")
    access = ", ".join(key for key in keys if key in ACCESS)
    warnings = (f"{CONFIG} of this agent's environment sets {access}",) if access else ()
    login = _read_login(environment.get(LOGIN))
    log_file = None
    if directory := environment.get(LOGS):
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)  # noqa: PTH103 - no pathlib here
        except OSError as error:
            raise MisuseError(f"{LOGS}: {directory!r} cannot be made: {error.strerror}") from error
        log_file = os.path.join(directory, LOG_NAME)  # noqa: PTH118
    defaults = SessionDefaults(mode, login, private, warnings)
    return AdapterVariables((*arguments, *given), defaults, log_file, tuple(notes))


def _split_private(
    settings: Mapping[str, Any], given: Sequence[str]
) -> tuple[list[str], dict[str, JsonValue], Sequence[str]]:
    """Return the arguments for the command line, the private settings, which go with each thread,
    and the ``given`` arguments that do not change a private setting."""
    private: dict[str, JsonValue] = {}
    secrets: list[str] = []
    for key, value in settings.items():
        has_private_name = any(map(_PRIVATE.search, key.split("."))) or _has_private_key(value)
        texts = list(_private_texts(value)) if _SEARCHED.match(key) else []
        if has_private_name:
            from codex_acp.transcript.given_values import secrets_in

            # Because of the key's name, every text below may be a secret.
            secrets += secrets_in(value, key.rpartition(".")[2], may_be_secret=True)
        else:
            secrets += texts
        if has_private_name or texts or _ALWAYS_PRIVATE.fullmatch(key):
            private[key] = value
    if secrets:  # a transcript may record the request that opens a thread
        from codex_acp.transcript.secrets import remember_secrets

        remember_secrets(secrets)
    prefixes = tuple(server[0] for key in private if (server := _SERVER.match(key)))
    private |= {key: value for key, value in settings.items() if key.startswith(prefixes)}
    arguments: list[str] = []
    for key, value in settings.items():
        if key not in private:
            arguments += ["-c", f"{key}={_to_toml(key, value)}"]
    if private and given:
        private, given = _override(private, prefixes, given)
    return arguments, private, given


def _parse_object(variable: str, text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{variable} is no JSON: {error}"  # without the text, which may contain secrets
        raise MisuseError(msg) from error
    if not isinstance(value, dict):
        raise MisuseError(f"{variable} is {type(value).__name__} and not a JSON object")
    return value


def _leaves(path: str, value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each setting with its dotted key. A table with keys that need quotes stays whole."""
    for key, inner in value.items():
        parts = [key] if path else key.split(".")  # only a top key may be dotted
        if not all(map(_BARE.fullmatch, parts)):
            raise MisuseError(f"{CONFIG}: {key!r} is no key of Codex's configuration")
        dotted = f"{path}{key}"
        if isinstance(inner, dict) and inner and all(map(_BARE.fullmatch, inner)):
            yield from _leaves(f"{dotted}.", inner)
        else:
            yield dotted, inner


def _has_private_key(value: Any) -> bool:
    """Return whether a table has a private key, at any depth."""
    if isinstance(value, list):
        return any(map(_has_private_key, value))
    if not isinstance(value, dict):
        return False
    return any(_PRIVATE.search(key) or _has_private_key(inner) for key, inner in value.items())


def _private_texts(value: Any) -> Iterator[str]:
    """Yield the texts that look like secrets, or follow an option with a private name."""
    from codex_acp.transcript.secrets import scrub

    previous = ""
    for text in _texts(value):
        if scrub(text, len(text)) != text or (previous[:1] == "-" and _PRIVATE.search(previous)):
            yield text
        previous = text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _to_toml(key: str, value: Any) -> str:
    try:
        return toml_value(value)
    except MisuseError as error:
        raise MisuseError(f"{CONFIG}: {key} cannot be given to Codex: {error}") from error


def _read_mode(text: str | None) -> str | None:
    if not text:
        return None
    mode = known_mode(text)
    if mode is None:
        raise MisuseError(
            f"{MODE_VARIABLE}: there is no mode {text!r}; use read-only, workspace-write, agent, "
            "agent-full-access, permission-profile:NAME, or one of this agent's own"
        )
    return mode


def _read_login(text: str | None) -> dict[str, Any] | None:
    request = _parse_object(LOGIN, text)
    if not request:
        return None
    method, meta = request.get("methodId"), request.get("_meta")
    if method not in LOGINS:
        raise MisuseError(f"{LOGIN}: methodId is {method!r} and none of {', '.join(LOGINS)}")
    if meta is not None and not isinstance(meta, dict):
        raise MisuseError(f"{LOGIN}: _meta is not an object")
    problem = gateway_problem(meta) if method == "gateway" else None
    if problem is not None:
        raise MisuseError(f"{LOGIN}: {problem}")
    key = (meta or {}).get("api-key")
    if isinstance(key, dict) and isinstance(key.get("apiKey"), str):
        from codex_acp.transcript.secrets import remember_secrets

        remember_secrets([key["apiKey"]])
    return request


# ``-c KEY=VALUE`` overrides the settings of ``CODEX_CONFIG`` that go with each thread.


def _override(
    settings: dict[str, JsonValue], prefixes: tuple[str, ...], arguments: Sequence[str]
) -> tuple[dict[str, JsonValue], list[str]]:
    """Apply ``-c`` arguments to a thread's settings. Return the settings, and the arguments that
    stay on the command line. ``prefixes``: of the servers whose settings go with the thread."""
    for_command_line: list[str] = []
    for option, text in zip(arguments[::2], arguments[1::2], strict=True):
        key, _, value = text.partition("=")
        key = key.strip()
        # The argument may replace a table with some of the settings, or set a value in a table.
        settings = {name: old for name, old in settings.items() if not name.startswith(f"{key}.")}
        table = next((name for name in settings if key.startswith(f"{name}.")), None)
        server_goes_with_thread = any(
            key.startswith(prefix) and any(name.startswith(prefix) for name in settings)
            for prefix in prefixes
        )
        if key in settings and not server_goes_with_thread:  # the setting moves to the command line
            del settings[key]
        if table is not None:
            path = key.removeprefix(f"{table}.").split(".")
            settings[table] = with_value(object_at(settings, table), path, _parse_value(value))
        elif server_goes_with_thread:
            settings[key] = _parse_value(value)
        else:
            for_command_line += [option, text]
    return settings, for_command_line


def _parse_value(text: str) -> JsonValue:
    """Read a value as Codex does: as TOML, or as a text if it is no TOML. A date becomes a text."""
    try:
        parsed = tomllib.loads(f"x = {text}")["x"]
        value: JsonValue = json.loads(json.dumps(parsed, default=str, allow_nan=False))
    except ValueError:
        return text.strip().strip("\"'")
    return value
