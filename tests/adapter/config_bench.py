"""Config options on a scripted app-server in memory, without the rest of the agent."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Self, cast
from unittest.mock import patch

import anyio

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.adapter.config_options import Config, ConfigSession
from codex_acp.codex.connection.answer_bound import AnswerTimes
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.events import SessionEvent
from codex_acp.mapping.options import option_json
from codex_acp.testing import AppServerScript, Entry, Expect, Notify, RawLine, ScriptedAppServer
from tests.support.acp_schema import problems_of_message
from tests.support.config_samples import COLLABORATIONS, MODELS, PROFILES, started, updated
from tests.support.updates import wire

CONFIG = "codex_acp.adapter.config_options"
THREAD = "thread-1"
WAIT = 60.0

LISTS: tuple[Expect, ...] = (
    Expect("model/list", MODELS),
    Expect("collaborationMode/list", COLLABORATIONS),
    Expect("permissionProfile/list", PROFILES),
)
"""The answers to all that is asked of a new thread, in the order in which it is asked."""


CONFIG_READ: dict[str, JsonValue] = {
    "config": {"approval_policy": "on-request", "sandbox_mode": "read-only"}, "origins": {}
}  # fmt: skip
"""The answer to ``config/read``, for a thread that is not new."""

FULL: dict[str, JsonValue] = {"type": "dangerFullAccess"}

FULL_ACCESS: dict[str, JsonValue] = {
    "approvalPolicy": "never",
    "sandboxPolicy": FULL,
    "activePermissionProfile": {"id": ":danger-full-access", "extends": None},
}
"""The settings in the mode of that name."""


def by_id(options: list[dict[str, Any]]) -> dict[str, Any]:
    """The options of a list."""
    return {option["id"]: option for option in options}


def settings_updated(**changes: JsonValue) -> Notify:
    """Codex reports the settings."""
    return Notify("thread/settings/updated", updated(**changes))


def taken(**changes: JsonValue) -> tuple[Entry, ...]:
    """Codex takes a change and reports it."""
    return (Expect("thread/settings/update", {}), settings_updated(**changes))


class ConfigBench:
    """``async with ConfigBench(*script) as bench:``; `open` opens a session.

    That waits for its lists as long as it takes, unless the bench is ``hurried``: then not at all.
    """

    def __init__(
        self,
        *script: Entry,
        booleans: bool = False,
        hurried: bool = False,
        answer_times: AnswerTimes | None = None,
    ) -> None:
        self.hurried = hurried
        self.server = ScriptedAppServer(AppServerScript(*script))
        self.codex = AppServerConnection(self.server.link, answer_times=answer_times)
        self.updates: list[dict[str, Any]] = []
        """What the client was sent, in order."""
        self._tasks = anyio.create_task_group()
        self._news = anyio.Event()
        features = ClientFeatures(boolean_config_options=booleans)
        self.opened: ConfigSession | None = None
        """The session that was opened last."""
        sessions = SimpleNamespace(
            send=self._send,
            features=lambda _: features,
            rights_changed=lambda _: False,
            running_turns=lambda _: set(),
            sub_agents_of=lambda _: [],
        )
        self.config = Config(self._tasks.start_soon, cast("Any", sessions))

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.server.__aenter__()
        await self._tasks.__aenter__()
        await self.codex.connect()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        """Close everything."""
        await self.codex.aclose()
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(*exc)
        await self.server.__aexit__(*exc)

    def _send(self, session_id: str, event: SessionEvent) -> None:
        (written,) = wire(event)
        params = {"sessionId": session_id, "update": written}
        note = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        assert problems_of_message("agent", note, None) == []
        self.updates.append(written)
        self._news.set()
        self._news = anyio.Event()

    async def wait_for_updates(self, count: int) -> list[dict[str, Any]]:
        """Wait until the client was sent so many."""
        with anyio.fail_after(WAIT):
            while len(self.updates) < count:
                await self._news.wait()
        return self.updates

    async def open(
        self, result: dict[str, JsonValue] | None = None, thread: str = THREAD, **more: Any
    ) -> dict[str, Any]:
        """Open the session; gives what the client is answered."""
        seconds = 0 if self.hurried else WAIT
        waits = patch.multiple(CONFIG, NEW_WAIT_SECONDS=seconds, WAIT_SECONDS=seconds)
        with waits, anyio.fail_after(WAIT):
            result = result or started()
            if "directory" not in more:
                cwd, how = str(result.get("cwd", "")), more.get("how", "new")
                config_read = None if how == "new" else CONFIG_READ
                more["directory"] = self.config.ask_lists(self.codex, cwd, config_read)
            self.opened = await self.config.open(thread, self.codex, result, **more)
            answer = self.config.answer(thread)
        message = {"jsonrpc": "2.0", "result": {"sessionId": THREAD, **answer}}
        assert problems_of_message("agent", message, "session/new") == []
        return cast("dict[str, Any]", answer)

    async def set(self, option: str, value: str | bool, session: str = THREAD) -> dict[str, Any]:
        """``session/set_config_option``; the options by id."""
        with anyio.fail_after(WAIT):
            options = await self.config.set_config_option(session, option, value)
        result = {"configOptions": [option_json(each) for each in options]}
        message = {"jsonrpc": "2.0", "result": result}
        assert problems_of_message("agent", message, "session/set_config_option") == []
        return by_id(result["configOptions"])

    async def set_mode(self, mode: str, session: str = THREAD) -> None:
        """``session/set_mode``."""
        with anyio.fail_after(WAIT):
            await self.config.set_mode(session, mode)

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The params of what Codex was asked so far."""
        return [
            cast("dict[str, Any]", message["params"])
            for message in self.server.player.received
            if message.get("method") == method
        ]

    async def answer(self, method: str, result: JsonValue) -> None:
        """Answer a request that the script left open."""
        request = await self.server.wait_for_message(method)
        self.server.play(RawLine(json.dumps({"id": request["id"], "result": result})))
