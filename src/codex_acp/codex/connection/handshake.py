"""Make and read the handshake with an app-server, as plain JSON, because no model is loaded yet.

Source: the app-server's README, "Initialization"; ``InitializeParams``, ``InitializeResponse``.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, cast

from codex_acp._version import __version__
from codex_acp.codex._generated.version import OLDEST_VERSION, SCHEMA_VERSION
from codex_acp.errors import CodexTooOld, several
from codex_acp.jsonrpc import encode_json, encode_request
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.codex._generated.models import ClientInfo, InitializeCapabilities
    from codex_acp.jsonrpc import EncodedJson, JsonValue
    from codex_acp.transport.link import Link

logger = logging.getLogger(__name__)

CLIENT_NAME: Final = "codex_acp_sdk"
"""Default of ``clientInfo.name``; Codex puts the name into its user agent."""

_VERSION: Final = re.compile(r"/(\d+\.\d+\.\d+)")
"""A version in a user agent; the server's version is the last one before the first bracket."""


class Hello:
    """The request ``initialize`` of one connection, with the arguments of `CodexClient`, or its
    defaults."""

    def __init__(
        self,
        client_info: ClientInfo | dict[str, JsonValue] | None,
        capabilities: InitializeCapabilities | dict[str, JsonValue] | None,
        opt_out_notifications: Iterable[str],
    ) -> None:
        info = _plain(client_info, {"name": CLIENT_NAME, "version": __version__})
        plain_capabilities = _plain(capabilities, {"experimentalApi": True})
        if opted_out := several("opt_out_notifications", opt_out_notifications):
            plain_capabilities["optOutNotificationMethods"] = list(opted_out)
        self.params: EncodedJson = encode_json(
            {"clientInfo": info, "capabilities": plain_capabilities}
        )
        self.is_sent: bool = False
        """Whether the request is on the link already."""

    def send_early(self, link: Link) -> None:
        """Write the request to a process that was just spawned, so that Codex need not wait for us.
        The request must be the first call of the connection, whose ids begin at 0."""
        if isinstance(link, ChildProcess):
            self.is_sent = link.write_early(
                encode_request(0, "initialize", self.params, version=False)
            )


def note_version(user_agent: str) -> None:
    """Log if the server is newer than the schema. Raises CodexTooOld as `check_version` does. An
    example of ``user_agent``: ``codex_acp_sdk/0.169.0 (Debian 12; x86_64) …``. Builds without a
    version of their own (0.0.0) are ignored."""
    version = _version_in(user_agent)
    if version is None:
        return
    check_version(version)
    if _parts(version) > _parts(SCHEMA_VERSION):
        logger.info(
            "Codex %s is newer than the schema of this library, %s; what is new is kept and "
            "counted, but not shown", version, SCHEMA_VERSION,
        )  # fmt: skip


def believes_worktrees(user_agent: str) -> bool:
    """Return whether this Codex trusts false worktrees. Measured: 0.147 and 0.148 do, 0.149 not."""
    version = _version_in(user_agent)
    return version is not None and _is_older(version, (0, 149, 0))


def unloads_at_once(user_agent: str) -> bool:
    """Return whether Codex unloads an unused thread at once. Measured: 0.163 does, 0.147 not."""
    version = _version_in(user_agent)
    return version is not None and not _is_older(version, (0, 163, 0))


def check_version(version: str) -> None:
    """Raise CodexTooOld for the version of a Codex that this library cannot read."""
    if _is_older(version, _parts(OLDEST_VERSION)):
        raise CodexTooOld(version, OLDEST_VERSION, SCHEMA_VERSION)


def _is_older(version: str, other: tuple[int, ...]) -> bool:
    """Return whether a version is older than ``other``; the placeholder 0.0.0 never is."""
    parts = _parts(version)
    return parts != (0, 0, 0) and parts < other


def _version_in(user_agent: str) -> str | None:
    versions: list[str] = _VERSION.findall(user_agent.partition("(")[0])
    return versions[-1] if versions else None


def _parts(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version such as ``0.169.0-alpha.1``."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _plain(
    model: ClientInfo | InitializeCapabilities | dict[str, JsonValue] | None,
    default: dict[str, JsonValue],
) -> dict[str, JsonValue]:
    if model is None:
        return default
    if isinstance(model, dict):
        return dict(model)
    from codex_acp.wire.codec import plain

    return cast("dict[str, JsonValue]", plain(model))
