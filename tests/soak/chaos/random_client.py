"""A client that asks for anything at any time, answers late or never, and gives requests up."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from codex_acp.transport.memory import MemoryLink
from tests.soak.chaos.world import End, Json, World

WHERE: Json = {"cwd": "/scripted/workspace", "mcpServers": []}
WORDS = ("hi", "hi", "/status", "/nope", "use $x", "/compact")
ENDS = ("close", "delete", "archive")
REQUESTS = (
    *["prompt"] * 10, *["cancel"] * 2, *["give up"] * 2, *ENDS, "load", "resume", "fork",
    "unarchive", "set_mode", "set_title", "status", "list", "set_config_option",
)  # fmt: skip


class RandomClient(End):
    """Speaks ``version``. ``sessions`` are those that it believes to be open."""

    def __init__(self, link: MemoryLink, world: World, version: int) -> None:
        self.version = version
        self.asked: dict[int, tuple[str, Json]] = {}
        self.replies: dict[int, Json] = {}
        self.sessions: list[str] = []
        self.left: list[str] = []
        self.touched: set[str | None] = set()
        """Sessions that were not let alone: what they said need not be whole."""
        self.given_up: set[int] = set()
        self.text: dict[str, str] = {}
        self._unsent: list[Json] = []
        super().__init__(link, world)

    def take(self, message: Json) -> None:
        self.world.note("adapter > client", message)
        if "method" not in message:
            self._take_reply(message)
        elif message["method"] == "session/update":
            params = message["params"]
            if params["update"].get("sessionUpdate") == "agent_message_chunk":
                said = self.text.get(params["sessionId"], "")
                self.text[params["sessionId"]] = said + params["update"]["content"].get("text", "")
        elif "id" in message:
            self.spawn(self._reply_to(message))

    def _take_reply(self, message: Json) -> None:
        request_id = message["id"]
        if request_id not in self.asked or request_id in self.replies:
            self.world.fail(f"an answer too many: {message}")
            return
        self.replies[request_id] = message
        method, _params = self.asked[request_id]
        if method in ("session/new", "session/fork") and "result" in message:
            self.sessions.append(message["result"]["sessionId"])

    async def _reply_to(self, message: Json) -> None:
        kind = self.random.random()
        await asyncio.sleep(self.random.choice([0, 0, 0.01, 0.5, 3, 40]))
        if kind < 0.1:
            return
        result: Json = self.random.choice(
            [{"action": "accept", "content": {"a": "x"}}, {"action": "decline"}]
        )
        if message["method"] == "session/request_permission":
            result = {"outcome": {"outcome": "cancelled"}}
            if kind < 0.6:
                wanted = "allow" if kind < 0.45 else "reject"
                options = message["params"]["options"]
                chosen = next(each for each in options if each["kind"].startswith(wanted))
                if wanted == "allow":
                    commands = re.findall(r"touch turn-\d+-i\d+", json.dumps(message["params"]))
                    self.world.allowed.update(commands)
                result = {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self.world.note("client > adapter", answer)
        self.write(*[answer] * (2 if kind > 0.95 else 1))

    # What it asks.

    def request(self, method: str, **params: Any) -> None:
        request_id = len(self.asked) + 1
        self.asked[request_id] = method, params
        self._put({"id": request_id, "method": method, "params": params})

    def _put(self, message: Json) -> None:
        message = {"jsonrpc": "2.0", **message}
        self.world.note("client > adapter", message)
        self._unsent.append(message)

    def flush(self) -> None:
        """Send what was asked, in one write."""
        if self._unsent:
            self.write(*self._unsent)
        self._unsent = []

    def introduce(self) -> None:
        can: Json = {"elicitation": {"form": {}, "url": {}}}
        if self.version == 2:
            info = {"name": "chaos", "version": "1"}
            self.request("initialize", protocolVersion=2, info=info, capabilities=can)
        else:
            self.request("initialize", protocolVersion=1, clientCapabilities=can)
        self.flush()

    def cancel(self, session_id: str | None) -> None:
        self._put({"method": "session/cancel", "params": {"sessionId": session_id}})

    def act(self) -> None:
        """Ask for something."""
        session_id = self.random.choice(self.sessions) if self.sessions else None
        new = ("new",) if len(self.sessions) < 4 else ()
        what = "new" if session_id is None else self.random.choice((*REQUESTS, *new))
        if self.random.random() < 0.02:
            session_id = "nobody"
        self.world.counts[what] += 1
        if what in (*ENDS, "cancel", "load", "resume"):
            self.touched.add(session_id)
        if what in ENDS and session_id in self.sessions and self.random.random() < 0.6:
            self.sessions.remove(session_id)
            self.left.append(session_id)
        if what in ("load", "resume", "unarchive") and self.left and self.random.random() < 0.7:
            session_id = self.left.pop()
            self.sessions.append(session_id)
            self.touched.add(session_id)
        self._ask(what, session_id)

    def _ask(self, what: str, session_id: str | None) -> None:
        about: Json = {"sessionId": session_id}
        if what == "cancel":
            self.cancel(session_id)
        elif what == "give up":
            request_id = self.random.choice(list(self.asked)[-4:])
            self.given_up.add(request_id)
            self.touched.update(self.sessions)
            self._put({"method": "$/cancel_request", "params": {"requestId": request_id}})
        elif what == "load" and self.version == 2:
            self.request("session/resume", **about, **WHERE, replayFrom={"type": "start"})
        else:
            more: Json = {
                "new": WHERE, "load": WHERE, "resume": WHERE, "fork": WHERE,
                "prompt": {"prompt": [{"type": "text", "text": self.random.choice(WORDS)}]},
                "set_title": {"title": "t"}, "set_mode": {"modeId": "configured"},
                "set_config_option": {"configId": "mode", "value": "configured"},
            }.get(what, {})  # fmt: skip
            if what == "set_config_option" and self.version == 2:
                more = {**more, "type": "id"}
            self.request(f"session/{what}", **({} if what in ("new", "list") else about), **more)
