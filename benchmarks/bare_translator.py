"""The floor for Python: an ACP agent that only rewrites lines, for comparison.

No models, no checks, no errors, one session, no back-pressure: what asyncio and the standard
library's json cost when nothing else is done. Nobody should use it for anything else.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

LINE_LIMIT = 64 * 1024 * 1024
CLIENT_INFO = {"name": "python-translator", "version": "1"}


class Translator:
    """Joins one client on stdio to one app-server."""

    def __init__(self, codex: asyncio.subprocess.Process) -> None:
        assert codex.stdin is not None
        self._codex = codex.stdin
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._prompt: int | None = None

    async def call(self, method: str, params: object) -> Any:
        """One request to Codex."""
        number = len(self._calls)
        self._calls[number] = asyncio.get_running_loop().create_future()
        self._tell({"id": number, "method": method, "params": params})
        return await self._calls[number]

    async def from_client(self, message: dict[str, Any]) -> None:
        """One request of the client."""
        method, params, request_id = message["method"], message["params"], message["id"]
        if method == "initialize":
            await self.call("initialize", {"clientInfo": CLIENT_INFO})
            self._tell({"method": "initialized"})
            _write({"jsonrpc": "2.0", "id": request_id, "result": {"protocolVersion": 1}})
        elif method == "session/new":
            started = await self.call("thread/start", {"cwd": params["cwd"]})
            result = {"sessionId": started["thread"]["id"]}
            _write({"jsonrpc": "2.0", "id": request_id, "result": result})
        elif method == "session/prompt":
            self._prompt = request_id
            content = [{"type": "text", "text": block["text"]} for block in params["prompt"]]
            await self.call("turn/start", {"threadId": params["sessionId"], "input": content})

    def from_codex(self, message: dict[str, Any]) -> None:
        """One line of Codex: a delta, an answer, or the end of the turn."""
        method, params = message.get("method"), message.get("params")
        if method == "item/agentMessage/delta":
            assert params is not None
            content = {"type": "text", "text": params["delta"]}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            update["messageId"] = params["itemId"]
            told = {"sessionId": params["threadId"], "update": update}
            _write({"jsonrpc": "2.0", "method": "session/update", "params": told})
        elif method is None:
            self._calls[message["id"]].set_result(message["result"])
        elif method == "turn/completed":
            result = {"stopReason": "end_turn"}
            _write({"jsonrpc": "2.0", "id": self._prompt, "result": result})

    def _tell(self, message: object) -> None:
        self._codex.write(json.dumps(message).encode() + b"\n")


def _write(message: object) -> None:
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


async def main() -> None:
    """Serve until stdin ends."""
    codex = await asyncio.create_subprocess_exec(
        os.environ["CODEX_PATH"],
        "app-server",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT,
    )
    translator = Translator(codex)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    tasks = {asyncio.create_task(_pump(codex.stdout, translator))}
    async for line in reader:
        task = asyncio.create_task(translator.from_client(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    codex.terminate()
    await codex.wait()


async def _pump(stdout: asyncio.StreamReader | None, translator: Translator) -> None:
    assert stdout is not None
    async for line in stdout:
        translator.from_codex(json.loads(line))


if __name__ == "__main__":
    asyncio.run(main())
