"""The real command on the real Codex, its config options, and what it asks Codex for.

Where a test wants to see it, a tee writes down what passes between the adapter and Codex.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from codex_acp.codex.connection.launch import find_codex
from codex_acp.testing import CodexHome, ScriptedModel, Step
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e_contract.codex_tee import tee_command


class Setting:
    """``with Setting(script) as setting:``: a model, a home, and adapters one after another.

    ``tee``: for `told_codex`.
    """

    def __init__(self, *script: Sequence[Step], tee: bool = False, **home: Any) -> None:
        self.model = ScriptedModel(script)
        self._tee = tee
        self._home = home

    def __enter__(self) -> Self:
        self.model.__enter__()
        self.home = CodexHome(self.model.base_url, **self._home).__enter__()
        self.config = self.home.config_file.read_bytes()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            assert self.home.config_file.read_bytes() == self.config, "the user's own file"
        self.home.remove()
        self.model.__exit__(None, None, None)

    def adapter(self, capabilities: Message | None = None) -> OptionsClient:
        """A new process of the adapter, initialized."""
        env = self.home.env
        if self._tee:
            folder = self.home.root / "tee"
            folder.mkdir(exist_ok=True)
            command, self.record = tee_command(folder, find_codex().path)
            env["CODEX_PATH"] = str(command)
        client = OptionsClient(env)
        params = {"protocolVersion": 1, "clientCapabilities": capabilities or {}}
        assert "result" in client.ask("initialize", params)
        return client

    def told_codex(self, method: str) -> list[Message]:
        """The params of what the adapters have asked of Codex."""
        entries = [json.loads(line) for line in self.record.read_bytes().splitlines()]
        messages = [entry["message"] for entry in entries if entry["by"] == "adapter"]
        return [m["params"] for m in messages if m.get("method") == method]


class OptionsClient(RawAdapter):
    """An adapter with one session, and its options as the client was last told of them."""

    options: dict[str, Message]
    session: str

    def open(self, setting: Setting, method: str = "session/new", **more: Any) -> Message:
        """Open the session; gives the answer."""
        params = {"cwd": str(setting.home.workspace), "mcpServers": [], **more}
        answer: Message = self.ask(method, params)["result"]
        self.session = answer.get("sessionId") or more["sessionId"]
        self._learn(answer["configOptions"])
        return answer

    def load(self, setting: Setting, session: str) -> Message:
        """Load the session of another process."""
        return self.open(setting, "session/load", sessionId=session)

    def current(self, option: str) -> str | bool:
        """The current value of an option."""
        value: str | bool = self.options[option]["currentValue"]
        return value

    def values(self, option: str) -> list[str]:
        """What may be chosen."""
        return [entry["value"] for entry in self.options[option]["options"]]

    def set(self, option: str, value: str | bool) -> None:
        """Choose, and learn all options from the answer."""
        params: Message = {"sessionId": self.session, "configId": option, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        answer = self.ask("session/set_config_option", params)
        assert "result" in answer, answer
        self._learn(answer["result"]["configOptions"])

    def prompt(self) -> list[Message]:
        """Run a prompt; what is asked meanwhile is allowed, and given back."""
        return self.finish(self.start_prompt(self.session))

    def finish(self, prompt: int) -> list[Message]:
        """The same for a prompt that runs."""
        asked: list[Message] = []
        while True:
            message = self.wait_for(lambda m: m.get("id") is not None)
            if "method" not in message:
                assert message["id"] == prompt, message
                assert "result" in message, message
                assert message["result"]["stopReason"] == "end_turn", message
                return asked
            asked.append(message["params"])
            self.choose(message, "allow_once")

    def _learn(self, options: list[Message]) -> None:
        self.options = {option["id"]: option for option in options}
