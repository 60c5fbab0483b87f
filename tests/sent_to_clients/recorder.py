"""Records a scene: the real Codex with a scripted model, through the adapter, as a conversation.

Owns the order of what was said, and which of it belongs to the conversation.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, cast

from codex_acp.codex.connection.launch import LaunchOptions, find_codex, spawn_app_server
from codex_acp.testing import CodexHome, ScriptedMcpServer, ScriptedModel
from tests.e2e_contract.codex_wire import CodexWire, TapLink
from tests.sent_to_clients.conversation import Conversation, Json
from tests.sent_to_clients.normalise import Names, normalised
from tests.sent_to_clients.scene import Scene
from tests.sent_to_clients.stage import Stage

_ANSWERED_ALIKE: Final = frozenset({"turn/start", "turn/interrupt", "turn/steer"})
"""Calls that are answered in one way only, so that what was answered needs no recording."""

_REPEATED: Final = frozenset(
    {"account/rateLimits/updated", "thread/status/changed", "thread/tokenUsage/updated"}
)
"""Notifications that come several times in every turn: kept where a scene is about them."""

_GAP: Final = 0.2
"""Seconds between two pieces of output that make a difference to what is shown."""


class _Wire:
    """Takes the lines between adapter and Codex, and puts them into the order of the steps."""

    def __init__(self, scene: Scene, workspace: Path) -> None:
        self.scene = scene
        self.steps: list[Json] = []
        self.messages: list[Json] = []
        """All that Codex has sent."""
        self.begun = False
        self._workspace = workspace
        self._files: dict[str, str | None] = {}
        self._called: dict[object, str] = {}
        self._at = 0.0

    def add(self, by: Literal["codex", "adapter"], line: bytes) -> None:
        """See `CodexWire.add`."""
        message: Json = json.loads(line)
        if by == "adapter":
            if "method" in message and "id" in message:
                self._called[message["id"]] = message["method"]
            return
        self.messages.append(message)
        method = message.get("method")
        if method is None:
            called = self._called.get(message.get("id"))
            wanted = called is not None and called not in _ANSWERED_ALIKE
            if self.begun and wanted and "result" in message:
                self.steps.append({"result": {"of": called, "result": message["result"]}})
        elif self._is_of_the_scene(method):
            if method == "item/completed" and message["params"]["item"]["type"] == "fileChange":
                self.look_at_files()
            if method.endswith("/outputDelta") and time.monotonic() - self._at > _GAP:
                self.steps.append({"wait": 0.5})
            self.steps.append({"codex": message})
        self._at = time.monotonic()

    def _is_of_the_scene(self, method: str) -> bool:
        if method in _REPEATED and method not in self.scene.keep:
            return False
        return self.begun or method in self.scene.early

    def says(self, text: str) -> Callable[[], bool]:
        """Whether Codex has sent a message that contains ``text``."""
        return lambda: any(text in json.dumps(message) for message in self.messages)

    def client(self, action: Json) -> None:
        """The client is about to do something."""
        self.begun = True
        self.steps.append({"client": action})

    def look_at_files(self) -> None:
        """Note which files of the workspace are not as they were."""
        found: dict[str, str | None] = dict.fromkeys(self._files)
        for path in sorted(self._workspace.rglob("*")):
            if path.is_file() and ".git/" not in str(path):
                found[str(path.relative_to(self._workspace))] = path.read_text("utf-8", "replace")
        news = {name: text for name, text in found.items() if self._files.get(name, "") != text}
        self._files = found
        if news:
            self.steps.append({"files": news})


async def record(scene: Scene) -> Conversation:
    """Run a scene and return what was said."""
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel(list(scene.script)))
        home = stack.enter_context(CodexHome(model.base_url, **_home(scene, stack)))
        for name, text in scene.files.items():
            path = home.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        if scene.prepare is not None:
            scene.prepare(home)
        wire = _Wire(scene, home.workspace)
        wire.look_at_files()
        session = await _live(scene, wire, home)
        assert not model.unanswered, [request.last_user_text for request in model.unanswered]
        history = await _history(session, home)
        names = Names(session, wire.messages)
        places = {str(home.workspace): "$CWD", str(home.root): "$ROOT"}
        return Conversation(
            scene.name,
            scene.about,
            f"Recorded from Codex {_version()}",
            scene.capabilities,
            normalised(wire.steps, names, places),
            normalised(history, names, places),
        )


def _home(scene: Scene, stack: ExitStack) -> Mapping[str, Any]:
    if not scene.tools:
        return scene.home
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return {**scene.home, "mcp_servers": {"notes": ScriptedMcpServer(folder, scene.tools).config}}


async def _live(scene: Scene, wire: _Wire, home: CodexHome) -> str:
    link = TapLink(spawn_app_server(LaunchOptions(env=home.env)), cast("CodexWire", wire))
    async with Stage(link, scene.capabilities) as stage:
        session = await stage.new_session(home.workspace)
        prompts: list[int] = []
        for action in scene.client:
            if "until" in action:
                await stage.until(wire.says(action["until"]))
                continue
            if "prompt" in action:
                for prompt in prompts:
                    await stage.reply(prompt)
            elif "answer" in action:
                await stage.until(lambda: bool(stage.open_requests()))
            wire.client(action)
            prompts += [i for i in [stage.act(session, action)] if i is not None]
        for prompt in prompts:
            await stage.reply(prompt)
    return session


async def _history(session: str, home: CodexHome) -> list[Json]:
    """What another Codex gives to who loads the session."""
    wire = CodexWire()
    link = TapLink(spawn_app_server(LaunchOptions(env=home.env)), wire)
    async with Stage(link, {}) as stage:
        params = {"sessionId": session, "cwd": str(home.workspace), "mcpServers": []}
        await stage.ask("session/load", params)
    asked = {
        message["id"]: message["params"]
        for by, message in wire.messages
        if by == "adapter" and message.get("method") == "thread/items/list"
    }
    entries = [
        entry
        for by, message in wire.messages
        if by == "codex" and "result" in message
        if asked.get(message.get("id"), {}).get("sortDirection") == "asc"
        for entry in message["result"]["data"]
    ]
    return [{"turnId": entry["turnId"], "item": entry["item"]} for entry in entries]


def _version() -> str:
    done = subprocess.run(
        [find_codex().path, "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()[-1]
