"""A client that asks for anything at any time, answers late or never, and gives requests up."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from codex_acp.transport.link import MemoryLink
from tests.soak.chaos.comparison import Seen, question_mark
from tests.soak.chaos.world import End, Json, World
from tests.support.stream_rules import StreamRules

WHERE: Json = {"cwd": "/scripted/workspace", "mcpServers": []}
WORDS = ("hi", "hi", "/status", "/nope", "use $x", "/compact")
ENDS = ("close", "delete", "archive")
UPSETS = (*ENDS, "load", "resume", "unarchive")
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
        self.given_up: set[int] = set()
        self.seen = Seen(version)
        self.rules = StreamRules()
        self.rules.version = version
        self._unsent: list[Json] = []
        super().__init__(link, world)

    def take(self, message: Json) -> None:
        self.world.note("adapter > client", message)
        self.rules.from_agent(message)
        if "method" not in message:
            self._take_reply(message)
        elif message["method"] == "session/update":
            params = message["params"]
            self.seen.update(self.world.now, params["sessionId"], params["update"])
        elif "id" in message:
            self.seen.asked(self.world.now, message["params"]["sessionId"], question_mark(message))
            self.spawn(self._reply_to(message))

    def _take_reply(self, message: Json) -> None:
        request_id = message["id"]
        if request_id not in self.asked or request_id in self.replies:
            self.world.fail(f"an answer too many: {message}")
            return
        self.replies[request_id] = message
        method, params = self.asked[request_id]
        self.seen.answered(self.world.now, request_id, method, params, message)
        if method in ("session/load", "session/resume"):
            self.upset(params["sessionId"], "opened")
        if method in ("session/new", "session/fork") and "result" in message:
            self.sessions.append(message["result"]["sessionId"])

    async def _reply_to(self, message: Json) -> None:
        kind = self.random.random()
        await asyncio.sleep(self.random.choice([0, 0, 0.01, 0.5, 3, 40]))
        if kind < 0.1:
            return
        word = f"word-{len(self.replies)}-{message['id']}"
        form = (message["params"].get("requestedSchema") or {}).get("properties", {})
        result: Json = {"action": self.random.choice(["accept", "decline"])}
        said: Json = result
        if result["action"] == "accept":
            result["content"] = dict.fromkeys(list(form)[-1:], word)
            said = {**result, "word": word}
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
            said = {"allowed": 0.0 <= kind < 0.45, **result}
        self.seen.answer(self.world.now, question_mark(message), said)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self.world.note("client > adapter", answer)
        self.rules.from_client(answer)
        self.write(*[answer] * (2 if kind > 0.95 else 1))

    # What it asks.

    def request(self, method: str, **params: Any) -> None:
        request_id = len(self.asked) + 1
        self.asked[request_id] = method, params
        self.seen.asks(self.world.now, request_id, method, params)
        what = method.removeprefix("session/")
        if what in UPSETS:
            self.upset(str(params["sessionId"]), what)
        self._put({"id": request_id, "method": method, "params": params})

    def _put(self, message: Json) -> None:
        message = {"jsonrpc": "2.0", **message}
        self.world.note("client > adapter", message)
        self.rules.from_client(message)
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

    def upset(self, session_id: str, what: str) -> None:
        """Note that what is shown of a session need not be whole from now on."""
        self.world.spoken.upset(self.world.now, session_id, what)

    def cancel(self, session_id: str | None) -> None:
        self.upset(str(session_id), "cancel")
        self._put({"method": "session/cancel", "params": {"sessionId": session_id}})

    def act(self) -> None:
        """Ask for something."""
        session_id = self.random.choice(self.sessions) if self.sessions else None
        new = ("new",) if len(self.sessions) < 4 else ()
        what = "new" if session_id is None else self.random.choice((*REQUESTS, *new))
        if self.world.chances.calm and what in (*UPSETS, "give up"):
            what = "prompt"
        if self.random.random() < 0.02:
            session_id = "nobody"
        self.world.counts[what] += 1
        if what in ENDS and session_id in self.sessions and self.random.random() < 0.6:
            self.sessions.remove(session_id)
            self.left.append(session_id)
        if what in ("load", "resume", "unarchive") and self.left and self.random.random() < 0.7:
            session_id = self.left.pop()
            self.sessions.append(session_id)
        self._ask(what, session_id)

    def _words(self) -> str:
        self.world.prompts += 1
        return f"{self.random.choice(WORDS)} #{self.world.prompts}"

    def _ask(self, what: str, session_id: str | None) -> None:
        about: Json = {"sessionId": session_id}
        if what == "cancel":
            self.cancel(session_id)
        elif what == "give up":
            request_id = self.random.choice(list(self.asked)[-4:])
            self.given_up.add(request_id)
            for each in self.sessions:
                self.upset(each, what)
            self._put({"method": "$/cancel_request", "params": {"requestId": request_id}})
        elif what == "load" and self.version == 2:
            self.request("session/resume", **about, **WHERE, replayFrom={"type": "start"})
        else:
            more: Json = {
                "new": WHERE, "load": WHERE, "resume": WHERE, "fork": WHERE,
                "prompt": {"prompt": [{"type": "text", "text": self._words()}]},
                "set_title": {"title": "t"}, "set_mode": {"modeId": "configured"},
                "set_config_option": {"configId": "mode", "value": "configured"},
            }.get(what, {})  # fmt: skip
            if what == "set_config_option" and self.version == 2:
                more = {**more, "type": "id"}
            self.request(f"session/{what}", **({} if what in ("new", "list") else about), **more)
