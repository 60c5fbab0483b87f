"""The conversation with an app-server in a copy of Codex's home: what is asked, and for how long.

Owns the limits. Must not know what the answers mean; that is `codex_checks`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.launch import LaunchOptions, spawn_app_server
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, ErrorReply, TransportError
from codex_acp.transport.orphans import adopt_orphans, leave_orphans

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.cli.doctor.home_copy import HomeCopy
    from codex_acp.cli.doctor.limits import Deadline
    from codex_acp.jsonrpc.message import JsonValue

START_SECONDS: Final = 20.0
"""From the start of the process to the answer of ``initialize``."""

ANSWER_SECONDS: Final = 20.0
"""For each question."""

MCP_SECONDS: Final = 30.0
"""For all MCP servers together, which start side by side; Codex gives each ten by itself."""

WARNING_SECONDS: Final = 0.3
"""After the handshake: what Codex has to say of its configuration comes with it."""

NOWHERE: Final = "http://127.0.0.1:9/v1"

_PROVIDER: Final = "codex_acp_doctor"
_THREAD: Final[dict[str, JsonValue]] = {
    "sandbox": "read-only",
    "ephemeral": True,
    "modelProvider": _PROVIDER,
    "config": {
        f"model_providers.{_PROVIDER}": {
            "name": _PROVIDER, "base_url": NOWHERE, "requires_openai_auth": False,
            "supports_websockets": False,
        }
    },
}  # fmt: skip
"""A thread that only starts the MCP servers: it has no model to speak with, and leaves nothing."""

_STARTUP: Final = "mcpServer/startupStatus/updated"


class Answers(NotificationSink):
    """Answers of Codex. ``failed`` says why it said nothing at all."""

    def __init__(self) -> None:
        self.failed: str | None = None
        self.warnings: list[dict[str, JsonValue]] = []
        """Params of each ``configWarning``."""
        self.results: dict[str, JsonValue] = {}
        """Question → result."""
        self.errors: dict[str, str] = {}
        """Question → the error, or that there was no answer."""
        self.servers: dict[str, dict[str, JsonValue]] = {}
        """MCP server → the params of its last status."""
        self.changed: asyncio.Event = asyncio.Event()

    # What the connection calls.

    def on_notification(self, method: str, params: JsonValue) -> None:
        if not isinstance(params, dict):
            return
        if method == "configWarning":
            self.warnings.append(params)
        elif method == _STARTUP:
            self.servers[str(params.get("name"))] = params
        self.changed.set()

    def on_closed(self, error: TransportError | None) -> None:  # noqa: ARG002 - said by the calls
        self.changed.set()


async def talk(path: str, copy: HomeCopy, deadline: Deadline) -> Answers:
    """Start the app-server ``path``, ask it everything, and end it. Raises nothing of Codex's."""
    adopt_orphans(asyncio.get_running_loop())
    try:
        return await _talk(path, copy, deadline)
    finally:
        leave_orphans()


async def _talk(path: str, copy: HomeCopy, deadline: Deadline) -> Answers:
    answers = Answers()
    options = LaunchOptions(path, _arguments(copy), copy.env, copy.workspace)
    try:
        child = spawn_app_server(options)
    except CodexAcpError as error:
        answers.failed = str(error)
        return answers
    try:
        connection = AppServerConnection(child)
        connection.subscribe_all(answers)
        seconds = deadline.left(START_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await connection.connect()
        except TimeoutError:
            answers.failed = f"it said nothing for {seconds:.3g} s"
            return answers
        except CodexAcpError as error:
            answers.failed = str(error)
            return answers
        try:
            await _ask_all(connection, answers, copy, deadline)
        finally:
            await connection.aclose()
    finally:
        child.kill_tree()
    return answers


def _arguments(copy: HomeCopy) -> list[str]:
    """Settings that keep Codex from writing or sending anything, whatever is configured."""
    settings = {
        "sqlite_home": f'"{copy.codex_home}"',
        "log_dir": f'"{copy.codex_home}"',
        "check_for_update_on_startup": "false",
        "analytics.enabled": "false",
        "features.shell_snapshot": "false",
        "otel.exporter": '"none"',
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


async def _ask_all(
    connection: AppServerConnection, answers: Answers, copy: HomeCopy, deadline: Deadline
) -> None:
    async def ask(name: str, method: str, params: JsonValue) -> None:
        seconds = deadline.left(ANSWER_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                answers.results[name] = await connection.call_raw(method, params)
        except TimeoutError:
            answers.errors[name] = f"it did not answer {method} within {seconds:.3g} s"
        except ErrorReply as error:
            answers.errors[name] = error.message
        except CodexAcpError as error:
            answers.errors[name] = str(error)

    await ask("config", "config/read", {"includeLayers": False})
    await ask("requirements", "configRequirements/read", None)
    await ask("account", "account/read", {"refreshToken": False})
    for name, policy in _policies().items():
        # One file below the workspace, one beside it.
        inside, outside = copy.workspace / name, copy.root / name
        command = (
            f"echo started; (: > '{inside}') 2>/dev/null && echo inside; "
            f"(: > '{outside}') 2>/dev/null && echo outside; echo ended"
        )
        params: dict[str, JsonValue] = {
            "command": ["/bin/sh", "-c", command], "cwd": str(copy.workspace),
            "timeoutMs": round(ANSWER_SECONDS * 500), "sandboxPolicy": policy,
        }  # fmt: skip
        await ask(name, "command/exec", params)
    wanted = _servers_of(answers)
    if wanted:
        await ask("thread", "thread/start", {**_THREAD, "cwd": str(copy.workspace)})
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline.left(MCP_SECONDS)):
                await _until(answers, lambda: _all_done(answers, wanted) or connection.closed)
    with suppress(TimeoutError):
        async with asyncio.timeout(WARNING_SECONDS):
            await _until(answers, lambda: connection.closed)


def _policies() -> dict[str, dict[str, JsonValue]]:
    return {
        "read-only": {"type": "readOnly", "networkAccess": False},
        "workspace-write": {
            "type": "workspaceWrite", "writableRoots": [], "networkAccess": False,
            "excludeTmpdirEnvVar": True, "excludeSlashTmp": True,
        },
    }  # fmt: skip


def _servers_of(answers: Answers) -> list[str]:
    """The MCP servers that are to start."""
    return [
        name
        for name, server in object_at(answers.results, "config", "config", "mcp_servers").items()
        if not (isinstance(server, dict) and server.get("enabled") is False)
    ]


def _all_done(answers: Answers, wanted: list[str]) -> bool:
    if "thread" in answers.errors:
        return True
    return all(
        answers.servers.get(name, {}).get("status") not in (None, "starting") for name in wanted
    )


async def _until(answers: Answers, done: Callable[[], bool]) -> None:
    while not done():
        answers.changed.clear()
        await answers.changed.wait()
