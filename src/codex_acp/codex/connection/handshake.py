"""Makes and reads the handshake with an app-server, as JSON: it must not wait for any model.

Source: the app-server's README, "Initialization"; ``InitializeParams``, ``InitializeResponse``.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, cast

from codex_acp._version import __version__
from codex_acp.codex._generated.version import OLDEST_VERSION, SCHEMA_VERSION
from codex_acp.errors import CodexTooOld
from codex_acp.jsonrpc.message import encode_json, encode_request
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.codex._generated.models import (
        ClientInfo,
        InitializeCapabilities,
    )
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.transport.link import Link

logger = logging.getLogger(__name__)

CLIENT_NAME: Final = "codex_acp_sdk"
"""``clientInfo.name`` unless the program gives its own; Codex puts it into its user agent."""

_VERSION: Final = re.compile(r"/(\d+\.\d+\.\d+)")
"""The last version before the first bracket is the server's own; a client's name may hold one."""


class Hello:
    """The request ``initialize`` of one connection, from the arguments of `CodexClient`."""

    def __init__(
        self,
        client_info: ClientInfo | dict[str, JsonValue] | None,
        capabilities: InitializeCapabilities | dict[str, JsonValue] | None,
        opt_out_notifications: Iterable[str],
    ) -> None:
        self.params: EncodedJson = encode_json(
            initialize_params(client_info, capabilities, tuple(opt_out_notifications))
        )
        self.said: bool = False
        """Whether it is on the link already."""

    def say_early(self, link: Link) -> None:
        """Put it on the link of a process that was just spawned, so that it need not wait for us.

        It must be the first call of the connection, whose ids begin at 0.
        """
        if isinstance(link, ChildProcess):
            self.said = link.write_early(
                encode_request(0, "initialize", self.params, version=False)
            )


def initialize_params(
    client_info: ClientInfo | dict[str, JsonValue] | None,
    capabilities: InitializeCapabilities | dict[str, JsonValue] | None,
    opt_out_notifications: tuple[str, ...],
) -> dict[str, JsonValue]:
    """Return the params of ``initialize``, with the defaults of `CodexClient`."""
    info = _plain(client_info, {"name": CLIENT_NAME, "version": __version__})
    can = _plain(capabilities, {"experimentalApi": True})
    if opt_out_notifications:
        can["optOutNotificationMethods"] = list(opt_out_notifications)
    return {"clientInfo": info, "capabilities": can}


def note_version(user_agent: str) -> None:
    """Log once a connection that the server is newer than the schema.

    ``user_agent`` is such as ``codex_acp_sdk/0.169.0 (Debian 12; x86_64) …``. A build without a
    version of its own (0.0.0) is passed over. Raises CodexTooOld as `check_version`.
    """
    version = _version_in(user_agent)
    if version is None:
        return
    check_version(version)
    if _parts(version) > _parts(SCHEMA_VERSION):
        logger.info(
            "Codex %s is newer than the schema of this library, %s; what is new is kept and "
            "counted, but not shown",
            version,
            SCHEMA_VERSION,
        )


def believes_worktrees(user_agent: str) -> bool:
    """Whether this Codex trusts false worktrees. Measured: 0.147 and 0.148 do, 0.149 not."""
    version = _version_in(user_agent)
    return version is not None and (0, 0, 0) != _parts(version) < (0, 149, 0)


def unloads_at_once(user_agent: str) -> bool:
    """Whether this Codex unloads at once what nobody follows. Measured: 0.163 does, 0.147 not."""
    version = _version_in(user_agent)
    return version is not None and not (0, 0, 0) != _parts(version) < (0, 163, 0)


def check_version(version: str) -> None:
    """Raises CodexTooOld for the version of a Codex that this library cannot read."""
    if (0, 0, 0) != _parts(version) < _parts(OLDEST_VERSION):
        raise CodexTooOld(version, OLDEST_VERSION, SCHEMA_VERSION)


def _version_in(user_agent: str) -> str | None:
    found: list[str] = _VERSION.findall(user_agent.partition("(")[0])
    return found[-1] if found else None


def _parts(version: str) -> tuple[int, ...]:
    """Return the three numbers of a version, whatever follows, as in ``0.169.0-alpha.1``."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _plain(
    model: ClientInfo | InitializeCapabilities | dict[str, JsonValue] | None,
    default: dict[str, JsonValue],
) -> dict[str, JsonValue]:
    if model is None or isinstance(model, dict):
        return default if model is None else dict(model)
    from codex_acp.wire.codec import plain

    return cast("dict[str, JsonValue]", plain(model))
