"""The command as a server for the network, and clients of it that speak plain JSON."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.e2e.adapter_bench import COMMAND
from tests.support.stream_rules import StreamRules

Json = dict[str, Any]

TOKEN: Final = "the-token-of-these-tests"

WAIT: Final = 90.0
"""Seconds; a turn takes a tenth of one, on a busy machine a few."""


class ListeningAdapter:
    """``with ListeningAdapter(env, *options) as adapter``: ``adapter.url``, `connect`.

    ``tokens`` is the content of its token file.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        folder: Path,
        *options: str,
        tokens: str = TOKEN,
        scheme: str = "ws",
    ) -> None:
        self._env = dict(env)
        self.token_file = folder / "tokens"
        self.token_file.write_text(tokens)
        self.token_file.chmod(0o600)
        where = f"{scheme}://127.0.0.1:0/acp"
        self._command = [COMMAND, "serve", "--listen", where, *options]
        if "--no-token" not in options:
            self._command += ["--token-file", str(self.token_file)]
        self.log: list[str] = []
        self.url = ""
        self._listening = threading.Event()

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listening.wait(WAIT) or not self.url:
            self.process.kill()
            raise AssertionError("".join(self.log))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.process.terminate()
        try:
            code = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._reader.join(WAIT)
        assert self.process.stdout is not None
        said = self.process.stdout.read()
        self.process.stdout.close()
        if kind is None:
            assert code == 0, self.text
            assert said == "", "standard output is nobody's"
            assert "Traceback" not in self.text, self.text

    @property
    def text(self) -> str:
        """All that it has written to standard error."""
        return "".join(self.log)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening at (\S+)", line)
            if found:
                self.url = found[1]
                self._listening.set()
        self.process.stderr.close()
        self._listening.set()

    def connect(self, token: str | None = TOKEN, **more: Any) -> JsonClient:
        """A client, to be entered with ``async with``."""
        return JsonClient(self.url, token, **more)


class JsonClient:
    """``async with`` it; ``answer`` says what it answers to a question, None for nothing yet."""

    def __init__(
        self,
        url: str,
        token: str | None = TOKEN,
        *,
        headers: Mapping[str, str] | None = None,
        capabilities: Json | None = None,
        initialize: bool = True,
        version: int = 1,
        **options: Any,
    ) -> None:
        self._url = url
        self._headers = dict(headers or {})
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._capabilities = capabilities or {}
        self._initialize = initialize
        self._version = version
        self._options = options
        self._news = asyncio.Event()
        self._ids = 0
        self._replies: list[asyncio.Future[None]] = []
        self.received: list[Json] = []
        self.answers: dict[Any, Json] = {}
        self.updates: list[Json] = []
        """The params of ``session/update``."""
        self.asked: list[Json] = []
        """The questions, oldest first."""
        self.withdrawn: list[Any] = []
        """Ids of questions that were cancelled."""
        self.rules = StreamRules()
        self.rules.version = version
        self.answer: Callable[[Json], Json | None] = lambda _: None
        self.closed: ConnectionClosed | None = None
        self.initialized: Json = {}

    async def __aenter__(self) -> Self:
        self.socket: ClientConnection = await connect(
            self._url, additional_headers=self._headers, proxy=None, **self._options
        )
        self._reading = asyncio.ensure_future(self._read())
        if self._initialize:
            self.initialized = await self.ask("initialize", self._introduction())
        return self

    def _introduction(self) -> Json:
        """The params of ``initialize`` in the version that is spoken."""
        params: Json = {"protocolVersion": self._version}
        if self._version == 1:
            return {**params, "clientCapabilities": self._capabilities}
        return {**params, "capabilities": {}, "info": {"name": "test", "version": "1"}}

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.socket.close()
        self._reading.cancel()
        await asyncio.wait({self._reading})
        self.check(kind)

    def check(self, failed: object) -> None:
        """Check that what it was told keeps to the rules, unless the test has ``failed``."""
        assert failed is not None or not self.rules.problems, "\n".join(self.rules.problems)

    async def break_off(self) -> None:
        """End the connection as a broken network does."""
        self.socket.transport.abort()
        await self.ended()

    async def _read(self) -> None:
        try:
            async for line in self.socket:
                self._take(json.loads(line))
                self._wake()
        except ConnectionClosed as closed:
            self.closed = closed
        self._wake()

    def _take(self, message: Json) -> None:
        self.rules.from_agent(message)
        self.received.append(message)
        method = message.get("method")
        if method is None:
            self.answers[message["id"]] = message
        elif method == "session/update":
            self.updates.append(message["params"])
        elif method == "$/cancel_request":
            self.withdrawn.append(message["params"]["requestId"])
        elif "id" in message:
            self.asked.append(message)
            result = self.answer(message)
            if result is not None:
                self._replies.append(asyncio.ensure_future(self.reply(message, result)))

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until it holds, which something received makes it."""
        with anyio.fail_after(WAIT):
            while not condition():
                await self._news.wait()

    async def ended(self) -> None:
        """Wait until the connection is closed."""
        with anyio.fail_after(WAIT):
            await asyncio.wait({self._reading})

    async def send(self, message: Json) -> None:
        """Send one message."""
        self.rules.from_client(message)
        await self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    async def start(self, method: str, params: Json) -> int:
        """Send a request; its id."""
        self._ids += 1
        await self.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    async def outcome(self, request_id: int) -> Json:
        """The whole answer to a request that was sent."""
        await self.until(lambda: request_id in self.answers or self._reading.done())
        return self.answers[request_id]

    async def ask(self, method: str, params: Json) -> Json:
        """The result of a request."""
        answer = await self.outcome(await self.start(method, params))
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def refused(self, method: str, params: Json) -> Json:
        """The error that a request is answered with."""
        answer = await self.outcome(await self.start(method, params))
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    async def reply(self, asked: Json, result: Json) -> None:
        """Answer a question."""
        await self.send({"id": asked["id"], "result": result})

    async def choose(self, asked: Json, kind: str) -> None:
        """Answer a permission request by the kind of an option."""
        option = next(each for each in asked["params"]["options"] if each["kind"] == kind)
        outcome = {"outcome": "selected", "optionId": option["optionId"]}
        await self.reply(asked, {"outcome": outcome})

    async def new_session(self, cwd: Path) -> str:
        """The id of a new session."""
        result = await self.ask("session/new", {"cwd": str(cwd), "mcpServers": []})
        return str(result["sessionId"])

    async def prompt(self, session: str, text: str = "Go.") -> int:
        """Send a prompt; its request's id."""
        blocks = [{"type": "text", "text": text}]
        return await self.start("session/prompt", {"sessionId": session, "prompt": blocks})

    async def question(self, count: int = 1) -> Json:
        """The newest of ``count`` questions."""
        await self.until(lambda: len(self.asked) >= count)
        return self.asked[-1]

    def text(self, session: str) -> str:
        """All that the agent has said in a session."""
        found = [each["update"] for each in self.updates if each["sessionId"] == session]
        chunks = (each for each in found if each["sessionUpdate"] == "agent_message_chunk")
        return "".join(each["content"]["text"] for each in chunks)
