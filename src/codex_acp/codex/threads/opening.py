"""PURE: open a thread so that Codex trusts its directory only if the person does.

If ``thread/start`` names a directory with a sandbox that may write, Codex records the directory as
trusted, and starts its MCP servers and hooks. A thread is therefore started read-only, and then
gets its real sandbox. Measured on 0.147 to 0.171: Codex then records and starts nothing, and
sandbox, approval policy, roots, network and the model's input are as in an ordinary start. The
proxy of ``features.network_proxy`` was measured on 0.147, 0.163 and 0.171.
``thread/resume``, ``thread/fork`` and a turn in another directory trust nothing.

The answer to ``config/read`` with ``includeLayers`` shows where the sandbox is configured.
Pure modules import `GitProgram` from here, because `git_programs` reads files.
Source: ``ConfigReadResponse`` and ``ThreadSettingsUpdateParams`` of the app-server's schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, object_at, text_at, value_at
from codex_acp._record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from codex_acp.jsonrpc import JsonValue

    JsonObject = dict[str, JsonValue]

READ_ONLY: Final = "read-only"

FULL_ACCESS: Final[JsonObject] = {"type": "dangerFullAccess"}
"""The ``SandboxPolicy`` of ``danger-full-access``."""

START_PROFILE: Final = "codex-acp-start"
"""The permission profile with which a thread starts if a proxy limits the network."""

_READS_WITH_NETWORK: Final[JsonObject] = {
    "filesystem": {":root": "read"},
    "network": {"enabled": True},
}

PROFILE_KEY: Final = "default_permissions"
MODE_KEY: Final = "sandbox_mode"
WORKSPACE_KEY: Final = "sandbox_workspace_write"
"""Keys of Codex's configuration: permission profile, sandbox mode, and the mode's settings."""


class Opening(NamedTuple):
    """The calls that start a thread."""

    params: JsonObject
    """Params of ``thread/start``."""
    restore: JsonObject | None
    """Settings for ``thread/settings/update`` before the first turn; None if none are needed."""


def read_params(cwd: str) -> JsonObject:
    """Return the params of the ``config/read`` that `untrusted_opening` needs."""
    return {"cwd": cwd, "includeLayers": True}


def trusts_nothing(params: Mapping[str, JsonValue]) -> bool:
    """Return whether Codex trusts nothing for these params, with any configuration."""
    return not params.get("cwd") or params.get("sandbox") == READ_ONLY


def untrusted_opening(params: Mapping[str, JsonValue], config_read: JsonValue) -> Opening:
    """Return the calls that start the thread of ``params`` (``thread/start``) without trust.
    ``config_read`` is the answer to ``config/read``, or None if unknown: a thread whose params set
    no sandbox is then read-only."""
    params = dict(params)
    own_config = object_at(params, "config")
    mode, profile = _text(params, "sandbox"), _text(params, "permissions")
    if mode is None and profile is None:
        mode, profile = _choice(own_config) or configured_choice(config_read)
    if config_read is None and mode is None and profile is None:
        return Opening(params | {"sandbox": READ_ONLY}, None)
    # Without a choice, Codex lets a thread write only where a trust level is set already.
    is_read_only = profile is None and mode in (None, READ_ONLY)
    if is_read_only or profile == f":{READ_ONLY}":  # a colon begins the name of a built-in profile
        return Opening(params, None)
    params = _read_only(params, config_read)
    if profile is not None:
        return Opening(params, {"permissions": profile})
    assert mode is not None
    workspace_write = object_at(config_read, "config", WORKSPACE_KEY) | _workspace_write(own_config)
    roots = [root for root in list_at(params, "runtimeWorkspaceRoots") if root != params.get("cwd")]
    return Opening(params, {"sandboxPolicy": sandbox_policy(mode, workspace_write, roots)})


def _read_only(params: JsonObject, config_read: JsonValue) -> JsonObject:
    """Return params that start the thread read-only. Codex starts the proxy that limits the network
    only with a thread that may use the network; with such a proxy, the thread therefore may."""
    others = {key: value for key, value in params.items() if key not in ("permissions", "sandbox")}
    config = object_at(params, "config")
    configs = (config, object_at(config_read, "config"))
    proxies = [value_at(each, "features", "network_proxy") for each in configs]
    if not any(proxy is True or value_at(proxy, "enabled") is True for proxy in proxies):
        return {**others, "sandbox": READ_ONLY}
    profiles = object_at(config, "permissions") | {START_PROFILE: _READS_WITH_NETWORK}
    return {**others, "permissions": START_PROFILE, "config": {**config, "permissions": profiles}}


def configured_choice(config_read: JsonValue) -> tuple[str | None, str | None]:
    """Return the `_choice` of the highest enabled layer with a choice, else of the whole
    configuration; (None, None) if there is none."""
    for layer in map(object_at, list_at(config_read, "layers")):
        if not layer.get("disabledReason") and (choice := _choice(object_at(layer, "config"))):
            return choice
    return _choice(object_at(config_read, "config")) or (None, None)


def sandbox_policy(mode: str, workspace_write: JsonObject, roots: list[JsonValue]) -> JsonObject:
    """Return the ``SandboxPolicy`` of a ``sandbox_mode`` and its table ``sandbox_workspace_write``.
    An unknown mode is passed on in camelCase: Codex takes or refuses it."""
    if mode == "danger-full-access":
        return dict(FULL_ACCESS)
    if mode != "workspace-write":
        first, *rest = mode.split("-")
        return {"type": first + "".join(word.capitalize() for word in rest)}
    return {
        "type": "workspaceWrite",
        "writableRoots": [
            *dict.fromkeys(map(str, [*list_at(workspace_write, "writable_roots"), *roots]))
        ],
        "networkAccess": workspace_write.get("network_access") is True,
        "excludeTmpdirEnvVar": workspace_write.get("exclude_tmpdir_env_var") is True,
        "excludeSlashTmp": workspace_write.get("exclude_slash_tmp") is True,
    }


def trusting(params: Mapping[str, JsonValue], *directories: str) -> JsonObject:
    """Return params for a thread that trusts these directories; Codex does not record the trust."""
    return {**params, "config": _config_with(params, "trusted", directories)}


def _config_with(
    params: Mapping[str, JsonValue], level: str, directories: Iterable[str]
) -> JsonObject:
    config = object_at(params, "config")
    levels: JsonObject = {each: {"trust_level": level} for each in directories}
    return {**config, "projects": object_at(config, "projects") | levels}


def distrusting(
    params: Mapping[str, JsonValue], config_read: JsonValue, *directories: str
) -> JsonObject:
    """Return params for a thread that does not trust these directories. Without a choice of a
    sandbox, the params set read-only, because there Codex would choose workspace-write."""
    config = _config_with(params, "untrusted", directories)
    own_choice = _choice(config) or _text(params, "sandbox") or _text(params, "permissions")
    if not own_choice and configured_choice(config_read) == (None, None):
        return {**params, "config": config, "sandbox": READ_ONLY}
    return {**params, "config": config}


def with_settings(answer: JsonValue, settings: JsonValue) -> JsonValue:
    """Return the answer to ``thread/start`` with the settings that Codex reported later."""
    new = object_at(settings)
    if not isinstance(answer, dict) or not new:
        return answer
    names = ("activePermissionProfile", "approvalPolicy", "approvalsReviewer")
    changed = {name: new[name] for name in names if name in new}
    return {**answer, **changed, "sandbox": new.get("sandboxPolicy", answer.get("sandbox"))}


def untrusted_folders(config_read: JsonValue) -> Iterator[tuple[str, JsonObject]]:
    """Yield the ``.codex`` folders that Codex leaves out as untrusted, and their configuration."""
    for layer in list_at(config_read, "layers"):
        entry = object_at(layer)
        folder = _text(object_at(entry, "name"), "dotCodexFolder")
        if folder is not None and entry.get("disabledReason"):
            yield folder, object_at(entry, "config")


def contents_of(config: JsonObject, files: Collection[str]) -> list[str]:
    """List the contents of a ``.codex`` folder for the person; ``files`` are its file names."""
    servers = len(object_at(config, "mcp_servers"))
    contents = [f"{servers} MCP server{'s' * (servers > 1)}"] if servers else []
    if "hooks" in config or "hooks.json" in files:
        contents.append("hooks")
    if "rules" in files:
        contents.append("rules for commands")
    if config.keys() - {"mcp_servers", "hooks"}:
        contents.append("settings")
    return contents


def _choice(config: JsonObject) -> tuple[str | None, str | None] | None:
    """Return the choice in a configuration, (mode, None) or (None, profile); None without one. A
    profile counts before a mode."""
    profile, mode = _text(config, PROFILE_KEY), _text(config, MODE_KEY)
    if profile is not None:
        return None, profile
    return None if mode is None else (mode, None)


def _workspace_write(config: JsonObject) -> JsonObject:
    """Return the sandbox table of the thread's own settings, which may have dotted names."""
    dotted = f"{WORKSPACE_KEY}."
    flat = {key.removeprefix(dotted): v for key, v in config.items() if key.startswith(dotted)}
    return object_at(config, WORKSPACE_KEY) | flat


def _text(source: Mapping[str, JsonValue], name: str) -> str | None:
    """Return the text ``name``; None if it is missing or empty."""
    return text_at(source, name) or None


class GitProgram(NamedTuple):
    """A program that git would run for a directory, or an unreadable file that could name one."""

    file: str
    key: str
    """The name in the configuration; empty for an unreadable file."""
    value: str
    """The command, or why the file cannot be read."""

    @property
    def description(self) -> str:
        """Return the program as one line without invisible characters."""
        if not self.key:
            return f"{self.file!r} can name any program: {self.value}"
        return f"{self.key!r} names {self.value!r} in {self.file!r}"


MAX_DESCRIPTION: Final = 2000
"""Characters of the description of all programs in a refusal."""


def git_programs_refusal(directory: str, programs: Sequence[GitProgram], how: str) -> str:
    """Return the message why Codex is not used in a directory; ``how`` is the way to trust it."""
    descriptions = "; ".join(each.description for each in programs)
    if len(descriptions) > MAX_DESCRIPTION:
        descriptions = f"{descriptions[:MAX_DESCRIPTION]}... (cut; there are {len(programs)})"
    return (
        f"Codex would have git run programs of {directory!r} outside of any sandbox, and nobody "
        f"has agreed to them: {descriptions}. So Codex was not asked. If you know what they do, "
        f"trust the directory: {how}; else take them out of that configuration"
    )
