"""An app-server of random delays, refusals, turns and questions, that ignores some interrupts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from codex_acp.testing.app_server_script import default_result, turn_object
from codex_acp.transport.link import MemoryLink
from tests.soak.chaos.comparison import Answer, Turn, prompt_mark
from tests.soak.chaos.world import End, Json, World

ITEMS_PER_PAGE = 3
ENDS = (*["completed"] * 8, "failed", "failed", "interrupted")


class _Refusal(Exception):
    """The answer to a request is this error."""


class RandomCodex(End):
    """The turns that run in it, and the threads that it has loaded."""

    def __init__(self, link: MemoryLink, world: World) -> None:
        self.loaded: set[str] = set()
        self.running: dict[str, str] = {}
        self.asked: dict[int, str] = {}
        self.replies: Counter[int] = Counter()
        self._marks: dict[int, str] = {}
        """The mark of each question."""
        self._waiting: dict[int, tuple[str, asyncio.Future[Json]]] = {}
        self._steers: dict[str, list[Json]] = {}
        self._begun: set[str] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._methods: dict[str, Callable[[Json], Json]] = {
            "thread/start": self._start,
            "thread/fork": self._fork,
            "thread/resume": self._resume,
            "thread/read": self._read,
            "thread/delete": self._delete,
            "thread/archive": lambda params: self._move(params, archived=True),
            "thread/unarchive": lambda params: self._move(params, archived=False),
            "thread/turns/list": self._turns,
            "thread/items/list": self._items,
            "thread/list": lambda _params: {"data": [], "nextCursor": None},
            "thread/backgroundTerminals/list": lambda _params: {"data": []},
            "thread/compact/start": self._compact,
            "thread/unsubscribe": self._unsubscribe,
            "turn/start": self._turn_start,
            "turn/steer": self._turn_steer,
            "turn/interrupt": self._turn_interrupt,
        }
        super().__init__(link, world)

    def take(self, message: Json) -> None:
        self.world.note("adapter > codex", message)
        if "method" in message:
            if "id" in message:
                self.spawn(self._request(message))
            return
        request_id = message["id"]
        self.replies[request_id] += 1
        if request_id not in self.asked:
            self.world.fail(f"an answer to what Codex did not ask: {message}")
        elif self.replies[request_id] > 1:
            self.world.fail(f"a second answer to {self.asked[request_id]}: {message}")
        mark = self._marks.get(request_id)
        if mark is not None:
            self.world.spoken.replies[mark] = Answer(self.world.now, message)
        _turn, answer = self._waiting.pop(request_id, ("", None))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def tell(self, message: Json) -> None:
        if not self.dead:
            self.world.note("codex > adapter", message)
            self.write(message)

    def notify(self, method: str, **params: Any) -> None:
        turn = self.world.spoken.turns.get(params.get("turnId", ""))
        if turn is not None and turn.given_up and turn.thread not in self.loaded:
            return  # the session was closed: nobody follows the thread
        self.tell({"method": method, "params": params})

    # Requests.

    async def _request(self, message: Json) -> None:
        thread_id = (message.get("params") or {}).get("threadId")
        if thread_id and message["method"] != "turn/interrupt":
            async with self._locks.setdefault(thread_id, asyncio.Lock()):
                await self._answer(message)
        else:
            await self._answer(message)

    async def _answer(self, message: Json) -> None:
        method, params = message["method"], message.get("params") or {}
        # A page of a history that fails or takes longer is given up, which the client is told.
        longest = 6.0 if method.endswith("/list") else 30.0
        await asyncio.sleep(min(self.world.delay(), longest))
        errors = not self.world.errors_over and not method.endswith("/list")
        chance = self.world.chances.errors if errors else 0.0
        try:
            if method != "initialize" and self.random.random() < chance:
                raise _Refusal("chaos says no")
            make = self._methods.get(method)
            result = make(params) if make is not None else default_result(method, params, "")
            if result is None and not method.startswith("thread/"):
                raise _Refusal(f"unknown method {method}")
        except _Refusal as refusal:
            error = {"code": -32600, "message": str(refusal)}
            self.tell({"id": message["id"], "error": error})
            return
        self.tell({"id": message["id"], "result": result or {}})
        if method in ("turn/start", "thread/compact/start"):
            await self._begin(params)

    def _must_exist(self, params: Json) -> str:
        thread_id = str(params["threadId"])
        if thread_id not in self.world.threads:
            raise _Refusal("no rollout found for thread id")
        return thread_id

    def _must_be_free(self, params: Json) -> str:
        thread_id = self._must_exist(params)
        if thread_id in self.world.elsewhere:
            raise _Refusal(f"thread {thread_id} already has an active writer")
        return thread_id

    def _opened(self, method: str, params: Json, thread_id: str) -> Json:
        self.loaded.add(thread_id)
        result: Any = default_result(method, {**params, "threadId": thread_id}, "")
        result["thread"]["id"] = result["thread"]["sessionId"] = thread_id
        if thread_id in self.running:
            result["thread"]["status"] = {"type": "active", "activeFlags": []}
        if self.world.history.get(thread_id):
            result["itemsBackwardsCursor"] = str(len(self.world.history[thread_id]) - 1)
        return dict(result)

    def _new_thread(self) -> str:
        thread_id = f"thread-{len(self.world.threads) + self.world.counts['deleted'] + 1}"
        self.world.threads[thread_id] = False
        return thread_id

    def _start(self, params: Json) -> Json:
        return self._opened("thread/start", params, self._new_thread())

    def _fork(self, params: Json) -> Json:
        source, copy = self._must_exist(params), self._new_thread()
        self.world.history[copy] = list(self.world.history.get(source, []))
        self.world.spoken.fork(source, copy)
        return self._opened("thread/resume", params, copy)

    def _resume(self, params: Json) -> Json:
        return self._opened("thread/resume", params, self._must_be_free(params))

    def _read(self, params: Json) -> Json:
        thread_id, loaded = self._must_exist(params), set(self.loaded)
        result = self._opened("thread/resume", params, thread_id)
        self.loaded = loaded
        return result

    def _delete(self, params: Json) -> Json:
        thread_id = self._must_be_free(params)
        del self.world.threads[thread_id]
        self.world.counts["deleted"] += 1
        self.loaded.discard(thread_id)
        asyncio.get_running_loop().call_soon(
            lambda: self.notify("thread/deleted", threadId=thread_id)
        )
        return {}

    def _move(self, params: Json, *, archived: bool) -> Json:
        thread_id = self._must_be_free(params)
        self.loaded.discard(thread_id)
        self.world.threads[thread_id] = archived
        return {}

    def _unsubscribe(self, params: Json) -> Json:
        self.loaded.discard(params["threadId"])
        return {"status": "unsubscribed"}

    def _turns(self, params: Json) -> Json:
        turn_id = self.running.get(params["threadId"])
        stored = self.world.history.get(params["threadId"], [])
        items = [item for of, item in stored if of == turn_id]
        data = [{**turn_object(turn_id), "items": items}] if turn_id else []
        return {"data": data, "nextCursor": None}

    def _items(self, params: Json) -> Json:
        stored = self.world.history.get(params["threadId"], [])
        begin = int(params.get("cursor") or 0)
        limit = 1 if params["sortDirection"] == "desc" else ITEMS_PER_PAGE
        page = stored[begin : begin + limit]
        more = str(begin + limit) if begin + limit < len(stored) else None
        return {"data": [{"turnId": of, "item": item} for of, item in page], "nextCursor": more}

    # Turns.

    def _compact(self, params: Json) -> Json:
        thread_id = self._must_exist(params)
        if thread_id in self.running or thread_id not in self.loaded:
            raise _Refusal("busy")
        self._new_turn(thread_id)
        return {}

    def _new_turn(self, thread_id: str) -> str:
        turn_id = f"turn-{len(self.world.spoken.turns) + 1}"
        self.world.spoken.turns[turn_id] = Turn(thread_id)
        self.running[thread_id] = turn_id
        return turn_id

    def _turn_start(self, params: Json) -> Json:
        thread_id = self._must_exist(params)
        if thread_id not in self.loaded:
            self.world.fail(f"a turn is started in {thread_id}, which is not loaded")
        if thread_id in self.running:  # as Codex does: it is a steer
            self._steers.setdefault(thread_id, []).append(params)
        else:
            turn_id = self._new_turn(thread_id)
            self.world.spoken.begin(turn_id, prompt_mark(params))
        return {"turn": turn_object(self.running[thread_id])}

    def _turn_steer(self, params: Json) -> Json:
        turn_id = self.running.get(params["threadId"])
        if turn_id is None or turn_id != params.get("expectedTurnId"):
            raise _Refusal("no active turn to steer")
        self._steers.setdefault(params["threadId"], []).append(params)
        return {"turnId": turn_id}

    def _turn_interrupt(self, params: Json) -> Json:
        thread_id, turn_id = params["threadId"], params["turnId"]
        if self.running.get(thread_id) != turn_id:
            raise _Refusal("no active turn to interrupt")
        if self.random.random() >= 0.05:
            asyncio.get_running_loop().call_soon(self._end, thread_id, turn_id, "interrupted")
        else:
            self.world.spoken.turns[turn_id].given_up = True
        return {}

    async def _begin(self, params: Json) -> None:
        thread_id = params["threadId"]
        turn_id = self.running.get(thread_id)
        if turn_id is None or turn_id in self._begun:
            return
        self._begun.add(turn_id)
        await asyncio.sleep(self.world.delay())
        if not self._runs(thread_id, turn_id):
            return
        self.notify("turn/started", threadId=thread_id, turn=turn_object(turn_id))
        self.spawn(self._run(thread_id, turn_id, params))

    def _end(self, thread_id: str, turn_id: str, status: str) -> None:
        if self.running.get(thread_id) != turn_id:
            return
        del self.running[thread_id]
        turn = self.world.spoken.turns[turn_id]
        turn.ended, turn.status = self.world.now, status
        self.notify("turn/completed", threadId=thread_id, turn=turn_object(turn_id, status))
        for request_id, (of, answer) in self._waiting.items():
            if of == turn_id:
                if self.random.random() < 0.5:
                    self.notify("serverRequest/resolved", threadId=thread_id, requestId=request_id)
                answer.cancel()

    def _runs(self, thread_id: str, turn_id: str) -> bool:
        return not self.dead and self.running.get(thread_id) == turn_id

    async def _run(self, thread_id: str, turn_id: str, params: Json) -> None:
        self._user_message(thread_id, turn_id, "u", params)
        compacts = not self.world.spoken.turns[turn_id].prompt
        for step in range(0 if compacts else self.random.randint(0, 5)):
            await asyncio.sleep(self.world.delay())
            for number, steer in enumerate(self._steers.pop(thread_id, [])):
                self._user_message(thread_id, turn_id, f"s{step}.{number}", steer)
            if not self._runs(thread_id, turn_id):
                return
            await self._step(thread_id, turn_id, f"{turn_id}-i{step}")
            if not self._runs(thread_id, turn_id):
                return
        await asyncio.sleep(self.world.delay())
        self._end(thread_id, turn_id, self.random.choice(ENDS))

    def _item(self, which: str, thread_id: str, turn_id: str, item: Json) -> None:
        if which == "completed" and not self.dead:
            self.world.history.setdefault(thread_id, []).append((turn_id, item))
            self.world.spoken.done[item["id"]] = self.world.now, item.get("status", "")
        at = {"startedAtMs" if which == "started" else "completedAtMs": 1}
        self.notify(f"item/{which}", threadId=thread_id, turnId=turn_id, item=item, **at)

    def _user_message(self, thread_id: str, turn_id: str, name: str, params: Json) -> None:
        item = {
            "type": "userMessage", "id": f"{turn_id}-{name}",
            "clientId": params.get("clientUserMessageId"), "content": params.get("input", []),
        }  # fmt: skip
        self._item("started", thread_id, turn_id, item)
        self._item("completed", thread_id, turn_id, item)

    async def _step(self, thread_id: str, turn_id: str, item_id: str) -> None:
        kind = self.random.random()
        at = {"threadId": thread_id, "turnId": turn_id}
        if kind < 0.08:
            mark = f"<{item_id}!>"
            self._say("plan", turn_id, item_id, mark)
            plan = [{"step": mark, "status": self.random.choice(["pending", "completed"])}]
            self.notify("turn/plan/updated", **at, explanation=None, plan=plan)
        elif kind < 0.5:
            await self._speak(thread_id, turn_id, item_id)
        elif kind < 0.75:
            await self._command(thread_id, turn_id, item_id)
        elif kind < 0.85:
            schema = {"type": "object", "properties": {"a": {"type": "string"}}}
            params = {
                **at, "serverName": "n", "mode": "form", "_meta": None, "message": f"<{item_id}?>",
                "requestedSchema": schema,
            }  # fmt: skip
            await self._ask("mcpServer/elicitation/request", params, item_id)
        elif kind < 0.95:
            option = {"label": "R", "description": "r"}
            question = {
                "id": "c", "header": "h", "question": f"<{item_id}?>", "isOther": True,
                "isSecret": False, "options": [option],
            }  # fmt: skip
            form: Json = {**at, "itemId": item_id, "questions": [question], "isBlocking": False}
            form["autoResolutionMs"] = None
            await self._ask("item/tool/requestUserInput", form, item_id)
        else:
            await asyncio.sleep(self.random.choice([1, 20]))

    async def _speak(self, thread_id: str, turn_id: str, item_id: str) -> None:
        item = {"type": "agentMessage", "id": item_id, "text": "", "phase": None}
        self._item("started", thread_id, turn_id, item)
        pieces: list[str] = []
        for number in range(self.random.randint(1, 12)):
            name = f"{item_id}.{number}"
            piece = f"<{name}>" if self.random.random() < 0.7 else f'<\u2028"\\\n{name} \xe9>'
            pieces.append(piece)
            self._say("text", turn_id, item_id, piece)
            about = {"threadId": thread_id, "turnId": turn_id, "itemId": item_id}
            self.notify("item/agentMessage/delta", **about, delta=piece)
            if self.random.random() < 0.3:
                await asyncio.sleep(self.world.delay())
                if not self._runs(thread_id, turn_id):
                    return
        self._item("completed", thread_id, turn_id, {**item, "text": "".join(pieces)})

    async def _command(self, thread_id: str, turn_id: str, item_id: str) -> None:
        command = f"touch {item_id}"
        item: Json = {
            "type": "commandExecution", "id": item_id, "command": command, "cwd": "/w",
            "processId": None, "source": "agent", "status": "inProgress", "commandActions": [],
            "aggregatedOutput": None, "exitCode": None, "durationMs": None,
        }  # fmt: skip
        self._say("call", turn_id, item_id, f"<{item_id}>")
        self._item("started", thread_id, turn_id, item)
        params = {
            "kind": "command", "threadId": thread_id, "turnId": turn_id, "itemId": item_id,
            "startedAtMs": 1, "environmentId": "local", "reason": None, "command": command,
            "cwd": "/w", "commandActions": [], "availableDecisions": ["accept", "cancel"],
        }  # fmt: skip
        reply = await self._ask("item/commandExecution/requestApproval", params, item_id)
        accepted = (reply.get("result") or {}).get("decision") == "accept"
        self.world.counts["commands allowed" if accepted else "commands refused"] += 1
        if accepted and command not in self.world.allowed:
            self.world.fail(f"{command} is accepted, and nobody has allowed it")
        if accepted:
            await asyncio.sleep(self.world.delay())
        status = "completed" if accepted else "declined"
        if self.running.get(thread_id) == turn_id:
            self._item("completed", thread_id, turn_id, {**item, "status": status, "exitCode": 0})

    def _say(self, kind: str, turn_id: str, item_id: str, mark: str) -> None:
        if not self.dead:
            self.world.spoken.say(self.world.now, kind, turn_id, item_id, mark)

    async def _ask(self, method: str, params: Json, item_id: str) -> Json:
        request_id = len(self.asked)
        self._marks[request_id] = f"<{item_id}?>"
        self._say("question", params["turnId"], item_id, f"<{item_id}?>")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.asked[request_id] = method
        self._waiting[request_id] = params["turnId"], answer
        self.tell({"id": request_id, "method": method, "params": params})
        return await answer
