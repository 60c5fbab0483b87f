"""``codex-acp-sdk chat --connect``: back to a session whose questions waited."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from websockets.sync.server import ServerConnection, serve

from tests.cli.command import environment
from tests.cli.test_chat import CHOOSE, Chat


def options(number: int) -> list[dict[str, str]]:
    return [
        {"optionId": f"yes-{number}", "name": "Yes", "kind": "allow_once"},
        {"optionId": f"no-{number}", "name": "No", "kind": "reject_once"},
    ]


class WaitingAgent:
    """An agent that listens: asks three things of whoever loads its session."""

    def __init__(self) -> None:
        self.chosen: list[str] = []
        self.answered = threading.Event()

    def __call__(self, connection: ServerConnection) -> None:
        for line in connection:
            message = json.loads(line)
            method, request_id = message.get("method"), message.get("id")
            if method == "initialize":
                result: dict[str, Any] = {
                    "protocolVersion": 1,
                    "agentCapabilities": {"loadSession": True},
                }
            elif method == "session/load":
                result = {"_meta": {"codex-acp-sdk": {"running": True, "questions": 3}}}
            elif method is None:
                self.chosen.append(message["result"]["outcome"]["optionId"])
                if len(self.chosen) == 3:
                    self.answered.set()
                continue
            else:
                result = {}
            connection.send(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}))
            if method == "session/load":
                for number in range(3):
                    connection.send(json.dumps(self._question(number)))

    @staticmethod
    def _question(number: int) -> dict[str, Any]:
        call = {"toolCallId": f"c{number}", "title": f"call {number}", "kind": "execute"}
        params = {"sessionId": "one", "toolCall": call, "options": options(number)}
        return {
            "jsonrpc": "2.0",
            "id": number,
            "method": "session/request_permission",
            "params": params,
        }


def test_questions_that_waited_are_asked_one_at_a_time_with_how_many_wait(tmp_path: Path) -> None:
    env = environment(tmp_path, TERM="xterm", NO_COLOR="1", PROMPT_TOOLKIT_NO_CPR="1")
    waiting = WaitingAgent()
    with serve(waiting, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/acp"
        arguments = ("--connect", url, "--resume", "one", "--cwd", str(tmp_path))
        with Chat(env, *arguments, stdout_too=True, command="chat") as terminal:
            for number, key in enumerate((1, 2, 1)):
                terminal.until(CHOOSE, times=number + 1)
                terminal.choose(key)
            waiting.answered.wait(30)
            terminal.line("\x04")
            terminal.until(
                f"Go on with it: codex-acp-sdk chat --connect {url} --cwd {tmp_path} --resume=one"
            )
            terminal.rest()
            assert terminal.end()[0] == 0
        server.shutdown()
    assert sorted(waiting.chosen) == ["no-1", "yes-0", "yes-2"]
    first, second, third = terminal.screen.split(CHOOSE)[:3]
    assert "(2 more questions wait)" in first
    assert "(1 more question waits)" in second
    assert "more question" not in third
